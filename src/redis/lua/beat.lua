#!lua flags=allow-oom
-- KEYS: batches, the instance's key, the seq key. ARGV: what the instance's key says, then the ids of batches.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('SET', KEYS[2], ARGV[1], 'EX', 30)
-- Not each time: the frame link watches it.
if redis.call('TTL', KEYS[3]) < 1296000 then redis.call('EXPIRE', KEYS[3], 2592000) end
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', now, ARGV[i]) end
return #ARGV - 1
