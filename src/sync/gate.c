/* sync/gate.c - one check answers for both sides, MySQL first: schema and the ledger's highest gen; then Redis' gen. In
 * that order a merge between the two cannot look like a loss. */
#include "sync/gate.h"
#include "base/log.h"
#include "sync/inside.h"
#include <stdio.h>

#define RETRY_MS 5000

static void gate_ask(struct gate *g);

static bool is_at(const struct gate *g, const char run_id[RUN_ID_BYTES])
{
    return run_id[0] != '\0' && strcmp(run_id, g->ports.run_id(g->ports.arg)) == 0;
}

bool gate_compared(const struct gate *g)
{
    return is_at(g, g->compared);
}

static bool checked(const struct gate *g)
{
    return g->mysql_up && g->schema_fit && gate_compared(g);
}

bool gate_open(const struct gate *g)
{
    return checked(g) && !g->rolled_back;
}

static void retry_later(struct gate *g)
{
    g->retry_at_ms = g->ports.mono_ms(g->ports.arg) + RETRY_MS;
}

static void check_end(struct gate *g)
{
    g->asking = false;
    sync_mysql(g->sync, checked(g));
    if (g->again) gate_ask(g);
}

/* A ledger keeps its highest gen. */
static void compare_ledger(struct gate *g, uint64_t highest)
{
    if (highest >= g->asked_merged) return;
    log_event(LOG_ERROR, "mysql_behind", "gen=%llu merged=%llu hits=%lld next=%s",
              (unsigned long long)highest, (unsigned long long)g->asked_merged,
              (long long)sync_discarded_above(g->sync, highest),
              LOGQ("this MySQL lost batches that were merged (a backup, a failover, a dropped tally_ledger): "
                   "tallyd verify says how much"));
    g->merged = highest; /* said once */
}

static void compare_redis(struct gate *g, uint64_t gen, uint64_t highest)
{
    g->rolled_back = HOLDS(RULE_GATE) && gen < highest;
    snprintf(g->text, sizeof g->text,
             "Redis was rolled back: its gen is %llu, the ledger has %llu. Counting goes on. Find out what "
             "it lost, then run `tallyd recover --accept-rollback`",
             (unsigned long long)gen, (unsigned long long)highest);
    sync_hold(g->sync, g->rolled_back, g->rolled_back ? g->text : "gen is not behind the ledger");
    if (g->rolled_back) retry_later(g);
}

static void gen_done(struct gen_read *r)
{
    struct gate *g = r->arg;
    if (r->lost || !is_at(g, g->asked_of)) {
        retry_later(g);
    } else {
        compare_ledger(g, g->check.highest);
        compare_redis(g, r->gen, g->check.highest);
        memcpy(g->compared, g->asked_of, sizeof g->compared);
    }
    check_end(g);
}

static void check_done(struct gate_check *c)
{
    struct gate *g = c->arg;
    if (!c->seen || c->refusals) retry_later(g);
    if (c->seen) g->schema_fit = c->fit;
    if (!c->seen) {
        check_end(g);
        return;
    }
    snprintf(g->asked_of, sizeof g->asked_of, "%s", g->ports.run_id(g->ports.arg));
    g->gen = (struct gen_read){.done = gen_done, .arg = g};
    g->ports.gen(g->ports.arg, &g->gen);
}

static void gate_ask(struct gate *g)
{
    g->again = g->asking;
    if (g->asking || g->stopped) return;
    g->asking = true;
    g->retry_at_ms = UINT64_MAX;
    g->asked_merged = g->merged;
    g->check = (struct gate_check){.done = check_done, .arg = g};
    g->ports.check(g->ports.arg, &g->check);
}

void gate_init(struct gate *g, struct sync *s, const struct gate_ports *ports)
{
    *g = (struct gate){.ports = *ports, .sync = s, .retry_at_ms = UINT64_MAX};
}

void gate_redis(struct gate *g)
{
    sync_mysql(g->sync, checked(g));
    if (g->mysql_up && !gate_compared(g)) gate_ask(g);
}

void gate_mysql(struct gate *g, bool up)
{
    g->mysql_up = up;
    if (!up) g->schema_fit = false;
    sync_mysql(g->sync, checked(g));
    if (up) gate_ask(g);
}

void gate_merged(struct gate *g, uint64_t gen)
{
    if (gen > g->merged) g->merged = gen;
}

void gate_tick(struct gate *g)
{
    if (g->mysql_up && g->ports.mono_ms(g->ports.arg) >= g->retry_at_ms) gate_ask(g);
}

void gate_stop(struct gate *g)
{
    g->stopped = true;
}
