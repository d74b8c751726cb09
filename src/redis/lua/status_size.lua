#!lua flags=no-writes
-- KEYS: registry. A field that begins with '=' is the name of a renamed hash; its value is how many fields that hash
-- has.
local is, n = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #is, 2 do
  if string.sub(is[i], 1, 1) == '=' then n = n + tonumber(is[i + 1]) end
  if is[i] == 'packed' then
    local all = cmsgpack.unpack(is[i + 1])
    for j = 2, #all, 2 do n = n + #all[j] / 2 end
  end
end
return n
