#!lua flags=no-writes
-- KEYS: gen, accepted, dirty, held, batches. ARGV: registry prefix, dirty_max, fields_max. Answers gen and how many
-- dirty; unless these or their fields are too many, also accepted, {{name, {field, value, ...}}, ...}, {{id, counter,
-- gen, {{pending, {...}}, ...}}, ...}.
--include parts/tag.lua
local prefix, dirty_max, fields_max, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 0
local gen = redis.call('GET', KEYS[1]) or '0'
local n = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
if n > dirty_max then return {gen, n} end
local function room_for(n)
  fields = fields + n
  return fields <= fields_max
end
local function hash(name)
  name = tag .. name
  if redis.call('TYPE', name).ok ~= 'hash' or not room_for(redis.call('HLEN', name)) then return {} end
  return redis.call('HGETALL', name)
end
local pending, seen = {}, {}
for k = 3, 4 do
  for _, name in ipairs(redis.call('ZRANGE', KEYS[k], 0, -1)) do
    if not seen[name] then pending[#pending + 1] = {name, hash(name)} end
    seen[name] = true
  end
end
local batches = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
  local is, counter, of, claimed = redis.call('HGETALL', prefix .. id), '', '0', {}
  for i = 1, #is, 2 do
    if is[i] == 'counter' then counter = is[i + 1] end
    if is[i] == 'gen' then of = is[i + 1] end
    if is[i] == 'packed' then
      local all = cmsgpack.unpack(is[i + 1])
      for j = 1, #all, 2 do
        claimed[#claimed + 1] = {all[j], room_for(#all[j + 1] / 2) and all[j + 1] or {}}
      end
    end
    if string.sub(is[i], 1, 1) == '=' then
      local name = string.sub(is[i], 2)
      claimed[#claimed + 1] = {name, hash(name .. '_' .. id)}
    end
  end
  batches[#batches + 1] = {id, counter, of, claimed}
end
if fields > fields_max then return {gen, n} end
return {gen, n, redis.call('HGETALL', KEYS[2]), pending, batches}
