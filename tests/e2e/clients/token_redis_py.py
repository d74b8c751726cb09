"""redis-py, which resends by itself what was lost with a link: argv = path, how many. Prints the replies as JSON."""
import json
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

client = redis.Redis(unix_socket_path=sys.argv[1], retry=Retry(NoBackoff(), 10), retry_on_error=[redis.ConnectionError])
print(json.dumps([client.execute_command("CTR.INCRBY", "s77:product_views", "5", 2, "TOKEN", f"order-{n}")
                  for n in range(int(sys.argv[2]))]))
