#!lua flags=allow-oom
-- KEYS: known:, then the samples of each. ARGV: samples. One script finds the hash empty and removes its name, so no
-- first sample comes in between. Slots are compared as text: that costs half of converting them to numbers.
--include parts/clean_head.lua
--include parts/tag.lua
--include parts/clean_fields.lua
local function old_slots(list, last)
  local old, text = {}, string.format('%.0f', last)
  if last < 0 then return old end
  for j = 1, #list do
    local slot = list[j]
    if (#slot < #text or (#slot == #text and slot <= text)) and string.find(slot, '^%d+$') then
      old[#old + 1] = slot
    end
  end
  return old
end
for i = 2, #KEYS do
  if left <= 0 then break end
  local known = string.sub(bare(KEYS[i]), #'count:' + 1)
  local precision = tonumber(string.match(known, '^(%d+):') or '')
  local list = precision and fields(KEYS[i])
  if list then
    drop('HDEL', KEYS[i], old_slots(list, now - ARGV[4] * precision))
    if cursor ~= '0' then break end
    if call('EXISTS', KEYS[i]) == 0 then gone = gone + redis.call('ZREM', KEYS[1], known) end
  else
    odd = odd + 1
  end
  finished = finished + 1
end
return {finished, removed, gone, odd, now, cursor}
