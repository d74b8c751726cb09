-- What every script of the cleaner begins with. ARGV: now_most_s, cursor, piece.
local call, most, cursor, piece = redis.pcall, tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local now = math.min(tonumber(redis.call('TIME')[1]), most)
local finished, removed, gone, odd, left = 0, 0, 0, 0, piece
local function bad(r) return type(r) == 'table' and r.err end
local function drop(command, key, list)
  for i = 1, #list, 1000 do
    removed = removed + redis.call(command, key, unpack(list, i, math.min(i + 999, #list)))
  end
end
