/* redis/total_op.c - a script that only reads; flags=no-writes lets it run when Redis or its disk is full. */
#include "redis/total_op.h"
#include "redis/ask.h"

static bool total_file(struct total_read *t, const struct redis_answer *r)
{
    const struct redis_answer *pending, *batches, *values, *seq;
    if (!answer_scan(r, "(iaa*)", &t->gen, &pending, &batches, &seq) || pending->n != t->fields_n)
        return false;
    for (uint32_t i = 0; i < t->fields_n; i++)
        t->pending(t->arg, i, pending->elements[i].str);
    for (size_t b = 0; b < batches->n; b++) {
        struct batch_id id;
        struct slice hex;
        if (!answer_scan(&batches->elements[b], "(sa)", &hex, &values)) return false;
        if (values->n != t->fields_n || !batch_id_read(hex, &id)) return false;
        for (uint32_t i = 0; i < t->fields_n; i++)
            t->claimed(t->arg, &id, i, values->elements[i].str);
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
    struct buf *out, seq = {0};
    t->text[0] = '\0';
    t->number = redis_link_number(l);
    name_seq(&seq, l->config.life);
    out = redis_write(
        l, "EVAL %.*s 4 {}" KEY_GEN " {}" KEY_BATCHES " {}%.*s {}%.*s {}" KEY_BATCH_PREFIX " +%zu",
        SLICE_ARG(lua_total), SLICE_ARG(t->key), SLICE_ARG(buf_slice(&seq)), (size_t)t->fields_n);
    buf_free(&seq);
    for (uint32_t i = 0; i < t->fields_n; i++)
        request_slice(out, t->fields[i]);
    redis_link_ask(l, 1, total_done, t);
}
