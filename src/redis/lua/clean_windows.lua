#!lua flags=allow-oom
-- KEYS: the caches. ARGV: window, keep of each tier. A field is <name>:<start>:<window> or <name>:windows.
--include parts/clean_head.lua
--include parts/clean_fields.lua
local last = {}
local function last_of(window)
  local i = 4
  while i < #ARGV - 1 and tonumber(window) > tonumber(ARGV[i]) do i = i + 2 end
  last[window] = now - ARGV[i + 1]
  return last[window]
end
local function sizes_drop(cache, sizes, live)
  for name, field in pairs(sizes) do
    if not live[name] then call('HDEL', cache, field) end
  end
end
for i = 1, #KEYS do
  if left <= 0 then break end
  local list, all = fields(KEYS[i])
  if list then
    local old, live, sizes = {}, {}, {}
    for j = 1, #list do
      local field = list[j]
      local at, _, start, window = string.find(field, ':(%d+):(%d+)$')
      if not at then
        sizes[string.match(field, '^(.*):windows$') or ''] = field
      elseif tonumber(start) <= (last[window] or last_of(window)) then
        old[#old + 1] = field
      elseif all then
        live[string.sub(field, 1, at - 1)] = true
      end
    end
    sizes[''] = nil
    drop('HDEL', KEYS[i], old)
    if cursor ~= '0' then break end
    if all then sizes_drop(KEYS[i], sizes, live) end
  else
    odd = odd + 1
  end
  finished = finished + 1
end
return {finished, removed, gone, odd, now, cursor}
