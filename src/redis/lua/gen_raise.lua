#!lua flags=allow-oom
-- KEYS: gen, gens, realm. ARGV: the least gen, and the realm that this Redis is from now on. Answers both. Which batch
-- got which gen is forgotten: an operator who accepts a rollback accepts that the two sides differ.
local gen = tonumber(redis.call('GET', KEYS[1]) or '0')
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], ARGV[2])
if gen < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return {redis.call('GET', KEYS[1]) or '0', ARGV[2]}
