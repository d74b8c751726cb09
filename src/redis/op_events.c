/* redis/op_events.c - events: `<name>:<type>` is a sorted set of ids by their second. Ids of tallyd's own come from the
 * ticker `<name>:index`, all of an op in one INCRBY. An id that stands keeps its first second, and so does one that
 * comes twice; a number that the ticker gives is never one that stands as somebody's own id. */
#include "redis/op_in.h"

/* KEYS: the registry of logs, then log, ticker, cache of each op. ARGV for each: name, r, g, then r times second, how
 * many events without id, then g times second, id. Answers for each: the last of the numbers given (they are one run; 0
 * when none was asked for), or an error.
 * take: numbers are unique, not dense. When one of a run stands as somebody's id, the next run begins further on, each
 * time twice as far, so that a log of a million ids that are numbers costs twenty looks, once. A log of another type
 * shows by what is done to it: then the ticker gets back what was drawn. A call costs more than all else, so an op of one
 * event is two of them, beside one look a script at each cache that is empty.
 * A cached window that an event falls in is dropped whether or not the clock calls the event late: clocks jump. */
static const char events_script[] = OP_SCRIPT_HEAD
    "local a, logs, empty = 1, {}, {}\n"
    "local function text(n) return string.format('%.0f', n) end\n"
    "local function pieces(list, f)\n"
    "  for i = 1, #list, 2000 do\n"
    "    local r = f(i, math.min(i + 1999, #list))\n"
    "    if bad(r) then return r end\n"
    "  end\n"
    "end\n"
    "local function stands(log, ids, own)\n"
    "  local found = false\n"
    "  for i = 1, #ids do found = found or own[ids[i]] end\n"
    "  return pieces(ids, function(i, j)\n"
    "    local scores = call('ZMSCORE', log, unpack(ids, i, j))\n"
    "    for k = 1, #scores do found = found or scores[k] end\n"
    "    return scores\n"
    "  end) or found\n"
    "end\n"
    "local function give_back(ticker, n, last)\n"
    "  if last == n then call('DEL', ticker) else call('DECRBY', ticker, n) end\n"
    "end\n"
    "local function take(ticker, n, is_taken)\n"
    "  local drawn, skip = 0, 0\n"
    "  while true do\n"
    "    local last = call('INCRBY', ticker, n + skip)\n"
    "    if bad(last) then return last end\n"
    "    if last >= 9007199254740992 then\n"
    "      return redis.error_reply('ERR increment or decrement would overflow')\n"
    "    end\n"
    "    drawn = drawn + n + skip\n"
    "    local taken = is_taken(last)\n"
    "    if bad(taken) then\n"
    "      give_back(ticker, drawn, last)\n"
    "      return taken\n"
    "    end\n"
    "    if not taken then return last end\n"
    "    skip = 2 * skip + 1\n"
    "  end\n"
    "end\n"
    "local function add_one(log, ticker, second)\n"
    "  return take(ticker, 1, function(id)\n"
    "    local r = call('ZADD', log, 'NX', second, text(id))\n"
    "    return bad(r) and r or r == 0\n"
    "  end)\n"
    "end\n"
    "local function add_many(log, ticker, n, first, given, last)\n"
    "  local list, own, ids, number = {}, {}, {}, 0\n"
    "  for i = given, last, 2 do\n"
    "    list[#list + 1] = ARGV[i]\n"
    "    list[#list + 1] = ARGV[i + 1]\n"
    "    own[ARGV[i + 1]] = true\n"
    "  end\n"
    "  if n > 0 then\n"
    "    number = take(ticker, n, function(top)\n"
    "      for i = 1, n do ids[i] = text(top - n + i) end\n"
    "      return stands(log, ids, own)\n"
    "    end)\n"
    "  end\n"
    "  if bad(number) then return number end\n"
    "  n = 0\n"
    "  for i = first, given - 1, 2 do\n"
    "    for _ = 1, tonumber(ARGV[i + 1]) do\n"
    "      n = n + 1\n"
    "      list[#list + 1] = ARGV[i]\n"
    "      list[#list + 1] = ids[n]\n"
    "    end\n"
    "  end\n"
    "  return pieces(list, function(i, j) return call('ZADD', log, 'NX', unpack(list, i, j)) end) or number\n"
    "end\n"
    "local function sizes_of(cache, name)\n"
    "  if empty[cache] == nil then\n"
    "    local n = call('HLEN', cache)\n"
    "    if bad(n) then return n end\n"
    "    empty[cache] = n == 0\n"
    "  end\n"
    "  return not empty[cache] and call('HGET', cache, name .. ':windows')\n"
    "end\n"
    "local function windows_drop(cache, name, sizes, first, last)\n"
    "  local fields, seen = {}, {}\n"
    "  for i = first, last, 2 do\n"
    "    local second = tonumber(ARGV[i])\n"
    "    for size in string.gmatch(seen[second] and '' or sizes, '%d+') do\n"
    "      if tonumber(size) > 0 then\n"
    "        fields[#fields + 1] = name .. ':' .. text(second - second % size) .. ':' .. size\n"
    "      end\n"
    "    end\n"
    "    seen[second] = true\n"
    "  end\n"
    "  pieces(fields, function(i, j) return call('HDEL', cache, unpack(fields, i, j)) end)\n"
    "end\n"
    "local function add(log, ticker, cache, name, first, given, last)\n"
    "  local sizes, n, r = sizes_of(cache, name), 0\n"
    "  if bad(sizes) then return sizes end\n"
    "  for i = first, given - 1, 2 do n = n + ARGV[i + 1] end\n"
    "  if n == 1 and given > last then\n"
    "    r = add_one(log, ticker, ARGV[first])\n"
    "  else\n"
    "    r = add_many(log, ticker, n, first, given, last)\n"
    "  end\n"
    "  if bad(r) then return r end\n"
    "  logs[#logs + 1] = 0\n"
    "  logs[#logs + 1] = log\n"
    "  if sizes then windows_drop(cache, name, sizes, first, last) end\n"
    "  return r\n"
    "end\n"
    "local r = call('ZCARD', KEYS[1])\n"
    "if bad(r) then return r end\n"
    "for k = 2, #KEYS, 3 do\n"
    "  local first = a + 3\n"
    "  local given = first + 2 * ARGV[a + 1]\n"
    "  local behind = given + 2 * ARGV[a + 2]\n"
    "  out[#out + 1] = add(KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[a], first, given, behind - 1)\n"
    "  a = behind\n"
    "end\n"
    "pieces(logs, function(i, j) return call('ZADD', KEYS[1], unpack(logs, i, j)) end)\n"
    "return out\n";

static bool is_numbered(const struct op_item *item)
{
    return item->text_n == 0;
}

static void pair_put(struct buf *out, int64_t at, int64_t n)
{
    resp_int(out, at);
    resp_int(out, n);
}

/* The events without an id of their own as (second, how many), in the order of arrival; returns how many pairs. out
 * NULL: only that. */
static uint32_t runs_put(struct buf *out, const struct frame *f, const struct frame_op *op)
{
    uint32_t runs = 0;
    int64_t at = op->at, n = op->fed ? op->delta : 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (!is_numbered(item)) continue;
        if (n > 0 && item->at != at) {
            if (out != NULL) pair_put(out, at, n);
            runs++;
            n = 0;
        }
        at = item->at;
        n++;
    }
    if (n > 0 && out != NULL) pair_put(out, at, n);
    return runs + (n > 0);
}

static uint32_t numbered_count(const struct frame *f, const struct frame_op *op)
{
    uint32_t n = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        n += is_numbered(&f->items[i]);
    return n;
}

static void op_put(struct buf *out, const struct frame *f, const struct frame_op *op)
{
    resp_slice(out, FRAME_NAME(f, op));
    resp_int(out, runs_put(NULL, f, op));
    resp_int(out, op->items_n - numbered_count(f, op));
    (void)runs_put(out, f, op);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (is_numbered(item)) continue;
        resp_int(out, item->at);
        resp_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

void events_put(struct buf *out, struct buf *name, const struct frame *f)
{
    size_t keys = 1, args = 0;
    const struct frame_op *op;
    for (op = op_next(f, OP_EVENT, NULL); op != NULL; op = op_next(f, OP_EVENT, op)) {
        keys += 3;
        args += 3 + 2 * ((size_t)runs_put(NULL, f, op) + op->items_n - numbered_count(f, op));
    }
    resp_eval(out, SLICE(events_script), keys, args);
    RESP_LIT(out, KEY_EVENTS);
    for (op = op_next(f, OP_EVENT, NULL); op != NULL; op = op_next(f, OP_EVENT, op)) {
        OP_KEY(out, name, name_events(name, FRAME_NAME(f, op), FRAME_TYPE(f, op)));
        OP_KEY(out, name, name_ticker(name, FRAME_NAME(f, op)));
        OP_KEY(out, name, name_windows(name, FRAME_TYPE(f, op)));
    }
    for (op = op_next(f, OP_EVENT, NULL); op != NULL; op = op_next(f, OP_EVENT, op))
        op_put(out, f, op);
}

bool events_take(struct frame *f, struct frame_op *op, const struct redis_reply *r, const struct op_limits *l)
{
    int64_t next = 0;
    (void)l;
    if (!reply_integer(r, &next)) return false;
    next -= (int64_t)numbered_count(f, op) - 1;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        f->items[i].value = is_numbered(&f->items[i]) ? next++ : 0;
    return true;
}
