#!lua flags=allow-oom
-- KEYS: batches. ARGV: mode, stale_ms, limit, new owner, instance, the newest format, dry run (0 1), registry prefix,
-- how many counters, their names, the owners that live. An id without registry is no batch and is removed. Answers
-- unknown, ids.
local mode, stale_ms, limit, me, instance = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local format, dry, prefix, counters = tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8], tonumber(ARGV[9])
local known, live, ids, unknown = {}, {}, {}, 0
for i = 10, 9 + counters do known[ARGV[i]] = true end
for i = 10 + counters, #ARGV do live[ARGV[i]] = true end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local id, registry = all[i], prefix .. all[i]
  local is = redis.call('HMGET', registry, 'format', 'counter', 'owner')
  local owner, written = is[3] or '', tonumber(is[1] or '') or 0
  local wanted = now - tonumber(all[i + 1]) >= stale_ms
  if mode == 'instance' then
    wanted = owner ~= me and string.sub(owner, 1, #instance + 1) == instance .. ':'
  elseif mode == 'own' then
    wanted = owner == me
  elseif mode == 'dead' then
    wanted = wanted or not live[owner]
  end
  if wanted and not is[1] and not is[2] and not is[3] then
    if not dry then redis.call('ZREM', KEYS[1], id) end
  elseif wanted and (written < 1 or written > format or not known[is[2]]) then
    unknown = unknown + 1
  elseif wanted and #ids < limit then
    ids[#ids + 1] = id
    if not dry then
      redis.call('HSET', registry, 'owner', me)
      redis.call('ZADD', KEYS[1], 'XX', now, id)
    end
  end
end
table.insert(ids, 1, unknown)
return ids
