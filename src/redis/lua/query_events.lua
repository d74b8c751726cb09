#!lua flags=no-writes
-- KEYS: the log. ARGV: from, to, how many to skip, how many at most; after the first piece also the score and the id of
-- the last event. When that one no longer exists, the cleaner deleted it, and with it all before it. Answers how many
-- there are from here on, and id, second, id, second ...
local key, score, id, at = KEYS[1], ARGV[5], ARGV[6], nil
if not id then
  at = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[1]) + ARGV[3]
elseif redis.call('ZSCORE', key, id) == score then
  at = redis.call('ZRANK', key, id) + 1
else
  at = redis.call('ZCOUNT', key, '-inf', score)
end
local left = redis.call('ZCOUNT', key, '-inf', ARGV[2]) - at
if left <= 0 then return {0, {}} end
local n = math.min(left, tonumber(ARGV[4]))
return {left, redis.call('ZRANGE', key, at, at + n - 1, 'WITHSCORES')}
