/* coalesce/flight.c - sends frames and handles their answers. (!) One frame is in flight. (!) Known dirty follows the
 * order of sending: a frame that carries a ZADD makes its hash known dirty when it is sent. No reply ever adds to known
 * dirty; a refusal removes the frame's hashes from it as it is by then. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/inside.h"

#define OWED_A_FRAME_MAX 1000
#define SIDE_PAUSE_MS 100

uint64_t coalesce_epoch(struct coalesce *c)
{
    return ++c->epoch;
}

uint32_t flight_depth(void)
{
    return HOLDS(RULE_ONE_IN_FLIGHT) ? 1 : FLIGHT_MAX;
}

void flight_owe(struct coalesce *c, struct hash_entry *e)
{
    if (e->owed || !HOLDS(RULE_OWED)) return;
    HEAP_GROW(c->owed, c->owed_n, c->owed_cap, 64);
    e->owed = true;
    c->owed[c->owed_n++] = e;
}

void flight_due(struct coalesce *c, struct hash_entry *e, enum due_why why)
{
    if (e->due && why == DUE_HITS) return;
    e->due = true;
    c->ports.due(c->ports.arg, e->counter, hash_entry_key(e), why);
}

static void zadds_add_owed(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < OWED_A_FRAME_MAX && c->owed_n > 0; i++) {
        struct hash_entry *e = c->owed[--c->owed_n];
        e->owed = false;
        group_hash(g, e)->owed = true;
    }
}

static void ask_lock(struct frame *f, struct frame_hash *h, const struct hash_entry *e)
{
    h->ask_lock = true;
    h->lock_s = e->counter->every_s;
    h->lock_at = (uint32_t)f->bytes.n;
    counter_lock_name(e->counter, h->key, &f->bytes);
    h->lock_n = (uint32_t)(f->bytes.n - h->lock_at);
}

static void hash_on_send(struct frame *f, struct frame_hash *h, uint64_t now_ms)
{
    struct hash_entry *e = h->entry;
    h->zadd = h->owed || (h->cells > 0 && !e->known_dirty);
    if (h->zadd && HOLDS(RULE_DIRTY_AT_SEND)) e->known_dirty = true;
    bool hit = (h->cells > 0 || h->moved) && !e->due && now_ms >= e->lock_until_ms;
    if (hit && counter_locks(e->counter)) ask_lock(f, h, e);
}

static const struct counter *cell_counter(const struct frame *f, uint32_t cell)
{
    return ((const struct hash_entry *)f->hashes[f->cells[cell].hash].entry)->counter;
}

static struct group *free_group(struct coalesce *c)
{
    for (int i = 0; i < GROUPS; i++) {
        struct group *g = &c->groups[i];
        bool flies = g == c->answering;
        for (uint32_t j = 0; j < c->flight_n; j++)
            flies |= c->flight[j] == g;
        if (!flies) return g;
    }
    UNREACHABLE();
}

void flight_send(struct coalesce *c, struct group *g)
{
    PRE(c->flight_n < flight_depth() && g == c->now);
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    struct frame *f = &g->frame;
    flight_turn_ends(c);
    zadds_add_owed(c, g);
    for (uint32_t i = 0; i < f->hashes_n; i++)
        hash_on_send(f, &f->hashes[i], now_ms);
    for (uint32_t i = 0; i < f->cells_n;) {
        const struct counter *of = cell_counter(f, i);
        int64_t sum = 0;
        for (; i < f->cells_n && cell_counter(f, i) == of; i++)
            sum += f->cells[i].delta;
        frame_add_share(f, of, sum);
    }
    f->seq = ++c->seq;
    f->dirty_ms = c->ports.redis_ms(c->ports.arg);
    ops_on_send(c, g);
    g->state = GROUP_SENT;
    c->flight[c->flight_n++] = g;
    c->now = free_group(c);
    group_reuse(c->now, coalesce_epoch(c));
    STAT_ADD(frames, 1);
    STAT_ADD(cells, f->cells_n);
    c->ports.send_frame(c->ports.arg, f);
}

struct group *flight_group_of(struct coalesce *c, const struct frame *f)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (&c->flight[i]->frame == f) return c->flight[i];
    UNREACHABLE();
}

static void land(struct coalesce *c, const struct group *g)
{
    uint32_t at = 0;
    while (c->flight[at] != g)
        at++;
    for (; at + 1 < c->flight_n; at++)
        c->flight[at] = c->flight[at + 1];
    c->flight_n--;
}

void flight_finish(struct coalesce *c, struct group *g)
{
    land(c, g);
    group_unpin(g);
    g->answers_n = 0;
}

bool flight_answers_out(const struct coalesce *c)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (c->flight[i]->answers_n > 0) return true;
    return false;
}

void flight_touch(struct coalesce *c, struct list *touched)
{
    for (struct list *node; (node = list_pop(touched)) != NULL;)
        c->ports.answered(c->ports.arg, CONTAINER_OF(node, struct outlet, touched));
}

void flight_answer(struct coalesce *c, struct group *g)
{
    struct list touched;
    list_init(&touched);
    group_answer(g, &touched);
    flight_touch(c, &touched);
}

/* What the frame's shares hold beyond its own cells are corrections: the next frame carries them instead. */
void flight_take_back(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->shares_n; i++) {
        int64_t correction = f->shares[i].delta;
        for (uint32_t j = 0; j < f->cells_n; j++)
            if (cell_counter(f, j) == f->shares[i].counter) correction -= f->cells[j].delta;
        if (correction != 0) group_correct(c->now, f->shares[i].counter, correction);
    }
}

/* Without a lock each tallyd goes by what it saw: after a start it does not know when a hash was claimed last, and draws, or
 * all hashes would be due at once; one that it knew to be dirty and that begins anew was claimed by another tallyd. */
static void unlocked_applied(struct coalesce *c, const struct frame_hash *h, uint64_t now_ms)
{
    struct hash_entry *e = h->entry;
    uint64_t every_ms = UINT64_C(1000) * e->counter->every_s;
    if (e->lock_until_ms == 0)
        e->lock_until_ms = now_ms + 1 + rand_below(every_ms);
    else if (h->fresh && !h->zadd)
        e->lock_until_ms = now_ms + every_ms;
    if (now_ms < e->lock_until_ms) return;
    e->lock_until_ms = now_ms + every_ms;
    flight_due(c, e, DUE_TIME);
}

static void hash_applied(struct coalesce *c, const struct frame_hash *h, uint64_t now_ms)
{
    struct hash_entry *e = h->entry;
    if (h->zadd && !HOLDS(RULE_DIRTY_AT_SEND)) e->known_dirty = true;
    if (h->fresh && !h->zadd) flight_owe(c, e);
    if ((h->cells > 0 || h->moved) && !e->due && !counter_locks(e->counter)) unlocked_applied(c, h, now_ms);
    if (!h->ask_lock) return;
    if (h->lock_granted) {
        e->lock_until_ms = now_ms + UINT64_C(1000) * h->lock_s;
        flight_due(c, e, DUE_TIME);
    } else if (h->lock_pttl_ms > 0) {
        e->lock_until_ms = now_ms + (uint64_t)h->lock_pttl_ms;
    }
}

/* An error on one cell fails only its clients; the next frame takes the cell's share of tally:accepted back. */
static void cell_applied(struct coalesce *c, const struct frame *f, const struct frame_cell *cell)
{
    struct hash_entry *e = f->hashes[cell->hash].entry;
    if (cell->error_n > 0) {
        if (HOLDS(RULE_SHARE_BACK)) group_correct(c->now, e->counter, -cell->delta);
        refusals_add(1, FRAME_ERROR(f, cell), f->hashes[cell->hash].key, "");
        return;
    }
    e->hits += (uint64_t)llabs(cell->delta);
    if (e->hits >= (uint64_t)e->counter->hits || cell->value >= e->counter->hits) flight_due(c, e, DUE_HITS);
}

static void applied_book(struct coalesce *c, struct group *g)
{
    const struct frame *f = &g->frame;
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    for (uint32_t i = 0; i < f->hashes_n; i++)
        hash_applied(c, &f->hashes[i], now_ms);
    for (uint32_t i = 0; i < f->cells_n; i++)
        cell_applied(c, f, &f->cells[i]);
    for (uint32_t i = 0; i < f->shares_n; i++)
        if (f->shares[i].refused) group_correct(c->now, f->shares[i].counter, f->shares[i].delta);
    tokens_applied(c, f);
    ops_applied(c, g);
    replay_keep(c, g);
    c->hits += g->answers_n - g->literals_count;
    STAT_ADD(hits, g->answers_n - g->literals_count);
}

void flight_applied(struct coalesce *c, struct group *g)
{
    applied_book(c, g);
    flight_answer(c, g);
    flight_finish(c, g);
}

void flight_turn_ends(struct coalesce *c)
{
    if (c->turn_us != 0) group_arrived(c->now, c->turn_us);
    c->turn_us = 0;
}

/* Redis works on the next frame while tallyd answers the clients of this one. A small frame is sent at the end of the
 * turn, with what arrived meanwhile: then the cost of a frame matters more than Redis' waiting. */
static void applied_in_turn(struct coalesce *c, struct group *g)
{
    applied_book(c, g);
    land(c, g);
    c->answering = g;
    if (group_size(c->now) >= c->config.at_once_cells) coalesce_send_next(c);
    flight_answer(c, g);
    /* Replies of another kind between them are counted as well. */
    uint64_t now_us = c->ports.mono_us(c->ports.arg);
    uint32_t from = 0;
    for (uint32_t i = 0; i < g->arrivals_n; from = g->arrivals[i++].upto)
        if (g->arrivals[i].upto > from)
            histogram_add_many(&latencies.hit, now_us - g->arrivals[i].us, g->arrivals[i].upto - from);
    c->answering = NULL;
    group_unpin(g);
}

#define REFUSAL_LOG_MS 10000 /* as hits_refused in base/refusals.c, which names key and client */

static void frame_refused(struct coalesce *c, struct group *g)
{
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    if (c->refusal_logged_ms == 0 || now_ms - c->refusal_logged_ms >= REFUSAL_LOG_MS) {
        c->refusal_logged_ms = now_ms;
        char text[200];
        slice_show(buf_slice(&g->frame.errors), 150, text, sizeof text);
        log_event(LOG_WARN, "frame_refused", "seq=%llu cells=%u error=%s", (unsigned long long)g->frame.seq,
                  g->frame.cells_n, LOGQ(text));
    }
    c->side_at_ms = now_ms + SIDE_PAUSE_MS;
    STAT_ADD(frames_refused, 1);
    group_refused(g, buf_slice(&g->frame.errors));
    for (uint32_t i = 0; i < g->frame.hashes_n; i++) {
        const struct frame_hash *h = &g->frame.hashes[i];
        struct hash_entry *e = h->entry;
        if (!HOLDS(RULE_REFUSED_AS_IS))
            e->known_dirty = !h->zadd;
        else if (h->zadd)
            e->known_dirty = false;
        if (h->owed && HOLDS(RULE_OWED_AFTER_REFUSAL)) flight_owe(c, e);
    }
    ops_not_applied(c, g);
    checkpoint_undo(c, g);
    flight_take_back(c, g);
    group_fail(g, buf_slice(&g->frame.errors));
    flight_answer(c, g);
    settles_refused(c, g);
    flight_finish(c, g);
}

void coalesce_on_frame(struct coalesce *c, struct frame *f, enum frame_outcome outcome)
{
    struct group *g = flight_group_of(c, f);
    INVARIANT(g->state == GROUP_SENT);
    if (outcome == FRAME_REFUSED) {
        frame_refused(c, g);
        return;
    }
    g->astray = outcome == FRAME_ASTRAY;
    if (g->astray) return; /* the cut that follows puts it in doubt, and the next link sends it again */
    INVARIANT(f->seq > c->seq_known || !HOLDS(RULE_ONE_IN_FLIGHT));
    c->seq_known = f->seq;
    applied_in_turn(c, g);
}
