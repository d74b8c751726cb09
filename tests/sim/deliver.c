/* tests/sim/deliver.c - replies on their way back: filed into the struct that asked, as redis/ does it. */
#include "sim/filing.h"
#include "sim/ports.h"
#include "sim/totals.h"
#include "sim/world.h"

#include "base/heap.h"
#include "base/stats.h"
#include <stdio.h>

/* From here on the oracle wants the exact running value for each hit in the frame. */
static void values_exact(struct world *w, const struct wire_frame *wire)
{
    for (unsigned i = 0; i < wire->cells_n; i++)
        for (unsigned k = 0; k < SIM_HITS; k++)
            if (world_times(w, wire->cells[i].field, wire->cells[i].delta, k) != 0)
                w->oracle.hits[wire->cells[i].hash][wire->cells[i].field][k].exact = true;
}

/* After a frame was found applied but its values were lost, each client gets the current value; also the clients of a cell that
 * overflowed, of which the books have too much (coalesce/README.md, rule C15). */
static void values_read(struct world *w, const struct wire_frame *wire)
{
    for (unsigned i = 0; i < wire->cells_n; i++) {
        const struct wire_cell *c = &wire->cells[i];
        bool overflowed = false;
        for (unsigned k = 0; k < SIM_HITS; k++) {
            struct hit *hit = &w->oracle.hits[c->hash][c->field][k];
            if (world_times(w, c->field, c->delta, k) == 0) continue;
            hit->exact = true;
            hit->value = c->value;
            overflowed |= hit->failed && c->error == NULL;
            hit->lost |= overflowed;
        }
        if (overflowed) w->oracle.overbooked[world_counter_of(w, c->hash)] += c->delta;
    }
}

static void deliver_frame(struct process *life, struct request *q)
{
    struct frame *f = q->target;
    if (!q->frame.refused) {
        oracle_known(life->w, &life->w->redis->executions[q->frame.execution - 1]);
        values_exact(life->w, &q->frame);
        ops_exact(life->w, &q->frame);
        ports_keep(f, &q->frame);
    }
    filing_answer(life, f, &q->frame);
}

static void deliver_replay(struct process *life, struct request *q)
{
    struct redis *r = life->w->redis;
    if (!q->frame.refused) life->number = (int64_t)q->frame.seq;
    if (!q->frame.refused) oracle_known(life->w, &r->executions[q->frame.execution - 1]);
    coalesce_on_kept(life->coalesce, q->target, q->frame.refused ? FRAME_REFUSED : FRAME_APPLIED);
}

static void deliver_claim(struct process *life, struct request *q)
{
    struct claim *c = q->target;
    c->outcome = q->claim.outcome;
    c->renamed = q->claim.renamed;
    c->left = q->claim.left;
    c->fields = q->claim.fields;
    c->took_us = q->claim.took_us;
    snprintf(c->text, sizeof c->text, "%s",
             c->outcome == CLAIM_REFUSED ? "MISCONF Redis is configured to save RDB snapshots" : "");
    TRACE(life->w, "life %d: claim outcome %d, %u renamed", life->index, (int)c->outcome, c->renamed);
    coalesce_on_claim(life->coalesce, c);
}

static void deliver_look(struct process *life, struct request *q)
{
    struct redis *r = life->w->redis;
    TRACE(life->w, "life %d: seq is %lld", life->index, (long long)q->look.seq);
    for (size_t i = 0; i < r->executions_n; i++)
        if (r->executions[i].life == life->index && (int64_t)r->executions[i].seq == q->look.seq)
            oracle_known(life->w, &r->executions[i]);
    int64_t frames_lost = STAT_GET(frames_lost);
    life->number = q->look.seq;
    coalesce_on_look(life->coalesce, q->look.seq, q->look.stands, q->look.ours);
    if (STAT_GET(frames_lost) > frames_lost) oracle_named(life->w, life->index, q->look.seq);
}

static void deliver_values(struct process *life, struct request *q)
{
    values_read(life->w, &q->frame);
    filing_answer_values(life, q->target, &q->frame);
}

static void batch_registry(struct process *life, struct batch *b, const struct wire_scan *wire,
                           uint32_t *index)
{
    b->format = BATCH_FORMAT;
    const struct counter *counter = &life->w->counter[wire->counter];
    buf_put_slice(&b->counter_name, counter->name);
    b->counter = counters_find(world_counters_of(life->w, life->instance), counter->name);
    b->gen = wire->gen;
    b->lowest_ms = wire->lowest_ms;
    buf_printf(&b->owner, "d%d:%d", life->w->instance_of[wire->owner], wire->owner);
    for (int h = SIM_HASHES - 1; h >= 0; h--)
        if (wire->hlen[h] > 0) index[h] = batch_add_hash(b, world_hash_name(life->w, h), wire->hlen[h]);
}

static void batch_rows(const struct world *w, struct batch *b, const struct wire_scan *wire,
                       const uint32_t *index)
{
    for (unsigned i = 0; i < wire->rows_n; i++) {
        const struct wire_row *row = &wire->rows[i];
        char digits[21];
        if (wire->hlen[row->hash] == 0) continue;
        size_t n = num_write(row->value, digits);
        batch_add_row(b, index[row->hash], world_field_name(w, row->hash, row->field), slice_of(digits, n));
    }
}

/* As in redis/durable.c and scan.c: while frames are held for a failover, no fence passes and no scan ends. */
static bool is_held(const struct process *life)
{
    return life->hold_ms != 0 && world_rule(life->w, WORLD_HOLD);
}

static void deliver_scan(struct process *life, struct request *q)
{
    struct scan *s = q->target;
    uint32_t index[SIM_HASHES] = {0};
    size_t short_hash;
    batch_clear(s->batch);
    memcpy(s->run_id, q->run_id, sizeof s->run_id);
    memcpy(s->replid, q->replid, sizeof s->replid);
    s->outcome = SCAN_GONE;
    if (!q->scan.gone) {
        batch_registry(life, s->batch, &q->scan, index);
        batch_rows(life->w, s->batch, &q->scan, index);
        if (s->batch->counter == NULL)
            s->outcome = SCAN_UNKNOWN;
        else if (batch_seal(s->batch, &short_hash))
            s->outcome = SCAN_SEALED;
        else if (q->scan.stands)
            s->outcome = SCAN_SHORT;
    }
    if (s->outcome == SCAN_SEALED && is_held(life)) s->outcome = SCAN_LOST;
    TRACE(life->w, "life %d: scan outcome %d", life->index, (int)s->outcome);
    s->done(s);
}

static void deliver_fence(struct process *life, struct request *q)
{
    struct fence *f = q->target;
    f->passed = !q->refused && !is_held(life);
    memcpy(f->run_id, q->run_id, sizeof f->run_id);
    memcpy(f->replid, q->replid, sizeof f->replid);
    snprintf(f->text, sizeof f->text, "%s", f->passed ? "" : "not confirmed in time");
    f->done(f);
}

static struct batch_id *copy_ids(const struct wire_ids *wire)
{
    struct batch_id *ids = heap_alloc(SIM_BATCHES * sizeof *ids);
    memcpy(ids, wire->ids, wire->n * sizeof *ids);
    return ids;
}

static void deliver_adopt(struct request *q)
{
    struct adopt *a = q->target;
    a->ids = copy_ids(&q->ids);
    a->ids_n = q->ids.n;
    a->unknown = q->ids.unknown;
    a->lost = false;
    a->done(a);
}

static void deliver_standing(struct request *q)
{
    struct standing *s = q->target;
    s->ids = copy_ids(&q->ids);
    s->ids_n = q->ids.n;
    memcpy(s->replid, q->replid, sizeof s->replid);
    s->lost = false;
    s->done(s);
}

static void deliver_history(const struct process *life, struct request *q)
{
    struct history_read *h = q->target;
    h->realm = q->history.realm ? sim_realm(life->w, life->lane) : (struct batch_id){{0}};
    h->gen = q->history.gen;
    memcpy(h->run_id, q->run_id, sizeof h->run_id);
    memcpy(h->replid, q->replid, sizeof h->replid);
    h->gens = heap_alloc(sizeof q->history.gens);
    for (unsigned i = 0; i < SIM_GENS; i++)
        if (q->history.gens[i].gen > 0) h->gens[h->gens_n++] = q->history.gens[i];
    h->done(h);
}

static void deliver_due_poll(struct process *life, struct request *q)
{
    struct due_poll *p = q->target;
    p->names = (struct buf){0};
    p->keys = heap_alloc(SIM_HASHES * sizeof *p->keys);
    p->scores = heap_alloc(SIM_HASHES * sizeof *p->scores);
    buf_reserve(&p->names, SIM_HASHES * KEY_BYTES_MAX);
    for (unsigned i = 0; i < q->names.n; i++) {
        struct slice name = world_hash_name(life->w, q->names.hashes[i]);
        p->keys[i] = slice_of(p->names.p + p->names.n, name.n);
        buf_put_slice(&p->names, name);
        p->scores[i] = q->names.scores[i];
    }
    p->keys_n = q->names.n;
    p->lost = false;
    p->done(p);
}

static void deliver_batches(struct process *life, struct request *q)
{
    struct batch_list *b = q->target;
    for (int c = 0; c < SIM_COUNTERS; c++)
        if (q->lowest_ms[c] != INT64_MAX)
            b->batch(b->arg,
                     &(struct batch_seen){.counter = life->w->counter[c].name, .lowest_ms = q->lowest_ms[c]});
    memcpy(b->replid, q->replid, sizeof b->replid);
    b->done(b);
}

static void deliver_discard(struct request *q)
{
    struct discard *d = q->target;
    d->done_ok = true;
    d->done(d);
}

/* READONLY; true: it is filed as any refusal. */
static bool deliver_readonly(struct process *life, struct request *q)
{
    bool is_frame = q->kind == REQ_FRAME || q->kind == REQ_REPLAY;
    if (is_frame) q->frame.refused = true;
    if (q->kind == REQ_CLAIM) q->claim.outcome = CLAIM_REFUSED;
    if (q->kind == REQ_FENCE) q->refused = true;
    if (is_frame || q->kind == REQ_CLAIM || q->kind == REQ_FENCE) return true;
    if (q->target != NULL) ports_lost(life, &(struct lost){.kind = q->kind, .target = q->target});
    return false;
}

void ports_deliver(struct process *life, struct request *q)
{
    TRACE(life->w, "life %d: reply to %s", life->index, request_name(q->kind));
    if (q->readonly && !deliver_readonly(life, q)) return;
    switch (q->kind) {
    case REQ_FRAME:
        deliver_frame(life, q);
        return;
    case REQ_REPLAY:
        deliver_replay(life, q);
        return;
    case REQ_CLAIM:
        deliver_claim(life, q);
        return;
    case REQ_KILL:
        coalesce_on_killed(life->coalesce);
        return;
    case REQ_LOOK:
        deliver_look(life, q);
        return;
    case REQ_VALUES:
        deliver_values(life, q);
        return;
    case REQ_SCAN:
        deliver_scan(life, q);
        return;
    case REQ_FENCE:
        deliver_fence(life, q);
        return;
    case REQ_WAIT:
        life->client_waits_busy = false;
        return;
    case REQ_DISCARD:
        deliver_discard(q);
        return;
    case REQ_ADOPT:
        deliver_adopt(q);
        return;
    case REQ_DUE_POLL:
        deliver_due_poll(life, q);
        return;
    case REQ_STANDING:
        deliver_standing(q);
        return;
    case REQ_TOTAL:
        totals_deliver(life->w, q->target, &q->total);
        return;
    case REQ_DIRTY:
        ((struct dirty_state *)q->target)->lowest_ms = q->lowest_ms[0];
        ((struct dirty_state *)q->target)->done(q->target);
        return;
    case REQ_BATCHES:
        deliver_batches(life, q);
        return;
    case REQ_HISTORY:
        deliver_history(life, q);
        return;
    case REQ_JOURNALS:
        memcpy(((struct journal_list *)q->target)->run_id, q->run_id, sizeof q->run_id);
        journals_listed(life, &q->journals, q->target);
        return;
    case REQ_JOURNAL_TAKE:
        journals_taken(&q->take, q->target);
        return;
    case REQ_BEAT:
    case REQ_HOLD_NAMES:
    case REQ_WALK:
        break; /* no request waits for these */
    }
    UNREACHABLE();
}

static void lost_scan(struct scan *s)
{
    s->outcome = SCAN_LOST;
    snprintf(s->text, sizeof s->text, "link lost");
    s->done(s);
}

static void lost_fence(struct fence *f)
{
    f->passed = false;
    snprintf(f->text, sizeof f->text, "link lost");
    f->done(f);
}

static void lost_adopt(struct adopt *a)
{
    a->ids = NULL;
    a->ids_n = a->unknown = 0;
    a->lost = true;
    a->done(a);
}

static void lost_standing(struct standing *s)
{
    s->ids = NULL;
    s->ids_n = 0;
    s->lost = true;
    s->done(s);
}

static void lost_due_poll(struct due_poll *p)
{
    p->names = (struct buf){0};
    p->keys = NULL;
    p->scores = NULL;
    p->keys_n = 0;
    p->lost = true;
    p->done(p);
}

void ports_lost(struct process *life, const struct lost *lost)
{
    TRACE(life->w, "life %d: %s is lost", life->index, request_name(lost->kind));
    switch (lost->kind) {
    case REQ_SCAN:
        lost_scan(lost->target);
        return;
    case REQ_FENCE:
        lost_fence(lost->target);
        return;
    case REQ_WAIT:
        life->client_waits_busy = false;
        return;
    case REQ_ADOPT:
        lost_adopt(lost->target);
        return;
    case REQ_STANDING:
        lost_standing(lost->target);
        return;
    case REQ_DUE_POLL:
        lost_due_poll(lost->target);
        return;
    case REQ_DISCARD: {
        struct discard *d = lost->target;
        d->done_ok = false;
        d->done(d);
        return;
    }
    case REQ_TOTAL:
        totals_lost(lost->target);
        return;
    case REQ_DIRTY:
        ((struct dirty_state *)lost->target)->lost = true;
        ((struct dirty_state *)lost->target)->done(lost->target);
        return;
    case REQ_BATCHES:
        ((struct batch_list *)lost->target)->lost = true;
        ((struct batch_list *)lost->target)->done(lost->target);
        return;
    case REQ_HISTORY:
        ((struct history_read *)lost->target)->lost = true;
        ((struct history_read *)lost->target)->done(lost->target);
        return;
    case REQ_JOURNALS:
        ((struct journal_list *)lost->target)->lost = true;
        ((struct journal_list *)lost->target)->done(lost->target);
        return;
    case REQ_JOURNAL_TAKE:
        ((struct journal_take *)lost->target)->lost = true;
        ((struct journal_take *)lost->target)->done(lost->target);
        return;
    default:
        UNREACHABLE();
    }
}
