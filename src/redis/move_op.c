/* redis/move_op.c - see move_op.h. */
#include "redis/move_op.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

static void told_file(struct redis_moving *m, const struct redis_answer *r)
{
    m->lost = !answer_integer(r, &m->told);
    if (m->lost) answer_why(r, m->text, sizeof m->text);
}

static void mark_file(struct redis_moving *m, const struct redis_answer *r)
{
    m->lost = !answer_is(r, REDIS_NIL) && !answer_is(r, REDIS_STRING);
    if (m->lost) answer_why(r, m->text, sizeof m->text);
    if (answer_is(r, REDIS_STRING)) snprintf(m->mark, sizeof m->mark, SLICE_FMT, SLICE_ARG(r->str));
}

/* Those that a RESTORE of no bytes gets from a Redis that would do it. */
static bool restore_refuses(const struct redis_answer *r)
{
    return slice_starts(r->str, SLICE("ERR DUMP payload")) || slice_starts(r->str, SLICE("BUSYKEY"));
}

static void right_file(struct redis_moving *m, const struct redis_answer *r)
{
    bool may = r != NULL && (r->type != REDIS_ERROR || restore_refuses(r));
    if (!may && !m->lost) answer_why(r, m->text, sizeof m->text);
    m->lost |= !may;
}

/* Of a mark that was set; a replica that is promoted must have what was written. */
static void set_file(struct redis_moving *m, const struct redis_answer *r)
{
    m->lost = !answer_is_ok(r);
    if (m->lost) answer_why(r, m->text, sizeof m->text);
}

static void waited_file(struct redis_moving *m, const struct redis_answer *r)
{
    int64_t have;
    bool known = answer_integer(r, &have);
    if (m->lost || (known && have >= (int64_t)m->replicas)) return;
    m->lost = true;
    if (known)
        snprintf(m->text, sizeof m->text, "%u replicas must have %s (redis.replicas), and %d have it",
                 m->replicas, m->step == MOVE_MARK ? "the mark" : "the state of the move", (int)have);
    else
        answer_why(r, m->text, sizeof m->text);
}

static bool looks(const struct redis_moving *m)
{
    return m->step == MOVE_LOOK || m->step == MOVE_STATE;
}

static uint32_t requests_of(const struct redis_moving *m)
{
    return looks(m) || m->replicas > 0 ? 2 : 1;
}

static void moving_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_moving *m = arg;
    (void)l;
    if (at > 0)
        (looks(m) ? right_file : waited_file)(m, r);
    else if (m->step == MOVE_LOOK)
        mark_file(m, r);
    else
        (m->step == MOVE_MARK ? set_file : told_file)(m, r);
    if (at + 1 == requests_of(m) || r == NULL) m->done(m);
}

static void move_wait_put(struct buf *out, const struct redis_link *l, const struct redis_moving *m)
{
    if (looks(m) || m->replicas == 0) return;
    request_array(out, 3);
    REQUEST_LIT(out, "WAIT");
    request_int(out, m->replicas);
    request_int(out, l->config.answer_ms / 2);
}

static void mark_put(struct buf *out, const struct redis_link *l)
{
    request_array(out, 3);
    REQUEST_LIT(out, "SET");
    REQUEST_KEY(out, redis_tag(l), KEY_MOVE);
    request_text(out, l->config.life->id);
}

static void look_put(struct buf *out, const struct redis_link *l)
{
    request_array(out, 2);
    REQUEST_LIT(out, "GET");
    REQUEST_KEY(out, redis_tag(l), KEY_MOVE);
    request_array(out, 2);
    REQUEST_LIT(out, "DUMP");
    REQUEST_KEY(out, redis_tag(l), KEY_MOVE);
}

static const char *step_word(enum redis_move_step step)
{
    if (step == MOVE_STATE) return "look";
    if (step == MOVE_BEGIN) return "begin";
    return step == MOVE_COPIED ? "copied" : "end";
}

static void home_put(struct buf *out, const struct redis_link *l, const struct redis_moving *m)
{
    struct slice tag = redis_tag(l);
    request_eval(out, lua_move, 4, 3);
    REQUEST_KEY(out, tag, KEY_LANES);
    REQUEST_KEY(out, tag, KEY_GEN);
    REQUEST_KEY(out, tag, KEY_REALM);
    REQUEST_KEY(out, tag, KEY_MOVE);
    request_int(out, m->lanes);
    request_text(out, m->mark);
    request_text(out, step_word(m->step));
    if (m->step != MOVE_STATE) return;
    request_array(out, 4);
    REQUEST_LIT(out, "RESTORE");
    REQUEST_KEY(out, tag, KEY_MOVE);
    request_int(out, 0);
    request_slice(out, SLICE(""));
}

void redis_move(struct redis_link *l, struct redis_moving *m)
{
    struct buf *out = redis_link_begin(l);
    m->lost = false;
    m->told = 0;
    if (m->step == MOVE_LOOK)
        look_put(out, l);
    else if (m->step == MOVE_MARK)
        mark_put(out, l);
    else
        home_put(out, l, m);
    move_wait_put(out, l, m);
    redis_link_ask(l, requests_of(m), moving_done, m);
}
