-- KEYS: the log, its cache. ARGV: name, window, how many of them, how many in all, start of the first ("": of the very
-- first, to be found), how long events are kept, SIZES_MAX, COUNTED_A_PIECE. Answers that start, then as many counts as
-- it came to. What the cache lacks is counted in the log, by the events themselves when these are few, else by a ZCOUNT
-- each: bounded, however many events there are. A cache that cannot be written (Redis is full) is not used.
local log, cache, name = KEYS[1], KEYS[2], ARGV[1]
local window, n = tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(redis.call('TIME')[1])
local from = tonumber(ARGV[5]) or now - now % window - (ARGV[4] - 1) * window
local closed = math.max(0, math.min(n, math.floor((now - from) / window)))
local function edge(i) return from + i * window end
local fields, missing, out = {name .. ':windows'}, {}, {from}
for i = 1, closed do fields[i + 1] = name .. ':' .. edge(i - 1) .. ':' .. window end
local cached = redis.call('HMGET', cache, unpack(fields))
for i = 1, n do
  local count = i <= closed and tonumber(cached[i + 1] or '')
  if not count then missing[#missing + 1] = i end
  out[i + 1] = count or 0
  if #missing == tonumber(ARGV[8]) then break end
end
if #missing == 0 then return out end
local low, high = edge(missing[1] - 1), '(' .. edge(missing[#missing])
local events = redis.call('ZCOUNT', log, low, high)
if events > 2 * #missing then
  for _, i in ipairs(missing) do
    out[i + 1] = redis.call('ZCOUNT', log, edge(i - 1), '(' .. edge(i))
  end
elseif events > 0 then
  local wanted, list = {}, redis.call('ZRANGEBYSCORE', log, low, high, 'WITHSCORES')
  for _, i in ipairs(missing) do wanted[i] = true end
  for k = 2, #list, 2 do
    local i = math.floor((list[k] - from) / window) + 1
    if wanted[i] then out[i + 1] = out[i + 1] + 1 end
  end
end
if redis.call('EXISTS', log) == 0 then return out end
local sizes, known, sizes_n, set = cached[1] or '', false, 0, {}
for size in string.gmatch(sizes, '%d+') do
  known, sizes_n = known or size == ARGV[2], sizes_n + 1
end
if not known and sizes_n >= tonumber(ARGV[7]) then return out end
for _, i in ipairs(missing) do
  if i <= closed and out[i + 1] > 0 and edge(i - 1) >= now - ARGV[6] then
    set[#set + 1] = fields[i + 1]
    set[#set + 1] = out[i + 1]
  end
end
if #set == 0 then return out end
if not known then
  set[#set + 1] = fields[1]
  set[#set + 1] = sizes == '' and ARGV[2] or sizes .. ',' .. ARGV[2]
end
redis.pcall('HSET', cache, unpack(set))
return out
