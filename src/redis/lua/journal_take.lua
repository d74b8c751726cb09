#!lua flags=allow-oom
-- KEYS: journals, taken, the owner's seq key. ARGV: journal, its owner as it was listed, who takes it. Answers 0 when it has
-- another owner by now, else all whose links must be ended before it is read, a space behind each (journal_ended.lua strikes
-- them out).
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
local owners = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if ARGV[2] ~= ARGV[3] then
  owners = owners .. ARGV[2] .. ' '
  redis.call('HSET', KEYS[2], ARGV[1], owners)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('EXPIRE', KEYS[3], 2592000) -- he may watch it, at a server that these data go to
end
return owners
