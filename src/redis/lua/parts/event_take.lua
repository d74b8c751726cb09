-- take(ticker, n, is_taken): the last of n numbers of the ticker, or an error. Numbers are unique, not dense. When one
-- of them exists as a client's own id, the next try begins further on, each time twice as far. So a log of a million
-- ids that are numbers costs twenty looks, once. A log of another type shows only when it is written: then the ticker
-- is set back.
local function give_back(ticker, n, last)
  if last == n then call('DEL', ticker) else call('DECRBY', ticker, n) end
end
local function take(ticker, n, is_taken)
  local drawn, skip = 0, 0
  while true do
    local last = call('INCRBY', ticker, n + skip)
    if bad(last) then return last end
    if last >= 9007199254740992 then
      return redis.error_reply('ERR increment or decrement would overflow')
    end
    drawn = drawn + n + skip
    if last < n then
      give_back(ticker, drawn, last)
      return redis.error_reply('ERR the ticker ' .. bare(ticker) .. ' is below 0, which tallyd did not write: set it to the highest number that its log had')
    end
    local taken = is_taken(last)
    if bad(taken) then
      give_back(ticker, drawn, last)
      return taken
    end
    if not taken then return last end
    skip = 2 * skip + 1
  end
end
