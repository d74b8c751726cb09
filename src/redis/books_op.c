/* redis/books_op.c - scripts that only read; flags=no-writes lets them run when Redis or its disk is full. */
#include "redis/books_op.h"
#include "base/slice.h"
#include "redis/lua.h"
#include "redis/request.h"
#include "series/counter.h"
#include <stdio.h>

/* Our scripts' replies have a known shape; a reply of another shape is not read further. */
static bool is_pair(const struct redis_answer *r)
{
    return answer_is_array(r, 2) && r->elements[1].type == REDIS_ARRAY;
}

static void pending_tell(struct redis_books *b, const struct redis_answer *hash)
{
    const struct redis_answer *list = &hash->elements[1];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        b->pending(b->arg, hash->elements[0].str, list->elements[i].str, list->elements[i + 1].str);
}

static void claimed_tell(struct redis_books *b, const struct batch_id *id, const struct redis_answer *hash)
{
    const struct redis_answer *list = &hash->elements[1];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        b->claimed(b->arg, id, hash->elements[0].str, list->elements[i].str, list->elements[i + 1].str);
}

static bool books_batch_tell(struct redis_books *b, const struct redis_answer *r)
{
    struct batch_id id;
    int64_t gen = 0;
    if (!answer_is_array(r, 4) || !batch_id_read(r->elements[0].str, &id)) return false;
    if (!answer_integer(&r->elements[2], &gen) || r->elements[3].type != REDIS_ARRAY) return false;
    if (b->batch != NULL) b->batch(b->arg, &id, r->elements[1].str, gen);
    for (size_t i = 0; i < r->elements[3].n; i++) {
        if (!is_pair(&r->elements[3].elements[i])) return false;
        claimed_tell(b, &id, &r->elements[3].elements[i]);
    }
    return true;
}

static bool books_file(struct redis_books *b, const struct redis_answer *r)
{
    int64_t dirty;
    if (!answer_is(r, REDIS_ARRAY) || r->n < 2) return false;
    if (!answer_integer(&r->elements[0], &b->gen) || !answer_integer(&r->elements[1], &dirty)) return false;
    b->dirty = (uint64_t)dirty;
    b->too_many = r->n == 2;
    if (b->too_many) return true;
    for (size_t i = 2; i < 5; i++)
        if (r->n != 5 || r->elements[i].type != REDIS_ARRAY) return false;
    const struct redis_answer *accepted = &r->elements[2];
    for (size_t i = 0; b->accepted != NULL && i + 1 < accepted->n; i += 2)
        b->accepted(b->arg, accepted->elements[i].str, accepted->elements[i + 1].str);
    for (size_t i = 0; i < r->elements[3].n; i++) {
        if (!is_pair(&r->elements[3].elements[i])) return false;
        pending_tell(b, &r->elements[3].elements[i]);
    }
    for (size_t i = 0; i < r->elements[4].n; i++)
        if (!books_batch_tell(b, &r->elements[4].elements[i])) return false;
    return true;
}

static void books_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_books *b = arg;
    (void)l, (void)at;
    b->lost = !books_file(b, r);
    if (b->lost) answer_why(r, b->text, sizeof b->text);
    b->done(b);
}

void redis_books(struct redis_link *l, struct redis_books *b)
{
    struct buf *out = redis_link_begin(l);
    b->too_many = false;
    b->gen = 0;
    b->dirty = 0;
    b->text[0] = '\0';
    request_eval(out, lua_books, 5, 3);
    REQUEST_KEY(out, redis_tag(l), KEY_GEN);
    REQUEST_KEY(out, redis_tag(l), KEY_ACCEPTED);
    REQUEST_KEY(out, redis_tag(l), KEY_DIRTY);
    REQUEST_KEY(out, redis_tag(l), KEY_HELD);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCHES);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCH_PREFIX);
    request_int(out, b->dirty_max);
    request_int(out, b->fields_max > 0 ? b->fields_max : DELTA_MAX);
    redis_link_ask(l, 1, books_done, b);
}

/* --- a live total --- */

static bool total_file(struct total_read *t, const struct redis_answer *r)
{
    if (!answer_is_array(r, 4) || !answer_integer(&r->elements[0], &t->gen)) return false;
    if (!answer_is_array(&r->elements[1], t->fields_n) || r->elements[2].type != REDIS_ARRAY) return false;
    for (uint32_t i = 0; i < t->fields_n; i++)
        t->pending(t->arg, i, r->elements[1].elements[i].str);
    for (size_t b = 0; b < r->elements[2].n; b++) {
        const struct redis_answer *of = &r->elements[2].elements[b];
        struct batch_id id;
        if (!is_pair(of) || of->elements[1].n != t->fields_n || !batch_id_read(of->elements[0].str, &id))
            return false;
        for (uint32_t i = 0; i < t->fields_n; i++)
            t->claimed(t->arg, &id, i, of->elements[1].elements[i].str);
    }
    return true;
}

static void total_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct total_read *t = arg;
    (void)at;
    t->cut = r == NULL || (r->n == 4 && !redis_link_whole(l, t->number, &r->elements[3]));
    t->lost = t->cut || !total_file(t, r);
    if (t->lost) answer_why(r, t->text, sizeof t->text);
    t->done(t);
}

void redis_total(struct redis_link *l, struct total_read *t)
{
    PRE(t->fields_n > 0 && t->fields_n <= TOTAL_FIELDS_MAX);
    struct buf *out = redis_link_begin(l), seq = {0};
    t->text[0] = '\0';
    t->number = redis_link_number(l);
    name_seq(&seq, l->config.life);
    request_eval(out, lua_total, 4, 1 + (size_t)t->fields_n);
    REQUEST_KEY(out, redis_tag(l), KEY_GEN);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCHES);
    request_key(out, redis_tag(l), t->key);
    request_key(out, redis_tag(l), buf_slice(&seq));
    buf_free(&seq);
    REQUEST_KEY(out, redis_tag(l), KEY_BATCH_PREFIX);
    for (uint32_t i = 0; i < t->fields_n; i++)
        request_slice(out, t->fields[i]);
    redis_link_ask(l, 1, total_done, t);
}
