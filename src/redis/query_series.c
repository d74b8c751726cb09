/* redis/query_series.c - the samples of a series, as Redis in Action's get_counter reads them: the whole hash, sorted
 * by time. Also the names of all series: known: has only scores of 0, so it is in the order of its members' bytes, and
 * ZRANGEBYLEX reads it in pages. A name that exists all the time is in the answer once. */
#include "base/heap.h"
#include "base/slice.h"
#include "redis/query_in.h"
#include "series/names.h"
#include <stdlib.h>

#define NAMES_A_PAGE 1000

struct sample {
    int64_t slot, n;
};

static int sample_cmp(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* The first text that is no integer, NULL: all are. */
static const struct redis_answer *samples_sort(const struct query *q, const struct redis_answer *reply,
                                               struct sample *all, size_t *n)
{
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        struct sample s;
        if (!answer_integer(&reply->elements[i], &s.slot)) return &reply->elements[i];
        if (!answer_integer(&reply->elements[i + 1], &s.n)) return &reply->elements[i + 1];
        if (s.slot >= q->from && s.slot <= q->to) all[(*n)++] = s;
    }
    qsort(all, *n, sizeof *all, sample_cmp);
    return NULL;
}

static void on_samples(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY)) {
        query_fail(r, reply);
        return;
    }
    struct sample *all = heap_alloc((reply->n / 2 + 1) * sizeof *all);
    size_t n = 0;
    const struct redis_answer *odd = samples_sort(r->query, reply, all, &n);
    for (size_t i = 0; odd == NULL && i < n; i++) {
        query_put_number(&r->answer, all[i].slot);
        query_put_number(&r->answer, all[i].n);
    }
    heap_free(all);
    if (odd == NULL)
        query_finish(r);
    else
        query_refuse_key(r, buf_slice(&r->key), odd->str);
}

void query_samples(struct redis_query *r)
{
    struct buf *out = redis_link_begin(r->link);
    name_samples(query_key(r), r->query->precision_s, r->query->name);
    request_array(out, 2);
    REQUEST_LIT(out, "HGETALL");
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    redis_link_ask(r->link, 1, on_samples, r);
}

/* --- names --- */

static bool is_behind(struct slice s, struct slice last)
{
    size_t n = s.n < last.n ? s.n : last.n;
    int order = n == 0 ? 0 : memcmp(s.p, last.p, n);
    return order > 0 || (order == 0 && s.n > last.n);
}

/* False: a name does not sort after the previous one, so the scores cannot all be 0. */
static bool page_file(struct redis_query *r, const struct redis_answer *page)
{
    for (size_t i = 0; i < page->n; i++) {
        struct slice name = page->elements[i].str;
        if (r->begun && !is_behind(name, buf_slice(&r->last))) return false;
        r->begun = true;
        buf_reset(&r->last);
        buf_put_slice(&r->last, name);
        query_put_text(&r->answer, name);
    }
    return true;
}

static void on_page(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    (void)l, (void)at;
    if (!answer_is(reply, REDIS_ARRAY))
        query_fail(r, reply);
    else if (!page_file(r, reply))
        query_refuse(r, "ERR a name in '" KEY_KNOWN "' has a score other than 0; ZADD it again with 0");
    else if (reply->n < NAMES_A_PAGE)
        query_finish(r);
    else if (r->answer.texts.n > r->limits->read.texts_max)
        query_refuse(r,
                     "ERR there are more than %zu series, too many for one answer (limits.memory); read them "
                     "in Redis with ZSCAN " KEY_KNOWN,
                     r->answer.n);
    else
        query_more(r, query_names);
}

void query_names(struct redis_query *r)
{
    struct buf *out = redis_link_begin(r->link);
    struct buf *from = query_key(r);
    buf_put_char(from, r->begun ? '(' : '-');
    buf_put_slice(from, buf_slice(&r->last));
    request_array(out, 7);
    REQUEST_LIT(out, "ZRANGEBYLEX");
    REQUEST_KEY(out, redis_tag(r->link), KEY_KNOWN);
    request_slice(out, buf_slice(from));
    REQUEST_LIT(out, "+");
    REQUEST_LIT(out, "LIMIT");
    REQUEST_LIT(out, "0");
    request_int(out, NAMES_A_PAGE);
    redis_link_ask(r->link, 1, on_page, r);
}
