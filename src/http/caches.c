/* http/caches.c - see caches.h. */
#include "http/caches.h"
#include "base/clock.h"
#include "base/heap.h"

struct row *rows_add(struct rows *r, struct slice field)
{
    HEAP_GROW(r->all, r->n, r->cap, 32);
    struct row *row = &r->all[r->n++];
    *row = (struct row){.at = r->bytes.n, .n = field.n};
    buf_put_slice(&r->bytes, field);
    return row;
}

struct row *rows_find(struct rows *r, struct slice field)
{
    for (size_t i = 0; i < r->n; i++)
        if (slice_eq(rows_field(r, i), field)) return &r->all[i];
    return NULL;
}

void rows_free(struct rows *r)
{
    heap_free(r->all);
    buf_free(&r->bytes);
    *r = (struct rows){0};
}

void answer_free(struct rows_answer *a)
{
    rows_free(&a->rows);
    *a = (struct rows_answer){0};
}

static void answer_copy(const struct rows_answer *from, struct rows_answer *to)
{
    *to = *from;
    to->rows = (struct rows){0};
    for (size_t i = 0; i < from->rows.n; i++) {
        struct row *row = rows_add(&to->rows, rows_field(&from->rows, i));
        row->stored = from->rows.all[i].stored;
        row->live = from->rows.all[i].live;
    }
}

void answer_cache_init(struct answer_cache *c)
{
    *c = (struct answer_cache){.clock = 0};
    pthread_mutex_init(&c->lock, NULL);
}

static void entry_free(struct cached_answer *e)
{
    heap_free(e->question);
    answer_free(&e->answer);
    *e = (struct cached_answer){0};
}

void answer_cache_close(struct answer_cache *c)
{
    for (size_t i = 0; i < CACHED_ANSWERS_MAX; i++)
        entry_free(&c->entries[i]);
    pthread_mutex_destroy(&c->lock);
}

static struct cached_answer *answer_of(struct answer_cache *c, struct slice question)
{
    for (size_t i = 0; i < CACHED_ANSWERS_MAX; i++) {
        struct cached_answer *e = &c->entries[i];
        if (e->question != NULL && slice_eq(slice_of(e->question, e->question_n), question)) return e;
    }
    return NULL;
}

void answer_cache_put(struct answer_cache *c, struct slice question, const struct rows_answer *a)
{
    struct cached_answer *oldest = &c->entries[0];
    pthread_mutex_lock(&c->lock);
    for (size_t i = 1; i < CACHED_ANSWERS_MAX; i++)
        if (c->entries[i].used < oldest->used) oldest = &c->entries[i];
    struct cached_answer *e = answer_of(c, question);
    if (e == NULL) e = oldest;
    entry_free(e);
    e->question = heap_strndup(question.p, question.n);
    e->question_n = question.n;
    e->used = ++c->clock;
    answer_copy(a, &e->answer);
    pthread_mutex_unlock(&c->lock);
}

bool answer_cache_get(struct answer_cache *c, struct slice question, struct rows_answer *out)
{
    pthread_mutex_lock(&c->lock);
    struct cached_answer *e = answer_of(c, question);
    if (e != NULL) {
        e->used = ++c->clock;
        answer_copy(&e->answer, out);
    }
    pthread_mutex_unlock(&c->lock);
    return e != NULL;
}

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

static void probe_now(struct status_cache *c, struct redisContext *service, bool books)
{
    struct status s;
    uint64_t began_ms = mono_ms();
    bool adds = books && (c->books_at_ms == 0 || began_ms - c->books_at_ms >= BOOKS_EVERY_MS);
    struct status_how how = {.service = service, .books = adds, .brief = true};
    status_probe(c->where, &how, &s);
    c->last.dirty = figure_of(s.redis.up, s.redis.dirty);
    c->last.oldest_ms = figure_of(s.redis.up, oldest_ms(&s));
    c->last.batches = figure_of(s.redis.up, (int64_t)s.batches_n);
    c->last.replicas = figure_of(s.redis.up, s.redis.replicas);
    c->last.behind_bytes = figure_of(s.redis.up && s.redis.replica_n > 0, behind_bytes(&s.redis));
    c->last.memory_bytes = figure_of(s.redis.up, s.redis.memory_bytes);
    c->last.memory_most_bytes = figure_of(s.redis.up, s.redis.memory_most_bytes);
    c->last.moved_s = figure_of(s.service.redis_moved_ms.known, s.service.redis_moved_ms.value / 1000);
    c->last.refusal_n = s.service.up ? s.service.refusal_n : 0;
    memcpy(c->last.refusal, s.service.refusal, sizeof c->last.refusal);
    c->last.sentinels = figure_of(s.service.sentinels > 0, s.service.sentinels);
    c->last.sentinels_up = figure_of(s.service.sentinels > 0, s.service.sentinels_up);
    struct figure sum = {true, 0};
    for (size_t i = 0; i < s.counters_n; i++) {
        sum.known = sum.known && s.counters[i].rejects.known;
        sum.value += s.counters[i].rejects.value;
    }
    c->last.rejects = figure_of(sum.known, sum.value);
    lanes_file(&s.redis, &c->last);
    /* sums.all begins with the configured counters, in their order. */
    if (adds) {
        c->last.balanced = figure_of(s.books.known, s.books.unbalanced == 0);
        for (size_t i = 0; i < s.counters_n; i++) {
            c->last.differences[i] = figure_of(s.books.known, (int64_t)sum_difference(&s.books.sums.all[i]));
        }
    }
    if (adds) c->books_at_ms = began_ms;
    status_close(&s);
    if (!books) return; /* a point of the last hour: who asks next sees what is then */
    c->at_ms = mono_ms();
    c->took_ms = c->at_ms - began_ms;
}

void status_cache_use(struct status_cache *c, struct redisContext *service, uint32_t age_ms, bool books,
                      void (*use)(void *arg, const struct status_figures *seen), void *arg)
{
    pthread_mutex_lock(&c->lock);
    uint64_t good_ms = age_ms > REST * c->took_ms ? age_ms : REST * c->took_ms;
    if (c->at_ms == 0 || mono_ms() - c->at_ms >= good_ms) probe_now(c, service, books);
    use(arg, &c->last);
    pthread_mutex_unlock(&c->lock);
}
