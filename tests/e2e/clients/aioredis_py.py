"""aioredis: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON."""
import asyncio
import json
import sys

import aioredis


async def replies_to(script, address):
    client = await aioredis.create_redis(address)
    replies = {"one_by_one": [await client.hincrby(*hit) for hit in script["one_by_one"]]}
    for way, pipe in (("pipeline", client.pipeline()), ("multi", client.multi_exec())):
        for hit in script[way]:
            pipe.hincrby(*hit)
        replies[way] = await pipe.execute()
    client.close()
    await client.wait_closed()
    return replies


print(json.dumps(asyncio.run(replies_to(json.load(open(sys.argv[1], encoding="utf-8")),
                                        sys.argv[3] if sys.argv[2] == "unix" else ("127.0.0.1", int(sys.argv[3]))))))
