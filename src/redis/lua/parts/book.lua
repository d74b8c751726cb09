-- book(accepted, counter, n): adds to the sum of a counter, modulo 2^64. What would overflow goes round, in steps that fit.
local function book(accepted, counter, n)
  local r = redis.pcall('HINCRBY', accepted, counter, n)
  if type(r) ~= 'table' or not string.find(r.err, 'overflow', 1, true) then return r end
  local low, half = '-9223372036854775808', '4611686018427387904'
  for _, step in ipairs(string.sub(n, 1, 1) == '-' and {half, half, n, half, half} or {low, n, low}) do
    r = redis.call('HINCRBY', accepted, counter, step)
  end
  return r
end
