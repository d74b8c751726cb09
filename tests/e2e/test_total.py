"""CTR.TOTAL: MySQL's row, what is pending, and what is claimed but not merged, exact as of one moment of each request."""
import calendar
import datetime
import itertools
import os
import random
import selectors
import socket
import threading
import time
from collections import Counter

import pytest

from harness.daemon import counters
from harness.laned import each_lane
from harness.resp import RespError, encode
from harness.wait import patience, stays, wait_until

MERGING = counters(hits=50, every="1s")
RESTING = counters(hits=10**9, every="3600s")
FIELDS = {b"s%d:unique_visitors:daily": [b"20140920", b"20140921"], b"s%d:product_views": [b"1", b"22", b"-3"],
          b"s%d:searches": [b"red shoes", b"Red shoes", b"\xc3\xa1 "]}
ROWS = [(key % store, field) for key, fields in FIELDS.items() for store in range(1, 4) for field in fields]
KEYS = sorted({key for key, _ in ROWS})


class Line:
    """A connection with one request out; `lines` of its answer are awaited."""

    def __init__(self, swarm, path):
        self.swarm, self.buffer, self.lines = swarm, b"", 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        swarm.selector.register(self.socket, selectors.EVENT_READ, self)

    def send(self, data, lines):
        self.lines = lines
        self.socket.sendall(data)

    def readable(self):
        self.buffer += self.socket.recv(1 << 16)
        if self.buffer.count(b"\r\n") < self.lines and not self.buffer.startswith(b"-"):
            return
        said = self.buffer.split(b"\r\n")[:-1]
        assert len(said) == self.lines or said[0].startswith(b"-TRYAGAIN "), said
        self.buffer, self.lines = b"", 0
        self.answered(said)


class Hitter(Line):
    """Sends pipelines of hits, one behind the other, until the swarm stops."""

    def go(self):
        rng = self.swarm.rng
        self.hits = [(*rng.choice(ROWS), rng.choice((1, 1, 1, 7))) for _ in range(20)]
        for key, field, delta in self.hits:
            self.swarm.sent[key, field] += delta
        self.send(b"".join(encode(b"HINCRBY", *hit) for hit in self.hits), len(self.hits))

    def answered(self, said):
        for (key, field, delta), line in zip(self.hits, said):
            assert line[:1] == b":", line
            self.swarm.acked[key, field] += delta
        if self.swarm.hitting:
            self.go()


class Merger(Line):
    """Asks for merges without pause."""

    def go(self):
        self.send(encode(b"CTR.SYNC", self.swarm.rng.choice(KEYS)), 1)

    def answered(self, said):
        assert said[0][:1] == b":" or said[0].startswith(b"-TRYAGAIN "), said
        if self.swarm.hitting:
            self.go()


class Reader(Line):
    """Reads totals, of one field, of all of a key, or their sum, and holds each against what was acknowledged and sent."""

    def __init__(self, swarm, path):
        super().__init__(swarm, path)
        self.seen = Counter()

    def go(self):
        rng = self.swarm.rng
        key = rng.choice(KEYS)
        fields = [field for of, field in ROWS if of == key]
        if key.endswith(b"daily") and rng.random() < 0.1:
            self.asked, words = [tuple((key, field) for field in fields)], (b"FROM", b"20140919", b"TO", b"20140930")
        else:
            words = fields = fields if rng.random() < 0.3 else [rng.choice(fields)]
            self.asked = [((key, field),) for field in fields]
        self.least = [max(self.summed(self.swarm.acked, rows), self.seen[rows]) for rows in self.asked]
        self.send(encode(b"CTR.TOTAL", key, *words), 1 + len(self.asked))

    @staticmethod
    def summed(counts, rows):
        return sum(counts[row] for row in rows)

    def answered(self, said):
        if said[0].startswith(b"-TRYAGAIN "):  # five seconds of nothing but later merges: a slow machine
            return self.go()
        assert said[0] == b"*%d" % len(self.asked), said
        for rows, least, line in zip(self.asked, self.least, said[1:]):
            total, most = int(line[1:]), self.summed(self.swarm.sent, rows)
            assert least <= total <= most, (rows, least, total, most)
            self.seen[rows] = total
        self.swarm.reads += 1
        if not self.swarm.is_over():
            self.go()


class Swarm:
    """Everybody on one thread, so that "acknowledged before it began" and "sent when it ended" are what they say. enough():
    whether what has happened by then proves anything; before that, it goes on."""

    def __init__(self, daemons, readers, reads, seed, enough):
        self.selector, self.rng = selectors.DefaultSelector(), random.Random(seed)
        self.sent, self.acked = Counter(), Counter()
        self.reads, self.wanted, self.hitting, self.enough = 0, reads, True, enough
        self.all = [kind(self, daemon.socket) for daemon in daemons for kind in [Hitter, Merger] + [Reader] * readers]

    def is_over(self):
        if self.hitting and self.reads >= self.wanted:
            self.hitting = not self.enough()
            self.wanted += 1000 * self.hitting
        return not self.hitting

    def run(self, deadline_s):
        ends_at = time.monotonic() + patience(deadline_s)
        for line in self.all:
            line.go()
        while any(line.lines for line in self.all):
            assert time.monotonic() < ends_at, f"{self.reads} of {self.wanted} reads in {patience(deadline_s):g} s"
            for key, _ in self.selector.select(1):
                key.data.readable()
        for line in self.all:
            line.socket.close()
        self.selector.close()


def info(daemon):
    with daemon.client() as client:
        lines = client.call("INFO", "stats").decode().splitlines()
    return {name: int(value) for name, value in (line.split(":") for line in lines if ":" in line)}


def totals(daemon, key, *fields):
    with daemon.client() as client:
        return client.call("CTR.TOTAL", key, *fields)


def swarm_is_right(daemons, mysql, readers, reads, batches, enough=lambda: True):
    seed = int(os.environ.get("TOTAL_SEED", 0)) or random.randrange(1, 10**6)
    print(f"TOTAL_SEED={seed}")
    swarm = Swarm(daemons, readers, reads, seed, enough)
    swarm.run(120 + reads / 40)
    assert swarm.acked == swarm.sent
    for key in KEYS:
        rows = [row for row in ROWS if row[0] == key]
        assert totals(daemons[-1], key, *[field for _, field in rows]) == [swarm.acked[row] for row in rows]
    figures = [info(daemon) for daemon in daemons]
    merged = sum(said["batches_done"] for said in figures)
    print(f"batches={merged} again={[said['totals_again'] for said in figures]}")
    assert merged >= batches, f"only {merged} batches were merged meanwhile: this run proves little"
    daemons[0].sync_all()
    assert mysql.query("SELECT SUM(searches) FROM searches")[0][0] == sum(
        count for (key, _), count in swarm.acked.items() if key.endswith(b"searches"))
    daemons[0].verify()


def test_thousands_of_reads(make_daemon, redis, mysql):
    swarm_is_right([make_daemon(redis, families=MERGING)], mysql, readers=24, reads=4_000, batches=20)


@pytest.mark.soak
def test_hundreds_of_thousands_of_reads(make_daemon, redis, mysql):
    swarm_is_right([make_daemon(redis, families=MERGING)], mysql, readers=24, reads=400_000, batches=400)


class Stalls:
    """Stops what one daemon says to MySQL until the other has merged a few claims more, or half a second, again and again."""

    def __init__(self, proxy, mysql):
        self.proxy, self.mysql, self.ending = proxy, mysql, False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def merged(self):
        return self.mysql.query("SELECT COUNT(*) FROM tally_ledger")[0][0]

    def work(self):
        while not self.ending:
            self.proxy.stall("up")
            wanted, ends_at = self.merged() + 5, time.monotonic() + 0.5
            wait_until(lambda wanted=wanted, ends_at=ends_at: self.merged() >= wanted or time.monotonic() > ends_at, 60)
            self.proxy.flow()
            time.sleep(patience(0.02))  # it runs for that long: a pace, not a synchronisation

    def end(self):
        self.ending = True
        self.thread.join(patience(60))
        assert not self.thread.is_alive()


def two_services(reads, make_daemon, make_proxy, redis, mysql):
    """One merges during the reads of the other, which sees a MySQL that is ahead of what it read of Redis."""
    one = make_daemon(redis, families=MERGING, instance="one")
    proxy = make_proxy(mysql.socket)
    two = make_daemon(redis, families=MERGING, instance="two", migrate=False,
                      mysql_url=f"mysql://root@localhost/shop?socket={proxy.path}")
    stalls = Stalls(proxy, mysql)
    try:
        swarm_is_right([one, two], mysql, readers=12, reads=reads, batches=40,
                       enough=lambda: info(two)["totals_again"] > 10)  # it saw later merges
    finally:
        stalls.end()


def test_two_services(make_daemon, make_proxy, redis, mysql):
    two_services(2_000, make_daemon, make_proxy, redis, mysql)


@pytest.mark.soak
def test_two_services_for_long(make_daemon, make_proxy, redis, mysql):
    two_services(200_000, make_daemon, make_proxy, redis, mysql)


POINTS = ["claim_done", "merge_before_commit", "merge_after_commit", "merge_between_chunks:2", "discard_before_send",
          "discard_after_send", "discard_done"]


@pytest.mark.parametrize("point", POINTS)
def test_killed_between_merge_and_discard(point, make_daemon, redis):
    """A batch of three chunks, left by its owner on the way: no tallyd adopts it for a minute, its totals are right at once."""
    dead = make_daemon(redis, families=RESTING, instance="one")
    with dead.client() as client:
        client.call("HINCRBY", "s1:product_views", "0", 1)  # the first hit ever is merged at once
    dead.sync_all()
    assert dead.terminate() == 0
    dead.crash = point
    dead.start()
    with dead.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(at), at) for at in range(2500)])
        client.send(encode("CTR.SYNC", "s1:product_views"))
        assert client.until_closed() == b""
    assert dead.ended() == -9
    gone = point in ("discard_after_send", "discard_done")
    assert redis.client().zcard("tally:batches") == (0 if gone else 1)

    heir = make_daemon(redis, families=RESTING, instance="two", migrate=False)

    def exact(more):
        with heir.client() as client:
            for first in range(0, 2500, 1000):
                asked = range(first, min(first + 1000, 2500))
                assert client.call("CTR.TOTAL", "s1:product_views", *asked) == [
                    product + more + (product == 0) for product in asked]

    exact(0)
    with heir.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(at), 10) for at in range(2500)])
    exact(10)  # the batch is still in Redis, and the hash is pending again
    with heir.client() as client:
        wait_until(lambda: isinstance(client.call("CTR.RECOVER"), list), 30, "CTR.RECOVER")
    exact(10)
    heir.sync_all()
    exact(10)
    assert redis.client().zcard("tally:batches") == 0


DAYS = [f"{day:%Y%m%d}" for day in (datetime.date(2023, 1, 1) + datetime.timedelta(days) for days in range(1000))]


@pytest.mark.parametrize("columns,types", [
    ({"field": "day"}, "day DATE"), ({"field": "day"}, "day DATETIME"), ({"field": "day"}, "day INT"),
    ({"field": "day"}, "day VARCHAR(20) CHARACTER SET utf8mb4"), ({"field": "day"}, "day VARBINARY(20)"),
    ({"field": ["year", "month", "day"]}, "year SMALLINT, month TINYINT, day TINYINT")])
@pytest.mark.parametrize("spelled", ["date", "date seconds"])
def test_sum_of_a_range(columns, types, spelled, make_daemon, redis, mysql):
    """The sum is that of its fields, merged, claimed by a tallyd that is gone, and pending; of the days of the range, of this key."""
    keys = ", ".join(name.split()[0] for name in types.split(", "))
    mysql.query(f"CREATE TABLE days (product BIGINT, {types}, views BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (product, {keys}))")
    family = {"key": "product:<product>:views", "field": spelled, "sync": {"hits": 10**9, "every": "3600s"}, "table": "days",
              "columns": {"product": "product", "count": "views", **columns}}

    def sent(day):
        return day if spelled == "date" else calendar.timegm(time.strptime(day, "%Y%m%d"))

    def hit(client, days, n):
        for product in (1, 2):
            client.pipeline([("HINCRBY", f"product:{product}:views", sent(day), n * product) for day in days])

    def told(client, first, last):
        return client.call("CTR.TOTAL", "product:1:views", "FROM", sent(first), "TO", sent(last))

    dead = make_daemon(redis, families={"days": family}, instance="one")
    with dead.client() as client:
        hit(client, DAYS, 1)
        dead.sync_all()
        assert told(client, DAYS[0], DAYS[-1]) == [1000] and told(client, DAYS[10], DAYS[10]) == [1]
    assert dead.terminate() == 0
    dead.crash = "claim_done"
    dead.start()
    with dead.client() as client:
        hit(client, DAYS[500:], 10)
        client.send(encode("CTR.SYNC", "ALL"))
        assert client.until_closed() == b""
    assert dead.ended() == -9
    heir = make_daemon(redis, families={"days": family}, instance="two", migrate=False)
    with heir.client() as client:
        hit(client, DAYS[:501], 100)
        for _ in range(2):
            assert told(client, DAYS[0], DAYS[-1]) == [1000 + 5000 + 50100]
            assert told(client, DAYS[499], DAYS[501]) == [3 + 20 + 200]
            assert told(client, "20211231", DAYS[0]) == [101] and told(client, "20211230", "20211231") == [0]
            wait_until(lambda: isinstance(client.call("CTR.RECOVER"), list), 30, "CTR.RECOVER")
            heir.sync_all()


def test_or_stale(make_daemon, redis, mysql):
    """While MySQL is away: the last figure and its age; an error for what was not asked for before, and after a restart."""
    daemon = make_daemon(redis, families=RESTING)
    key, days = "s1:unique_visitors:daily", ("FROM", "20140101", "TO", "20141231")

    def stale(client, *words):
        return client.call("CTR.TOTAL", key, *words, "OR", "STALE")

    with daemon.client() as client:
        client.pipeline([("HINCRBY", key, "20140920", 5), ("HINCRBY", key, "20140921", 2)])
        assert stale(client, "20140920") == [5, 0] and stale(client, *days) == [7, 0]
        mysql.kill9()
        without = "ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back"
        client.call("HINCRBY", key, "20140920", 1)
        wait_until(lambda: stale(client, "20140920")[1] >= 2, 30, "its age")
        assert stale(client, "20140920")[0] == 5 and stale(client, *days)[0] == 7
        assert stale(client, "20140921") == stale(client, "20140920", "20140921") == without
        assert client.call("CTR.TOTAL", key, "20140920") == without
        mysql.start()
        wait_until(lambda: stale(client, "20140920") == [6, 0], 30, "it is live again")
        assert stale(client, *days) == [8, 0] and info(daemon)["totals_stale"] >= 3
        mysql.kill9()
        assert stale(client, *days)[0] == 8
        assert daemon.terminate() == 0
        mysql.start()
    daemon.start()
    with daemon.client() as client:
        redis.kill9()
        assert isinstance(stale(client, *days), RespError)
        redis.start()
        wait_until(lambda: stale(client, *days) == [8, 0], 30, "Redis is back")
        redis.kill9()
        assert stale(client, *days)[0] == 8
        redis.start()


def test_or_stale_while_mysql_does_not_answer(make_daemon, redis, mysql):
    """Long before mysql.timeout the last figure is told, to the first one and to all who ask meanwhile."""
    daemon = make_daemon(redis, families=RESTING, more={"mysql": {"url": mysql.url, "timeout": "300s"}})
    ask = ("CTR.TOTAL", "s1:unique_visitors:daily", "20140920")
    with daemon.client() as client:
        client.call("HINCRBY", *ask[1:], 5)
        assert client.call(*ask, "OR", "STALE") == [5, 0]
        client.call("HINCRBY", *ask[1:], 1)
        mysql.pause()
        assert client.call(*ask, "OR", "STALE")[0] == 5
        assert client.call(*ask, "OR", "STALE")[0] == 5
        mysql.resume()
        wait_until(lambda: client.call(*ask, "OR", "STALE") == [6, 0], 30, "it is live again")


def test_mysql_or_redis_down(make_daemon, redis, mysql):
    daemon = make_daemon(redis, families=RESTING)
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "1", 5) == 5
        daemon.sync_all()
        assert client.call("HINCRBY", "s1:product_views", "1", 2) == 2
        assert client.call("CTR.TOTAL", "s1:product_views", "1", "2", "1") == [7, 0, 7]
        mysql.kill9()
        without = "ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back"
        assert client.call("CTR.TOTAL", "s1:product_views", "1") == without
        assert client.call("CTR.TOTAL", "s1:product_views", "1") == without  # it is known now
        assert client.call("HINCRBY", "s1:product_views", "1", 1) == 3
        mysql.start()
        wait_until(lambda: client.call("CTR.TOTAL", "s1:product_views", "1") == [8], 30, "MySQL is back")
        redis.kill9()
        told = client.call("CTR.TOTAL", "s1:product_views", "1")
        assert isinstance(told, RespError) and "Redis" in told, told
        redis.start()
        wait_until(lambda: client.call("CTR.TOTAL", "s1:product_views", "1") == [8], 30, "Redis is back")


def test_refused(make_daemon, redis, mysql):
    daemon = make_daemon(redis, families=RESTING)
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "1", 5) == 5
        assert client.call("CTR.TOTAL", "s1:product_view", "1") == \
            "ERR no counter is configured for key 's1:product_view'"
        assert client.call("CTR.TOTAL", "s1:unique_visitors:daily", "20140931") == \
            "ERR field '20140931' of counter 'unique_visitors' is not a date as YYYYMMDD"
        assert client.call("CTR.TOTAL", "s1:product_views") == \
            "ERR wrong number of arguments for 'ctr.total' command"
        assert client.call("CTR.TOTAL", "s1:product_views", *range(1001)) == "ERR too many fields: at most 1000 at once"
        assert client.call("CTR.TOTAL", "s1:product_views", *range(1000)) == [0, 5] + [0] * 998
        redis.client().set("s2:product_views", "word")
        assert client.call("CTR.TOTAL", "s2:product_views", "1").startswith("WRONGTYPE Operation against a key")
        redis.client().hset("s3:product_views", "1", "word")
        assert client.call("CTR.TOTAL", "s3:product_views", "1") == "ERR hash value is not an integer"
        assert client.call("CTR.TOTAL", "s3:product_views", "2") == [0]
        assert client.call("HINCRBY", "s4:product_views", "2", 1) == 1
        assert client.call("CTR.SYNC", "s4:product_views") >= 1  # the next hit is not due; a row of s1 may be in the same merge
        mysql.query("INSERT INTO product_views (store_id, product_id, views) VALUES (4, 1, 9223372036854775807)")
        assert client.call("CTR.TOTAL", "s4:product_views", "1") == [2**63 - 1]
        assert client.call("HINCRBY", "s4:product_views", "1", 1) == 1
        assert client.call("CTR.TOTAL", "s4:product_views", "1") == "ERR a total is out of range"
        assert client.call("MULTI") == "OK"
        assert isinstance(client.call("CTR.TOTAL", "s1:product_views", "1"), RespError)


def later_merge(mysql, realm, counter):
    """A ledger row as if some other tallyd had just merged a later claim of the counter; stays until it is deleted."""
    mysql.query("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged,"
                " total, merged_at) VALUES (UNHEX(%s), REPEAT('x', 16), 0, 1, %s, 1000000, '', '', REPEAT('x', 16), 0, 0, NOW(3))",
                (realm, counter))


def test_claims_are_held_for_a_reader_and_let_go(make_daemon, redis, mysql):
    """A reader that sees a later merge each time: claims of that counter wait for it, and only for it, and go on when it
    is answered, when it is told to try again, and when it goes away."""
    daemon = make_daemon(redis, families=MERGING, more={"limits": {"busy_timeout": f"{patience(4):.0f}s"}})
    lane, stores = each_lane(redis.client())[0]
    one, two, three = itertools.islice(stores, 3)

    def hit(store):
        with daemon.client() as hitter:
            hitter.pipeline([("HINCRBY", f"s{store}:{name}", "1", 50) for name in ("product_views", "searches")])

    def merged(table, store):
        return bool(mysql.query(f"SELECT 1 FROM {table} WHERE store_id = {store}"))

    with daemon.client() as client:
        hit(one)
        wait_until(lambda: merged("product_views", one) and merged("searches", one), 30, "it merges as ever")
        realm = lane.get("tally:realm")
        later_merge(mysql, realm, "product_views")
        client.send(encode("CTR.TOTAL", f"s{one}:product_views", "1"))
        wait_until(lambda: info(daemon)["totals_held"] == 1, 60, "claims are held")
        hit(two)
        wait_until(lambda: merged("searches", two), 60, "the other counter merges")
        stays(lambda: not merged("product_views", two), 0.5, "this one waits")
        mysql.query("DELETE FROM tally_ledger WHERE gen = 1000000")
        assert client.reply() == [50]
        wait_until(lambda: merged("product_views", two), 30, "claims go on")

        later_merge(mysql, realm, "product_views")
        before, began = info(daemon)["totals_again"], time.monotonic()
        client.send(encode("CTR.TOTAL", f"s{one}:product_views", "1"))
        with daemon.client() as leaves:
            leaves.send(encode("CTR.TOTAL", f"s{two}:product_views", "1"))
            wait_until(lambda: info(daemon)["totals_held"] == 3, 60, "claims are held for both")
        assert client.call("CTR.TOTAL", f"s{two}:searches", "1") == \
            "TRYAGAIN a later claim of this counter was merged during every read; ask again"
        assert client.reply() == [50]
        again = info(daemon)["totals_again"] - before
        assert again < 50 + 120 * (time.monotonic() - began), "both are read once a tick (20 ms), and other work gets its turns"
        hit(three)
        wait_until(lambda: merged("product_views", three), 30, "claims go on, nobody waits for them any more")
        mysql.query("DELETE FROM tally_ledger WHERE gen = 1000000")
        daemon.verify()

        later_merge(mysql, realm, "product_views")
        client.send(encode("CTR.TOTAL", f"s{one}:product_views", "1"))
        wait_until(lambda: info(daemon)["totals_held"] == 4, 60, "claims are held once more")
        assert daemon.terminate() == 0
        assert client.reply().startswith("TRYAGAIN")
