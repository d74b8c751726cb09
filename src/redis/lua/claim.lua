#!lua flags=allow-oom
-- KEYS: dirty, gen, gens, batches, registry, then the pending hashes. ARGV: counter, format, owner, instance, every_s,
-- fields_max, id, gens_kept, the most fields and bytes of a hash that is packed, then each hash's lock, or '' to leave
-- it alone. Answers claimed, left, fields, gen, then up to ten keys that are no hashes. (!) A packed hash is in its key
-- or in the registry, never in both or neither: its UNLINK and the HSET after it must both succeed. The UNLINK is one
-- command, and by then an HSET of the registry has succeeded already.
--include parts/tag.lua
local call = redis.call
local counter, format, owner, instance = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local every_s, fields_max, id, gens_kept = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local pack_fields, pack_bytes = tonumber(ARGV[9]), tonumber(ARGV[10])
local dirty, gen_key, gens, batches, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if call('EXISTS', registry) == 1 then return redis.error_reply('ERR batch ' .. id .. ' exists') end
local small, packed, large, lengths, locks, seen, gone, odd = {}, {}, {}, {}, {}, {}, {}, {}
local taken, fields, left, gen = 0, 0, 0, 0
local function whole(key, n)
  local all, bytes = call('HGETALL', key), 0
  for i = 1, #all do bytes = bytes + #all[i] end
  return #all == 2 * n and bytes <= pack_bytes and all
end
for i = 6, #KEYS do
  local key = KEYS[i]
  local n = redis.pcall('HLEN', key)
  if n == 0 or type(n) == 'table' then
    if n ~= 0 and string.sub(n.err, 1, 9) ~= 'WRONGTYPE' then return n end
    if n ~= 0 and #odd < 10 then odd[#odd + 1] = bare(key) end
    gone[#gone + 1] = bare(key)
  elseif not seen[key] then
    if taken > 0 and fields + n > fields_max then left = #KEYS - i + 1 break end
    local all = n <= pack_fields and whole(key, n)
    if all or call('EXISTS', key .. '_' .. id) == 0 then
      seen[key], taken, fields = true, taken + 1, fields + n
      gone[#gone + 1] = bare(key)
      if all then
        small[#small + 1] = key
        packed[#packed + 1] = bare(key)
        packed[#packed + 1] = all
      else
        large[#large + 1] = key
        lengths[#lengths + 1] = '=' .. bare(key)
        lengths[#lengths + 1] = n
      end
      if ARGV[i + 5] ~= '' then locks[#locks + 1] = ARGV[i + 5] end
    end
  end
end
if taken > 0 then
  local first = call('ZRANGE', dirty, 0, 0, 'WITHSCORES')
  local lowest, text = math.min(now, tonumber(first[2] or now)), cmsgpack.pack(packed)
  gen = call('INCR', gen_key)
  call('HSET', gens, gen, id)
  call('HDEL', gens, gen - gens_kept)
  call('ZADD', batches, now, id)
  call('HSET', registry, 'format', format, 'counter', counter, 'gen', gen, 'owner', owner, 'lowest_ms',
       string.format('%.0f', lowest), unpack(lengths))
  if #small > 0 then
    call('UNLINK', unpack(small))
    call('HSET', registry, 'packed', text, 'packed_n', #small)
  end
  for _, key in ipairs(large) do
    call('RENAMENX', key, key .. '_' .. id)
    redis.pcall('PERSIST', key .. '_' .. id) -- another program's TTL would go along
  end
  for _, lock in ipairs(locks) do call('SET', lock, instance, 'EX', every_s) end
end
if #gone > 0 then call('ZREM', dirty, unpack(gone)) end
return {taken, left, fields, gen, unpack(odd)}
