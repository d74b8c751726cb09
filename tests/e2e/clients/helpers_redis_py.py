"""redis-py: argv = path. Prints as JSON what its calls make of the server."""
import json
import sys

import redis

client = redis.Redis(unix_socket_path=sys.argv[1])
client.client_setname("helper")
info = client.client_info()
listed = [each for each in client.client_list() if each["name"] == "helper"]
print(json.dumps({
    "role": client.execute_command("ROLE"), "info_role": client.info("replication")["role"],
    "name": client.client_getname(), "id": client.client_id() == info["id"], "listed": len(listed),
    "fields": sorted(info)}, default=bytes.decode))
