/* redis/read_series.c - the samples of a series, as Redis in Action's get_counter reads them: the whole hash, sorted by
 * time. And the names of all series: known: has only scores of 0, so it is in the order of its members' bytes, and read
 * in pages by ZRANGEBYLEX; a name that stands all the while is in the answer once. */
#include "base/heap.h"
#include "base/num.h"
#include "redis/read_in.h"
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
static const struct redis_reply *samples_sort(const struct read_query *q, const struct redis_reply *reply,
                                              struct sample *all, size_t *n)
{
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        struct sample s;
        if (!reply_integer(&reply->elements[i], &s.slot)) return &reply->elements[i];
        if (!reply_integer(&reply->elements[i + 1], &s.n)) return &reply->elements[i + 1];
        if (s.slot >= q->from && s.slot <= q->to) all[(*n)++] = s;
    }
    qsort(all, *n, sizeof *all, sample_cmp);
    return NULL;
}

static void on_samples(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    (void)l, (void)at;
    if (!reply_is(reply, REDIS_ARRAY)) {
        read_fail(r, reply);
        return;
    }
    struct sample *all = heap_alloc((reply->n / 2 + 1) * sizeof *all);
    size_t n = 0;
    const struct redis_reply *odd = samples_sort(r->query, reply, all, &n);
    for (size_t i = 0; odd == NULL && i < n; i++) {
        read_put_number(&r->answer, all[i].slot);
        read_put_number(&r->answer, all[i].n);
    }
    heap_free(all);
    if (odd == NULL)
        read_finish(r);
    else
        read_refuse_key(r, buf_slice(&r->key), odd->str);
}

void read_samples(struct redis_read *r)
{
    struct buf *out = redis_link_begin(r->link);
    name_samples(read_key(r), r->query->precision_s, r->query->name);
    resp_array(out, 2);
    RESP_LIT(out, "HGETALL");
    resp_slice(out, buf_slice(&r->key));
    redis_link_expect(r->link, 1, on_samples, r);
    redis_link_flush(r->link);
}

/* --- names --- */

static bool is_behind(struct slice s, struct slice last)
{
    size_t n = s.n < last.n ? s.n : last.n;
    int order = n == 0 ? 0 : memcmp(s.p, last.p, n);
    return order > 0 || (order == 0 && s.n > last.n);
}

/* False: a name is not behind the one before it, so the scores cannot all be 0. */
static bool page_file(struct redis_read *r, const struct redis_reply *page)
{
    for (size_t i = 0; i < page->n; i++) {
        struct slice name = page->elements[i].str;
        if (r->begun && !is_behind(name, buf_slice(&r->last))) return false;
        r->begun = true;
        buf_reset(&r->last);
        buf_put_slice(&r->last, name);
        read_put_text(&r->answer, name);
    }
    return true;
}

static void on_page(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    (void)l, (void)at;
    if (!reply_is(reply, REDIS_ARRAY))
        read_fail(r, reply);
    else if (!page_file(r, reply))
        read_refuse(r, "ERR a name in '" KEY_KNOWN "' has a score other than 0; ZADD it again with 0");
    else if (reply->n < NAMES_A_PAGE)
        read_finish(r);
    else if (r->answer.texts.n > r->limits->read.texts_max)
        read_refuse(
            r,
            "ERR there are more than %zu series, too many for one answer (limits.read_bytes); read them "
            "in Redis with ZSCAN " KEY_KNOWN,
            r->answer.n);
    else
        read_names(r);
}

void read_names(struct redis_read *r)
{
    struct buf *out = redis_link_begin(r->link);
    struct buf *from = read_key(r);
    buf_put_char(from, r->begun ? '(' : '-');
    buf_put_slice(from, buf_slice(&r->last));
    resp_array(out, 7);
    RESP_LIT(out, "ZRANGEBYLEX");
    RESP_LIT(out, KEY_KNOWN);
    resp_slice(out, buf_slice(from));
    RESP_LIT(out, "+");
    RESP_LIT(out, "LIMIT");
    RESP_LIT(out, "0");
    resp_int(out, NAMES_A_PAGE);
    redis_link_expect(r->link, 1, on_page, r);
    redis_link_flush(r->link);
}
