#!lua flags=no-writes
-- KEYS: gen, batches, the pending hash, the asker's seq key. ARGV: registry prefix, fields. Answers gen, values,
-- {{id, {values}}, ...}, seq; or Redis' own WRONGTYPE, as HMGET says it.
--include parts/packed.lua
--include parts/tag.lua
local prefix, batches, key = ARGV[1], {}, KEYS[3]
local function values(name)
  return redis.pcall('HMGET', name, unpack(ARGV, 2))
end
local pending = values(key)
if pending.err then return pending end
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if redis.call('HEXISTS', prefix .. id, '=' .. bare(key)) == 1 then
    local claimed = values(key .. '_' .. id)
    if claimed.err then return claimed end
    batches[#batches + 1] = {id, claimed}
  else
    local all, of, claimed = packed(prefix .. id, bare(key)) or {}, {}, {}
    for i = 1, #all, 2 do of[all[i]] = all[i + 1] end
    for i = 2, #ARGV do claimed[i - 1] = of[ARGV[i]] or false end
    if #all > 0 then batches[#batches + 1] = {id, claimed} end
  end
end
return {redis.call('GET', KEYS[1]) or '0', pending, batches, redis.call('GET', KEYS[4])}
