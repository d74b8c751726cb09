/* redis/sweep_op.c - see sweep_op.h. SCAN shows each key of the node that the lane is on. */
#include "redis/sweep_op.h"
#include "redis/request.h"
#include <stdio.h>

#define PAGE 1000

static void sweep_scan(struct redis_link *l, struct redis_sweep *s);

static void sweep_fail(struct redis_sweep *s, const struct redis_answer *r)
{
    s->lost = true;
    answer_why(r, s->text, sizeof s->text);
    s->done(s);
}

static bool is_moved(const struct redis_sweep *s, struct slice tag, struct slice key)
{
    if (!slice_starts(key, tag)) return false;
    struct slice name = slice_of(key.p + tag.n, key.n - tag.n);
    return slice_eq(name, SLICE(KEY_TOKENS)) || moved_key_of(s->counters, name, s->lanes).kind != MOVED_NOT;
}

static void sweep_unlinked(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_sweep *s = arg;
    (void)at;
    if (!answer_is(r, REDIS_INTEGER))
        sweep_fail(s, r);
    else if (strcmp(s->cursor, "0") == 0)
        s->done(s);
    else
        sweep_scan(l, s);
}

/* UNLINK wants a name: the first one never exists. */
static void sweep_unlink(struct redis_link *l, struct redis_sweep *s, const struct redis_answer *keys)
{
    struct slice tag = redis_tag(l);
    size_t n = 0;
    for (size_t i = 0; i < keys->n; i++)
        n += is_moved(s, tag, keys->elements[i].str);
    struct buf *out = redis_link_begin(l);
    request_array(out, 2 + n);
    REQUEST_LIT(out, "UNLINK");
    REQUEST_KEY(out, tag, KEY_MARK_PREFIX);
    for (size_t i = 0; i < keys->n; i++)
        if (is_moved(s, tag, keys->elements[i].str)) request_slice(out, keys->elements[i].str);
    redis_link_ask(l, 1, sweep_unlinked, s);
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
    sweep_unlink(l, s, &r->elements[1]);
}

static void sweep_scan(struct redis_link *l, struct redis_sweep *s)
{
    struct buf *out = redis_link_begin(l);
    request_array(out, 4);
    REQUEST_LIT(out, "SCAN");
    request_text(out, s->cursor);
    REQUEST_LIT(out, "COUNT");
    request_int(out, PAGE);
    redis_link_ask(l, 1, sweep_page, s);
}

void redis_sweep(struct redis_link *l, struct redis_sweep *s)
{
    snprintf(s->cursor, sizeof s->cursor, "0");
    s->lost = false;
    sweep_scan(l, s);
}
