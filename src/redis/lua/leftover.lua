#!lua flags=allow-oom
-- KEYS: gen, gens, batches, registry, accepted, then leftover and claimed name of each. ARGV: counter, format, owner,
-- fields_max, id, accept (0 1), gens_kept, then the pending hash of each. Answers renamed, left, fields, odd values.
--include parts/book.lua
local counter, format, owner, fields_max, id = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local accept, gen_key, gens, batches, registry = ARGV[6] == '1', KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local accepted, gens_kept = KEYS[5], ARGV[7]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('EXISTS', registry) == 1 then return redis.error_reply('ERR batch ' .. id .. ' exists') end
redis.call('HGET', accepted, counter)
local take, seen, fields, left, odd = {}, {}, 0, 0, 0
for i = 8, #ARGV do
  local from, to = KEYS[2 * i - 10], KEYS[2 * i - 9]
  if redis.call('TYPE', from).ok == 'hash' and redis.call('EXISTS', to) == 0 then
    local n = redis.call('HLEN', from)
    if seen[ARGV[i]] or (#take > 0 and fields + n > fields_max) then left = #ARGV - i + 1 break end
    seen[ARGV[i]] = true
    fields = fields + n
    take[#take + 1] = {from, to, ARGV[i], n}
  end
end
if #take == 0 then return {0, left, 0, 0} end
local gen = redis.call('INCR', gen_key)
redis.call('HSET', gens, gen, id)
redis.call('HDEL', gens, gen - gens_kept)
redis.call('ZADD', batches, now, id)
redis.call('HSET', registry, 'format', format, 'counter', counter, 'gen', gen, 'owner', owner,
           'lowest_ms', string.format('%.0f', now))
for _, h in ipairs(take) do redis.call('HSET', registry, '=' .. h[3], h[4]) end
for _, h in ipairs(take) do
  if accept then
    for _, v in ipairs(redis.call('HVALS', h[1])) do
      local r = book(accepted, counter, v)
      if type(r) == 'table' and r.err then odd = odd + 1 end
    end
  end
  redis.call('RENAMENX', h[1], h[2])
end
return {#take, left, fields, odd}
