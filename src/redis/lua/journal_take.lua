#!lua flags=allow-oom
-- KEYS: journals, taken, the owner's seq key. ARGV: journal, its owner as it was listed, the new owner. Answers 0 when
-- it has another owner by now, else all owners whose links must be ended before it is read, a space after each
-- (journal_ended.lua removes them).
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
local owners = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if ARGV[2] ~= ARGV[3] then
  owners = owners .. ARGV[2] .. ' '
  redis.call('HSET', KEYS[2], ARGV[1], owners)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('EXPIRE', KEYS[3], 2592000) -- the owner may watch it, on a server that gets these data
end
return owners
