/* command/multi.c - MULTI, EXEC, DISCARD. Queued requests are kept as the bytes that came, and parsed again at EXEC. At
 * EXEC all writes go into one frame, or none does. Each was checked when it was queued: what Redis would fail at EXEC
 * fails here when queued, and the transaction with it. EXEC first asks coalesce_room() for all of them. */
#include "base/heap.h"
#include "base/stats.h"
#include "command/inside.h"

#define TOO_LARGE "ERR transaction is too large"
#define REPLY_BYTES_MAX 640 /* of a queued command's reply, beside the parts of the request in it */

struct multi {
    struct buf requests;
    uint32_t n;
    uint32_t writes; /* of them */
    uint32_t cells;  /* of all writes in the frame */
    int64_t weight;  /* the sum of their |n| */
    uint32_t lane;   /* of all of them */
};

void multi_free(struct session *s)
{
    if (s->multi == NULL) return;
    buf_free(&s->multi->requests);
    heap_free(s->multi);
    s->multi = NULL;
}

int64_t multi_queued(const struct session *s, size_t *bytes)
{
    *bytes = s->multi == NULL ? 0 : s->multi->requests.cap;
    return s->multi == NULL ? -1 : (int64_t)s->multi->n;
}

enum taken run_multi(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    if (s->multi != NULL) return reply_error(out, "ERR MULTI calls can not be nested"), TAKEN;
    s->multi = heap_zalloc(sizeof(*s->multi));
    s->broken = false;
    reply_simple(out, "OK");
    return TAKEN;
}

enum taken run_discard(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    if (s->multi == NULL) return reply_error(out, "ERR DISCARD without MULTI"), TAKEN;
    multi_free(s);
    reply_simple(out, "OK");
    return TAKEN;
}

/* Is the lane of this write that of all writes before it? False: the error is Redis Cluster's. */
static bool lane_fits(const struct session *s, struct buf *out)
{
    struct multi *m = s->multi;
    if (m->writes == 0) m->lane = s->lane;
    return m->lane == s->lane || reply_error(out, "CROSSSLOT Keys in request don't hash to the same slot");
}

/* |n| is at most limits.hit and multi_max bounds their number, so the sum cannot overflow. */
static bool weight_fits(struct session *s, uint32_t cells, int64_t n, struct buf *out)
{
    struct multi *m = s->multi;
    m->writes++;
    m->cells += cells;
    m->weight += n < 0 ? -n : n;
    return m->weight <= COALESCE_ROOM_WEIGHT || reply_error(out, TOO_LARGE);
}

/* False: the increment could not be counted; the error is in out. */
static bool hit_takes(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_token hit;
    if (!hit_read(s, r, &hit, out)) return false;
    struct coalesce *c = lane_of_hit(s, hit.key);
    bool has_token = hit.id.n > 0;
    enum add_result got =
        has_token ? coalesce_try_token(c, &hit) : coalesce_try(c, hit.key, hit.field, hit.delta);
    if (got != ADD_OK) return hit_refuse(s, r, got, out), false;
    return lane_fits(s, out) && weight_fits(s, has_token ? coalesce_token_cells() : 1, hit.delta, out);
}

static bool op_takes(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_op op;
    size_t before = out->n;
    if (!op_read(s, r, &op, out) || !op_in_time(s, &op, out))
        return hit_refused(s, r->args[1], out, before), false;
    struct coalesce *c = lane_of_op(s, op.kind, op.name);
    return lane_fits(s, out) && weight_fits(s, coalesce_op_cells(c, op.kind), op.n, out);
}

static bool queue_takes(struct session *s, const struct spec *spec, const struct request *r, struct buf *out)
{
    uint32_t most = guard_multi_max(s), bytes_most = s->command->config.multi_bytes_max;
    if ((spec->flags & SPEC_QUEUES) == 0)
        return reply_error(out, "ERR Command not allowed inside a transaction");
    if (s->multi->n >= most)
        return reply_errorf(out, TOO_LARGE ": at most %u commands; send more than one transaction", most);
    if (s->multi->requests.n + r->raw.n > bytes_most)
        return reply_errorf(out, TOO_LARGE ": at most %u bytes; send more than one transaction", bytes_most);
    if ((spec->flags & SPEC_OP) != 0) return op_takes(s, r, out);
    return (spec->flags & SPEC_HIT) == 0 || hit_takes(s, r, out);
}

enum taken multi_take(struct session *s, const struct request *r, struct buf *out)
{
    struct multi *m = s->multi;
    const struct spec *whole;
    const struct spec *spec = spec_resolve(s, r, &whole, out);
    s->ran = spec != NULL ? spec : whole;
    if (spec != NULL && s->door != DOOR_OPEN && !guard_lets(s, whole, spec, r, out)) spec = NULL;
    if (spec != NULL && (spec->flags & SPEC_AT_ONCE) != 0) return calls_run(s, whole, spec, r, out);
    if (spec == NULL || !queue_takes(s, spec, r, out)) {
        s->broken = true;
        if (whole != NULL && whole->run == run_exec) multi_free(s);
        return TAKEN;
    }
    buf_put_slice(&m->requests, r->raw);
    m->n++;
    reply_simple(out, "QUEUED");
    return TAKEN;
}

/* ---- EXEC ---- */

/* TAKEN: there is room, or it is refused: there will never be any, or not in time. LEFT: it waits. */
static enum taken room_ask(struct session *s, bool *refused, struct buf *out)
{
    const struct multi *m = s->multi;
    struct coalesce *c = m->writes > 0 ? lane_enter(s, m->lane) : NULL;
    uint32_t cells = m->n + 1 + (m->cells - m->writes); /* each answer is one, too */
    bool never;
    *refused = false;
    if (m->writes == 0 ||
        coalesce_room(c, cells, m->requests.n + (size_t)REPLY_BYTES_MAX * (m->n + 1), &never))
        return TAKEN;
    *refused = true;
    const char *why =
        never ? "EXECABORT Transaction discarded because it does not fit into one frame; send fewer commands"
        : coalesce_full(c, lane_outlet(s)) == ADD_BUSY
            ? "EXECABORT Transaction discarded because of: BUSY Redis does not keep up; try again"
            : NULL;
    if (why != NULL) return reply_error(out, why), TAKEN;
    coalesce_park(c, lane_outlet(s));
    session_wait(s, SESSION_PARKED);
    return LEFT;
}

/* Sends the replies in `exec`, after the increments just added. If coalesce has no room for them after all, the rest of
 * the transaction is refused and answered from `held`. */
static void local_out(struct session *s)
{
    struct buf *local = &s->command->exec;
    if (session_is_quiet(s))
        buf_reset(local);
    else if (s->held.n > 0)
        buf_put_slice(&s->held, buf_slice(local));
    else if (s->outlet->waiting == 0)
        buf_put_slice(&s->outlet->out, buf_slice(local));
    else if (local->n > 0 && !reply_behind(s, buf_slice(local)))
        buf_put_slice(&s->held, buf_slice(local));
    buf_reset(local);
}

/* Its time was checked when it was queued: by now op_in_time() might refuse it. */
static enum add_result exec_add(struct session *s, const struct spec *spec, const struct request *r)
{
    struct coalesce_token hit;
    struct coalesce_op op;
    bool is_op = (spec->flags & SPEC_OP) != 0;
    bool fits = is_op ? op_read(s, r, &op, &s->command->exec) : hit_read(s, r, &hit, &s->command->exec);
    INVARIANT(fits);
    return is_op ? op_add(s, &op) : hit_add(s, &hit);
}

static void exec_one(struct session *s, const struct request *r)
{
    const struct spec *whole;
    const struct spec *spec = spec_resolve(s, r, &whole, &s->command->exec);
    INVARIANT(spec != NULL);
    if ((spec->flags & (SPEC_HIT | SPEC_OP)) == 0) {
        calls_run(s, whole, spec, r, &s->command->exec);
        return;
    }
    local_out(s);
    enum add_result got = s->held.n == 0 ? exec_add(s, spec, r) : ADD_BUSY;
    if (got != ADD_OK) hit_refuse(s, r, got, &s->command->exec);
    s->command->calls[spec - specs].n++;
}

static void exec_all(struct session *s)
{
    struct coalesce *c = s->multi->writes > 0 ? lane_coalesce(s) : NULL;
    struct request *r = &s->command->request;
    struct slice rest = buf_slice(&s->multi->requests);
    buf_reset(&s->command->exec);
    reply_array(&s->command->exec, s->multi->n);
    if (c != NULL) coalesce_transaction(c, true);
    while (rest.n > 0) {
        struct parser p = {0};
        enum parsed got = request_parse(r, &p, rest);
        INVARIANT(got == PARSED_OK);
        rest = slice_of(rest.p + r->raw.n, rest.n - r->raw.n);
        exec_one(s, r);
    }
    if (c != NULL) coalesce_transaction(c, false);
    local_out(s);
    if (s->held.n > 0) session_wait(s, SESSION_BARRIER);
}

enum taken run_exec(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    if (s->multi == NULL) return reply_error(out, "ERR EXEC without MULTI"), TAKEN;
    bool refused = s->broken;
    if (refused)
        reply_error(out, "EXECABORT Transaction discarded because of previous errors.");
    else if (room_ask(s, &refused, out) == LEFT)
        return LEFT;
    if (!refused) {
        guard_took_at_once(s, s->multi->n);
        exec_all(s);
    }
    multi_free(s);
    return TAKEN;
}
