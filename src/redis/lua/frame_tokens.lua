#!lua
-- KEYS: accepted, dirty, the counts of tokens, then token and pending hash of each. ARGV: now in ms, how long a token
-- is kept (s), how many may exist, then for each: field, n, counter, payload. Answers for each 'n' (new) or 'o' (it
-- existed) and the value, or an error; then how many exist. accepted is written first, since it can be taken back
-- without a trace. Numbers beyond 2^53 are not exact in Lua: those are read again.
--include parts/book.lua
--include parts/tag.lua
local call, out = redis.pcall, {}
local function bad(r) return type(r) == 'table' and r.err end
local function text(n) return string.format('%.0f', n) end
local keep, most, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(call('TIME')[1])
local width = math.ceil(keep / 12)
local gone_by = text((math.floor((now + keep) / width) + 1) * width)
local stand, new, named, old = 0, 0, {}, {}
local r = call('ZCARD', KEYS[2])
if bad(r) then return r end
r = call('HGETALL', KEYS[3])
if bad(r) then return r end
for i = 1, #r, 2 do
  local gone, n = tonumber(r[i]), tonumber(r[i + 1])
  if not gone or not n then
    return redis.error_reply('ERR tally:tokens has a field that is no count of tokens: delete it')
  end
  if gone <= now then old[#old + 1] = r[i] else stand = stand + n end
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
local function add(token, pending, field, n, counter, payload)
  local have = call('GET', token)
  if bad(have) then return have end
  if have then
    if string.sub(have, 1, #payload + 1) == payload .. ':' then return 'o' .. string.sub(have, #payload + 2) end
    return redis.error_reply('ERR this token came with another increment before: key, field or n differ; nothing was counted')
  end
  if stand >= most then
    return redis.error_reply('OOM ' .. ARGV[3] .. ' tokens are in Redis (tokens.max); nothing was counted')
  end
  local value = count(pending, field, n, counter)
  if bad(value) then return value end
  call('SET', token, payload .. ':' .. value, 'EX', ARGV[2])
  stand, new = stand + 1, new + 1
  return 'n' .. value
end
local a = 4
for k = 4, #KEYS, 2 do
  out[#out + 1] = add(KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3])
  a = a + 4
end
if new > 0 then call('HINCRBY', KEYS[3], gone_by, new) end
-- After the HINCRBY: an HDEL of the last field deletes the key, and while its slot is moving to another node Redis would
-- refuse a command on a missing key.
for _, second in ipairs(old) do call('HDEL', KEYS[3], second) end
out[#out + 1] = stand
return out
