/* command/asks.c - commands that take time: CTR.PENDING, CTR.SYNC, CTR.RECOVER, WAIT, WAITAOF, and what all of that kind share. Each waits
 * until nothing is owed to its client, then sends one request; nothing more is taken until done(). The session stays in
 * memory until then, also when the client leaves: the request goes on. */
#include "command/inside.h"

const char *ask_refusal(const struct session *s, enum ask_outcome outcome, const char *text)
{
    switch (outcome) {
    case ASK_TRY_AGAIN:
        return "TRYAGAIN not all is merged yet; ask again to go on waiting";
    case ASK_MYSQL_DOWN:
        return "ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back";
    case ASK_REDIS_DOWN:
        return coalesce_down_why(lane_coalesce(s));
    case ASK_HELD:
        return "ERR merging is held until an operator has looked: the log of tallyd says why";
    case ASK_FAILED:
    case ASK_UNBLOCKED:
        return text;
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

bool ask_answers(struct session *s, enum ask_outcome outcome, const char *text)
{
    PRE(s->state == SESSION_ASKING);
    if (s->gone || session_is_quiet(s)) return false;
    if (outcome != ASK_DONE) reply_error(&s->outlet->out, ask_refusal(s, outcome, text));
    return outcome == ASK_DONE;
}

void ask_end(struct session *s)
{
    const struct client_ports *client = &s->command->config.client;
    buf_free(&s->key);
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

static struct slice key_keep(struct session *s, struct slice key)
{
    buf_reset(&s->key);
    buf_put_slice(&s->key, key);
    return buf_slice(&s->key);
}

/* ---- CTR.PENDING key ---- */

static void pending_put(struct session *s, const struct pending_request *p)
{
    struct buf *out = &s->outlet->out;
    if (p->items_at == 0) reply_map(out, s->resp, p->items_all / 2);
    for (size_t i = 0; i < p->items_n; i++)
        reply_bulk(out, p->items[i]);
}

static void pending_part(struct pending_request *p)
{
    struct session *s = CONTAINER_OF(p, struct session, ask.pending);
    if (!ask_answers(s, ASK_DONE, NULL)) return;
    pending_put(s, p);
    s->command->config.client.answered(s->conn);
}

static void pending_done(struct pending_request *p)
{
    struct session *s = CONTAINER_OF(p, struct session, ask.pending);
    if (ask_answers(s, p->outcome, p->text)) pending_put(s, p);
    ask_end(s);
}

enum taken run_pending(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (hit_counter(s, r->args[1], out) == NULL) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.pending = (struct pending_request){
        .who = s->user, .key = key_keep(s, r->args[1]), .part = pending_part, .done = pending_done};
    ask_begin(s);
    ports->pending(ports->arg, s->lane, &s->ask.pending);
    return TAKEN;
}

/* ---- CTR.SYNC key | ALL ---- */

static void sync_done(struct sync_request *y)
{
    struct session *s = CONTAINER_OF(y, struct session, ask.sync);
    if (ask_answers(s, y->outcome, y->text)) reply_int(&s->outlet->out, y->rows);
    ask_end(s);
}

enum taken run_sync(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool all = slice_ieq(r->args[1], SLICE("all"));
    if (!all && hit_counter(s, r->args[1], out) == NULL) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    struct slice key = all ? slice_of("", 0) : key_keep(s, r->args[1]);
    s->ask.sync = (struct sync_request){.key = key, .done = sync_done};
    ask_begin(s);
    if (all && s->command->config.lanes_n > 1)
        fan_sync(s);
    else
        ports->sync(ports->arg, s->lane, &s->ask.sync);
    return TAKEN;
}

/* ---- CTR.RECOVER [DRYRUN] ---- */

static void recover_done(struct recover_request *v)
{
    struct session *s = CONTAINER_OF(v, struct session, ask.recover);
    struct buf *out = &s->outlet->out;
    bool told = ask_answers(s, v->outcome, v->text);
    if (told && v->dry_run) { /* a line for each thing that would be done */
        reply_array(out, v->lines_n);
        for (size_t i = 0; i < v->lines_n; i++)
            reply_bulk(out, v->lines[i]);
    } else if (told) {
        reply_array(out, 3);
        reply_int(out, v->adopted);
        reply_int(out, v->rows_merged);
        reply_int(out, v->rows_already);
    }
    ask_end(s);
}

enum taken run_recover(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool dry_run = r->args_n == 2 && slice_ieq(r->args[1], SLICE("dryrun"));
    if (r->args_n > 1 && !dry_run) return words_syntax(out), TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.recover = (struct recover_request){.dry_run = dry_run, .done = recover_done};
    ask_begin(s);
    if (s->command->config.lanes_n > 1)
        fan_recover(s);
    else
        ports->recover(ports->arg, 0, &s->ask.recover);
    return TAKEN;
}

/* ---- WAIT numreplicas timeout, WAITAOF numlocal numreplicas timeout: waits until that many replicas, or disks, have this
 * connection's hits so far. Replies and errors are those of Redis (replication.c). ---- */

#define LEFT_MS 5000

/* Milliseconds. */
static bool timeout_read(struct slice w, uint64_t *timeout_ms, struct buf *out)
{
    int64_t v;
    if (!num_parse(w, &v)) return reply_error(out, "ERR timeout is not an integer or out of range");
    if (v < 0) return reply_error(out, "ERR timeout is negative");
    if (v > INT64_MAX - (int64_t)mono_ms()) return reply_error(out, "ERR timeout is out of range");
    *timeout_ms = (uint64_t)v;
    return true;
}

/* One that shut its side down may want its answer, but not for ever. It asked when it sent something last. */
static bool client_left(struct wait_request *q)
{
    const struct session *s = CONTAINER_OF(q, struct session, ask.wait);
    bool long_since = s->command->now_ms - s->active_ms >= LEFT_MS;
    return s->gone || (long_since && s->command->config.client.left(s->conn));
}

static void wait_done(struct wait_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.wait);
    struct buf *out = &s->outlet->out;
    bool disk = q->disk;
    /* (!) UNBLOCKED is owed until it is told: after another refusal the next WAIT asks about the same hits again. A count
     * says nothing of a lane that moved after its part of it. */
    if (!session_is_quiet(s)) {
        if (q->outcome == ASK_DONE) s->told_ms = s->active_ms;
        if (q->outcome == ASK_UNBLOCKED) s->told_ms = mono_ms(); /* no hit since it asked */
    }
    if (ask_answers(s, q->outcome, q->text)) {
        if (disk) reply_array(out, 2);
        if (disk) reply_int(out, q->local);
        reply_int(out, q->replicas);
    }
    ask_end(s);
}

/* After all that the connection sent before, so those hits are answered then. */
static enum taken wait_ask(struct session *s, const struct wait_request *q)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.wait = *q;
    s->ask.wait.since_ms = s->told_ms > 0 ? s->told_ms : s->opened_ms;
    s->ask.wait.left = client_left;
    s->ask.wait.done = wait_done;
    ask_begin(s);
    if (s->command->config.lanes_n > 1)
        fan_wait(s);
    else
        ports->wait(ports->arg, 0, &s->ask.wait);
    return TAKEN;
}

enum taken run_wait(struct session *s, const struct request *r, struct buf *out)
{
    struct wait_request q = {.disk = false};
    if (!word_int(r->args[1], &q.replicas, out) || !timeout_read(r->args[2], &q.timeout_ms, out))
        return TAKEN;
    return wait_ask(s, &q);
}

enum taken run_waitaof(struct session *s, const struct request *r, struct buf *out)
{
    struct wait_request q = {.disk = true};
    if (!word_int(r->args[1], &q.local, out)) return TAKEN;
    if (q.local < 0 || q.local > 1)
        reply_error(out, "ERR value is out of range, value must between 0 and 1");
    else if (!num_parse(r->args[2], &q.replicas) || q.replicas < 0)
        reply_error(out, "ERR value is out of range, must be positive");
    else if (timeout_read(r->args[3], &q.timeout_ms, out))
        return wait_ask(s, &q);
    return TAKEN;
}
