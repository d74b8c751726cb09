/* redis/gen_op.c - see gen_op.h. Raising compares inside the script, as strings of equal length would not:
 * Lua's numbers are exact up to 2^53, far above any count of claims. */
#include "redis/gen_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static void gen_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct gen_read *g = arg;
    int64_t gen = 0;
    (void)l;
    (void)at;
    g->lost = !answer_is(r, REDIS_NIL) && (!answer_integer(r, &gen) || gen < 0);
    if (g->lost) answer_why(r, g->text, sizeof g->text);
    g->gen = g->lost ? 0 : (uint64_t)gen;
    g->done(g);
}

void redis_gen(struct redis_link *l, struct gen_read *g)
{
    struct buf *out = redis_link_begin(l);
    if (g->least == 0) {
        request_words(out, "GET " KEY_GEN);
    } else {
        request_eval(out, lua_gen_raise, 1, 1);
        REQUEST_LIT(out, KEY_GEN);
        request_int(out, (int64_t)g->least);
    }
    redis_link_ask(l, 1, gen_done, g);
}
