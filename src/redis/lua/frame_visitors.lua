#!lua
-- KEYS: accepted, dirty, grown, then bits, sketch, pending hash of each op (the bits again when it moves none). ARGV: now
-- in ms, by how much a user's bits may grow (0: any), then for each: day, counter ("": moves none), b, t, user, bytes that
-- its bits need (0: nobody's share), then b offsets, t texts. Answers for each a '0' or '1' a visitor, those in bits first,
-- or an error. The script checks first the type of the bits when there is also a sketch, and how they grow, then what the
-- counter moves. It writes the sketch before the bits, since only writing shows whether the key is a sketch. share: the
-- counter whose share of accepted was checked. Bits that grow by little cost no more than their request, and are not counted.
--include parts/frame_head.lua
--include parts/book.lua
--include parts/tag.lua
local a, share, most = 3, nil, tonumber(ARGV[2])
local function whole(n)
  return #n <= 20 and (n == '0' or string.match(n, '^%-?[1-9]%d*$'))
end
local function holds_not(key, field, most)
  local r = call('HGET', key, field)
  if bad(r) then return r end
  if r and not whole(r) then return redis.error_reply('ERR hash value is not an integer') end
  if r and tonumber(r) > most then
    return redis.error_reply('ERR increment or decrement would overflow')
  end
end
local function moves_not(pending, day, counter)
  if share ~= counter then
    local r = call('ZCARD', KEYS[2])
    r = bad(r) and r or holds_not(KEYS[1], counter, math.huge)
    if r then return r end
    share = counter
  end
  return holds_not(pending, day, 9.2e18)
end
local function move(pending, day, counter, n)
  call('HINCRBY', pending, day, n)
  book(KEYS[1], counter, n)
  call('ZADD', KEYS[2], 'NX', ARGV[1], bare(pending))
end
local function passes(user, grows)
  local had = tonumber(call('HGET', KEYS[3], user)) or 0 -- a count that cannot be read is none
  if most > 0 and had + grows > most then
    return redis.error_reply(string.format("OOM this user's visitors took %.0f bytes today, and %.0f more would pass " ..
      'uniques.growth; nothing was added', had, grows))
  end
end
local function add(bits, sketch, pending, day, counter, user, needs, first, texts, last)
  local answer, new = {}, 0
  local r = texts > first and (needs > 0 or texts <= last) and call('STRLEN', bits)
  if bad(r) then return r end
  local grows = needs > 0 and needs - r or 0
  r = grows > 128 and passes(user, grows) or counter ~= '' and moves_not(pending, day, counter)
  if r then return r end
  for i = texts, last do
    r = call('PFADD', sketch, ARGV[i])
    if bad(r) then return r end
    answer[i - first + 1] = r
    new = new + r
  end
  for i = first, texts - 1, 500 do
    local command = {'BITFIELD', bits}
    for j = i, math.min(i + 499, texts - 1) do
      for _, word in ipairs({'SET', 'u1', ARGV[j], 1}) do command[#command + 1] = word end
    end
    r = call(unpack(command))
    if bad(r) then return r end
    for j, before in ipairs(r) do
      answer[i - first + j] = 1 - before
      new = new + 1 - before
    end
  end
  if grows > 128 then
    call('HINCRBY', KEYS[3], user, grows)
    call('EXPIRE', KEYS[3], 172800)
  end
  if new > 0 and counter ~= '' then move(pending, day, counter, new) end
  return table.concat(answer)
end
for k = 4, #KEYS, 3 do
  local first = a + 6
  local texts = first + ARGV[a + 2]
  local behind = texts + ARGV[a + 3]
  out[#out + 1] = add(KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[a], ARGV[a + 1], ARGV[a + 4], tonumber(ARGV[a + 5]),
    first, texts, behind - 1)
  a = behind
end
return out
