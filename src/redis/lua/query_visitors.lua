-- KEYS: the temporary bitmap and sketch, then both of each day that is left, of STEP_DAYS at most. ARGV: whether each
-- of the two was begun, 1 or 0; STEP_BYTES; SKETCH_BYTES; TEMPORARY_S; whether the last day is among them. Answers how
-- many days it took, whether each of the two is begun, and the count, which is valid when all days were taken.
local at, cost, unions = 3, 0, {{}, {}}
for k = 1, 2 do
  if ARGV[k] == '1' then
    if redis.call('EXISTS', KEYS[k]) == 0 then
      return redis.error_reply('ERR the union of the days was lost on the way; ask again')
    end
    unions[k][1] = KEYS[k]
  end
end
while at < #KEYS and cost < tonumber(ARGV[3]) do
  for k = 1, 2 do
    local bytes = redis.call('STRLEN', KEYS[at])
    if bytes > 0 then
      unions[k][#unions[k] + 1] = KEYS[at]
      cost = cost + (k == 1 and bytes or ARGV[4])
    end
    at = at + 1
  end
end
local bits, sketches, done = unions[1], unions[2], at > #KEYS and ARGV[6] == '1'
if #bits > 1 or (#bits == 1 and not done) then
  redis.call('BITOP', 'OR', KEYS[1], unpack(bits))
  redis.call('EXPIRE', KEYS[1], ARGV[5])
  bits = {KEYS[1]}
end
if #sketches > 0 and not done then
  redis.call('PFMERGE', KEYS[2], unpack(sketches))
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
local answer = {(at - 3) / 2, #bits > 0 and 1 or 0, #sketches > 0 and 1 or 0, 0}
if not done then return answer end
if #bits > 0 then answer[4] = redis.call('BITCOUNT', bits[1]) end
if #sketches > 0 then answer[4] = answer[4] + redis.call('PFCOUNT', unpack(sketches)) end
if bits[1] == KEYS[1] or sketches[1] == KEYS[2] then redis.call('UNLINK', KEYS[1], KEYS[2]) end
return answer
