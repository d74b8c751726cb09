-- fields(key): all of a hash and true, or a page of it and false, or nil when it is no hash.
local function fields(key)
  local n, list = call('HLEN', key), {}
  if bad(n) then return end
  local all = n <= piece and cursor == '0'
  if all then
    list = redis.call('HKEYS', key)
  else
    local page = redis.call('HSCAN', key, cursor, 'COUNT', piece)
    cursor = page[1]
    for i = 1, #page[2], 2 do list[#list + 1] = page[2][i] end
  end
  left = left - #list - 1
  return list, all
end
