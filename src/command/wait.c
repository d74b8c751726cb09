/* command/wait.c - WAIT numreplicas timeout, WAITAOF numlocal numreplicas timeout: waits until that many replicas, or
 * disks, have this connection's hits so far. Replies and errors are those of Redis (replication.c). */
#include "base/slice.h"
#include "command/inside.h"

#define LEFT_MS 5000

/* Milliseconds. */
static bool timeout_read(struct slice w, uint64_t *timeout_ms, struct buf *out)
{
    int64_t v;
    if (!num_parse(w, &v))
        reply_error(out, "ERR timeout is not an integer or out of range");
    else if (v < 0)
        reply_error(out, "ERR timeout is negative");
    else if (v > INT64_MAX - (int64_t)mono_ms())
        reply_error(out, "ERR timeout is out of range");
    else {
        *timeout_ms = (uint64_t)v;
        return true;
    }
    return false;
}

static bool disks_read(const struct request *r, struct wait_request *q, struct buf *out)
{
    if (!word_int(r->args[1], &q->local, out)) return false;
    if (q->local < 0 || q->local > 1)
        reply_error(out, "ERR value is out of range, value must between 0 and 1");
    else if (!num_parse(r->args[2], &q->replicas) || q->replicas < 0)
        reply_error(out, "ERR value is out of range, must be positive");
    else
        return timeout_read(r->args[3], &q->timeout_ms, out);
    return false;
}

/* One that shut its side down may want its answer, but not for ever. It asked when it sent something last. */
static bool client_left(struct wait_request *q)
{
    const struct session *s = CONTAINER_OF(q, struct session, ask.wait);
    bool long_since = s->command->now_ms - s->active_ms >= LEFT_MS;
    return s->gone || (long_since && s->command->config.client.left(s->conn));
}

/* (!) UNBLOCKED is owed until it is told: after another refusal the next WAIT asks about the same hits again. A count
 * says nothing of a lane that moved after its part of it. */
static void wait_told(struct session *s, const struct wait_request *q)
{
    if (session_is_quiet(s)) return;
    if (q->outcome == ASK_DONE) s->told_ms = s->active_ms;
    if (q->outcome == ASK_UNBLOCKED) s->told_ms = mono_ms(); /* no hit since it asked */
}

static void wait_done(struct wait_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.wait);
    struct buf *out = &s->outlet->out;
    bool disk = q->disk;
    wait_told(s, q);
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
    return disks_read(r, &q, out) ? wait_ask(s, &q) : TAKEN;
}
