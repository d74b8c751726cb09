/* redis/move_op.c - see move_op.h. */
#include "redis/move_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static void moving_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_moving *m = arg;
    (void)l, (void)at;
    m->told = 0;
    if (m->step == MOVE_MARK && r != NULL) m->told = r->type == REDIS_NIL;
    m->lost = r == NULL || (m->step == MOVE_MARK ? r->type != REDIS_NIL && !answer_is_ok(r)
                                                 : r->type != REDIS_NIL && !answer_integer(r, &m->told));
    if (m->lost) answer_why(r, m->text, sizeof m->text);
    m->done(m);
}

static void mark_put(struct buf *out, struct slice tag, bool look)
{
    request_array(out, look ? 2 : 4);
    request_text(out, look ? "EXISTS" : "SET");
    REQUEST_KEY(out, tag, KEY_MOVE);
    if (look) return;
    REQUEST_LIT(out, "1");
    REQUEST_LIT(out, "NX");
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
    request_text(out, l->config.life->id);
    request_text(out, m->step == MOVE_STATE ? "look" : m->step == MOVE_BEGIN ? "begin" : "end");
}

void redis_move(struct redis_link *l, struct redis_moving *m)
{
    struct buf *out = redis_link_begin(l);
    if (m->step == MOVE_LOOK || m->step == MOVE_MARK)
        mark_put(out, redis_tag(l), m->step == MOVE_LOOK);
    else
        home_put(out, l, m);
    redis_link_ask(l, 1, moving_done, m);
}
