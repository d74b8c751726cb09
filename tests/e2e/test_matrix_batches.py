"""The fault matrix: claims and batches to which something happens on the way: lost answers, names that are taken, fields that
come twice, or are gone."""
import re
from collections import Counter

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.moment import Moment
from harness.resp import encode
from harness.wait import stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
CLAIMED = re.compile(rb"s1:product_views_([0-9a-f]{32})")
REGISTRY = re.compile(rb"tally:batch:([0-9a-f]{32})")
fault = pytest.mark.fault


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


def batches(mysql):
    return mysql.query("SELECT COUNT(DISTINCT batch) FROM tally_ledger")[0][0]


class Rig:
    def __init__(self, make_daemon, make_proxy, redis, mysql):
        self.redis, self.mysql, self.direct = redis, mysql, redis.client()
        self.proxy = make_proxy(redis.socket)
        self.daemon = make_daemon(redis, families=FAMILIES, redis_url=f"unix://{self.proxy.path}?db=0")
        self.account = Account(redis, mysql, FAMILIES)

    def ask_to_sync(self):
        client = self.daemon.client()
        client.send(encode("CTR.SYNC", "ALL"))
        return client


@pytest.fixture
def rig(make_daemon, make_proxy, redis, mysql):
    return Rig(make_daemon, make_proxy, redis, mysql)


@fault("claim-reply-lost")
@pytest.mark.parametrize("reaches", [True, False], ids=["carried out", "never arrived"])
def test_answer_of_a_claim_is_lost(reaches, rig):
    """Its registry says whether it was carried out; an id is sent once, so there is one batch and no orphan."""
    rig.account.pending(rig.daemon, fields(20))
    gen, ledger, ids = int(rig.direct.get("tally:gen")), batches(rig.mysql), []

    def lose(link, data):
        ids.extend(REGISTRY.findall(data))
        link.swallow = True
        return None if reaches else b""

    claim = Moment(rig.proxy, "up", b"RENAMENX", lose)
    rig.ask_to_sync().close()
    claim.wait()
    if reaches:
        wait_until(lambda: rig.direct.zrange("tally:batches", 0, -1) == ids, 60, "it is carried out")
    again = Moment(rig.proxy, "up", ids[0] if not reaches else b"RENAMENX")
    rig.proxy.cut()
    rig.account.settle(rig.daemon)
    assert rig.account.unknown == 0 and rig.account.merged() == rig.account.acked
    assert int(rig.direct.get("tally:gen")) == gen + 1 and batches(rig.mysql) == ledger + 1
    merged = rig.mysql.query("SELECT LOWER(HEX(batch)) FROM tally_ledger ORDER BY gen DESC LIMIT 1")[0][0].encode()
    assert (merged == ids[0]) == reaches
    assert reaches or again.came.is_set(), "it looked for the registry of the lost claim"


@fault("rename-target")
@pytest.mark.parametrize("taken", ["the claimed hash", "the registry"])
def test_name_of_a_claim_is_taken(taken, rig):
    """Another batch has the name that the claim drew: it is not touched, and the hits are claimed under another."""
    rig.account.pending(rig.daemon, fields(20))
    names = []

    def take(link, data):
        batch = REGISTRY.search(data)[1]
        names.append(b"tally:batch:" + batch if taken == "the registry" else b"s1:product_views_" + batch)
        rig.direct.hset(names[0], "7", 1000)

    claim = Moment(rig.proxy, "up", b"RENAMENX", take)
    rig.ask_to_sync().close()
    claim.wait()
    rig.daemon.sync_all()
    assert rig.account.merged() == rig.account.acked
    assert rig.direct.hgetall(names[0]) == {b"7": b"1000"}
    rig.direct.delete(names[0])
    rig.account.settle(rig.daemon)


def sparse_hash(rig, left, first):
    """s1:product_views in a table of 16,384 buckets with that many fields left, field 1 and those from `first` on; one fewer,
    and Redis makes the table smaller."""
    pipe = rig.direct.pipeline(transaction=False)
    rest = [(VIEWS, field, 1 + field % 3) for field in range(first, first + left - 1)]
    pipe.hset(VIEWS, mapping={field: 1 for field in range(100_000, 108_000)})
    pipe.hset(VIEWS, mapping={field: delta for _, field, delta in rest})
    pipe.hincrby("tally:accepted", "product_views", sum(delta for _, _, delta in rest))
    pipe.hdel(VIEWS, *range(100_000, 108_000))
    pipe.execute()
    for key, field, delta in rest:
        rig.account.shadow.acked[key.encode(), b"%d" % field] += delta


class Shrink:
    """Between the first page of an HSCAN and the next, the table is made smaller. shown: field -> how often it came."""

    def __init__(self, rig):
        self.direct, self.key, self.moved, self.shown = rig.direct, None, None, Counter()
        rig.proxy.filter = self.look

    def look(self, link, way, data):
        if way == "up" and b"HSCAN" in data:
            self.key, link.scans = CLAIMED.search(data)[0], True
        elif way == "down" and hasattr(link, "scans"):
            page = re.findall(rb"\r\n\$\d+\r\n(\d{1,5})\r\n\$1\r\n([123])(?=\r\n)", data)
            if page and self.moved is None:
                self.moved = page[0]
                self.shrink()
            self.shown.update(field for field, _ in page if field != self.moved[0])
        return data

    def shrink(self):
        """A field goes and comes back: the table is too big for a moment. Each HEXISTS is a step of the move."""
        pipe = self.direct.pipeline(transaction=False)
        pipe.hdel(self.key, self.moved[0])
        pipe.hset(self.key, *self.moved)
        for _ in range(4000):
            pipe.hexists(self.key, "1")
        pipe.execute()


@fault("hscan-duplicates")
@pytest.mark.parametrize("left", [1639, 2049], ids=["below 10 %", "below 12.5 %"])
def test_hscan_shows_fields_twice(left, rig):
    """Up to Redis 7.2 a table shrinks below 10 %, from 7.4 at 12.5 %. Whether a bucket that was half shown comes again is the
    luck of the hash seed and the fields: until one did."""
    server = rig.direct.info("server")
    version = tuple(map(int, server["redis_version"].split(".")[:2]))
    shows = "valkey_version" not in server and (left == 2049) == (version >= (7, 4))
    for first in range(10_000, 90_000 if shows else 11_000, 4000):
        rig.account.pending(rig.daemon, fields(1))
        sparse_hash(rig, left, first)
        shrink = Shrink(rig)
        rig.account.settle(rig.daemon)
        assert rig.account.merged() == rig.account.acked
        if max(shrink.shown.values()) == 2:
            return
    assert not shows, "Redis showed no field twice"


def stand(direct, batch, rows):
    """A batch as a dead tallyd leaves it (src/redis/registry.h)."""
    pipe = direct.pipeline(transaction=True)
    pipe.hset(f"{VIEWS}_{batch}", mapping=rows)
    pipe.hset(f"tally:batch:{batch}", mapping={
        "format": 1, "counter": "product_views", "gen": direct.incr("tally:gen"), "owner": "dead:0123456789abcdef",
        "lowest_ms": 1, f"={VIEWS}": len(rows)})
    pipe.zadd("tally:batches", {batch: 1})
    pipe.execute()


@fault("batch-id-reuse")
@pytest.mark.parametrize("rows", [{n: 5 for n in range(1, 21)}, {n: 1 for n in range(5)}], ids=["same fields", "others"])
def test_batch_id_comes_twice(rows, rig):
    """The ledger knows the id, with other rows: held and told, neither discarded as merged nor merged."""
    account = rig.account
    account.pending(rig.daemon, fields(20))
    account.settle(rig.daemon)
    merged = account.merged()
    batch = rig.mysql.query("SELECT LOWER(HEX(batch)) FROM tally_ledger ORDER BY gen DESC LIMIT 1")[0][0]
    stand(rig.direct, batch, rows)
    with rig.daemon.client() as client:
        client.call("CTR.RECOVER")
    rig.daemon.log_contains("why=ledger_conflict")
    assert f"batch={batch} why=ledger_conflict" in rig.daemon.log()
    stays(lambda: account.merged() == merged and rig.direct.zcard("tally:batches") == 1, 0.5, "held")
    assert rig.direct.hgetall(f"{VIEWS}_{batch}") == {b"%d" % n: b"%d" % count for n, count in rows.items()}
    assert rig.daemon.verb("status").returncode != 0


def is_reported(rig, merged, ledger):
    """Held and told; others are merged meanwhile; the books show what is missing."""
    account = rig.account
    rig.daemon.log_contains("why=fields_missing")
    assert batches(rig.mysql) == ledger and account.merged() == merged
    held = rig.direct.zrange("tally:batches", 0, -1)
    assert account.hit(rig.daemon, [("s2:product_views", 1, 7)]) == [7]
    wait_until(lambda: account.merged() == merged + 7, 30, "another hash is merged meanwhile")
    wait_until(lambda: rig.direct.zrange("tally:batches", 0, -1) == held, 30, "the batch stands, and no other")
    assert rig.daemon.verb("status").returncode != 0
    done = rig.daemon.verb("verify")
    assert done.returncode == 1 and "product_views" in done.stdout, done.stdout + done.stderr


@fault("batch-deleted")
@pytest.mark.parametrize("nth", [1, 2], ids=["before the first page", "before the second page"])
def test_claimed_hash_is_deleted(nth, rig):
    rig.account.pending(rig.daemon, fields(2500))
    merged, ledger = rig.account.merged(), batches(rig.mysql)

    def delete(link, data):
        assert rig.direct.delete(CLAIMED.search(data)[0]) == 1

    gone = Moment(rig.proxy, "up", b"HSCAN", delete, nth)
    rig.ask_to_sync().close()
    gone.wait()
    is_reported(rig, merged, ledger)


@fault("batch-evicted")
def test_claimed_hash_is_evicted(rig):
    """By Redis itself: another program gave it a TTL and let Redis evict what has one."""
    rig.account.pending(rig.daemon, fields(20))
    merged, ledger = rig.account.merged(), batches(rig.mysql)
    assert rig.daemon.terminate() == 0
    rig.daemon.crash = "claim_done"
    rig.daemon.start()
    rig.ask_to_sync().close()
    assert rig.daemon.ended() == -9
    batch = rig.direct.zrange("tally:batches", 0, -1)[0].decode()
    rig.direct.expire(f"{VIEWS}_{batch}", 1000)
    rig.direct.config_set("maxmemory-policy", "volatile-ttl")
    rig.direct.config_set("maxmemory", rig.direct.info("memory")["used_memory"])

    def evicted():
        rig.direct.setrange("filler", 100_000, "x")
        return not rig.direct.exists(f"{VIEWS}_{batch}")

    wait_until(evicted, 30, "Redis evicts the claimed hash")
    assert rig.direct.info("stats")["evicted_keys"] > 0
    rig.direct.config_set("maxmemory", 0)
    rig.direct.config_set("maxmemory-policy", "noeviction")
    rig.daemon.crash = None
    rig.daemon.start()
    is_reported(rig, merged, ledger)
