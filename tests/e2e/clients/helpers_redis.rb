# ruby-redis: argv = path. Prints as JSON what its calls make of the server.
require "json"
require "redis"
client = Redis.new(path: ARGV[0], id: "helper")
client.call("CLIENT", "SETNAME", "helper")
listed = client.client(:list).select { |each| each["name"] == "helper" }
puts JSON.generate(role: client.call("ROLE"), info_role: client.info("replication")["role"], ping: client.ping,
                   listed: listed.size, version: client.info("server")["redis_version"].split(".").size)
