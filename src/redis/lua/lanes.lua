-- KEYS, of the home slot: lanes, gen, realm. ARGV: how many lanes are wanted; 1: store that, if no tallyd was here
-- before. Answers how many lanes this cluster has; nil: not stored.
local n = redis.call('GET', KEYS[1])
-- A tallyd from before lanes stored no number, but it counted in this slot.
if not n and redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then n = '1' end
if ARGV[2] == '1' and (not n or n == ARGV[1]) then
    n = ARGV[1]
    redis.call('SET', KEYS[1], n)
end
return n
