#!lua
-- KEYS: accepted, dirty, the counts of tokens, then token and pending hash of each. ARGV: now in ms, how long a token
-- is kept (s), how many may exist, then for each: field, n, counter, payload, user ('': none). Answers for each 'n' (new)
-- or 'o' (it existed) and the value, or an error; then how many exist. accepted is written first, since it can be taken
-- back without a trace. Numbers beyond 2^53 are not exact in Lua: those are read again.
-- A user has at most as many as are free: alone half of all, and others always find room.
--include parts/book.lua
--include parts/tag.lua
local call, out = redis.pcall, {}
local function bad(r) return type(r) == 'table' and r.err end
local function text(n) return string.format('%.0f', n) end
local keep, most, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(call('TIME')[1])
local width = math.ceil(keep / 12)
local gone_by = text((math.floor((now + keep) / width) + 1) * width)
local stand, new, named, old, seconds, adds = 0, 0, {}, {}, {}, {}
local r = call('ZCARD', KEYS[2])
if bad(r) then return r end
r = call('HGETALL', KEYS[3])
if bad(r) then return r end
for i = 1, #r, 2 do
  local gone, n = tonumber(r[i]), tonumber(r[i + 1])
  if not gone or not n then
    return redis.error_reply('ERR tally:tokens has a field that is no count of tokens: delete it')
  end
  if gone > now then stand = stand + n end
  table.insert(gone > now and seconds or old, r[i])
end
local function count(pending, field, n, counter)
  local r = book(KEYS[1], counter, n)
  if bad(r) then return r end
  local value = call('HINCRBY', pending, field, n)
  if bad(value) then
    book(KEYS[1], counter, text(0 - n))
    return value
  end
  if not named[pending] then call('ZADD', KEYS[2], 'NX', ARGV[1], bare(pending)) end
  named[pending] = true
  return math.abs(value) < 9007199254740992 and text(value) or call('HGET', pending, field)
end
local had
local function read_users()
  local users = {}
  had = {}
  for a = 8, #ARGV, 5 do
    if not had[ARGV[a]] then had[ARGV[a]], users[#users + 1] = 0, ARGV[a] end
  end
  for _, second in ipairs(seconds) do
    local counts = call('HMGET', KEYS[3] .. ':' .. second, unpack(users))
    for i, user in ipairs(users) do had[user] = had[user] + (tonumber(counts[i]) or 0) end
  end
end
-- How many a user has. All users of the frame are read at once; a count that cannot be read is none.
local function held(user)
  if not had then read_users() end
  return had[user] + (adds[user] or 0)
end
local function add(token, pending, field, n, counter, payload, user)
  local have = call('GET', token)
  if bad(have) then return have end
  if have then
    if string.sub(have, 1, #payload + 1) == payload .. ':' then return 'o' .. string.sub(have, #payload + 2) end
    return redis.error_reply('ERR this token came with another increment before: key, field or n differ; nothing was counted')
  end
  if stand >= most then
    return redis.error_reply('OOM ' .. ARGV[3] .. ' tokens are in Redis (tokens.max); nothing was counted')
  end
  local free = most - stand -- while less than half stand, no user can have so many
  if user ~= '' and stand >= free and held(user) >= free then
    return redis.error_reply('OOM ' .. text(held(user)) .. " tokens are this user's, and " .. text(free) ..
      ' of tokens.max are free; nothing was counted')
  end
  local value = count(pending, field, n, counter)
  if bad(value) then return value end
  call('SET', token, payload .. ':' .. value, 'EX', ARGV[2])
  stand, new = stand + 1, new + 1
  if user ~= '' then adds[user] = (adds[user] or 0) + 1 end
  return 'n' .. value
end
local a = 4
for k = 4, #KEYS, 2 do
  out[#out + 1] = add(KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
  a = a + 5
end
if new > 0 then call('HINCRBY', KEYS[3], gone_by, new) end
for user, n in pairs(adds) do call('HINCRBY', KEYS[3] .. ':' .. gone_by, user, n) end
if next(adds) then call('EXPIREAT', KEYS[3] .. ':' .. gone_by, gone_by) end
-- After the HINCRBY: an HDEL of the last field deletes the key, and while its slot is moving to another node Redis would
-- refuse a command on a missing key.
for _, second in ipairs(old) do call('HDEL', KEYS[3], second) end
out[#out + 1] = stand
return out
