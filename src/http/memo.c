#include "http/memo.h"

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

void answer_free(struct answer *a)
{
    rows_free(&a->rows);
    *a = (struct answer){0};
}

static void answer_copy(const struct answer *from, struct answer *to)
{
    *to = *from;
    to->rows = (struct rows){0};
    for (size_t i = 0; i < from->rows.n; i++) {
        struct row *row = rows_add(&to->rows, rows_field(&from->rows, i));
        row->stored = from->rows.all[i].stored;
        row->live = from->rows.all[i].live;
    }
}

void memo_init(struct memo *m)
{
    *m = (struct memo){.clock = 0};
    pthread_mutex_init(&m->lock, NULL);
}

static void entry_free(struct memo_entry *e)
{
    heap_free(e->question);
    answer_free(&e->answer);
    *e = (struct memo_entry){0};
}

void memo_close(struct memo *m)
{
    for (size_t i = 0; i < MEMO_QUESTIONS; i++)
        entry_free(&m->entries[i]);
    pthread_mutex_destroy(&m->lock);
}

static struct memo_entry *entry_of(struct memo *m, struct slice question)
{
    for (size_t i = 0; i < MEMO_QUESTIONS; i++) {
        struct memo_entry *e = &m->entries[i];
        if (e->question != NULL && slice_eq(slice_of(e->question, e->question_n), question)) return e;
    }
    return NULL;
}

static struct memo_entry *entry_oldest(struct memo *m)
{
    struct memo_entry *oldest = &m->entries[0];
    for (size_t i = 1; i < MEMO_QUESTIONS; i++)
        if (m->entries[i].used < oldest->used) oldest = &m->entries[i];
    return oldest;
}

void memo_put(struct memo *m, struct slice question, const struct answer *a)
{
    pthread_mutex_lock(&m->lock);
    struct memo_entry *e = entry_of(m, question);
    if (e == NULL) e = entry_oldest(m);
    entry_free(e);
    e->question = heap_strndup(question.p, question.n);
    e->question_n = question.n;
    e->used = ++m->clock;
    answer_copy(a, &e->answer);
    pthread_mutex_unlock(&m->lock);
}

bool memo_get(struct memo *m, struct slice question, struct answer *out)
{
    pthread_mutex_lock(&m->lock);
    struct memo_entry *e = entry_of(m, question);
    if (e != NULL) {
        e->used = ++m->clock;
        answer_copy(&e->answer, out);
    }
    pthread_mutex_unlock(&m->lock);
    return e != NULL;
}
