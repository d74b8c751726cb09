/* command/reads.c - a read of series, timeboxes, events or visitors goes out as asks.c says, and its values come back in
 * the order of the reply: a flat array in RESP2 and RESP3 alike. */
#include "command/inside.h"

static void values_reply(const struct read_answer *a, struct buf *out)
{
    reply_array(out, a->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct read_value *v = &a->values[i];
        if (v->is_text)
            reply_bulk(out, READ_TEXT(a, v));
        else
            reply_int(out, v->number);
    }
}

static void on_read(struct read_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.read);
    if (ask_wanted(s)) {
        if (q->outcome == ASK_DONE)
            values_reply(q->answer, &s->outlet->out);
        else
            ask_refuse(s, q->outcome, q->text);
    }
    ask_end(s);
}

/* Name and type one behind the other in s->key. */
static void names_keep(struct session *s, struct read_query *q)
{
    buf_reset(&s->key);
    buf_reserve(&s->key, q->name.n + q->type.n + 1); /* a place for both, also without a name */
    buf_put_slice(&s->key, q->name);
    buf_put_slice(&s->key, q->type);
    q->name = slice_of(s->key.p, q->name.n);
    q->type = slice_of(s->key.p + q->name.n, q->type.n);
}

enum taken read_ask(struct session *s, const struct read_query *q)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.read = (struct read_request){.query = *q, .done = on_read};
    names_keep(s, &s->ask.read.query);
    ask_begin(s);
    ports->read(ports->arg, &s->ask.read);
    return TAKEN;
}
