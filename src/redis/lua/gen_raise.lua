#!lua flags=allow-oom
local gen = tonumber(redis.call('GET', KEYS[1]) or '0')
local least = tonumber(ARGV[1])
if gen >= least then return string.format('%.0f', gen) end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
