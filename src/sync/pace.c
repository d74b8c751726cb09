/* sync/pace.c - how often names are claimed that are due by their hits alone. With a thousand hot stores each store
 * reaches `hits` again after milliseconds, and a claim for each would cost MySQL a row for few hits. So these names
 * wait for rows. All counters share one token bucket of rows_burst rows, so that at light load a name is claimed at
 * once. Hits refill it, one row for hits_a_row of them, and rows_free_per_s does. When it has too few rows for all
 * names that wait, they are saved for up to paced_wait_ms, so that heavy load makes few large claims. No name waits
 * longer than `every`: the dirty index has the paced names, too, and moves them to the queue. Claims by time cost
 * nothing here. */
#include "sync/inside.h"

void pace_init(struct sync *s)
{
    PRE(s->config.hits_a_row > 0);
    s->pace.rows = s->config.rows_burst;
    s->pace.hits = s->ports.hits(s->ports.arg);
    s->pace.mono_ms = sync_now(s);
}

void pace_tick(struct sync *s, uint64_t now_ms)
{
    struct pace *p = &s->pace;
    uint64_t hits = s->ports.hits(s->ports.arg);
    p->hits_left += hits - p->hits;
    p->time_left += (now_ms - p->mono_ms) * s->config.rows_free_per_s;
    p->rows += (int64_t)(p->hits_left / s->config.hits_a_row + p->time_left / 1000);
    if (p->rows > s->config.rows_burst) p->rows = s->config.rows_burst;
    p->hits_left %= s->config.hits_a_row;
    p->time_left %= 1000;
    p->hits = hits;
    p->mono_ms = now_ms;
}

uint32_t pace_ready(const struct sync *s, const struct family *f, uint64_t now_ms)
{
    uint32_t full = size_now(s), wants = f->paced_n < full ? f->paced_n : full;
    uint64_t since_ms = now_ms - f->paced_ms;
    if (s->pace.rows <= 0 || since_ms < s->config.claim_gap_ms) return 0;
    if (s->pace.rows >= wants) return wants;
    return since_ms >= s->config.paced_wait_ms ? (uint32_t)s->pace.rows : 0;
}

void pace_claimed(struct run *r)
{
    r->rows_paid = r->claim.keys_n;
    r->sync->pace.rows -= r->rows_paid;
}

/* The claim paid one row a hash. Now the number of its fields is known, except for a claim whose answer was lost. The
 * debt is bounded, so that it can be paid off. */
void pace_claim_answered(struct run *r)
{
    const struct claim *c = &r->claim;
    int64_t floor = -(int64_t)r->sync->config.rows_burst;
    int64_t *rows = &r->sync->pace.rows;
    if (r->rows_paid == 0 || (c->outcome == CLAIM_STANDS && c->fields == 0)) return;
    *rows += r->rows_paid;
    if (c->outcome == CLAIM_STANDS) *rows -= (int64_t)c->fields;
    if (*rows < floor) *rows = floor;
}

void pace_release(struct sync *s)
{
    for (size_t i = 0; i < s->counters->n; i++)
        family_release(s, &s->families[i]);
}

/* --- how many hashes a claim takes. Its script is one step of Redis, and hits wait behind it. So while hits come, a claim is a
 * piece of claim_us, and one claim is out at a time. More may be out when that does not keep up with what becomes due. When no hits
 * come, a claim is as large as possible: that costs Redis and MySQL less a hash. --- */

#define PAGE_BESIDE_HITS 400 /* names of the dirty index: 1.3 us of Redis each, at a million */

void size_init(struct sync *s)
{
    s->size = (struct claim_size){
        .piece = {CLAIM_HASHES_MAX, s->config.claim_least, CLAIM_HASHES_MAX, s->config.claim_us, 0},
        .hits = s->ports.hits(s->ports.arg)};
}

void size_tick(struct sync *s, uint64_t now_ms)
{
    uint64_t hits = s->ports.hits(s->ports.arg);
    if (hits != s->size.hits) s->size.until_ms = now_ms + s->config.busy_ms;
    s->size.hits = hits;
    s->size.hits_come = now_ms < s->size.until_ms;
}

uint32_t size_now(const struct sync *s)
{
    return s->size.hits_come ? s->size.piece.now : CLAIM_HASHES_MAX;
}

uint32_t size_page(const struct sync *s)
{
    return s->size.hits_come ? PAGE_BESIDE_HITS : CLAIM_HASHES_MAX;
}

bool sync_hits_come(const struct sync *s)
{
    return s->size.hits_come;
}

bool size_room(const struct sync *s)
{
    return s->claims_out < (s->size.hits_come && !s->behind ? 1 : s->config.claims_max);
}

void size_claimed(struct sync *s, const struct claim *c)
{
    if (c->outcome == CLAIM_STANDS) piece_took(&s->size.piece, c->keys_n - c->left, c->took_us);
}

/* --- merges rest between chunks while hits come, for as long as hits feel the merges: where MySQL takes the processor or the disk
 * that tallyd and Redis need, clients wait longer while a chunk is merged. So one chunk is out at a time, and after each there is a
 * rest of up to twice its length. The rest grows by an eighth when hits waited a quarter longer during chunks than during rests
 * lately, and shrinks by as much when they did not. A millisecond always remains, to measure how hits do without a chunk. There is
 * no rest when no hit comes, when tallyd stops, and when three quarters of all runs are under way: then merges fall behind. --- */

#define EIGHTHS_MAX 16
#define FELT_LEAST 8 /* hits that say something */

void rest_init(struct sync *s)
{
    s->rest = (struct rest){.hits = s->ports.hits(s->ports.arg), .felt_us = s->ports.felt_us(s->ports.arg)};
    list_init(&s->rest.waiting);
}

/* What a hit waited on average since the last look, into one of the two. */
static void felt_look(struct sync *s, uint64_t *mean_us)
{
    struct rest *t = &s->rest;
    uint64_t hits = s->ports.hits(s->ports.arg), felt_us = s->ports.felt_us(s->ports.arg);
    if (hits - t->hits >= FELT_LEAST) {
        uint64_t us = (felt_us - t->felt_us) / (hits - t->hits);
        *mean_us = *mean_us == 0 ? us : (7 * *mean_us + us) / 8;
    }
    t->hits = hits;
    t->felt_us = felt_us;
}

void rest_chunk_sent(struct sync *s)
{
    struct rest *t = &s->rest;
    if (t->out++ > 0) return;
    felt_look(s, &t->without_us);
    t->sent_ms = sync_now(s);
}

void rest_chunk_answered(struct sync *s)
{
    struct rest *t = &s->rest;
    if (--t->out > 0) return;
    felt_look(s, &t->beside_us);
    uint64_t now_ms = sync_now(s);
    bool felt = t->without_us > 0 && 4 * t->beside_us > 5 * t->without_us;
    if (felt && t->eighths < EIGHTHS_MAX) t->eighths++;
    if (!felt && t->eighths > 0) t->eighths--;
    t->until_ms = now_ms + 1 + (now_ms - t->sent_ms) * t->eighths / 8;
}

bool rest_over(const struct sync *s)
{
    return !s->size.hits_come || s->stopping || s->runs_n > s->config.runs_max / 4 * 3 ||
           (s->rest.out == 0 && sync_now(s) >= s->rest.until_ms);
}
