/* redis/query_windows.c - how many events fell into each window, in pieces of some hundred windows. Closed windows are
 * in the hash statcache:<type>, field <name>:<start>:<window>. Its field <name>:windows has their sizes, from which the
 * script that adds a late event finds what to drop. One script counts and caches a window, so no event falls between
 * the two. Not cached: the open window; a window some of whose events the cleaner may have deleted; a size beyond the
 * first SIZES_MAX, since each size costs every late event a look; windows without events, so that
 * a read stores no more than the events do. */
#include "redis/query_in.h"
#include "series/names.h"

#define WINDOWS_A_PIECE 100
#define COUNTED_A_PIECE 25 /* of them, those that are not in the cache */
#define SIZES_MAX 32

static uint32_t windows_size(const struct redis_query *r)
{
    return r->left < WINDOWS_A_PIECE ? r->left : WINDOWS_A_PIECE;
}

static void windows_ask(struct redis_query *r);

static bool windows_file(struct redis_query *r, const struct redis_answer *reply)
{
    int64_t count;
    if (!answer_is(reply, REDIS_ARRAY) || reply->n < 2 || reply->n > 1 + windows_size(r)) return false;
    if (!answer_integer(&reply->elements[0], &r->at)) return false;
    for (size_t i = 1; i < reply->n; i++) {
        if (!answer_integer(&reply->elements[i], &count)) return false;
        query_put_number(&r->answer, count);
    }
    r->at += (int64_t)(reply->n - 1) * r->query->window_s;
    r->left -= (uint32_t)(reply->n - 1);
    r->begun = true;
    return true;
}

static void windows_done(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!windows_file(r, reply))
        query_fail(r, reply);
    else if (r->left == 0)
        query_finish(r);
    else
        query_more(r, windows_ask);
}

static void windows_ask(struct redis_query *r)
{
    const struct query *q = r->query;
    struct buf *out = redis_link_begin(r->link);
    request_eval(out, lua_query_windows, 2, 8);
    name_events(query_key(r), q->name, q->type);
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    name_windows(query_key(r), q->type);
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    request_slice(out, q->name);
    request_int(out, q->window_s);
    request_int(out, windows_size(r));
    request_int(out, q->windows_n);
    if (r->begun)
        request_int(out, r->at);
    else
        REQUEST_LIT(out, "");
    request_int(out, r->limits->events_keep_s);
    request_int(out, SIZES_MAX);
    request_int(out, COUNTED_A_PIECE);
    redis_link_ask(r->link, 1, windows_done, r);
}

void query_windows(struct redis_query *r)
{
    PRE(r->query->windows_n > 0 && r->query->windows_n <= r->limits->read.most && r->query->window_s > 0);
    r->left = r->query->windows_n;
    windows_ask(r);
}
