/* sync/gate.c - one look reads both sides: what Redis says of itself, then MySQL: schema, ledger, epoch. Other tallyds
 * may merge in between, so a Redis that seems to be behind is read once more, and compared with what the ledger had
 * before. */
#include "sync/gate.h"
#include "base/heap.h"
#include "base/log.h"
#include "sync/inside.h"
#include <stdio.h>

#define RETRY_MS 5000
#define SIGN_MS (REALM_WAIT_MS / 3)

static void gate_ask(struct gate *g);
static void gate_mysql_ask(struct gate *g);
static void gate_redis_read(struct history_read *h);

static bool gate_is_at(const struct gate *g, const char run_id[RUN_ID_BYTES])
{
    return run_id[0] != '\0' && strcmp(run_id, g->ports.run_id(g->ports.arg)) == 0;
}

bool gate_compared(const struct gate *g)
{
    return gate_is_at(g, g->compared);
}

static bool checked(const struct gate *g)
{
    return g->mysql_up && g->schema_fit && gate_compared(g);
}

bool gate_open(const struct gate *g)
{
    return checked(g) && !g->rolled_back;
}

static void tell_sync(struct gate *g)
{
    sync_mysql_unchecked(g->sync, g->mysql_up && !checked(g));
    sync_mysql(g->sync, checked(g));
}

static void retry_in(struct gate *g, uint64_t ms)
{
    g->retry_at_ms = g->ports.mono_ms(g->ports.arg) + ms;
}

static void check_end(struct gate *g)
{
    g->asking = false;
    heap_free(g->read.gens);
    g->read.gens = NULL;
    tell_sync(g);
    if (g->again) gate_ask(g);
}

static void look_later(struct gate *g)
{
    retry_in(g, RETRY_MS);
    check_end(g);
}

static void redis_ask(struct gate *g)
{
    heap_free(g->read.gens);
    g->read = (struct history_read){.realm = g->given, .done = gate_redis_read, .arg = g};
    g->ports.history(g->ports.arg, &g->read);
}

/* g->text says why. */
static void look_held(struct gate *g)
{
    g->rolled_back = true;
    g->lives = g->check.look.outcome == REALM_LIVES;
    memcpy(g->compared, g->read.run_id, sizeof g->compared);
    sync_hold(g->sync, true, g->text);
    look_later(g);
}

static void redis_behind(struct gate *g)
{
    if (g->seen.gen > g->read.gen)
        snprintf(
            g->text, sizeof g->text,
            "Redis was rolled back: its gen is %llu, the ledger has %llu. Counting goes on. Find out what "
            "it lost, then run `tallyd recover --accept-rollback`",
            (unsigned long long)g->read.gen, (unsigned long long)g->seen.gen);
    else
        snprintf(g->text, sizeof g->text,
                 "Redis has another batch of gen %llu than the ledger: it was rolled back, or another "
                 "primary went "
                 "on beside it. Counting goes on. Find out which of them is right, then run `tallyd recover "
                 "--accept-rollback`",
                 (unsigned long long)g->seen.gen);
    look_held(g);
}

static void look_ours(struct gate *g)
{
    const struct epoch *epoch = &g->check.look.epoch;
    char realm[33], id[33];
    /* A ledger keeps its highest gen. */
    uint64_t highest = g->check.look.highest.gen;
    if (highest < g->asked_merged) {
        log_event(
            LOG_ERROR, "mysql_behind", "gen=%llu merged=%llu hits=%lld next=%s", (unsigned long long)highest,
            (unsigned long long)g->asked_merged, (long long)sync_discarded_above(g->sync, highest),
            LOGQ("this MySQL lost batches that were merged (a backup, a failover, a dropped tally_ledger): "
                 "tallyd verify says how much"));
        g->merged = highest; /* said once */
    }
    if (g->check.look.taken) {
        batch_id_hex(&epoch->realm, realm);
        batch_id_hex(&epoch->id, id);
        log_event(LOG_INFO, "epoch_taken", "epoch=%s realm=%s run_id=%s history=%s", id, realm, epoch->run_id,
                  epoch->replid);
    }
    g->given = (struct batch_id){{0}};
    g->epoch = *epoch;
    sync_epoch(g->sync, epoch);
    g->rolled_back = g->lives = false;
    memcpy(g->compared, g->read.run_id, sizeof g->compared);
    sync_hold(g->sync, false, "Redis is not behind the ledger");
    check_end(g);
}

/* (!) A copy of a Redis is a Redis of its realm, and not behind. The first one's tallyd would be held if it took the epoch. */
static void look_asked(struct gate *g)
{
    if (!g->lives)
        log_event(
            LOG_WARN, "epoch_asked", "run_id=%s next=%s", g->read.run_id,
            LOGQ("MySQL was merged for another Redis of this realm: if its tallyd does not answer within "
                 "seconds, this one goes on"));
    g->asks = true;
    retry_in(g, SIGN_MS);
    check_end(g);
}

static void realm_fenced(struct fence *f)
{
    struct gate *g = f->arg;
    bool same = gate_is_at(g, f->run_id) && strcmp(f->run_id, g->read.run_id) == 0 &&
                strcmp(f->replid, g->read.replid) == 0;
    g->read.fenced = f->passed && same;
    if (g->read.fenced) {
        gate_mysql_ask(g);
        return;
    }
    log_event(LOG_WARN, "realm_not_fenced", "passed=%d same_server=%d detail=%s", f->passed, same,
              LOGQ(f->text));
    look_later(g);
}

/* (!) In the background: a batch's fence does not wait for it. */
static void gate_fence(struct gate *g)
{
    g->fence = (struct fence){.background = true, .done = realm_fenced, .arg = g};
    g->ports.fence(g->ports.arg, &g->fence);
}

static void look_done(struct gate *g)
{
    const struct realm_look *look = &g->check.look;
    char realm[33];
    switch (look->outcome) {
    case REALM_OURS:
        look_ours(g);
        return;
    case REALM_GIVEN:
        redis_ask(g);
        return;
    case REALM_UNFENCED:
        gate_fence(g);
        return;
    case REALM_ASKED:
        look_asked(g);
        return;
    case REALM_BEHIND:
        g->seen = look->highest;
        redis_ask(g);
        return;
    case REALM_STRANGER:
        snprintf(g->text, sizeof g->text,
                 "MySQL counts for another Redis already, and this one does not say which it is (it has no "
                 "tally:realm). Counting goes on. Is it one more? Run `tallyd migrate --another-redis`. Has "
                 "it lost everything? Run `tallyd recover --accept-rollback`");
        break;
    case REALM_UNKNOWN:
        batch_id_hex(&g->read.realm, realm);
        snprintf(g->text, sizeof g->text,
                 "This MySQL does not count for this Redis (its tally:realm is %s). Counting goes on. Does "
                 "it belong to another MySQL? Name the right server. Otherwise run `tallyd recover "
                 "--accept-rollback`",
                 realm);
        break;
    case REALM_LIVES:
        snprintf(g->text, sizeof g->text,
                 "MySQL counts for another Redis of the same realm (tally:realm), and its tallyd lives (%s "
                 "took the epoch). Counting goes on here. Is this Redis a copy? Stop this tallyd, or give "
                 "it a MySQL of its own. Is the other one out of date? Stop that tallyd, or run `tallyd "
                 "recover --take-over` here",
                 look->by);
        break;
    case REALM_OTHER_LANES:
        snprintf(g->text, sizeof g->text,
                 "MySQL counts for this Redis with %lld lanes. Counting goes on. Stop tallyd, and write "
                 "redis.lanes: %lld",
                 (long long)look->lanes, (long long)look->lanes);
        break;
    }
    look_held(g);
}

static void check_done(struct gate_check *c)
{
    struct gate *g = c->arg;
    if (c->refusals) retry_in(g, RETRY_MS);
    if (c->seen) g->schema_fit = c->fit;
    bool told = c->seen && c->fit && !g->stopped && !g->unfit;
    g->asks = false;
    if (told && c->look.outcome == REALM_GIVEN) g->given = c->look.epoch.realm;
    if (told && gate_is_at(g, g->read.run_id))
        look_done(g);
    else
        look_later(g);
}

static void gate_mysql_ask(struct gate *g)
{
    g->check = (struct gate_check){.redis = &g->read, .had = g->epoch.id, .done = check_done, .arg = g};
    g->ports.check(g->ports.arg, &g->check);
}

static void gate_redis_read(struct history_read *h)
{
    struct gate *g = h->arg;
    if (h->lost || !gate_is_at(g, h->run_id)) {
        look_later(g);
        return;
    }
    g->told = h->realm;
    bool behind = HOLDS(RULE_GEN_ID) ? !history_has(h, &g->seen) : g->seen.gen > h->gen;
    if (g->seen.gen > 0 && behind) {
        redis_behind(g);
        return;
    }
    g->seen.gen = 0;
    gate_mysql_ask(g);
}

static void gate_ask(struct gate *g)
{
    g->again = g->asking;
    if (g->asking || g->stopped) return;
    g->asking = true;
    g->retry_at_ms = UINT64_MAX;
    g->asked_merged = g->merged;
    g->seen.gen = 0;
    if (!HOLDS(RULE_REALM_KEPT)) g->given = (struct batch_id){{0}};
    redis_ask(g);
}

void gate_init(struct gate *g, struct sync *s, const struct gate_ports *ports)
{
    *g = (struct gate){.ports = *ports, .sync = s, .retry_at_ms = UINT64_MAX};
}

void gate_redis(struct gate *g)
{
    tell_sync(g);
    if (g->mysql_up && !gate_compared(g)) gate_ask(g);
}

void gate_mysql(struct gate *g, bool up)
{
    g->mysql_up = up;
    if (!up) g->schema_fit = false;
    tell_sync(g);
    if (up) gate_ask(g);
}

void gate_epoch_over(struct gate *g)
{
    g->compared[0] = '\0';
    tell_sync(g);
    if (g->mysql_up) gate_ask(g);
}

/* (!) What was adopted since is scanned without an epoch, and so is not merged before the gate has looked. */
void gate_changed(struct gate *g)
{
    sync_epoch(g->sync, &(struct epoch){0});
    gate_epoch_over(g);
}

void gate_fit(struct gate *g, const char *why)
{
    bool was = g->unfit;
    g->unfit = why != NULL;
    if (why != NULL) {
        g->rolled_back = true;
        snprintf(g->text, sizeof g->text, "since tallyd began, Redis was set up anew: %s", why);
        sync_hold(g->sync, true, g->text);
    } else if (was) {
        gate_epoch_over(g);
    }
}

void gate_merged(struct gate *g, uint64_t gen)
{
    if (gen > g->merged) g->merged = gen;
}

void gate_tick(struct gate *g)
{
    uint64_t now_ms = g->ports.mono_ms(g->ports.arg);
    /* Also while Redis is not set up as it must be: the epoch is this one's all the same. */
    if (checked(g) && (!g->rolled_back || g->unfit) && !g->stopped && now_ms >= g->sign_at_ms) {
        g->sign_at_ms = now_ms + SIGN_MS;
        g->ports.sign(g->ports.arg);
    }
    if (g->mysql_up && now_ms >= g->retry_at_ms) gate_ask(g);
}

void gate_stop(struct gate *g)
{
    g->stopped = true;
}
