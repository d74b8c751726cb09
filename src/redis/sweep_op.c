/* redis/sweep_op.c - see sweep_op.h. SCAN looks at each key of the node that the lane is on. */
#include "redis/sweep_op.h"
#include "redis/request.h"
#include <stdio.h>

#define SWEEP_PAGE 1000

static void sweep_scan(struct redis_link *l, struct redis_sweep *s);

static void sweep_fail(struct redis_sweep *s, const struct redis_answer *r)
{
    s->lost = true;
    answer_why(r, s->text, sizeof s->text);
    s->done(s);
}

static void sweep_next(struct redis_link *l, struct redis_sweep *s)
{
    if (s->counted || strcmp(s->cursor, "0") == 0)
        s->done(s);
    else
        sweep_scan(l, s);
}

static struct slice bare(struct slice tag, struct slice key)
{
    return slice_starts(key, tag) ? slice_of(key.p + tag.n, key.n - tag.n) : slice_of(key.p, 0);
}

static void sweep_unlinked(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)at;
    if (!answer_is(r, REDIS_INTEGER))
        sweep_fail(arg, r);
    else
        sweep_next(l, arg);
}

static bool is_moved(const struct redis_sweep *s, struct slice name)
{
    return moved_key_of(s->counters, name, s->lanes).kind != MOVED_NOT;
}

/* UNLINK wants a name: the first one never exists. */
static void sweep_unlink(struct redis_link *l, struct redis_sweep *s, const struct redis_answer *keys)
{
    struct slice tag = redis_tag(l);
    size_t n = 0;
    for (size_t i = 0; i < keys->n; i++)
        n += is_moved(s, bare(tag, keys->elements[i].str));
    struct buf *out = redis_link_begin(l);
    request_array(out, 2 + n);
    REQUEST_LIT(out, "UNLINK");
    REQUEST_KEY(out, tag, KEY_MARK_PREFIX);
    for (size_t i = 0; i < keys->n; i++)
        if (is_moved(s, bare(tag, keys->elements[i].str))) request_slice(out, keys->elements[i].str);
    redis_link_ask(l, 1, sweep_unlinked, s);
}

/* Each frame writes the first, and no mover writes either. The first ends after SEQ_TTL_S, the other never. */
static void sweep_look(struct redis_link *l, struct redis_sweep *s, const struct redis_answer *keys)
{
    for (size_t i = 0; i < keys->n; i++) {
        struct slice name = bare(redis_tag(l), keys->elements[i].str);
        s->counted |= slice_starts(name, SLICE(KEY_SEQ_PREFIX)) || slice_eq(name, SLICE(KEY_ACCEPTED));
    }
    sweep_next(l, s);
}

static void sweep_page(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_sweep *s = arg;
    (void)at;
    bool good = answer_is_array(r, 2) && r->elements[0].type == REDIS_STRING &&
                r->elements[0].str.n < sizeof s->cursor && r->elements[1].type == REDIS_ARRAY;
    if (!good) {
        sweep_fail(s, r);
        return;
    }
    snprintf(s->cursor, sizeof s->cursor, SLICE_FMT, SLICE_ARG(r->elements[0].str));
    if (s->looks)
        sweep_look(l, s, &r->elements[1]);
    else
        sweep_unlink(l, s, &r->elements[1]);
}

static void sweep_scan(struct redis_link *l, struct redis_sweep *s)
{
    struct buf *out = redis_link_begin(l);
    request_array(out, 6);
    REQUEST_LIT(out, "SCAN");
    request_text(out, s->cursor);
    REQUEST_LIT(out, "COUNT");
    request_int(out, SWEEP_PAGE);
    REQUEST_LIT(out, "MATCH");
    request_key(out, redis_tag(l), s->looks ? SLICE("tally:*") : SLICE("*"));
    redis_link_ask(l, 1, sweep_page, s);
}

void redis_sweep(struct redis_link *l, struct redis_sweep *s)
{
    snprintf(s->cursor, sizeof s->cursor, "0");
    s->lost = s->counted = false;
    sweep_scan(l, s);
}
