/* command/reads.c - reads of series, timeboxes, events and visitors: asked as in asks.c, answered with a flat array in RESP2 and
 * RESP3 alike. */
#include "command/inside.h"

/* "<precision>:<name>" of all series, less those that this session may not name. */
static void names_reply(const struct session *s, const struct query_answer *a, struct buf *out)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) reply_array(out, n);
        for (size_t i = 0; i < a->n; i++) {
            struct slice text = QUERY_TEXT(a, &a->values[i]);
            const char *colon = memchr(text.p, ':', text.n);
            size_t head = colon == NULL ? 0 : (size_t)(colon - text.p) + 1;
            if (!guard_names(s, slice_of(text.p + head, text.n - head))) continue;
            if (pass == 1)
                reply_bulk(out, text);
            else
                n++;
        }
    }
}

static void values_reply(const struct query_answer *a, struct buf *out)
{
    reply_array(out, a->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct query_value *v = &a->values[i];
        if (v->is_text)
            reply_bulk(out, QUERY_TEXT(a, v));
        else
            reply_int(out, v->number);
    }
}

static void read_done(struct read_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.read);
    if (ask_answers(s, q->outcome, q->text)) {
        if (q->query.kind == QUERY_NAMES)
            names_reply(s, q->answer, &s->outlet->out);
        else
            values_reply(q->answer, &s->outlet->out);
    }
    answer_end(s);
    ask_end(s);
}

/* Name and type one after the other in s->key. */
static void names_keep(struct session *s, struct query *q)
{
    buf_reset(&s->key);
    buf_reserve(&s->key, q->name.n + q->type.n + 1); /* not NULL, even without a name */
    buf_put_slice(&s->key, q->name);
    buf_put_slice(&s->key, q->type);
    q->name = slice_of(s->key.p, q->name.n);
    q->type = slice_of(s->key.p + q->name.n, q->type.n);
}

enum taken read_ask(struct session *s, enum op_kind kind, const struct query *q, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (q->kind != QUERY_NAMES && !names_fit(s, kind, q->name, q->type, q->from, out)) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    if (!answer_begin(s, q, out)) return s->state == SESSION_QUEUED ? LEFT : TAKEN;
    s->ask.read = (struct read_request){.who = s->user, .query = *q, .done = read_done};
    names_keep(s, &s->ask.read.query);
    if (q->kind != QUERY_NAMES) (void)lane_of_op(s, kind, q->name);
    ask_begin(s);
    if (q->kind == QUERY_NAMES && s->command->config.lanes_n > 1)
        fan_names(s);
    else
        ports->read(ports->arg, s->lane, &s->ask.read);
    return TAKEN;
}
