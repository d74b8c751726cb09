#!lua
-- KEYS: caches, one for each run of ops of one type. ARGV for each: their logs, packed: the length of the name, ':',
-- the name, its seconds with a space after each, ';'. It is one string, and read only when that cache is not empty. A
-- cache key of another type holds nothing of tallyd's.
--include parts/frame_head.lua
--include parts/event_windows.lua
local function drop(cache, packed, at)
  local _, head, n = string.find(packed, '^(%d+):', at)
  local name = string.sub(packed, head + 1, head + n)
  local _, last, list = string.find(packed, '^([%d ]+);', head + n + 1)
  local sizes, seconds = sizes_of(cache, name), {}
  for second in string.gmatch(list, '%d+') do seconds[#seconds + 1] = second end
  if sizes and not bad(sizes) then windows_drop(cache, name, sizes, seconds) end
  return last + 1
end
for k = 1, #KEYS do
  local n, at = call('HLEN', KEYS[k]), 1
  while not bad(n) and n > 0 and at <= #ARGV[k] do at = drop(KEYS[k], ARGV[k], at) end
end
return 0
