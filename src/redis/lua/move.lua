-- KEYS, of the home slot: lanes, gen, realm, move. ARGV: how many lanes, a mover, 'look', 'begin', 'copied' or 'end'. begin: this mover
-- replaces any other, and no tallyd may count here (a number of lanes below 0). copied: if it was not replaced, nothing is swept here
-- any more. end: then tallyds may count. These two also write what is there already, since a WAIT speaks of its link's writes.
-- Answers 0: unused, 1: a move is under way, 2: that mover has copied all, or its move is done, 3: a tallyd counts here, or with another
-- number of lanes, 4: as 2, of another mover. An older version did not say whose is done: then it is any mover's.
local n, by, step = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[4]), ARGV[3]
local whose = by and (by:match('^copied (.*)') or by:match('^done ?(.*)'))
local state = 3
if not n and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  state = 0
elseif whose and (n == ARGV[1] or n == '-' .. ARGV[1]) then
  state = (whose == '' or whose == ARGV[2]) and 2 or 4
elseif n == '-' .. ARGV[1] then
  state = 1
end
if step == 'begin' and state < 2 then
  redis.call('MSET', KEYS[1], '-' .. ARGV[1], KEYS[4], ARGV[2])
  return 1
end
if step == 'copied' and state == 1 and by == ARGV[2] then state, by = 2, 'copied ' .. by end
if step == 'end' and state == 2 then n, by = ARGV[1], (by:gsub('^copied', 'done')) end
if (step == 'copied' or step == 'end') and state == 2 then redis.call('MSET', KEYS[1], n, KEYS[4], by) end
return state
