"""redis-py that puts tallyd's tag in front of keys, and takes it away from names that come back: what tests say and see of keys
is the same on a Redis of its own and in a cluster."""
import redis

ALL_KEYS = {"DEL", "UNLINK", "EXISTS", "MGET", "TOUCH", "WATCH", "PFCOUNT", "SDIFF"}
NO_KEYS = {"PING", "INFO", "TIME", "CONFIG", "CLIENT", "CLUSTER", "FLUSHALL", "FLUSHDB", "DBSIZE", "MULTI", "EXEC", "WAIT",
           "WAITAOF", "SCRIPT", "ACL", "SHUTDOWN", "BGREWRITEAOF", "BGSAVE", "SAVE", "REPLICAOF", "ROLE", "AUTH", "COMMAND",
           "LATENCY", "SLOWLOG", "MONITOR", "UNWATCH", "PUBLISH", "LASTSAVE", "SELECT", "RESET", "ECHO", "READONLY"}
SECOND = {"OBJECT", "MEMORY", "DEBUG", "BITOP"}


def as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


class Tagging:
    tag = b""

    def tagged(self, args):
        words = as_bytes(args[0]).decode().upper().split()
        name, rest = words[0], list(args[1:])

        def put(places):
            for at in places:
                if at < len(rest):
                    rest[at] = self.tag + as_bytes(rest[at])

        if name in ("EVAL", "EVALSHA", "EVAL_RO", "FCALL"):
            put(range(2, 2 + int(rest[1])))
        elif name in ALL_KEYS:
            put(range(len(rest)))
        elif name in ("RENAME", "RENAMENX", "COPY"):
            put((0, 1))
        elif name == "KEYS":
            put((0,))
        elif name == "SCAN":
            at = [as_bytes(word).upper() for word in rest].index(b"MATCH") if b"MATCH" in [as_bytes(word).upper() for word in rest] else None
            if at is None:
                rest += ["MATCH", self.tag + b"*"]
            else:
                put((at + 1,))
        elif name in SECOND and len(words) == 1:
            if name != "DEBUG" or str(rest[0]).upper() == "OBJECT":
                put((1,) if name != "BITOP" else range(1, len(rest)))
        elif name in SECOND:
            put((0,))
        elif name not in NO_KEYS:
            put((0,))
        return [args[0], *rest]

    def bare(self, name, reply):
        if name == "KEYS" and isinstance(reply, list):
            return [key.removeprefix(self.tag) for key in reply]
        if name == "SCAN" and isinstance(reply, tuple):
            return reply[0], [key.removeprefix(self.tag) for key in reply[1]]
        return reply


class TaggedPipeline(Tagging, redis.client.Pipeline):
    def execute_command(self, *args, **options):
        return super().execute_command(*self.tagged(args), **options)


class Tagged(Tagging, redis.Redis):
    def __init__(self, tag, **options):
        super().__init__(**options)
        self.tag = tag.encode()

    def execute_command(self, *args, **options):
        name = as_bytes(args[0]).decode().upper()
        return self.bare(name, super().execute_command(*self.tagged(args), **options))

    def pipeline(self, transaction=True, shard_hint=None):
        made = TaggedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.tag = self.tag
        return made

    def client(self):
        made = Tagged(self.tag.decode(), connection_pool=self.connection_pool, single_connection_client=True)
        return made
