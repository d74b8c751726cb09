/* redis/read_windows.c - how many events fell into each window, in pieces of some hundred windows. Closed windows stand
 * in the hash statcache:<type>, field <name>:<start>:<window>; its field <name>:windows has their sizes, by which the
 * script that adds a late event finds what to drop. A window is counted and cached in one script, so no event falls
 * between the two. Not cached: the open window; one of which events may have been preened; a size beyond the first
 * SIZES_MAX, since each size costs every late event a look; windows of a log without events, which the preener would not
 * find. */
#include "redis/read_in.h"
#include "series/names.h"

#define WINDOWS_A_PIECE 400
#define COUNTED_A_PIECE 100 /* of them, those that are not in the cache */
#define SIZES_MAX 32

/* KEYS: the log, its cache. ARGV: name, window, how many of them, how many in all, start of the first ("": of the very
 * first, to be found), how long events are kept, SIZES_MAX, COUNTED_A_PIECE. Answers that start, then as many counts as
 * it came to. What the cache has not is taken from the log, by the events themselves when these are few, else by a
 * ZCOUNT each: bounded, however many events there are. A cache that cannot be written (Redis is full) is none. */
static const char piece_script[] =
    "local log, cache, name = KEYS[1], KEYS[2], ARGV[1]\n"
    "local window, n = tonumber(ARGV[2]), tonumber(ARGV[3])\n"
    "local now = tonumber(redis.call('TIME')[1])\n"
    "local from = tonumber(ARGV[5]) or now - now % window - (ARGV[4] - 1) * window\n"
    "local closed = math.max(0, math.min(n, math.floor((now - from) / window)))\n"
    "local function edge(i) return from + i * window end\n"
    "local fields, missing, out = {name .. ':windows'}, {}, {from}\n"
    "for i = 1, closed do fields[i + 1] = name .. ':' .. edge(i - 1) .. ':' .. window end\n"
    "local cached = redis.call('HMGET', cache, unpack(fields))\n"
    "for i = 1, n do\n"
    "  local count = i <= closed and tonumber(cached[i + 1] or '')\n"
    "  if not count then missing[#missing + 1] = i end\n"
    "  out[i + 1] = count or 0\n"
    "  if #missing == tonumber(ARGV[8]) then break end\n"
    "end\n"
    "if #missing == 0 then return out end\n"
    "local low, high = edge(missing[1] - 1), '(' .. edge(missing[#missing])\n"
    "local events = redis.call('ZCOUNT', log, low, high)\n"
    "if events > 2 * #missing then\n"
    "  for _, i in ipairs(missing) do\n"
    "    out[i + 1] = redis.call('ZCOUNT', log, edge(i - 1), '(' .. edge(i))\n"
    "  end\n"
    "elseif events > 0 then\n"
    "  local wanted, list = {}, redis.call('ZRANGEBYSCORE', log, low, high, 'WITHSCORES')\n"
    "  for _, i in ipairs(missing) do wanted[i] = true end\n"
    "  for k = 2, #list, 2 do\n"
    "    local i = math.floor((list[k] - from) / window) + 1\n"
    "    if wanted[i] then out[i + 1] = out[i + 1] + 1 end\n"
    "  end\n"
    "end\n"
    "if redis.call('EXISTS', log) == 0 then return out end\n"
    "local sizes, known, sizes_n, set = cached[1] or '', false, 0, {}\n"
    "for size in string.gmatch(sizes, '%d+') do\n"
    "  known, sizes_n = known or size == ARGV[2], sizes_n + 1\n"
    "end\n"
    "if not known and sizes_n >= tonumber(ARGV[7]) then return out end\n"
    "for _, i in ipairs(missing) do\n"
    "  if i <= closed and edge(i - 1) >= now - ARGV[6] then\n"
    "    set[#set + 1] = fields[i + 1]\n"
    "    set[#set + 1] = out[i + 1]\n"
    "  end\n"
    "end\n"
    "if #set == 0 then return out end\n"
    "if not known then\n"
    "  set[#set + 1] = fields[1]\n"
    "  set[#set + 1] = sizes == '' and ARGV[2] or sizes .. ',' .. ARGV[2]\n"
    "end\n"
    "redis.pcall('HSET', cache, unpack(set))\n"
    "return out\n";

static uint32_t piece_size(const struct redis_read *r)
{
    return r->left < WINDOWS_A_PIECE ? r->left : WINDOWS_A_PIECE;
}

static void piece_ask(struct redis_read *r);

static bool piece_file(struct redis_read *r, const struct redis_reply *reply)
{
    int64_t count;
    if (!reply_is(reply, REDIS_ARRAY) || reply->n < 2 || reply->n > 1 + piece_size(r)) return false;
    if (!reply_integer(&reply->elements[0], &r->at)) return false;
    for (size_t i = 1; i < reply->n; i++) {
        if (!reply_integer(&reply->elements[i], &count)) return false;
        read_put_number(&r->answer, count);
    }
    r->at += (int64_t)(reply->n - 1) * r->query->window_s;
    r->left -= (uint32_t)(reply->n - 1);
    r->begun = true;
    return true;
}

static void on_piece(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    (void)l, (void)at;
    if (!piece_file(r, reply))
        read_fail(r, reply);
    else if (r->left == 0)
        read_finish(r);
    else
        piece_ask(r);
}

static void piece_ask(struct redis_read *r)
{
    const struct read_query *q = r->query;
    struct buf *out = redis_link_begin(r->link);
    resp_eval(out, SLICE(piece_script), 2, 8);
    name_events(read_key(r), q->name, q->type);
    resp_slice(out, buf_slice(&r->key));
    name_windows(read_key(r), q->type);
    resp_slice(out, buf_slice(&r->key));
    resp_slice(out, q->name);
    resp_int(out, q->window_s);
    resp_int(out, piece_size(r));
    resp_int(out, q->windows_n);
    if (r->begun)
        resp_int(out, r->at);
    else
        RESP_LIT(out, "");
    resp_int(out, r->limits->events_keep_s);
    resp_int(out, SIZES_MAX);
    resp_int(out, COUNTED_A_PIECE);
    redis_link_expect(r->link, 1, on_piece, r);
    redis_link_flush(r->link);
}

void read_windows(struct redis_read *r)
{
    PRE(r->query->windows_n > 0 && r->query->windows_n <= r->limits->read.most && r->query->window_s > 0);
    r->left = r->query->windows_n;
    piece_ask(r);
}
