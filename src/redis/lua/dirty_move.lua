#!lua flags=allow-oom
-- KEYS: from, to. ARGV: names. Each that is in `from` goes to `to` with its score; one that `to` has keeps that score.
local n = 0
for _, name in ipairs(ARGV) do
  local score = redis.call('ZSCORE', KEYS[1], name)
  if score then
    redis.call('ZADD', KEYS[2], 'NX', score, name)
    redis.call('ZREM', KEYS[1], name)
    n = n + 1
  end
end
return n
