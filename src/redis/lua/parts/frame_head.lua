-- What every script of a frame begins with: redis.pcall answers an error as a table with `err`. When Redis is full it
-- refuses the first EVAL of a MULTI, and with it the frame; after that nothing in a frame can be refused for memory.
local call, out = redis.pcall, {}
local function bad(r) return type(r) == 'table' and r.err end
