"""redis-py for a node that has all lanes of a cluster: names without a tag are looked for in each lane. What lanes keep each for
themselves (tally:accepted, tally:batches ...) is added up."""
import ctypes
import functools
import itertools
import re

import redis

from harness.slots import tag_of_lane
from harness.tagged import ALL_KEYS, NO_KEYS, Tagged, as_bytes

LANE_SEED = 0x74616c6c79  # src/series/slot.c
STORE = re.compile(rb"(?:^|[.:])s([0-9]+):")
TAGGED = re.compile(rb"^{[a-z0-9]+}")


@functools.cache
def lane_of_store(store, lanes):
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    xxh3.restype = ctypes.c_uint64
    xxh3.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64
    return (xxh3(store, len(store), LANE_SEED) >> 32) * lanes >> 32


def lane_of_name(name, lanes):
    """As the tests' patterns have it: that of s<store>:, or the one of all names without a store."""
    store = STORE.search(name)
    return lane_of_store(store.group(1) if store else b"", lanes)


def stores_in(lane, lanes):
    return (store for store in itertools.count(1) if lane_of_store(b"%d" % store, lanes) == lane)


def each_lane(client):
    """[(a client that sees one lane alone, the stores in it)]: for what a test writes by hand, as one tallyd does for one lane.
    Without lanes all is in one."""
    if not isinstance(client, Laned):
        return [(client, itertools.count(1))]
    return [(Tagged(tag.decode(), connection_pool=client.connection_pool), stores_in(lane, client.lanes))
            for lane, tag in enumerate(client.tags)]


def lane_with(client, name):
    """That of a name."""
    lanes = each_lane(client)
    return lanes[lane_of_name(as_bytes(name), len(lanes))] if len(lanes) > 1 else lanes[0]


def added_up(replies):
    """Of several lanes."""
    said = [reply for reply in replies if reply is not None]
    if len(said) < 2:
        return said[0] if said else None
    if isinstance(said[0], dict):
        return {field: added_up([reply.get(field) for reply in said]) for reply in said for field in reply}
    if isinstance(said[0], bytes) and all(reply.lstrip(b"-").isdigit() for reply in said):
        return b"%d" % sum(map(int, said))
    if isinstance(said[0], list):
        return sorted(each for reply in said for each in reply)
    return set().union(*said) if isinstance(said[0], set) else sum(said) if isinstance(said[0], (int, float)) else said[0]


class Laned(redis.Redis):
    def __init__(self, lanes, **options):
        super().__init__(**options)
        self.lanes = lanes
        self.tags = [tag_of_lane(lane, lanes) for lane in range(lanes)]
        self.all_tags = sorted({*self.tags, tag_of_lane(0, 1)})  # and where their number is kept
        self.plain = redis.Redis(connection_pool=self.connection_pool)

    def places(self, name):
        """Its tags: where it is, or else where tallyd would put it."""
        name = as_bytes(name)
        with self.plain.pipeline(transaction=False) as pipe:
            for tag in self.all_tags:
                pipe.exists(tag + name)
            found = [tag for tag, there in zip(self.all_tags, pipe.execute()) if there]
        return found or [self.tags[lane_of_name(name, self.lanes)]]

    def said_by(self, name, rest, options):
        words = name.split()
        if words[0] in NO_KEYS or (words[0].startswith("EVAL") and int(rest[1]) == 0):
            return [[*rest]]
        if words[0].startswith("EVAL"):
            keys = 2 + int(rest[1])
            return [[*rest[:2], *(tag + as_bytes(key) for key in rest[2:keys]), *rest[keys:]] for tag in self.places(rest[2])[:1]]
        if name in ALL_KEYS:
            return [[tag + as_bytes(key)] for key in rest for tag in self.places(key)]
        if name == "KEYS":
            return [[b"{*}" + as_bytes(rest[0])]]
        if name == "SCAN":
            at = next((i for i, word in enumerate(rest) if as_bytes(word).upper() == b"MATCH"), None)
            return [[*rest, "MATCH", "{*}*"] if at is None else [*rest[:at + 1], b"{*}" + as_bytes(rest[at + 1]), *rest[at + 2:]]]
        at = 1 if words[0] in ("OBJECT", "MEMORY", "DEBUG") and len(words) == 1 else 0
        return [[*rest[:at], tag + as_bytes(rest[at]), *rest[at + 1:]] for tag in self.places(rest[at])]

    def execute_command(self, *args, **options):
        name = as_bytes(args[0]).decode().upper()
        replies = [super(Laned, self).execute_command(args[0], *rest, **options) for rest in self.said_by(name, args[1:], options)]
        if name in ALL_KEYS and name not in ("MGET", "SDIFF"):
            return sum(replies)
        if name == "MGET":
            return [reply[0] for reply in replies]
        if name == "KEYS":
            return [TAGGED.sub(b"", key) for key in replies[0]]
        if name == "SCAN":
            return replies[0][0], [TAGGED.sub(b"", key) for key in replies[0][1]]
        return added_up(replies)

    def pipeline(self, transaction=True, shard_hint=None):
        made = LanedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.whole = self
        return made

    def client(self):
        return Laned(self.lanes, connection_pool=self.connection_pool)


class LanedPipeline(redis.client.Pipeline):
    """Of names that are each in one lane."""
    whole = None

    def execute_command(self, *args, **options):
        rests = self.whole.said_by(as_bytes(args[0]).decode().upper(), args[1:], options)
        if len(rests) > 1 and as_bytes(args[0]).decode().upper() in ALL_KEYS:
            rests = [[key for rest in rests for key in rest]]
        assert len(rests) == 1, (args, "is in several lanes")
        return super().execute_command(args[0], *rests[0], **options)
