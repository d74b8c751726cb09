/* http/stream.c - see stream.h. */
#include "http/stream.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/stats.h"

#include <microhttpd.h>
#include <xxhash.h>

#define BLOCK_BYTES 4096
#define MANY_FIELDS 500    /* a hash with this many pending counts as moving without a question ... */
#define MANY_REST_MS 10000 /* ... for this long */

struct watch_state {    /* of one counter; hub_watch's alone */
    uint64_t digest;    /* of what is pending */
    uint64_t moving_ms; /* mono; until then */
    bool seen;
};

struct watch { /* a store */
    struct list link;
    char *store;
    uint32_t users;             /* streams, and hub_watch while it asks */
    struct watch_state *states; /* one a counter */
};

struct stream {
    struct list link;
    struct hub *hub;
    struct MHD_Connection *connection;
    struct watch *watch;              /* NULL: of no store */
    const struct conf_bearer *bearer; /* borrowed; NULL: it needs none */
    bool all, suspended, over;
    struct buf out;
};

void hub_init(struct hub *h, const struct counters *counters, const struct bearers *bearers,
              size_t streams_most, size_t unread_most)
{
    *h = (struct hub){.counters = counters,
                      .bearers = bearers,
                      .streams_most = streams_most,
                      .unread_most = unread_most,
                      .mysql_up = true};
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->streams);
    list_init(&h->watches);
}

void hub_close(struct hub *h)
{
    PRE(list_empty(&h->streams) && list_empty(&h->watches));
    pthread_mutex_destroy(&h->lock);
}

bool hub_empty(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    bool empty = h->streams_n == 0;
    pthread_mutex_unlock(&h->lock);
    return empty;
}

/* --- watches; under the lock --- */

static struct watch *watch_get(struct hub *h, struct slice store)
{
    list_for_each (at, &h->watches) {
        struct watch *w = CONTAINER_OF(at, struct watch, link);
        if (!slice_eq(slice_str(w->store), store)) continue;
        w->users++;
        return w;
    }
    struct watch *w = heap_zalloc(sizeof *w);
    w->store = heap_strndup(store.p, store.n);
    w->states = heap_zalloc((h->counters->n + 1) * sizeof *w->states);
    w->users = 1;
    list_push(&h->watches, &w->link);
    return w;
}

static void watch_put(struct watch *w)
{
    if (--w->users > 0) return;
    list_remove(&w->link);
    heap_free(w->store);
    heap_free(w->states);
    heap_free(w);
}

/* --- streams --- */

static void wake(struct stream *s) /* under the lock */
{
    if (!s->suspended) return;
    s->suspended = false;
    MHD_resume_connection(s->connection);
}

void hub_stop(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    list_for_each (at, &h->streams)
        wake(CONTAINER_OF(at, struct stream, link));
    pthread_mutex_unlock(&h->lock);
}

/* Also drops what waits to be read. */
static void bearer_check(struct stream *s) /* under the lock */
{
    if (s->over || s->bearer == NULL || bearers_hold(s->hub->bearers, s->bearer)) return;
    s->over = true;
    buf_reset(&s->out);
    wake(s);
}

void hub_bearers(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    list_for_each (at, &h->streams)
        bearer_check(CONTAINER_OF(at, struct stream, link));
    pthread_mutex_unlock(&h->lock);
}

/* Half of them are for those who see all stores; of the other half a token may have half of what the others leave. */
static bool stream_fits(struct hub *h, bool all, const struct conf_bearer *bearer) /* under the lock */
{
    size_t own = 0, bound = 0, most = h->streams_most / 2;
    list_for_each (at, &h->streams) {
        const struct stream *s = CONTAINER_OF(at, struct stream, link);
        bound += !s->all;
        own += !s->all && s->bearer == bearer;
    }
    if (all) return h->streams_n < h->streams_most;
    return h->streams_n < h->streams_most && bound < most && (own == 0 || own < (most - (bound - own)) / 2);
}

/* A token may be replaced between its check and this call, so it is checked again: here, or by hub_bearers if the
 * stream is on the list by then. */
struct stream *stream_open(struct hub *h, bool all, struct slice store, const struct conf_bearer *bearer)
{
    struct stream *s = NULL;
    pthread_mutex_lock(&h->lock);
    if (!h->stopping && stream_fits(h, all, bearer)) {
        s = heap_zalloc(sizeof *s);
        s->hub = h;
        s->all = all;
        s->bearer = bearer;
        s->watch = store.p == NULL ? NULL : watch_get(h, store);
        BUF_LIT(&s->out, "retry: 1000\n\n");
        list_push(&h->streams, &s->link);
        h->streams_n++;
        bearer_check(s);
    }
    pthread_mutex_unlock(&h->lock);
    return s;
}

/* libmicrohttpd's content reader. */
static ssize_t stream_read(void *arg, uint64_t at, char *to, size_t most)
{
    struct stream *s = arg;
    (void)at;
    pthread_mutex_lock(&s->hub->lock);
    size_t n = s->out.n < most ? s->out.n : most;
    bool over = s->hub->stopping || s->over;
    if (n > 0) {
        memcpy(to, s->out.p, n);
        buf_drop(&s->out, n);
    } else if (!over) {
        s->suspended = true;
        MHD_suspend_connection(s->connection);
    }
    pthread_mutex_unlock(&s->hub->lock);
    return n > 0 || !over ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void stream_free(void *arg)
{
    struct stream *s = arg;
    struct hub *h = s->hub;
    pthread_mutex_lock(&h->lock);
    list_remove(&s->link);
    h->streams_n--;
    if (s->watch != NULL) watch_put(s->watch);
    pthread_mutex_unlock(&h->lock);
    buf_free(&s->out);
    heap_free(s);
}

struct MHD_Response *stream_response(struct stream *s, struct MHD_Connection *connection)
{
    s->connection = connection;
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, s, stream_free);
    if (r == NULL) stream_free(s);
    return r;
}

static void event_put(struct stream *s, const char *event, struct slice data) /* under the lock */
{
    if (s->over || s->out.n > s->hub->unread_most) return;
    if (event == NULL) {
        BUF_LIT(&s->out, ":\n\n");
    } else {
        buf_printf(&s->out, "event: %s\ndata: ", event);
        buf_put_slice(&s->out, data);
        BUF_LIT(&s->out, "\n\n");
    }
    wake(s);
}

void hub_tell(struct hub *h, struct slice status)
{
    pthread_mutex_lock(&h->lock);
    list_for_each (at, &h->streams) {
        struct stream *s = CONTAINER_OF(at, struct stream, link);
        event_put(s, s->all ? "status" : NULL, status);
    }
    pthread_mutex_unlock(&h->lock);
}

/* --- do figures of a store move? --- */

/* The same for the same fields and counts in any order. */
static uint64_t digest_of(const redisReply *reply)
{
    uint64_t sum = reply->elements;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *count = reply->element[i + 1];
        sum += XXH3_64bits_withSeed(count->str, count->len, XXH3_64bits(field->str, field->len));
    }
    return sum;
}

/* What is pending, as one number. False: it could not be read. */
static bool digest_read(struct worker *w, struct slice key, uint64_t *digest, size_t *fields)
{
    struct slice words[] = {SLICE("CTR.PENDING"), key};
    redisReply *reply = door_ask(&w->door, words, 2);
    bool told = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    if (told) {
        *digest = digest_of(reply);
        *fields = reply->elements / 2;
    }
    freeReplyObject(reply);
    return told;
}

/* The first time counts as moved: hits since its page asked for the figures are in it. */
static bool counter_moved(struct worker *w, const struct counter *c, struct slice store,
                          struct watch_state *s)
{
    struct buf key = {0};
    uint64_t digest = s->digest, now_ms = mono_ms();
    size_t fields = 0;
    if (now_ms < s->moving_ms) return true;
    bool told = counter_key(c, store, &key) && digest_read(w, buf_slice(&key), &digest, &fields);
    buf_free(&key);
    bool moved = told && (!s->seen || digest != s->digest);
    if (told && fields > MANY_FIELDS) s->moving_ms = now_ms + MANY_REST_MS;
    s->seen = s->seen || told;
    s->digest = digest;
    return moved;
}

/* {"store":...,"time":...,"counters":[...]} of those that moved. False: none did. */
static bool store_read(struct hub *h, struct worker *w, struct watch *watch, bool all, struct buf *out)
{
    struct json j = {.out = out};
    bool any = false;
    json_open(&j, NULL, '{');
    json_text(&j, "store", watch->store);
    json_int(&j, "time", wall_ms() / 1000);
    json_open(&j, "counters", '[');
    for (size_t i = 0; i < h->counters->n; i++) {
        const struct counter *c = &h->counters->all[i];
        if (!c->key.has_store) continue;
        bool moved = counter_moved(w, c, slice_str(watch->store), &watch->states[i]) || all;
        if (moved) json_slice(&j, NULL, c->name);
        any = any || moved;
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return any;
}

static void store_tell(struct hub *h, struct watch *watch, struct slice moved)
{
    pthread_mutex_lock(&h->lock);
    list_for_each (at, &h->streams) {
        struct stream *s = CONTAINER_OF(at, struct stream, link);
        if (s->watch == watch) event_put(s, "store", moved);
    }
    pthread_mutex_unlock(&h->lock);
}

/* All watches, each kept from going. */
static struct watch **watches_take(struct hub *h, size_t *n)
{
    *n = 0;
    pthread_mutex_lock(&h->lock);
    struct watch **all = heap_alloc((h->streams_n + 1) * sizeof(struct watch *));
    list_for_each (at, &h->watches) {
        all[*n] = CONTAINER_OF(at, struct watch, link);
        all[(*n)++]->users++;
    }
    pthread_mutex_unlock(&h->lock);
    return all;
}

/* A hit may be claimed before it is ever seen as pending, and this thread does not know which stores a batch is of. So
 * after any claim or merge every watched store may have moved. */
void hub_watch(struct hub *h, struct worker *w, bool mysql_up)
{
    size_t n;
    int64_t batches = STAT_GET(claims) + STAT_GET(batches_done);
    bool all_moved = mysql_up != h->mysql_up || batches != h->batches;
    struct watch **all = watches_take(h, &n);
    for (size_t i = 0; i < n; i++) {
        struct buf moved = {0};
        if (store_read(h, w, all[i], all_moved, &moved)) store_tell(h, all[i], buf_slice(&moved));
        buf_free(&moved);
    }
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n; i++)
        watch_put(all[i]);
    pthread_mutex_unlock(&h->lock);
    heap_free(all);
    h->mysql_up = mysql_up;
    h->batches = batches;
}
