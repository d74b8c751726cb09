/* redis/op_events.c - events: `<name>:<type>` is a sorted set of ids by their second. What a frame carries of them:
 *   GET   how often a log has left tally:events; ZADD the logs that may have.
 *   EVAL  events that draw: numbers come from the ticker `<name>:index`, all of an op and the lease of its log in one
 *         INCRBY; an own id that is a number is looked at.
 *   then those whose ids are given (op_given.c).
 * An id that stands keeps its first second, and so does one that comes twice; a number that the ticker gives is never one
 * that stands as somebody's own id, and no own id becomes one that it has leased. */
#include "redis/op_in.h"

/* KEYS: the registry of logs, the leases, then log, ticker, cache of each op. ARGV for each: name, r, g, lease, looks, then
 * r times second, how many events without id, then g times second, id. Answers for each: the last of the numbers given
 * (they are one run, the lease at its end; 0 when none was asked for), or an error; or a list of it and of which of the g
 * are refused (from 1): numbers that do not stand and that a lease may hold. looks: 1 when there are numbers among the g.
 * take: numbers are unique, not dense. When one of a run stands as somebody's id, the next run begins further on, each
 * time twice as far, so that a log of a million ids that are numbers costs twenty looks, once. A log of another type
 * shows by what is done to it: then the ticker gets back what was drawn.
 * notes: what KEY_LEASED says of a log, "leased own": no own id of it is a number above `own`, so a run above needs no
 * look at each of its numbers, which would cost more than the events. It is known from when the log was empty on; without
 * it ("leased", of older versions, or no field) each is looked at. */
static const char events_script[] = OP_SCRIPT_HEAD EVENT_WINDOWS
    "local a, logs = 1, {}\n"
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
    "    if last < n then\n"
    "      give_back(ticker, drawn, last)\n"
    "      return redis.error_reply('ERR the ticker ' .. ticker .. ' is below 0, set by somebody: "
    "set it to the highest number that its log had')\n"
    "    end\n"
    "    local taken = is_taken(last)\n"
    "    if bad(taken) then\n"
    "      give_back(ticker, drawn, last)\n"
    "      return taken\n"
    "    end\n"
    "    if not taken then return last end\n"
    "    skip = 2 * skip + 1\n"
    "  end\n"
    "end\n"
    "local function notes(log)\n"
    "  local n = call('ZCARD', log)\n"
    "  if bad(n) then return n end\n"
    "  local leased, own = string.match(call('HGET', KEYS[2], log) or '', '^(%d+) ?(%d*)$')\n"
    "  return nil, tonumber(leased) or 0, tonumber(own) or (n == 0 and 0)\n"
    "end\n"
    "local function note(log, leased, own)\n"
    "  call('HSET', KEYS[2], log, text(leased) .. (own and ' ' .. text(own) or ''))\n"
    "end\n"
    "local function add_one(log, ticker, second)\n"
    "  return take(ticker, 1, function(id)\n"
    "    local r = call('ZADD', log, 'NX', second, text(id))\n"
    "    return bad(r) and r or r == 0\n"
    "  end)\n"
    "end\n"
    "local function add_many(log, ticker, n, lease, first, given, last, skip, own)\n"
    "  local list, with, ids, number = {}, {}, {}, 0\n"
    "  for i = given, last, 2 do\n"
    "    if not skip[i] then\n"
    "      list[#list + 1] = ARGV[i]\n"
    "      list[#list + 1] = ARGV[i + 1]\n"
    "      with[ARGV[i + 1]] = true\n"
    "    end\n"
    "  end\n"
    "  if n > 0 then\n"
    "    local all = n + lease\n"
    "    number = take(ticker, all, function(top)\n"
    "      local is_above = own and own <= top - all\n"
    "      for i = 1, is_above and n or all do ids[i] = text(top - all + i) end\n"
    "      return not is_above and stands(log, ids, with)\n"
    "    end)\n"
    "    if bad(number) then return number end\n"
    "    if lease > 0 then note(log, number, own) end\n"
    "  end\n"
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
    "local function refused(log, given, last, leased)\n"
    "  local skip, list, most = {}, {}, 0\n"
    "  for i = given, last, 2 do\n"
    "    local id = ARGV[i + 1]\n"
    "    local number = string.find(id, '^[1-9]%d*$') and tonumber(id) or 0\n"
    "    if number > 0 and number <= leased and not call('ZSCORE', log, id) then\n"
    "      list[#list + 1] = (i - given) / 2 + 1\n"
    "      skip[i] = true\n"
    "    else\n"
    "      most = math.max(most, math.min(number, 9007199254740992))\n"
    "    end\n"
    "  end\n"
    "  return skip, list, most\n"
    "end\n"
    "local function add(log, ticker, cache, name, first, given, last, lease, looks)\n"
    "  local sizes, n, r, skip, list, most = sizes_of(cache, name), 0, 0, {}, {}, 0\n"
    "  local failed, leased, own\n"
    "  if bad(sizes) then return sizes end\n"
    "  for i = first, given - 1, 2 do n = n + ARGV[i + 1] end\n"
    "  if looks or lease > 0 then failed, leased, own = notes(log) end\n"
    "  if failed then return failed end\n"
    "  if looks then skip, list, most = refused(log, given, last, leased) end\n"
    "  if n == 1 and given > last and lease == 0 then\n"
    "    r = add_one(log, ticker, ARGV[first])\n"
    "  else\n"
    "    r = add_many(log, ticker, n, lease, first, given, last, skip, not looks and own)\n"
    "  end\n"
    "  if bad(r) then return r end\n"
    "  if own and most > own then note(log, leased, most) end\n"
    "  logs[#logs + 1] = 0\n"
    "  logs[#logs + 1] = log\n"
    "  if sizes then\n"
    "    local seconds = {}\n"
    "    for i = first, last, 2 do seconds[#seconds + 1] = ARGV[i] end\n"
    "    windows_drop(cache, name, sizes, seconds)\n"
    "  end\n"
    "  if #list > 0 then\n"
    "    table.insert(list, 1, r)\n"
    "    return list\n"
    "  end\n"
    "  return r\n"
    "end\n"
    "local r = call('ZCARD', KEYS[1])\n"
    "if bad(r) then return r end\n"
    "r = call('HLEN', KEYS[2])\n"
    "if bad(r) then return r end\n"
    "for k = 3, #KEYS, 3 do\n"
    "  local first = a + 5\n"
    "  local given = first + 2 * ARGV[a + 1]\n"
    "  local behind = given + 2 * ARGV[a + 2]\n"
    "  out[#out + 1] = add(KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[a], first, given, behind - 1,\n"
    "                      tonumber(ARGV[a + 3]), ARGV[a + 4] == '1')\n"
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
    resp_int(out, op->lease_n);
    resp_int(out, op->has_numbers);
    (void)runs_put(out, f, op);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (is_numbered(item)) continue;
        resp_int(out, item->at);
        resp_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

/* The ops of the script: all whose ids are not given. */
static struct frame_op *drawing_next(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_EVENT, op);
    while (next != NULL && op_is_given(next))
        next = op_next(f, OP_EVENT, next);
    return next;
}

static uint32_t drawing_put(struct buf *out, struct buf *name, const struct frame *f)
{
    size_t keys = 2, args = 0;
    const struct frame_op *op;
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op)) {
        keys += 3;
        args += 5 + 2 * ((size_t)runs_put(NULL, f, op) + op->items_n - numbered_count(f, op));
    }
    if (args == 0) return 0;
    resp_eval(out, SLICE(events_script), keys, args);
    RESP_LIT(out, KEY_EVENTS);
    RESP_LIT(out, KEY_LEASED);
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op)) {
        OP_KEY(out, name, name_events(name, FRAME_NAME(f, op), FRAME_TYPE(f, op)));
        OP_KEY(out, name, name_ticker(name, FRAME_NAME(f, op)));
        OP_KEY(out, name, name_windows(name, FRAME_TYPE(f, op)));
    }
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op))
        op_put(out, f, op);
    return 1;
}

uint32_t events_put(struct buf *out, struct buf *name, const struct frame *f)
{
    BUF_LIT(out, "*2\r\n$3\r\nGET\r\n");
    RESP_LIT(out, KEY_EVENTS_GONE);
    uint32_t lines = 1 + given_names_put(out, name, f);
    lines += drawing_put(out, name, f);
    return lines + given_put(out, name, f);
}

/* The script says which of the own ids it refused. */
static bool refused_file(struct frame *f, const struct frame_op *op, const struct redis_reply *r)
{
    uint32_t own = 0;
    size_t at = 1;
    int64_t refused = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        if (is_numbered(&f->items[i])) continue;
        if (at < r->n && !reply_integer(&r->elements[at], &refused)) return false;
        if (at == r->n || ++own != refused) continue;
        f->items[i].value = EVENT_REFUSED;
        at++;
    }
    return at == r->n;
}

static bool drawing_take(struct frame *f, struct frame_op *op, const struct redis_reply *r,
                         const struct op_limits *l)
{
    bool some_refused = r->type == REDIS_ARRAY && r->n > 1;
    (void)l;
    int64_t drawn = op->lease_n + (int64_t)numbered_count(f, op);
    if (!reply_integer(some_refused ? r->elements : r, &op->value) || op->value < drawn) return false;
    int64_t next = op->value - drawn + 1;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        f->items[i].value = is_numbered(&f->items[i]) ? next++ : 0;
    return !some_refused || refused_file(f, op, r);
}

const struct redis_reply *events_file(struct frame *f, const struct op_limits *l, const struct redis_reply *r,
                                      struct op_trouble *trouble)
{
    f->events_gone = 0;
    if (r->type != REDIS_NIL && !reply_integer(r, &f->events_gone)) {
        *trouble = (struct op_trouble){KEY_EVENTS_GONE, r};
        f->events_gone = -1;
    }
    r = given_names_file(f, r + 1, trouble);
    if (drawing_next(f, NULL) != NULL) op_script_file(f, drawing_next, l, r++, drawing_take);
    return given_file(f, r, trouble);
}
