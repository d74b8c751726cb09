/* command/total.c - CTR.TOTAL key field [field ...], and HMGET, HGET and GET with Redis' shapes of a reply: what a merchant would see
 * if all were merged now. The numbers come from sync/ (total.c). */
#include "base/heap.h"
#include "command/inside.h"

static void total_answer(struct total_request *t, bool is_array, void (*put)(struct buf *out, int64_t total))
{
    struct session *s = CONTAINER_OF(t, struct session, ask.total);
    struct buf *out = &s->outlet->out;
    heap_free((void *)t->fields);
    if (ask_answers(s, t->outcome, t->text)) {
        if (is_array) reply_array(out, t->fields_n);
        for (uint32_t i = 0; i < t->fields_n; i++)
            put(out, t->totals[i]);
        if (put == reply_bulk_int) tracking_forget(s, t->key, out);
    }
    ask_end(s);
}

static void total_done(struct total_request *t)
{
    total_answer(t, true, reply_int);
}

static void hmget_done(struct total_request *t)
{
    total_answer(t, true, reply_bulk_int);
}

static void hget_done(struct total_request *t)
{
    total_answer(t, false, reply_bulk_int);
}

static bool fields_fit(struct session *s, const struct request *r, const struct counter *c, struct buf *out)
{
    if (r->args_n - 2 > TOTAL_FIELDS_ASKED_MAX) {
        reply_errorf(out, "ERR too many fields: at most %d at once", TOTAL_FIELDS_ASKED_MAX);
        return false;
    }
    if (r->args_n == 2 && c->field != FIELD_NONE) {
        reply_errorf(out, "ERR counter '" SLICE_FMT "' counts by field: send HGET key field",
                     SLICE_ARG(c->name));
        return false;
    }
    for (uint32_t i = 2; i < r->args_n; i++) {
        if (counter_field_valid(c, r->args[i])) continue;
        hit_refuse_field(s, r->args[1], r->args[i], out);
        return false;
    }
    return true;
}

/* Key and fields one after the other in s->key; the slices have memory of their own. */
static void fields_keep(struct session *s, const struct request *r, struct total_request *t)
{
    struct slice *fields = heap_alloc((r->args_n - 1) * sizeof *fields);
    bool is_get = r->args_n == 2;
    if (is_get) fields[0] = FIELD_ONLY;
    buf_reset(&s->key);
    for (uint32_t i = 1; i < r->args_n; i++)
        buf_put_slice(&s->key, r->args[i]);
    const char *at = s->key.p;
    t->key = slice_of(at, r->args[1].n);
    at += r->args[1].n;
    for (uint32_t i = 2; i < r->args_n; i++) {
        fields[i - 2] = slice_of(at, r->args[i].n);
        at += r->args[i].n;
    }
    t->fields = fields;
    t->fields_n = is_get ? 1 : r->args_n - 2;
}

enum taken run_total(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool is_hget = word_is(r->args[0], "HGET") || word_is(r->args[0], "GET"),
         is_hmget = word_is(r->args[0], "HMGET");
    const struct counter *c = hit_counter(s, r->args[1], out);
    if (c == NULL || !fields_fit(s, r, c, out)) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.total = (struct total_request){.who = s->user,
                                          .counter = c,
                                          .done = is_hget    ? hget_done
                                                  : is_hmget ? hmget_done
                                                             : total_done};
    fields_keep(s, r, &s->ask.total);
    ask_begin(s);
    ports->total(ports->arg, s->lane, &s->ask.total);
    return TAKEN;
}
