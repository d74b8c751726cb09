#!lua flags=allow-oom
return redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
