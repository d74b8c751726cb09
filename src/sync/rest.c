/* sync/rest.c - merges rest between chunks while hits come, for as long as hits feel the merges: where MySQL takes the
 * processor or the disk that tallyd and Redis need, clients wait longer while a chunk is merged. So one chunk is out at
 * a time, and after each there is a rest of up to twice its length. The rest grows by an eighth when hits waited a
 * quarter longer during chunks than during rests lately, and shrinks by as much when they did not. A millisecond always
 * remains, to measure how hits do without a chunk. There is no rest when no hit comes, when tallyd stops, and when
 * three quarters of all runs are under way: then merges fall behind. */
#include "sync/inside.h"

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
