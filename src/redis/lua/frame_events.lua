#!lua
-- KEYS: the registry of logs, the leases, then log, ticker, cache of each op. ARGV for each: name, r, g, lease, looks,
-- then r times second, how many events without id, then g times second, id. Answers for each the last of the numbers
-- given (they are consecutive, the lease at the end; 0 when none was asked for), or an error; or a list of that number
-- and the positions (from 1) of the refused ones among the g: numbers that are not in the log and that a lease may
-- hold. looks: 1 when there are numbers among the g. notes: what KEY_LEASED says of a log, "leased own": no own id of
-- it is a number above `own`. So numbers above it need no look at each, which would cost more than the events. `own` is
-- known if it was kept since the log was empty; without it ("leased", of older versions, or no field) each number is
-- looked at.
--include parts/frame_head.lua
--include parts/tag.lua
--include parts/event_windows.lua
--include parts/event_take.lua
--include parts/new_ops.lua
local at, a, logs = {}, 1, {}
local function stands(log, ids, own)
  local found = false
  for i = 1, #ids do found = found or own[ids[i]] end
  return pieces(ids, function(i, j)
    local scores = call('ZMSCORE', log, unpack(ids, i, j))
    for k = 1, #scores do found = found or scores[k] end
    return scores
  end) or found
end
local function notes(log)
  local n = call('ZCARD', log)
  if bad(n) then return n end
  local leased, own = string.match(call('HGET', KEYS[2], bare(log)) or '', '^(%d+) ?(%d*)$')
  return nil, tonumber(leased) or 0, tonumber(own) or (n == 0 and 0)
end
local function note(log, leased, own)
  call('HSET', KEYS[2], bare(log), text(leased) .. (own and ' ' .. text(own) or ''))
end
local function named(log)
  logs[#logs + 1] = 0
  logs[#logs + 1] = bare(log)
end
local function add_one(log, ticker, second)
  return take(ticker, 1, function(id)
    local r = call('ZADD', log, 'NX', second, text(id))
    return bad(r) and r or r == 0
  end)
end
local function add_many(log, ticker, n, lease, first, given, last, skip, own)
  local list, with, ids, number = {}, {}, {}, 0
  for i = given, last, 2 do
    if not skip[i] then
      list[#list + 1] = ARGV[i]
      list[#list + 1] = ARGV[i + 1]
      with[ARGV[i + 1]] = true
    end
  end
  if n > 0 then
    local all = n + lease
    number = take(ticker, all, function(top)
      local is_above = own and own <= top - all
      for i = 1, is_above and n or all do ids[i] = text(top - all + i) end
      return not is_above and stands(log, ids, with)
    end)
    if bad(number) then return number end
    if lease > 0 then note(log, number, own) end
  end
  n = 0
  for i = first, given - 1, 2 do
    for _ = 1, tonumber(ARGV[i + 1]) do
      n = n + 1
      list[#list + 1] = ARGV[i]
      list[#list + 1] = ids[n]
    end
  end
  return pieces(list, function(i, j) return call('ZADD', log, 'NX', unpack(list, i, j)) end) or number
end
local function refused(log, given, last, leased)
  local skip, list, most = {}, {}, 0
  for i = given, last, 2 do
    local id = ARGV[i + 1]
    local number = string.find(id, '^[1-9]%d*$') and tonumber(id) or 0
    if number > 0 and number <= leased and not call('ZSCORE', log, id) then
      list[#list + 1] = (i - given) / 2 + 1
      skip[i] = true
    else
      most = math.max(most, math.min(number, 9007199254740992))
    end
  end
  return skip, list, most
end
local function add(op)
  local log, ticker, cache, a, last = KEYS[3 * op], KEYS[3 * op + 1], KEYS[3 * op + 2], at[op], at[op + 1] - 1
  local name, first, lease, looks = ARGV[a], a + 5, tonumber(ARGV[a + 3]), ARGV[a + 4] == '1'
  local sizes, n, r, skip, list, most = sizes_of(cache, name), 0, 0, {}, {}, 0
  local failed, leased, own
  local given = first + 2 * ARGV[a + 1]
  if bad(sizes) then return sizes end
  for i = first, given - 1, 2 do n = n + ARGV[i + 1] end
  if looks or lease > 0 then failed, leased, own = notes(log) end
  if failed then return failed end
  if looks then skip, list, most = refused(log, given, last, leased) end
  if n == 1 and given > last and lease == 0 then
    r = add_one(log, ticker, ARGV[first])
  else
    r = add_many(log, ticker, n, lease, first, given, last, skip, not looks and own)
  end
  if bad(r) then return r end
  if own and most > own then note(log, leased, most) end
  named(log)
  if sizes then
    local seconds = {}
    for i = first, last, 2 do seconds[#seconds + 1] = ARGV[i] end
    windows_drop(cache, name, sizes, seconds)
  end
  if #list > 0 then
    table.insert(list, 1, r)
    return list
  end
  return r
end
-- The events of a log that is new, as its ticker is: its numbers begin at 1. Answers the last of them.
local function first_events(op)
  local list, n = {}, 0
  for i = at[op] + 5, at[op + 1] - 1, 2 do
    for _ = 1, tonumber(ARGV[i + 1]) do
      n = n + 1
      list[#list + 1] = ARGV[i]
      list[#list + 1] = text(n)
    end
  end
  pieces(list, function(i, j) return call('ZADD', KEYS[3 * op], unpack(list, i, j)) end)
  named(KEYS[3 * op])
  return n
end
-- Some ops at once, whose logs and tickers are new and which bring no ids. False: they are not of this kind, and
-- nothing is done.
local function add_new(from, upto)
  local keys, tickers, leases = {}, {}, {}
  for op = from, upto do
    if ARGV[at[op] + 2] ~= '0' or sizes_of(KEYS[3 * op + 2], ARGV[at[op]]) then return false end
    keys[#keys + 1] = KEYS[3 * op]
    keys[#keys + 1] = KEYS[3 * op + 1]
  end
  if not all_new(keys) then return false end
  for op = from, upto do
    local n = first_events(op)
    out[op] = n + ARGV[at[op] + 3]
    tickers[#tickers + 1] = KEYS[3 * op + 1]
    tickers[#tickers + 1] = text(out[op])
    if out[op] > n then
      leases[#leases + 1] = bare(KEYS[3 * op])
      leases[#leases + 1] = text(out[op]) .. ' 0'
    end
  end
  call('MSET', unpack(tickers))
  if #leases > 0 then call('HSET', KEYS[2], unpack(leases)) end
  return true
end
local r = call('ZCARD', KEYS[1])
if bad(r) then return r end
r = call('HLEN', KEYS[2])
if bad(r) then return r end
for k = 3, #KEYS, 3 do
  at[k / 3] = a
  a = a + 5 + 2 * (ARGV[a + 1] + ARGV[a + 2])
end
at[#at + 1] = a
ops_add(#at - 1, add_new, add)
pieces(logs, function(i, j) return call('ZADD', KEYS[1], unpack(logs, i, j)) end)
return out
