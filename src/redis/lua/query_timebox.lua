#!lua flags=no-writes
-- KEYS: buckets, hits. ARGV: first and last rank, the newest being 0; or with a third, a bucket: that many of the next
-- older ones. Answers bucket, hits, bucket, hits ... An error also when only the hits' key has another type.
local buckets, out = nil, {}
if ARGV[3] then
  local n = ARGV[2] - ARGV[1] + 1
  buckets = redis.call('ZREVRANGEBYSCORE', KEYS[1], '(' .. ARGV[3], '-inf', 'LIMIT', 0, n)
else
  buckets = redis.call('ZREVRANGE', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('ZCARD', KEYS[2])
if #buckets == 0 then return out end
for i, hits in ipairs(redis.call('ZMSCORE', KEYS[2], unpack(buckets))) do
  out[2 * i - 1] = buckets[i]
  out[2 * i] = hits or '0'
end
return out
