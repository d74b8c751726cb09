"""redis-py: argv = path, how many: one pipeline of that many hits. Prints as JSON how many replies, and the last one."""
import json
import sys

import redis

pipe = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=30).pipeline(transaction=False)
for _ in range(int(sys.argv[2])):
    pipe.hincrby("s77:product_views", "5", 1)
replies = pipe.execute()
print(json.dumps([len(replies), replies[-1]]))
