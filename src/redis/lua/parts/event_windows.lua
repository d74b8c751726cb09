-- For the scripts that add events. sizes_of(cache, name) answers the sizes of the windows cached of that name, false
-- when there are none, or an error; an empty cache is looked at once a script. windows_drop removes those that hold one
-- of the seconds. A window is dropped whether or not the clock calls the event late: clocks jump.
local empty, texts = {}, {}
local function text(n)
  texts[n] = texts[n] or string.format('%.0f', n)
  return texts[n]
end
local function pieces(list, f)
  for i = 1, #list, 2000 do
    local r = f(i, math.min(i + 1999, #list))
    if bad(r) then return r end
  end
end
local function sizes_of(cache, name)
  if empty[cache] == nil then
    local n = call('HLEN', cache)
    if bad(n) then return n end
    empty[cache] = n == 0
  end
  return not empty[cache] and call('HGET', cache, name .. ':windows')
end
local function windows_drop(cache, name, sizes, seconds)
  local fields, seen = {}, {}
  for i = 1, #seconds do
    local second = tonumber(seconds[i])
    for size in string.gmatch(seen[second] and '' or sizes, '%d+') do
      if tonumber(size) > 0 then
        fields[#fields + 1] = name .. ':' .. text(second - second % size) .. ':' .. size
      end
    end
    seen[second] = true
  end
  pieces(fields, function(i, j) return call('HDEL', cache, unpack(fields, i, j)) end)
end
