#include "http/look.h"

#include "base/clock.h"
#include "base/heap.h"

#define BOOKS_EVERY_MS 30000
#define REST 10 /* times as long as the look took */

void look_init(struct look *l, const struct source *where)
{
    *l = (struct look){.where = where};
    pthread_mutex_init(&l->lock, NULL);
    l->last.differences = heap_zalloc((where->counters->n + 1) * sizeof *l->last.differences);
}

void look_close(struct look *l)
{
    heap_free(l->last.differences);
    pthread_mutex_destroy(&l->lock);
}

static struct figure known(bool is, int64_t value)
{
    return (struct figure){is, is ? value : 0};
}

static int64_t oldest_ms(const struct status *s)
{
    int64_t ms = s->redis.dirty > 0 && s->redis.oldest_ms.known ? s->redis.oldest_ms.value : 0;
    for (size_t i = 0; i < s->batches_n; i++)
        if (s->batches[i].age_ms > ms) ms = s->batches[i].age_ms;
    return ms;
}

static struct figure rejects_of(const struct status *s)
{
    struct figure sum = {true, 0};
    for (size_t i = 0; i < s->counters_n; i++) {
        sum.known = sum.known && s->counters[i].rejects.known;
        sum.value += s->counters[i].rejects.value;
    }
    return known(sum.known, sum.value);
}

static int64_t bounded(sum_t v)
{
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

/* sums.all begins with the configured counters, in their order. */
static void books_file(const struct status *s, struct looked *out)
{
    out->balanced = known(s->books.known, s->books.unbalanced == 0);
    for (size_t i = 0; i < s->counters_n; i++)
        out->differences[i] = known(s->books.known, bounded(sum_difference(&s->books.sums.all[i])));
}

static void look_now(struct look *l, struct redisContext *service)
{
    struct status s;
    uint64_t began_ms = mono_ms();
    bool books = l->books_at_ms == 0 || began_ms - l->books_at_ms >= BOOKS_EVERY_MS;
    struct status_how how = {.service = service, .books = books, .brief = true};
    status_look(l->where, &how, &s);
    l->last.dirty = known(s.redis.up, s.redis.dirty);
    l->last.oldest_ms = known(s.redis.up, oldest_ms(&s));
    l->last.batches = known(s.redis.up, (int64_t)s.batches_n);
    l->last.rejects = rejects_of(&s);
    if (books) books_file(&s, &l->last);
    if (books) l->books_at_ms = began_ms;
    status_close(&s);
    l->at_ms = mono_ms();
    l->took_ms = l->at_ms - began_ms;
}

void look_use(struct look *l, struct redisContext *service, uint32_t age_ms,
              void (*use)(void *arg, const struct looked *seen), void *arg)
{
    pthread_mutex_lock(&l->lock);
    uint64_t good_ms = age_ms > REST * l->took_ms ? age_ms : REST * l->took_ms;
    if (l->at_ms == 0 || mono_ms() - l->at_ms >= good_ms) look_now(l, service);
    use(arg, &l->last);
    pthread_mutex_unlock(&l->lock);
}
