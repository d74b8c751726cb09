-- lua-redis: argv = path. Prints as JSON what its calls make of the server.
local json = require("cjson")
local redis = require("redis")
redis.commands.role = redis.command("ROLE")
local client = redis.connect({ scheme = "unix", path = arg[1] })
local info = client:info()
print(json.encode({ role = client:role(), info_role = info.role or info.replication.role, ping = client:ping() }))
