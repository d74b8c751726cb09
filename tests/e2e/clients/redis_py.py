"""redis-py: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON."""
import json
import sys

import redis

script = json.load(open(sys.argv[1], encoding="utf-8"))
client = (redis.Redis(unix_socket_path=sys.argv[3]) if sys.argv[2] == "unix"
          else redis.Redis(host="127.0.0.1", port=int(sys.argv[3])))
replies = {"one_by_one": [client.hincrby(*hit) for hit in script["one_by_one"]]}
for way, transaction in (("pipeline", False), ("multi", True)):
    pipe = client.pipeline(transaction=transaction)
    for hit in script[way]:
        pipe.hincrby(*hit)
    replies[way] = pipe.execute()
print(json.dumps(replies))
