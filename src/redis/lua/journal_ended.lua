#!lua flags=allow-oom
-- KEYS: journals, taken. ARGV: journal, the process that took it and has ended the links of all owners before. Answers
-- 0 when it was taken from that process in turn. Entries of taken for journals that are home by now are removed, too.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
for _, journal in ipairs(redis.call('HKEYS', KEYS[2])) do
  if redis.call('HEXISTS', KEYS[1], journal) == 0 then redis.call('HDEL', KEYS[2], journal) end
end
return 1
