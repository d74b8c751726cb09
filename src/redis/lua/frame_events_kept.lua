#!lua
-- Events that Redis lost, with the numbers that their clients were told. KEYS: the registry of logs, then log, ticker,
-- cache of each op. ARGV for each: name, ours, n, then n times second, number. Answers for each how many got another
-- number, or an error. A number stays when no other event can have it: it is of a lease that Redis knows (ours), or
-- above the ticker, which is then raised to it.
--include parts/frame_head.lua
--include parts/tag.lua
--include parts/event_windows.lua
--include parts/event_take.lua
local a, logs = 1, {}
local function add_again(log, ticker, seconds)
  local last = take(ticker, #seconds, function(top)
    for i = 1, #seconds do
      if call('ZSCORE', log, text(top - #seconds + i)) then return true end
    end
  end)
  if bad(last) then return last end
  for i = 1, #seconds do call('ZADD', log, 'NX', seconds[i], text(last - #seconds + i)) end
  return #seconds
end
local function keep(log, ticker, ours, first, last)
  local r, again = call('ZCARD', log), {}
  if bad(r) then return r end
  r = call('GET', ticker)
  if bad(r) then return r end
  local drawn = tonumber(r or 0) or 0
  local most = drawn
  for i = first, last, 2 do
    local number = tonumber(ARGV[i + 1])
    if (ours or number > drawn) and call('ZADD', log, 'NX', ARGV[i], ARGV[i + 1]) == 1 then
      most = math.max(most, number)
    else
      again[#again + 1] = ARGV[i]
    end
  end
  if most > drawn then call('SET', ticker, text(most)) end
  return #again == 0 and 0 or add_again(log, ticker, again)
end
local r = call('ZCARD', KEYS[1])
if bad(r) then return r end
for k = 2, #KEYS, 3 do
  local first, seconds = a + 3, {}
  local behind = first + 2 * ARGV[a + 2]
  local sizes = sizes_of(KEYS[k + 2], ARGV[a])
  r = bad(sizes) and sizes or keep(KEYS[k], KEYS[k + 1], ARGV[a + 1] == '1', first, behind - 1)
  out[#out + 1] = r
  if not bad(r) then
    logs[#logs + 1] = 0
    logs[#logs + 1] = bare(KEYS[k])
  end
  for i = first, behind - 1, 2 do seconds[#seconds + 1] = ARGV[i] end
  if sizes and not bad(r) then windows_drop(KEYS[k + 2], ARGV[a], sizes, seconds) end
  a = behind
end
pieces(logs, function(i, j) return call('ZADD', KEYS[1], unpack(logs, i, j)) end)
return out
