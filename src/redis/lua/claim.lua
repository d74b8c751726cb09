#!lua flags=allow-oom
-- KEYS: dirty, gen, gens, batches, registry, then pending, claimed, lock of each hash. ARGV: counter, format, owner,
-- instance, every_s, fields_max, id, gens_kept. Answers renamed, left, fields, gen, then up to ten keys that are no hashes. The
-- calls with many arguments go in pieces of 500: unpack() has a bound near 8,000.
local counter, format, owner, instance = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local every_s, fields_max, id, gens_kept = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local dirty, gen_key, gens, batches, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('EXISTS', registry) == 1 then return redis.error_reply('ERR batch ' .. id .. ' stands') end
local take, seen, gone, odd, fields, left, lowest = {}, {}, {}, {}, 0, 0, now
for i = 6, #KEYS, 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'hash' then
    gone[#gone + 1] = KEYS[i]
    if kind ~= 'none' and #odd < 10 then odd[#odd + 1] = KEYS[i] end
  elseif not seen[KEYS[i]] and redis.call('EXISTS', KEYS[i + 1]) == 0 then
    local n = redis.call('HLEN', KEYS[i])
    if #take > 0 and fields + n > fields_max then left = (#KEYS - i + 1) / 3 break end
    seen[KEYS[i]] = true
    fields = fields + n
    take[#take + 1] = {i, n}
    local score = tonumber(redis.call('ZSCORE', dirty, KEYS[i]) or now)
    if score < lowest then lowest = score end
  end
end
local function in_pieces(list, ...)
  for at = 1, #list, 500 do
    local call = {...}
    for i = at, math.min(at + 499, #list) do call[#call + 1] = list[i] end
    redis.call(unpack(call))
  end
end
local gen = 0
if #take > 0 then
  gen = redis.call('INCR', gen_key)
  redis.call('HSET', gens, gen, id)
  redis.call('HDEL', gens, gen - gens_kept)
  redis.call('ZADD', batches, now, id)
  redis.call('HSET', registry, 'format', format, 'counter', counter, 'gen', gen, 'owner', owner,
             'lowest_ms', string.format('%.0f', lowest))
  local lengths = {}
  for _, h in ipairs(take) do
    lengths[#lengths + 1] = '=' .. KEYS[h[1]]
    lengths[#lengths + 1] = h[2]
  end
  in_pieces(lengths, 'HSET', registry)
  for _, h in ipairs(take) do
    redis.call('RENAMENX', KEYS[h[1]], KEYS[h[1] + 1])
    gone[#gone + 1] = KEYS[h[1]]
    redis.call('SET', KEYS[h[1] + 2], instance, 'EX', every_s)
  end
end
in_pieces(gone, 'ZREM', dirty)
return {#take, left, fields, gen, unpack(odd)}
