/* series/read.c - see read.h. */
#include "series/read.h"

#include "base/check.h"
#include "base/heap.h"

static struct read_value *value_add(struct read_answer *a)
{
    if (a->n == a->cap) {
        a->cap = a->cap == 0 ? 64 : 2 * a->cap;
        a->values = heap_realloc(a->values, a->cap * sizeof *a->values);
    }
    return &a->values[a->n++];
}

void read_put_number(struct read_answer *a, int64_t v)
{
    *value_add(a) = (struct read_value){.number = v};
}

void read_put_text(struct read_answer *a, struct slice text)
{
    PRE(text.n <= UINT32_MAX);
    *value_add(a) = (struct read_value){.is_text = true, .text_n = (uint32_t)text.n, .text_at = a->texts.n};
    buf_put_slice(&a->texts, text);
}

void read_answer_free(struct read_answer *a)
{
    heap_free(a->values);
    buf_free(&a->texts);
    *a = (struct read_answer){0};
}
