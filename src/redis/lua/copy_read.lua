#!lua flags=no-writes
-- KEYS: tally:events, then those to be read. ARGV: bytes after which it ends, then for each its type. A '?' before the type:
-- it is copied only if it is a log of events, which has a ticker or is in the index. Answers for each DUMP and the ms that
-- it lives on (0: for ever), or nil: there is no such key. Fewer than were asked when the bytes are too many.
local most, out = tonumber(ARGV[1]), {}
local function is_log(key)
  local name = string.match(key, '^(.*):')
  return redis.call('ZSCORE', KEYS[1], key) or redis.call('EXISTS', name .. ':index') == 1
end
for i = 2, #KEYS do
  local key, doubted, wanted = KEYS[i], string.match(ARGV[i], '^(%??)(%a+)$')
  out[i - 1] = false
  if redis.call('TYPE', key).ok == wanted and (doubted == '' or is_log(key)) then
    local dump, left = redis.call('DUMP', key), redis.call('PTTL', key)
    if dump and left ~= 0 then
      out[i - 1] = {dump, math.max(left, 0)}
      most = most - #dump
    end
  end
  if most < 0 then break end
end
return out
