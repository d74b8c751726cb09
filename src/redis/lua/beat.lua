#!lua flags=allow-oom
-- KEYS: batches, the instance's key, the seq key, dirty. ARGV: what the instance's key says, then the ids of batches. Answers how many of the
-- hashes that are due first had a TTL, which is gone, and up to three of their keys.
--include parts/tag.lua
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ended, said = 0, {}
redis.call('SET', KEYS[2], ARGV[1], 'EX', 30)
-- Not each time: the frame link watches it.
if redis.call('TTL', KEYS[3]) < 1296000 then redis.call('EXPIRE', KEYS[3], 2592000) end
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', now, ARGV[i]) end
-- pcall: without the right to PERSIST all else goes on.
for _, name in ipairs(redis.call('ZRANGE', KEYS[4], 0, 199)) do
  if redis.pcall('PERSIST', tag .. name) == 1 then
    ended = ended + 1
    if ended <= 3 then said[ended] = name end
  end
end
return {ended, unpack(said)}
