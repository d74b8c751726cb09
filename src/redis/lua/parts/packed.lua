-- packed(registry, key): the fields of a hash that a claim packed, {field, value, ...}, or nil. Most batches do not
-- have it, and looking for the bytes of its name costs a fraction of unpacking.
local function packed(registry, key)
  local text = redis.call('HGET', registry, 'packed')
  if not text or not string.find(text, key, 1, true) then return nil end
  local all = cmsgpack.unpack(text)
  for i = 1, #all, 2 do
    if all[i] == key then return all[i + 1] end
  end
end
