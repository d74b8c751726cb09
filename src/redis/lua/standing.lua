#!lua flags=no-writes
-- KEYS: batches, the asker's seq key. ARGV: registry prefix, a pending hash or ''. Answers the batches (that hold it),
-- this server's history, seq.
--include parts/packed.lua
local out = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local registry, key = ARGV[1] .. id, ARGV[2]
  if key == '' or redis.call('HEXISTS', registry, '=' .. key) == 1 or packed(registry, key) then out[#out + 1] = id end
end
return {out, string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-', redis.call('GET', KEYS[2])}
