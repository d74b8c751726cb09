/* redis/gen_op.c - see gen_op.h. Raising compares inside the script, as strings of equal length would not:
 * Lua's numbers are exact up to 2^53, far above any count of claims. */
#include "redis/gen_op.h"
#include "redis/resp.h"

static const char raise_script[] = "#!lua flags=allow-oom\n"
                                   "local gen = tonumber(redis.call('GET', KEYS[1]) or '0')\n"
                                   "local least = tonumber(ARGV[1])\n"
                                   "if gen >= least then return string.format('%.0f', gen) end\n"
                                   "redis.call('SET', KEYS[1], ARGV[1])\n"
                                   "return ARGV[1]\n";

static void on_gen(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct gen_read *g = arg;
    int64_t gen = 0;
    (void)l;
    (void)at;
    g->lost = !reply_is(r, REDIS_NIL) && (!reply_integer(r, &gen) || gen < 0);
    if (g->lost) reply_why(r, g->text, sizeof g->text);
    g->gen = g->lost ? 0 : (uint64_t)gen;
    g->done(g);
}

void redis_gen(struct redis_link *l, struct gen_read *g)
{
    struct buf *out = redis_link_begin(l);
    if (g->least == 0) {
        resp_words(out, "GET " KEY_GEN);
    } else {
        resp_eval(out, SLICE(raise_script), 1, 1);
        RESP_LIT(out, KEY_GEN);
        resp_int(out, (int64_t)g->least);
    }
    redis_link_expect(l, 1, on_gen, g);
    redis_link_flush(l);
}
