/* sync/prune.c - first MySQL says what is old, then Redis which batches exist, then rows are deleted. (!) In this
 * order: if the cutoff came last, and the process were suspended before it, rows could be old whose batch was claimed
 * only after Redis was asked. Not while the gate is closed: batches in a Redis that was rolled back prove nothing. */
#include "base/heap.h"
#include "sync/gate.h"
#include "sync/inside.h"

/* The gate may have closed since, and another Redis may have answered. */
static bool prune_may(const struct prune *p)
{
    return !p->stopped && gate_open(p->gate);
}

static void prune_end(struct prune *p)
{
    p->busy = false;
    heap_free(p->standing.ids);
    p->standing.ids = NULL;
}

static void rows_done(struct prune_rows *r)
{
    struct prune *p = r->arg;
    if (r->ok && r->more) p->at_ms = 0;
    prune_end(p);
}

static void ask_rows(struct prune *p)
{
    p->rows.standing = p->standing.ids;
    p->rows.standing_n = HOLDS(RULE_PRUNE_STANDING) ? p->standing.ids_n : 0;
    p->rows.done = rows_done;
    p->ports.rows(p->ports.arg, &p->rows);
}

static void prune_ask_standing(struct prune *p);

static void cutoff_done(struct prune_rows *r)
{
    struct prune *p = r->arg;
    if (!r->ok || !prune_may(p))
        prune_end(p);
    else if (HOLDS(RULE_PRUNE_CUTOFF))
        prune_ask_standing(p);
    else
        ask_rows(p);
}

static void ask_cutoff(struct prune *p)
{
    p->rows = (struct prune_rows){.done = cutoff_done, .arg = p};
    p->ports.cutoff(p->ports.arg, &p->rows);
}

static void prune_standing_done(struct standing *s)
{
    struct prune *p = s->arg;
    if (s->lost || !prune_may(p))
        prune_end(p);
    else if (HOLDS(RULE_PRUNE_CUTOFF))
        ask_rows(p);
    else
        ask_cutoff(p);
}

static void prune_ask_standing(struct prune *p)
{
    p->standing = (struct standing){.done = prune_standing_done, .arg = p};
    p->ports.standing(p->ports.arg, &p->standing);
}

void prune_init(struct prune *p, const struct gate *gate, const struct prune_ports *ports, uint32_t every_ms)
{
    *p = (struct prune){.gate = gate, .ports = *ports, .every_ms = every_ms};
}

void prune_tick(struct prune *p)
{
    uint64_t now_ms = p->ports.mono_ms(p->ports.arg);
    if (p->busy || p->stopped || now_ms < p->at_ms || !gate_open(p->gate)) return;
    p->at_ms = now_ms + p->every_ms;
    p->busy = true;
    if (HOLDS(RULE_PRUNE_CUTOFF))
        ask_cutoff(p);
    else
        prune_ask_standing(p);
}

void prune_stop(struct prune *p)
{
    p->stopped = true;
}
