#!lua flags=allow-oom
-- KEYS: a key of the asker's own. ARGV: its value. Answers this server's history.
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-'
