#!lua flags=allow-oom
-- KEYS: realm, gen, gens. ARGV: the realm for a Redis that has none, or ''. Answers realm, gen, gens, history.
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return redis.error_reply("READONLY You can't write against a read only replica.")
end
if ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1], 'NX') end
return {redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '0', redis.call('HGETALL', KEYS[3]),
        string.match(info, 'master_replid:(%x+)') or '-'}
