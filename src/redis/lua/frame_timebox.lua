#!lua
-- KEYS: tb, pv of each op. ARGV: keep, then bucket, n of each; n empty: no hits, only its entry in tb, when it has hits
-- in pv. Answers for each the bucket's hits, nil when it is older than all that are kept (its hits in pv, if any, are
-- then removed), or an error. Scores are doubles: beyond 2^53 a hit might not count, so that is an overflow error.
--include parts/frame_head.lua
--include parts/new_ops.lua
local keep = tonumber(ARGV[1])
local function trim(tb, pv, over)
  while over > 0 do
    local oldest = call('ZRANGE', tb, 0, math.min(over, 1000) - 1)
    call('ZREM', tb, unpack(oldest))
    call('ZREM', pv, unpack(oldest))
    over = over - #oldest
  end
end
-- answers how many buckets there are
local function mend(tb, pv)
  local standing = call('ZCARD', tb)
  if call('ZCARD', pv) <= standing then return standing end
  for _, bucket in ipairs(call('ZDIFF', 2, pv, tb)) do
    if #bucket < 16 and string.match(bucket, '^%d+$') then
      standing = standing + call('ZADD', tb, bucket, bucket)
    end
  end
  trim(tb, pv, standing - keep)
  return math.min(standing, keep)
end
local function add(op)
  local tb, pv, bucket, n = KEYS[2 * op - 1], KEYS[2 * op], ARGV[2 * op], ARGV[2 * op + 1]
  local stands, hits = call('ZSCORE', tb, bucket), call('ZSCORE', pv, bucket)
  if bad(stands) then return stands end
  if bad(hits) then return hits end
  if n == '' then
    if stands or not hits then return hits end
    n = 0
  end
  local sum = (tonumber(hits) or 0) + n
  if sum % 1 ~= 0 then return redis.error_reply('ERR timebox value is not an integer') end
  if math.abs(sum) >= 9007199254740992 then
    return redis.error_reply('ERR increment or decrement would overflow')
  end
  local standing = stands or mend(tb, pv)
  if not stands and standing >= keep then
    local oldest = call('ZRANGE', tb, -keep, -keep, 'WITHSCORES')[2]
    if oldest and tonumber(bucket) < tonumber(oldest) then
      if hits then call('ZREM', pv, bucket) end
      return false
    end
  end
  hits = call('ZINCRBY', pv, n, bucket)
  if not stands and not bad(hits) then
    trim(tb, pv, standing + call('ZADD', tb, bucket, bucket) - keep)
  end
  return hits
end
-- Some ops at once, whose sets are new. False: they are not, or the hits are too many, and nothing is done.
local function add_new(from, upto)
  for op = from, upto do
    local n = tonumber(ARGV[2 * op + 1])
    if not n or math.abs(n) >= 9007199254740992 then return false end
  end
  if not all_new({unpack(KEYS, 2 * from - 1, 2 * upto)}) then return false end
  for op = from, upto do
    local bucket, n = ARGV[2 * op], ARGV[2 * op + 1]
    call('ZADD', KEYS[2 * op - 1], bucket, bucket)
    call('ZADD', KEYS[2 * op], n, bucket)
    out[op] = n
  end
  return true
end
ops_add(#KEYS / 2, add_new, add)
return out
