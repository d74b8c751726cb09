"""aioredis: argv = path. Prints as JSON what its calls make of the server."""
import asyncio
import json
import sys

import aioredis


async def asked(path):
    client = await aioredis.create_redis(path)
    server = await client.info("server")
    role = await client.role()
    made = {"role": role, "sections": list(server), "version": len(server["server"]["redis_version"].split(".")),
            "info_role": (await client.info("replication"))["replication"]["role"]}
    client.close()
    await client.wait_closed()
    return made


print(json.dumps(asyncio.run(asked(sys.argv[1]))))
