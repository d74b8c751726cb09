-- lua-redis: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
local json = require("cjson")
local redis = require("redis")
local script = json.decode(io.open(arg[1]):read("*a"))
local client = redis.connect(arg[2] == "unix" and { scheme = "unix", path = arg[3] }
    or { host = "127.0.0.1", port = tonumber(arg[3]) })
local replies = { one_by_one = {} }
for _, hit in ipairs(script.one_by_one) do table.insert(replies.one_by_one, client:hincrby(unpack(hit))) end
local function all(way)
    return function(pipe)
        for _, hit in ipairs(script[way]) do pipe:hincrby(unpack(hit)) end
    end
end
replies.pipeline = client:pipeline(all("pipeline"))
replies.multi = client:transaction(all("multi"))
print(json.encode(replies))
