#!lua flags=allow-oom
-- KEYS: registry, how often a log has left it, then log and cache of each. ARGV: keep, then the name of each. A tallyd
-- that writes logs without listing their names relies on that count, so it is raised first.
--include parts/clean_head.lua
--include parts/tag.lua
for i = 3, #KEYS, 2 do
  if left <= 0 then break end
  local log, n = KEYS[i], call('ZCARD', KEYS[i])
  if bad(n) then
    odd, n = odd + 1, -1
  elseif n > 0 then
    local before = string.format('(%.0f', now - ARGV[4])
    local old = redis.call('ZRANGEBYSCORE', log, '-inf', before, 'LIMIT', 0, left)
    drop('ZREM', log, old)
    n, left = n - #old, left - #old
    if left <= 0 then break end
  end
  left = left - 1
  if n == 0 and call('HEXISTS', KEYS[i + 1], ARGV[4 + (i - 1) / 2] .. ':windows') == 0 then
    redis.call('INCR', KEYS[2])
    gone = gone + redis.call('ZREM', KEYS[1], bare(log))
  end
  finished = finished + 1
end
return {finished, removed, gone, odd, now, cursor}
