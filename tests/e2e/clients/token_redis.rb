# ruby-redis, which resends by itself what was lost with a link: argv = path, how many. Prints the replies as JSON.
require "json"
require "redis"
client = Redis.new(path: ARGV[0], reconnect_attempts: 10)
puts JSON.generate((0...ARGV[1].to_i).map { |n| client.call("CTR.INCRBY", "s77:product_views", 5, 2, "TOKEN", "order-#{n}") })
