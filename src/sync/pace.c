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
