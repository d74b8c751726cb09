/* redis/lanes_op.c - see lanes_op.h. */
#include "redis/lanes_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static void lanes_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_lanes *lanes = arg;
    (void)l, (void)at;
    lanes->told = 0;
    lanes->lost = r == NULL || (r->type != REDIS_NIL && !answer_integer(r, &lanes->told));
    if (lanes->lost) answer_why(r, lanes->text, sizeof lanes->text);
    lanes->done(lanes);
}

void redis_lanes(struct redis_link *l, struct redis_lanes *lanes)
{
    struct buf *out = redis_link_begin(l);
    request_eval(out, lua_lanes, 3, 2);
    REQUEST_KEY(out, redis_tag(l), KEY_LANES);
    REQUEST_KEY(out, redis_tag(l), KEY_GEN);
    REQUEST_KEY(out, redis_tag(l), KEY_REALM);
    request_int(out, lanes->wanted);
    request_int(out, lanes->keep);
    redis_link_ask(l, 1, lanes_done, lanes);
}
