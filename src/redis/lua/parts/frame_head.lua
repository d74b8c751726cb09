-- What every script of a frame begins with: redis.pcall answers an error as a table, and says `err` in it. In a MULTI the
-- first EVAL is refused, and with it the frame, when Redis is full; past that nothing in a frame can be.
local call, out = redis.pcall, {}
local function bad(r) return type(r) == 'table' and r.err end
