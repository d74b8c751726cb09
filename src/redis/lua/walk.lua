#!lua flags=allow-oom
-- KEYS: dirty. ARGV: registry prefix, how many names, the names, then key and id (or "") of each suspect. Answers how
-- many names were put back, then 1 for each suspect that exists and has no registry, else 0.
--include parts/tag.lua
local prefix, names, out = ARGV[1], tonumber(ARGV[2]), {0}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 3, 2 + names do
  if redis.call('EXISTS', tag .. ARGV[i]) == 1 then
    out[1] = out[1] + redis.call('ZADD', KEYS[1], 'LT', now, ARGV[i])
  end
end
for i = 3 + names, #ARGV, 2 do
  local registered = ARGV[i + 1] ~= '' and redis.call('EXISTS', prefix .. ARGV[i + 1]) == 1
  out[#out + 1] = (not registered and redis.call('EXISTS', tag .. ARGV[i]) == 1) and 1 or 0
end
return out
