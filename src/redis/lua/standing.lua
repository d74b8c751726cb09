#!lua flags=no-writes
local ids = redis.call('ZRANGE', KEYS[1], 0, -1)
if ARGV[2] == '' then return ids end
local out = {}
for _, id in ipairs(ids) do
  if redis.call('HEXISTS', ARGV[1] .. id, '=' .. ARGV[2]) == 1 then out[#out + 1] = id end
end
return out
