-- KEYS, of the home slot: lanes, gen, realm, move. ARGV: how many lanes, who moves, 'look', 'begin' or 'end'. begin: this mover
-- replaces any other, and no tallyd may count here (a number of lanes below 0). end: if it was not replaced, tallyds may count.
-- Answers 0: unused, 1: a move is under way, 2: it is done, 3: a tallyd counts here, or with another number of lanes.
local n, by = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[4])
local state = n == '-' .. ARGV[1] and 1 or n == ARGV[1] and by == 'done' and 2 or 3
if not n and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then state = 0 end
if ARGV[3] == 'begin' and state < 2 then
  redis.call('MSET', KEYS[1], '-' .. ARGV[1], KEYS[4], ARGV[2])
  return 1
elseif ARGV[3] == 'end' and state == 1 and by == ARGV[2] then
  redis.call('MSET', KEYS[1], ARGV[1], KEYS[4], 'done')
  return 2
end
return state
