/* redis/dirty_op.c - see dirty_op.h. The script that moves names between the indexes works when Redis is full. */
#include "redis/dirty_op.h"
#include "base/heap.h"
#include "base/log.h"
#include "redis/lua.h"
#include "redis/request.h"

#define NAMES_A_SCRIPT 500

/* --- what is due --- */

/* Name, score, name, score ... Only another program writes a score that is no integer: due at once. */
static void due_file(struct due_poll *d, const struct redis_answer *r)
{
    size_t bytes = 1; /* never none, so that there is memory to point into */
    for (size_t i = 0; i < r->n; i += 2)
        bytes += r->elements[i].str.n;
    buf_reserve(&d->names, bytes); /* so that the slices stay good while it fills */
    d->keys = heap_alloc((r->n + 1) * sizeof *d->keys);
    d->scores = heap_alloc((r->n + 1) * sizeof *d->scores);
    for (size_t i = 0; i + 1 < r->n; i += 2) {
        struct slice name = r->elements[i].str;
        if (!answer_integer(&r->elements[i + 1], &d->scores[d->keys_n])) d->scores[d->keys_n] = 0;
        d->keys[d->keys_n++] = slice_of(d->names.p + d->names.n, name.n);
        buf_put_slice(&d->names, name);
    }
}

static void on_due(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct due_poll *d = arg;
    (void)l, (void)at;
    d->lost = !answer_is(r, REDIS_ARRAY);
    if (!d->lost) due_file(d, r);
    if (d->done != NULL) d->done(d);
}

void redis_due(struct redis_link *l, struct due_poll *d)
{
    struct buf *out = redis_link_begin(l);
    d->names = (struct buf){0};
    d->keys = NULL;
    d->scores = NULL;
    d->keys_n = 0;
    request_array(out, 8);
    request_text(out, d->highest ? "ZREVRANGEBYSCORE" : "ZRANGEBYSCORE");
    REQUEST_KEY(out, redis_tag(l), KEY_DIRTY);
    request_text(out, d->highest ? "+inf" : "-inf");
    if (d->highest)
        REQUEST_LIT(out, "-inf");
    else
        request_int(out, d->before_ms);
    REQUEST_LIT(out, "WITHSCORES");
    REQUEST_LIT(out, "LIMIT");
    request_int(out, d->skip);
    request_int(out, d->limit);
    redis_link_ask(l, 1, on_due, d);
}

/* --- held and restored --- */

static void move_put(struct redis_link *l, struct slice from, struct slice to, const struct slice *names,
                     size_t n)
{
    struct buf *out = redis_link_begin(l);
    request_eval(out, lua_dirty_move, 2, n);
    request_key(out, redis_tag(l), from);
    request_key(out, redis_tag(l), to);
    for (size_t i = 0; i < n; i++)
        request_slice(out, names[i]);
}

static uint32_t moves_put(struct redis_link *l, struct slice from, struct slice to, const struct slice *names,
                          size_t n)
{
    uint32_t scripts = 0;
    for (size_t at = 0; at < n; at += NAMES_A_SCRIPT, scripts++)
        move_put(l, from, to, names + at, n - at < NAMES_A_SCRIPT ? n - at : NAMES_A_SCRIPT);
    return scripts;
}

static void on_held(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    char line[200];
    (void)l, (void)arg, (void)at;
    if (r == NULL || r->type == REDIS_INTEGER)
        return; /* lost: they are still in the dirty index, and polled again */
    answer_why(r, line, sizeof line);
    log_event(LOG_WARN, "hold_names", "error=%s", LOGQ(line));
}

void redis_hold_names(struct redis_link *l, const struct slice *names, uint32_t n)
{
    if (n == 0) return;
    uint32_t scripts = moves_put(l, SLICE(KEY_DIRTY), SLICE(KEY_HELD), names, n);
    redis_link_ask(l, scripts, on_held, NULL);
}

static void on_restored(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_restore *s = arg;
    int64_t n = 0;
    (void)l;
    if (answer_is(r, REDIS_INTEGER) && answer_integer(r, &n))
        s->restored += (uint32_t)n;
    else
        s->lost = true;
    if (r == NULL || at + 1 == s->scripts) s->done(s);
}

static void on_held_names(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_restore *s = arg;
    struct slice *ours;
    size_t n = 0;
    (void)at;
    s->lost = !answer_is(r, REDIS_ARRAY);
    if (s->lost || r->n == 0) {
        s->done(s);
        return;
    }
    ours = heap_alloc(r->n * sizeof *ours);
    for (size_t i = 0; i < r->n; i++)
        if (counters_match(s->counters, r->elements[i].str) != NULL) ours[n++] = r->elements[i].str;
    s->scripts = moves_put(l, SLICE(KEY_HELD), SLICE(KEY_DIRTY), ours, n);
    heap_free(ours);
    if (s->scripts == 0) {
        s->done(s);
        return;
    }
    redis_link_ask(l, s->scripts, on_restored, s);
}

void redis_restore(struct redis_link *l, struct redis_restore *s)
{
    s->restored = s->scripts = 0;
    struct buf *out = redis_link_begin(l);
    request_array(out, 4);
    REQUEST_LIT(out, "ZRANGE");
    REQUEST_KEY(out, redis_tag(l), KEY_HELD);
    REQUEST_LIT(out, "0");
    REQUEST_LIT(out, "-1");
    redis_link_ask(l, 1, on_held_names, s);
}

/* --- its state --- */

static bool state_file(struct dirty_state *d, const struct redis_answer *r, uint32_t at)
{
    int64_t *const counts[] = {&d->dirty, &d->held, &d->batches};
    if (at < 3) return answer_integer(r, counts[at]);
    if (!answer_is(r, REDIS_ARRAY)) return false;
    d->lowest_ms = INT64_MAX;
    return r->n == 0 || (r->n == 2 && answer_integer(&r->elements[1], &d->lowest_ms));
}

static void on_state(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct dirty_state *d = arg;
    (void)l;
    if (r == NULL || !state_file(d, r, at)) d->lost = true;
    if ((r == NULL || at == 3) && d->done != NULL) d->done(d);
}

void redis_dirty_state(struct redis_link *l, struct dirty_state *d)
{
    struct buf *out = redis_link_begin(l);
    d->lost = false;
    static const struct slice counted[] = {SLICE(KEY_DIRTY), SLICE(KEY_HELD), SLICE(KEY_BATCHES)};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        request_array(out, 2);
        REQUEST_LIT(out, "ZCARD");
        request_key(out, redis_tag(l), counted[i]);
    }
    request_array(out, 5);
    REQUEST_LIT(out, "ZRANGE");
    REQUEST_KEY(out, redis_tag(l), KEY_DIRTY);
    REQUEST_LIT(out, "0");
    REQUEST_LIT(out, "0");
    REQUEST_LIT(out, "WITHSCORES");
    redis_link_ask(l, 4, on_state, d);
}
