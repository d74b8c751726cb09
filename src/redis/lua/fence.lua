#!lua flags=allow-oom
-- KEYS: a key of the asker's own, its seq key. ARGV: the first one's value. Answers this server's history, seq.
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-'
return {history, redis.call('GET', KEYS[2])}
