-- lua-resty-redis within nginx: the URL's script, kind ("unix" or "tcp") and where (path or port). Answers the replies as JSON.
local json = require("cjson")
local asked = ngx.req.get_uri_args()
local script = json.decode(io.open(asked.script):read("*a"))
local client = require("nginx.redis"):new()
if asked.kind == "unix" then
    assert(client:connect("unix:" .. asked.where))
else
    assert(client:connect("127.0.0.1", tonumber(asked.where)))
end
local replies = { one_by_one = {} }
for _, hit in ipairs(script.one_by_one) do table.insert(replies.one_by_one, assert(client:hincrby(unpack(hit)))) end
client:init_pipeline()
for _, hit in ipairs(script.pipeline) do client:hincrby(unpack(hit)) end
replies.pipeline = assert(client:commit_pipeline())
assert(client:multi())
for _, hit in ipairs(script.multi) do assert(client:hincrby(unpack(hit)) == "QUEUED") end
replies.multi = assert(client:exec())
client:close()
ngx.say(json.encode(replies))
