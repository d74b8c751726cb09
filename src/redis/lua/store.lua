#!lua flags=no-writes
-- KEYS: gen, dirty, held, batches, the pending hash, its lock. ARGV: registry prefix, fields_max. Answers gen, dirty
-- (0 1), held (0 1), the lock's PTTL, the key's type, {field, value, ...}, {{id, registered, {field, value, ...}},
-- ...}; an empty array: too many fields.
--include parts/packed.lua
--include parts/tag.lua
local key, name, prefix, most, fields = KEYS[5], bare(KEYS[5]), ARGV[1], tonumber(ARGV[2]), 0
local function hash(at)
  if redis.call('TYPE', at).ok ~= 'hash' then return {} end
  fields = fields + redis.call('HLEN', at)
  if fields > most then return {} end
  return redis.call('HGETALL', at)
end
local pending, batches = hash(key), {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
  local registered = redis.call('HGET', prefix .. id, '=' .. name)
  local all = not registered and packed(prefix .. id, name)
  if registered then batches[#batches + 1] = {id, registered, hash(key .. '_' .. id)} end
  if all then batches[#batches + 1] = {id, string.format('%d', #all / 2), all} end
end
if fields > most then return {} end
return {redis.call('GET', KEYS[1]) or '0', redis.call('ZSCORE', KEYS[2], name) and 1 or 0,
        redis.call('ZSCORE', KEYS[3], name) and 1 or 0, redis.call('PTTL', KEYS[6]),
        redis.call('TYPE', key).ok, pending, batches}
