#!lua flags=no-writes
-- KEYS: registry. The fields of hashes stand behind their names, which begin with '='.
local is, n = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #is, 2 do
  if string.sub(is[i], 1, 1) == '=' then n = n + tonumber(is[i + 1]) end
end
return n
