/* command/asks.c - commands that take time: CTR.PENDING, CTR.SYNC, CTR.RECOVER, and what CTR.TOTAL (total.c) shares
 * with them. Each waits until nothing is owed to its client, then its request is out, one a session, and nothing more
 * is taken until done(). The session (and with it the request) is held in memory meanwhile; a client that goes away
 * does not take back what it asked for. */
#include "command/inside.h"

void ask_refuse(struct session *s, enum ask_outcome outcome, const char *text)
{
    struct buf *out = &s->outlet->out;
    switch (outcome) {
    case ASK_TRY_AGAIN:
        reply_error(out, "TRYAGAIN not all is merged yet; ask again to go on waiting");
        return;
    case ASK_MYSQL_DOWN:
        reply_error(out, "ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back");
        return;
    case ASK_REDIS_DOWN:
        reply_error(out, coalesce_down_why(s->command->config.coalesce));
        return;
    case ASK_HELD:
        reply_error(out, "ERR merging is held back and an operator must look: the log of tallyd says why");
        return;
    case ASK_FAILED:
        reply_error(out, text);
        return;
    case ASK_DONE:
        break;
    }
    UNREACHABLE();
}

void ask_begin(struct session *s)
{
    session_wait(s, SESSION_ASKING);
    s->command->config.client.hold(s->conn);
}

bool ask_wanted(struct session *s)
{
    PRE(s->state == SESSION_ASKING);
    buf_free(&s->key);
    return !s->gone && !session_is_quiet(s);
}

void ask_end(struct session *s)
{
    const struct client_ports *client = &s->command->config.client;
    if (!s->gone) {
        session_state(s, s->last ? SESSION_ENDING : SESSION_TAKING);
        session_replies_next(s);
        client->answered(s->conn);
        if (s->last)
            client->finish(s->conn);
        else
            client->resume(s->conn);
    }
    client->release(s->conn); /* the session may be gone after it */
}

struct slice ask_keep_key(struct session *s, struct slice key)
{
    buf_reset(&s->key);
    buf_put_slice(&s->key, key);
    return buf_slice(&s->key);
}

/* ---- CTR.PENDING key ---- */

static void pending_reply(struct session *s, const struct pending_request *p)
{
    reply_map(&s->outlet->out, s->resp, p->items_n / 2);
    for (size_t i = 0; i < p->items_n; i++)
        reply_bulk(&s->outlet->out, p->items[i]);
}

static void on_pending(struct pending_request *p)
{
    struct session *s = CONTAINER_OF(p, struct session, ask.pending);
    if (ask_wanted(s)) {
        if (p->outcome == ASK_DONE)
            pending_reply(s, p);
        else
            ask_refuse(s, p->outcome, p->text);
    }
    ask_end(s);
}

enum taken run_pending(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (coalesce_counter(s->command->config.coalesce, r->args[1]) == NULL) {
        hit_refuse_key(r->args[1], out);
        return TAKEN;
    }
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.pending = (struct pending_request){.key = ask_keep_key(s, r->args[1]), .done = on_pending};
    ask_begin(s);
    ports->pending(ports->arg, &s->ask.pending);
    return TAKEN;
}

/* ---- CTR.SYNC key | ALL ---- */

static void on_sync(struct sync_request *y)
{
    struct session *s = CONTAINER_OF(y, struct session, ask.sync);
    if (ask_wanted(s)) {
        if (y->outcome == ASK_DONE)
            reply_int(&s->outlet->out, y->rows);
        else
            ask_refuse(s, y->outcome, y->text);
    }
    ask_end(s);
}

enum taken run_sync(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool all = slice_ieq(r->args[1], SLICE("all"));
    if (!all && coalesce_counter(s->command->config.coalesce, r->args[1]) == NULL) {
        hit_refuse_key(r->args[1], out);
        return TAKEN;
    }
    if (session_barrier(s) == LEFT) return LEFT;
    struct slice key = all ? slice_of("", 0) : ask_keep_key(s, r->args[1]);
    s->ask.sync = (struct sync_request){.key = key, .done = on_sync};
    ask_begin(s);
    ports->sync(ports->arg, &s->ask.sync);
    return TAKEN;
}

/* ---- CTR.RECOVER [DRYRUN] ---- */

/* What was done, or, of a dry run, what would be: a line each. */
static void recovered_reply(const struct recover_request *v, struct buf *out)
{
    if (v->dry_run) {
        reply_array(out, v->lines_n);
        for (size_t i = 0; i < v->lines_n; i++)
            reply_bulk(out, v->lines[i]);
        return;
    }
    reply_array(out, 3);
    reply_int(out, v->adopted);
    reply_int(out, v->rows_merged);
    reply_int(out, v->rows_already);
}

static void on_recover(struct recover_request *v)
{
    struct session *s = CONTAINER_OF(v, struct session, ask.recover);
    if (ask_wanted(s)) {
        if (v->outcome == ASK_DONE)
            recovered_reply(v, &s->outlet->out);
        else
            ask_refuse(s, v->outcome, v->text);
    }
    ask_end(s);
}

enum taken run_recover(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool dry_run = r->args_n == 2 && slice_ieq(r->args[1], SLICE("dryrun"));
    if (r->args_n > 1 && !dry_run) {
        reply_error(out, "ERR syntax error");
        return TAKEN;
    }
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.recover = (struct recover_request){.dry_run = dry_run, .done = on_recover};
    ask_begin(s);
    ports->recover(ports->arg, &s->ask.recover);
    return TAKEN;
}
