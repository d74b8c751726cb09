/* redis/token_op.c - the tokened increments of a frame: one script for all of them, in the order of arrival. A token is a
 * string with a time to live, `<payload>:<value>`; how many stand is counted in tally:tokens, by the second at which they
 * are gone, rounded up to a twelfth of how long they are kept. So the sum is never too small, and whoever keeps them
 * longer or shorter, before or besides, is counted rightly. */
#include "redis/token_op.h"

#include "base/num.h"
#include "base/stats.h"
#include "redis/resp.h"
#include "series/names.h"

#define TOKEN_OTHER                                                                                          \
    "ERR this token came with another increment before: key, field or n differ; nothing was counted"
#define TOKEN_GONE                                                                                           \
    "ERR not counted: Redis refused it, and its answer was lost with the link; send it again to hear why"

/* KEYS: accepted, dirty, the counts of tokens, then token and pending hash of each. ARGV: now in ms, how long a token is
 * kept (s), how many may stand, then for each: field, n, counter, payload. Answers for each 'n' (new) or 'o' (it stood) and
 * the value, or an error; behind them how many stand. accepted goes first, since it can be taken back without a trace.
 * Numbers beyond 2^53 are not exact in Lua: those are read again. */
static const char tokens_script[] =
    "#!lua\n"
    "local call, out = redis.pcall, {}\n"
    "local function bad(r) return type(r) == 'table' and r.err end\n"
    "local function text(n) return string.format('%.0f', n) end\n"
    "local keep, most, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(call('TIME')[1])\n"
    "local width = math.ceil(keep / 12)\n"
    "local gone_by = text((math.floor((now + keep) / width) + 1) * width)\n"
    "local stand, new, named = 0, 0, {}\n"
    "local r = call('ZCARD', KEYS[2])\n"
    "if bad(r) then return r end\n"
    "r = call('HGETALL', KEYS[3])\n"
    "if bad(r) then return r end\n"
    "for i = 1, #r, 2 do\n"
    "  local gone, n = tonumber(r[i]), tonumber(r[i + 1])\n"
    "  if not gone or not n then\n"
    "    return redis.error_reply('ERR " KEY_TOKENS " has a field that is no count of tokens: delete it')\n"
    "  end\n"
    "  if gone <= now then call('HDEL', KEYS[3], r[i]) else stand = stand + n end\n"
    "end\n"
    "local function count(pending, field, n, counter)\n"
    "  local r = call('HINCRBY', KEYS[1], counter, n)\n"
    "  if bad(r) then return r end\n"
    "  local value = call('HINCRBY', pending, field, n)\n"
    "  if bad(value) then\n"
    "    call('HINCRBY', KEYS[1], counter, text(0 - n))\n"
    "    return value\n"
    "  end\n"
    "  if not named[pending] then call('ZADD', KEYS[2], 'NX', ARGV[1], pending) end\n"
    "  named[pending] = true\n"
    "  return math.abs(value) < 9007199254740992 and text(value) or call('HGET', pending, field)\n"
    "end\n"
    "local function add(token, pending, field, n, counter, payload)\n"
    "  local have = call('GET', token)\n"
    "  if bad(have) then return have end\n"
    "  if have then\n"
    "    if string.sub(have, 1, #payload + 1) == payload .. ':' then return 'o' .. string.sub(have, #payload "
    "+ 2) end\n"
    "    return redis.error_reply('" TOKEN_OTHER "')\n"
    "  end\n"
    "  if stand >= most then\n"
    "    return redis.error_reply('OOM ' .. ARGV[3] .. ' tokens stand in Redis (tokens.most); nothing was "
    "counted')\n"
    "  end\n"
    "  local value = count(pending, field, n, counter)\n"
    "  if bad(value) then return value end\n"
    "  call('SET', token, payload .. ':' .. value, 'EX', ARGV[2])\n"
    "  stand, new = stand + 1, new + 1\n"
    "  return 'n' .. value\n"
    "end\n"
    "local a = 4\n"
    "for k = 4, #KEYS, 2 do\n"
    "  out[#out + 1] = add(KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3])\n"
    "  a = a + 4\n"
    "end\n"
    "if new > 0 then call('HINCRBY', KEYS[3], gone_by, new) end\n"
    "out[#out + 1] = stand\n"
    "return out\n";

uint32_t tokens_put(struct buf *out, const struct frame *f, const struct op_limits *l)
{
    if (f->tokens_n == 0) return 0;
    resp_eval(out, SLICE(tokens_script), 3 + 2 * (size_t)f->tokens_n, 3 + 4 * (size_t)f->tokens_n);
    RESP_LIT(out, KEY_ACCEPTED);
    RESP_LIT(out, KEY_DIRTY);
    RESP_LIT(out, KEY_TOKENS);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        resp_slice(out, FRAME_NAME(f, &f->tokens[i]));
        resp_slice(out, f->hashes[f->tokens[i].hash].key);
    }
    resp_int(out, f->dirty_ms);
    resp_int(out, l->token_keep_s);
    resp_int(out, l->tokens_most);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        const struct frame_token *t = &f->tokens[i];
        resp_slice(out, FRAME_FIELD(f, t));
        resp_int(out, t->delta);
        resp_slice(out, t->counter->name);
        resp_slice(out, slice_of(t->payload, TOKEN_PAYLOAD));
    }
    return 1;
}

static void token_fail(struct frame *f, struct frame_token *t, const struct redis_reply *r)
{
    char line[200] = "ERR Redis gave an answer of an unexpected shape";
    if (r->type == REDIS_ERROR) reply_why(r, line, sizeof line);
    frame_fail_token(f, t, slice_str(line));
}

static void token_file(struct frame *f, struct frame_token *t, const struct redis_reply *r)
{
    bool counts = r->type == REDIS_STRING && r->str.n > 1 && (r->str.p[0] == 'n' || r->str.p[0] == 'o');
    if (counts && num_parse(slice_of(r->str.p + 1, r->str.n - 1), &t->value))
        t->is_new = r->str.p[0] == 'n';
    else
        token_fail(f, t, r);
}

void tokens_clear(struct frame *f)
{
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        f->tokens[i].error_n = 0;
        f->tokens[i].is_new = false;
    }
}

const struct redis_reply *tokens_file(struct frame *f, const struct redis_reply *r, int64_t *standing)
{
    if (f->tokens_n == 0) return r;
    bool is_good = reply_is_array(r, f->tokens_n + 1);
    for (uint32_t i = 0; i < f->tokens_n; i++)
        if (is_good)
            token_file(f, &f->tokens[i], &r->elements[i]);
        else
            token_fail(f, &f->tokens[i], r);
    int64_t stand;
    if (is_good && reply_integer(&r->elements[f->tokens_n], &stand)) {
        STAT_ADD(tokens_standing, stand - *standing);
        *standing = stand;
    }
    return r + 1;
}

void tokens_ask(struct buf *out, const struct frame *f)
{
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        BUF_LIT(out, "*2\r\n$3\r\nGET\r\n");
        resp_slice(out, FRAME_NAME(f, &f->tokens[i]));
    }
}

bool tokens_told(struct frame *f, uint32_t at, const struct redis_reply *r)
{
    struct frame_token *t = &f->tokens[at];
    if (r->type == REDIS_STRING && frame_token_read(t, r->str)) return true;
    if (r->type == REDIS_NIL)
        frame_fail_token(f, t, SLICE(TOKEN_GONE));
    else if (r->type == REDIS_STRING)
        frame_fail_token(f, t, SLICE(TOKEN_OTHER));
    else if (reply_error_is(r, "WRONGTYPE")) /* only that shows that the script met it as well */
        token_fail(f, t, r);
    else
        return false;
    return true;
}
