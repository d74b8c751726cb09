/* series/query.c - see read.h. */
#include "series/query.h"

#include "base/heap.h"
#include "base/log.h"

static struct query_value *value_add(struct query_answer *a)
{
    if (a->n == a->cap) {
        a->cap = a->cap == 0 ? 64 : 2 * a->cap;
        a->values = heap_realloc(a->values, a->cap * sizeof *a->values);
    }
    return &a->values[a->n++];
}

void query_put_number(struct query_answer *a, int64_t v)
{
    *value_add(a) = (struct query_value){.number = v};
}

void query_put_text(struct query_answer *a, struct slice text)
{
    PRE(text.n <= UINT32_MAX);
    *value_add(a) = (struct query_value){.is_text = true, .text_n = (uint32_t)text.n, .text_at = a->texts.n};
    buf_put_slice(&a->texts, text);
}

void query_answer_free(struct query_answer *a)
{
    heap_free(a->values);
    buf_free(&a->texts);
    *a = (struct query_answer){0};
}
