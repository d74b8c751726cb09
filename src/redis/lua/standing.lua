#!lua flags=no-writes
--include parts/packed.lua
local ids = redis.call('ZRANGE', KEYS[1], 0, -1)
if ARGV[2] == '' then return ids end
local out = {}
for _, id in ipairs(ids) do
  local registry = ARGV[1] .. id
  if redis.call('HEXISTS', registry, '=' .. ARGV[2]) == 1 or packed(registry, ARGV[2]) then out[#out + 1] = id end
end
return out
