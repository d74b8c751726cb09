-- all_new(keys): does none of them exist, and none come twice? ops_add(n, add_new, add): adds n ops, many at once by
-- add_new(from, upto), since a name's first op mostly meets keys that do not exist yet. Where add_new answers false,
-- having done nothing, the halves are tried separately, and a few one by one, by add(op), whose answer goes into `out`.
local function all_new(keys)
  local seen = {}
  for i = 1, #keys do
    if seen[keys[i]] then return false end
    seen[keys[i]] = true
  end
  return call('EXISTS', unpack(keys)) == 0
end
local function ops_halve(from, upto, add_new, add)
  local middle = math.floor((from + upto) / 2)
  if add_new(from, upto) then return end
  if upto - from < 4 then
    for op = from, upto do out[op] = add(op) end
  else
    ops_halve(from, middle, add_new, add)
    ops_halve(middle + 1, upto, add_new, add)
  end
end
local function ops_add(n, add_new, add)
  for from = 1, n, 64 do ops_halve(from, math.min(from + 63, n), add_new, add) end
end
