#!lua flags=allow-oom
-- KEYS: registry, batches, then the claimed hashes. ARGV: id. unpack() has a limit near 8,000.
for i = 3, #KEYS, 500 do
  redis.call('UNLINK', unpack(KEYS, i, math.min(i + 499, #KEYS)))
end
redis.call('DEL', KEYS[1])
return redis.call('ZREM', KEYS[2], ARGV[1])
