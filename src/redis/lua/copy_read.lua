#!lua flags=no-writes
-- KEYS: tally:events, then those to be read. ARGV: bytes after which it ends, then for each its type. A type behind a '?': the key
-- is copied only if it is a log of events, which has a ticker or is in the index. Answers for each DUMP, the ms that it lives on
-- (0: for ever) and its type, or nil: there is no such key. Fewer than were asked when the bytes are too many.
local most, out = tonumber(ARGV[1]), {}
local function is_log(key)
  local name = string.match(key, '^(.*):')
  return redis.call('ZSCORE', KEYS[1], key) or redis.call('EXISTS', name .. ':index') == 1
end
for i = 2, #KEYS do
  local key, sure, doubted = KEYS[i], string.match(ARGV[i], '^(%a*)%??(%a*)$')
  local kind = redis.call('TYPE', key).ok
  out[i - 1] = false
  if kind == sure or kind == doubted and is_log(key) then
    local dump, left = redis.call('DUMP', key), redis.call('PTTL', key)
    if dump and left ~= 0 then
      out[i - 1] = {dump, math.max(left, 0), kind}
      most = most - #dump
    end
  end
  if most < 0 then break end
end
return out
