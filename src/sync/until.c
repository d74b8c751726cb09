/* sync/until.c - asks in this order: Redis' time, the dirty index, the batches. A hash that is claimed between the last
 * two is then seen in the index. Not while the gate is closed: a Redis that was rolled back lacks some of what is not
 * merged. */
#include "base/heap.h"
#include "base/log.h"
#include "sync/gate.h"
#include "sync/inside.h"

static void until_end(struct until *u)
{
    u->busy = false;
    heap_free(u->until);
    u->until = NULL;
}

static void until_least(struct until *u, struct slice counter, int64_t ms)
{
    for (size_t i = 0; i < u->counters->n; i++) {
        bool its = counter.n == 0 || slice_eq(counter, u->counters->all[i].name);
        if (its && ms < u->until[i]) u->until[i] = ms;
    }
}

/* Said once, until it is well again. */
static void write_done(struct until_write *w)
{
    struct until *u = w->arg;
    if (w->failed && !u->told)
        log_event(LOG_WARN, "complete_until", "error=%s next=%s", LOGQ(w->error.text),
                  LOGQ("correct what MySQL refuses; merging goes on, but complete_until does not move"));
    if (w->ran) u->told = w->failed;
    until_end(u);
}

/* A hit may reach Redis after one that was sent later, whose score the index keeps. So the oldest hit is known only to
 * within that delay. */
static void ask_write(struct until *u)
{
    int64_t late_ms = HOLDS(RULE_UNTIL_SLACK) ? UNTIL_SLACK_MS + u->ports.lag_ms(u->ports.arg) : 0;
    for (size_t i = 0; i < u->counters->n; i++)
        u->until[i] -= late_ms;
    u->write = (struct until_write){.until = u->until, .done = write_done, .arg = u};
    u->ports.write(u->ports.arg, &u->write);
}

static void batch_seen(void *arg, const struct batch_seen *b)
{
    if (b->lowest_ms >= 0) until_least(arg, b->counter, b->lowest_ms);
}

static void until_ask_dirty(struct until *u);

/* (!) A claim may be lost between the two reads, and its hashes be in the index again, when the server took over
 * another one's data. A server's histories never come back. So when the history read last is the one from before the
 * first read, all that was read is of that history. The gate may look again between the two reads, and open for the
 * other data. */
static bool is_of_epoch(struct until *u, const struct batch_list *b)
{
    bool same = strcmp(b->replid, u->replid) == 0 || !HOLDS(RULE_UNTIL_HISTORY);
    if (!same) gate_epoch_over(u->gate);
    return same;
}

static void batches_done(struct batch_list *b)
{
    struct until *u = b->arg;
    if (b->lost || u->stopped || !gate_open(u->gate) || !is_of_epoch(u, b))
        until_end(u);
    else if (HOLDS(RULE_UNTIL_ORDER))
        ask_write(u);
    else
        until_ask_dirty(u);
}

static void ask_batches(struct until *u)
{
    u->batches = (struct batch_list){.batch = batch_seen, .done = batches_done, .arg = u};
    u->ports.batches(u->ports.arg, &u->batches);
}

static void until_dirty_done(struct dirty_state *d)
{
    struct until *u = d->arg;
    if (!d->lost) until_least(u, SLICE(""), d->lowest_ms);
    if (d->lost || u->stopped || !gate_open(u->gate))
        until_end(u);
    else if (HOLDS(RULE_UNTIL_ORDER))
        ask_batches(u);
    else
        ask_write(u);
}

static void until_ask_dirty(struct until *u)
{
    u->dirty = (struct dirty_state){.done = until_dirty_done, .arg = u};
    u->ports.dirty(u->ports.arg, &u->dirty);
}

void until_init(struct until *u, struct gate *gate, const struct counters *counters,
                const struct until_ports *ports, uint32_t every_ms)
{
    *u = (struct until){.gate = gate, .counters = counters, .ports = *ports, .every_ms = every_ms};
}

void until_tick(struct until *u)
{
    uint64_t now_ms = u->ports.mono_ms(u->ports.arg);
    if (u->busy || u->stopped || now_ms < u->at_ms || !gate_open(u->gate)) return;
    u->at_ms = now_ms + u->every_ms;
    u->until = heap_alloc((u->counters->n + 1) * sizeof *u->until);
    for (size_t i = 0; i < u->counters->n; i++)
        u->until[i] = u->ports.redis_ms(u->ports.arg);
    u->busy = true;
    memcpy(u->replid, u->gate->epoch.replid, sizeof u->replid);
    if (HOLDS(RULE_UNTIL_ORDER))
        until_ask_dirty(u);
    else
        ask_batches(u);
}

void until_stop(struct until *u)
{
    u->stopped = true;
}
