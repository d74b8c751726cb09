# ruby-redis: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
require "json"
require "redis"
script = JSON.parse(File.read(ARGV[0]))
client = ARGV[1] == "unix" ? Redis.new(path: ARGV[2]) : Redis.new(host: "127.0.0.1", port: ARGV[2].to_i)
replies = { one_by_one: script["one_by_one"].map { |key, field, n| client.hincrby(key, field, n) } }
replies[:pipeline] = client.pipelined { |pipe| script["pipeline"].each { |key, field, n| pipe.hincrby(key, field, n) } }
replies[:multi] = client.multi { |pipe| script["multi"].each { |key, field, n| pipe.hincrby(key, field, n) } }
puts JSON.generate(replies)
