/* redis/track_op.c - see track_op.h. With RESP2 a server tells changes as messages of a channel. The connection that tracks is the
 * one that subscribes, so either both are alive or neither. */
#include "redis/track_op.h"
#include "base/clock.h"
#include "redis/request.h"
#include <inttypes.h>
#include <stdio.h>

#define CHANNEL "__redis__:invalidate"

static void track_lose(struct redis_track *t, const char *why)
{
    if (!t->lost) snprintf(t->text, sizeof t->text, "%s", why);
    t->lost = true;
    t->on = false;
}

static void name_file(struct redis_track *t, const struct redis_answer *name)
{
    if (name->type != REDIS_STRING) return;
    if (slice_eq(name->str, slice_str(t->mark)))
        t->seen = true;
    else
        (void)map_put(&t->changed, name->str, NULL);
}

/* message, the channel, names; instead of names nil: the whole database was emptied. */
static void changes_told(struct redis_link *l, const struct redis_answer *r)
{
    struct redis_track *t = l->arg;
    const struct redis_answer *names = answer_is_array(r, 3) ? &r->elements[2] : NULL;
    if (!answer_is(names, REDIS_ARRAY)) {
        track_lose(t, names == NULL ? "it sent an unexpected message" : "it was emptied (FLUSHALL, FLUSHDB)");
        return;
    }
    for (size_t i = 0; i < names->n; i++)
        name_file(t, &names->elements[i]);
}

static void track_answered(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_track *t = arg;
    char why[200];
    (void)l;
    answer_why(r, why, sizeof why);
    if (r == NULL || r->type == REDIS_ERROR) track_lose(t, why);
    if (at == 1 && !t->lost) t->on = true; /* subscribed */
}

static void track_id_told(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    int64_t id;
    if (!answer_integer(r, &id)) {
        track_answered(l, arg, r, at);
        return;
    }
    struct buf *out = redis_link_begin(l);
    request_array(out, 6);
    REQUEST_LIT(out, "CLIENT");
    REQUEST_LIT(out, "TRACKING");
    REQUEST_LIT(out, "ON");
    REQUEST_LIT(out, "REDIRECT");
    request_int(out, id);
    REQUEST_LIT(out, "BCAST");
    request_words(out, "SUBSCRIBE " CHANNEL);
    redis_link_ask(l, 2, track_answered, arg);
}

static void track_up(struct redis_link *l)
{
    struct redis_track *t = l->arg;
    request_words(redis_link_begin(l), "CLIENT ID");
    redis_link_ask(l, 1, track_id_told, t);
}

static void track_down(struct redis_link *l, const char *why)
{
    track_lose(l->arg, why);
}

void redis_track_open(struct redis_track *t, uv_loop_t *loop, struct redis_place *place)
{
    const struct redis_link_config config = {
        .place = place, .role = "track", .plain = true, .quiet = true, .once = true};
    *t = (struct redis_track){0};
    map_init(&t->changed);
    redis_link_init(&t->link, loop, &config);
    t->link.up = track_up;
    t->link.down = track_down;
    t->link.push = changes_told;
    t->link.arg = t;
    redis_link_start(&t->link);
}

static void mark_answered(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    char why[200];
    (void)l, (void)at;
    answer_why(r, why, sizeof why);
    if (!answer_is_ok(r)) track_lose(arg, why);
}

/* (!) A name of its own each time: that an earlier one expires is told, too. */
void redis_track_mark(struct redis_track *t, struct redis_link *l)
{
    t->seen = false;
    snprintf(t->mark, sizeof t->mark, KEY_MARK_PREFIX "%016" PRIx64, rand_below(UINT64_MAX));
    struct buf *out = redis_link_begin(l);
    request_array(out, 5);
    REQUEST_LIT(out, "SET");
    request_text(out, t->mark);
    REQUEST_LIT(out, "");
    REQUEST_LIT(out, "PX");
    REQUEST_LIT(out, "60000");
    redis_link_ask(l, 1, mark_answered, t);
}

static void track_late(uv_timer_t *timer)
{
    track_lose(timer->data, "it does not tell which keys change");
}

bool redis_track_await(struct redis_track *t, const bool *what, uint64_t wait_ms)
{
    uv_timer_t timer;
    uv_timer_init(t->link.loop, &timer);
    timer.data = t;
    uv_timer_start(&timer, track_late, wait_ms, 0);
    while (!*what && !t->lost)
        uv_run(t->link.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(t->link.loop, UV_RUN_NOWAIT); /* the timer is gone when this returns */
    return !t->lost;
}

static void track_closed(struct redis_link *l)
{
    ((struct redis_track *)l->arg)->closed = true;
}

void redis_track_close(struct redis_track *t)
{
    if (t->link.loop == NULL) return;
    redis_link_close(&t->link, track_closed);
    redis_run_until(&t->link, &t->closed);
    map_close(&t->changed);
    *t = (struct redis_track){0};
}
