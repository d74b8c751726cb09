/* http/status_cache.c - see status_cache.h. */
#include "http/status_cache.h"

#include "base/clock.h"
#include "base/heap.h"

#define BOOKS_EVERY_MS 30000
#define REST 10 /* times as long as the probe took */

void status_cache_init(struct status_cache *c, const struct source *where)
{
    *c = (struct status_cache){.where = where};
    pthread_mutex_init(&c->lock, NULL);
    c->last.differences = heap_zalloc((where->counters->n + 1) * sizeof *c->last.differences);
}

void status_cache_close(struct status_cache *c)
{
    heap_free(c->last.differences);
    heap_free(c->last.lanes);
    pthread_mutex_destroy(&c->lock);
}

static struct figure figure_of(bool is, int64_t value)
{
    return (struct figure){is, is ? value : 0};
}

static int64_t oldest_ms(const struct status *s)
{
    int64_t ms = s->redis.dirty > 0 && s->redis.oldest_ms.known ? s->redis.oldest_ms.value : 0;
    for (size_t i = 0; i < s->batches_n; i++)
        if (!status_is_merged(&s->batches[i]) && s->batches[i].age_ms > ms) ms = s->batches[i].age_ms;
    return ms;
}

static struct figure rejects_of(const struct status *s)
{
    struct figure sum = {true, 0};
    for (size_t i = 0; i < s->counters_n; i++) {
        sum.known = sum.known && s->counters[i].rejects.known;
        sum.value += s->counters[i].rejects.value;
    }
    return figure_of(sum.known, sum.value);
}

/* sums.all begins with the configured counters, in their order. */
static void books_file(const struct status *s, struct status_figures *out)
{
    out->balanced = figure_of(s->books.known, s->books.unbalanced == 0);
    for (size_t i = 0; i < s->counters_n; i++) {
        out->differences[i] = figure_of(s->books.known, (int64_t)sum_difference(&s->books.sums.all[i]));
    }
}

static int64_t behind_bytes(const struct status_redis *r)
{
    int64_t most = 0;
    for (size_t i = 0; i < r->replica_n; i++)
        if (r->replica[i].behind_bytes > most) most = r->replica[i].behind_bytes;
    return most;
}

static void lanes_file(const struct status_redis *r, struct status_figures *out)
{
    if (r->lane == NULL) return;
    if (out->lanes == NULL) out->lanes = heap_zalloc(r->lanes * sizeof *out->lanes);
    out->lanes_n = r->lanes;
    for (uint32_t i = 0; i < r->lanes; i++)
        out->lanes[i] = (struct lane_figures){
            .up = r->lane[i].up, .held = r->lane[i].held, .oldest_ms = r->lane[i].oldest_ms};
}

static void probe_now(struct status_cache *c, struct redisContext *service)
{
    struct status s;
    uint64_t began_ms = mono_ms();
    bool books = c->books_at_ms == 0 || began_ms - c->books_at_ms >= BOOKS_EVERY_MS;
    struct status_how how = {.service = service, .books = books, .brief = true};
    status_probe(c->where, &how, &s);
    c->last.dirty = figure_of(s.redis.up, s.redis.dirty);
    c->last.oldest_ms = figure_of(s.redis.up, oldest_ms(&s));
    c->last.batches = figure_of(s.redis.up, (int64_t)s.batches_n);
    c->last.replicas = figure_of(s.redis.up, s.redis.replicas);
    c->last.behind_bytes = figure_of(s.redis.up && s.redis.replica_n > 0, behind_bytes(&s.redis));
    c->last.moved_s = figure_of(s.service.redis_moved_ms.known, s.service.redis_moved_ms.value / 1000);
    c->last.sentinels = figure_of(s.service.sentinels > 0, s.service.sentinels);
    c->last.sentinels_up = figure_of(s.service.sentinels > 0, s.service.sentinels_up);
    c->last.rejects = rejects_of(&s);
    c->last.refusal_n = s.service.up ? s.service.refusal_n : 0;
    memcpy(c->last.refusal, s.service.refusal, sizeof c->last.refusal);
    lanes_file(&s.redis, &c->last);
    if (books) books_file(&s, &c->last);
    if (books) c->books_at_ms = began_ms;
    status_close(&s);
    c->at_ms = mono_ms();
    c->took_ms = c->at_ms - began_ms;
}

void status_cache_use(struct status_cache *c, struct redisContext *service, uint32_t age_ms,
                      void (*use)(void *arg, const struct status_figures *seen), void *arg)
{
    pthread_mutex_lock(&c->lock);
    uint64_t good_ms = age_ms > REST * c->took_ms ? age_ms : REST * c->took_ms;
    if (c->at_ms == 0 || mono_ms() - c->at_ms >= good_ms) probe_now(c, service);
    use(arg, &c->last);
    pthread_mutex_unlock(&c->lock);
}
