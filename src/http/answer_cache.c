/* http/answer_cache.c - see answer_cache.h. */
#include "http/answer_cache.h"

#include "base/heap.h"

struct row *rows_add(struct rows *r, struct slice field)
{
    if (r->n == r->cap) {
        r->cap = r->cap == 0 ? 32 : 2 * r->cap;
        r->all = heap_realloc(r->all, r->cap * sizeof *r->all);
    }
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

static struct cached_answer *entry_of(struct answer_cache *c, struct slice question)
{
    for (size_t i = 0; i < CACHED_ANSWERS_MAX; i++) {
        struct cached_answer *e = &c->entries[i];
        if (e->question != NULL && slice_eq(slice_of(e->question, e->question_n), question)) return e;
    }
    return NULL;
}

static struct cached_answer *entry_oldest(struct answer_cache *c)
{
    struct cached_answer *oldest = &c->entries[0];
    for (size_t i = 1; i < CACHED_ANSWERS_MAX; i++)
        if (c->entries[i].used < oldest->used) oldest = &c->entries[i];
    return oldest;
}

void answer_cache_put(struct answer_cache *c, struct slice question, const struct rows_answer *a)
{
    pthread_mutex_lock(&c->lock);
    struct cached_answer *e = entry_of(c, question);
    if (e == NULL) e = entry_oldest(c);
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
    struct cached_answer *e = entry_of(c, question);
    if (e != NULL) {
        e->used = ++c->clock;
        answer_copy(&e->answer, out);
    }
    pthread_mutex_unlock(&c->lock);
    return e != NULL;
}
