#!lua flags=no-writes
-- A registry that has `packed_n` also has `packed`; neither is the name of a hash.
local all, out = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), {}
for i = 1, #all, 2 do
  local registry = ARGV[1] .. all[i]
  local is = redis.call('HMGET', registry, 'format', 'counter', 'gen', 'owner', 'lowest_ms', 'packed_n')
  local fixed = is[6] and 1 or 0
  for j = 1, 6 do if is[j] then fixed = fixed + 1 end end
  out[#out + 1] = {all[i], all[i + 1], is[2] or '', is[4] or '', is[3] or '', is[5] or '',
                   redis.call('HLEN', registry) - fixed + (tonumber(is[6] or '') or 0), is[1] or ''}
end
return out
