"""Measures tallyd beside its peers and limits in one run; run.sh builds and calls it. One block a function, each gives
rows of the table. All on 127.0.0.1, in turn: a round measures tallyd, then each peer: one sample of each ratio."""
import argparse
import contextlib
import dataclasses
import datetime
import math
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

import table
from panels import Watchers
from servers import FED, HOST, Cluster, ClusterNode, LanesTallyd, MariaDB, Null, Nutcracker, RedisServer, Tallyd, chunks, resp
from table import Row, compared
from window import Window, most, paid_s
import moving  # after servers, which says where it finds what it imports
from harness.wait import wait_until

CONNECTIONS = 50
WRITERS = 2  # tallyd's mysql.writers, and the connections of the bare upsert client
HOT_STORES, UNIFORM_STORES = 1_000, 100_000
DAY = b"20140920"
VISITORS, VIEWS = "daily_visitors", "product_views"
SETTING = ("Everything on this machine, over TCP on 127.0.0.1: 50 connections, AOF everysec, "
           "innodb_flush_log_at_trx_commit=1, sync (hits 50, every 60s) running all the while.")
MIDWAY = """
math.randomseed(ARGV[1])
local now, sum = redis.call('TIME')[1] * 1000, 0
for n = ARGV[1], ARGV[2] do
  local visits, hits, left = 's' .. n .. ':unique_visitors:daily', math.random(ARGV[3] - 1), math.random(60000)
  sum = sum + hits
  redis.call('HINCRBY', visits, '20140920', hits)
  redis.call('SET', 's' .. n .. ':unique_visitors:sync', 'bench', 'NX', 'PX', left + (tonumber(ARGV[4]) or 0))
  if ARGV[4] ~= '' then redis.call('ZADD', 'tally:dirty', 'NX', now + ARGV[4] + math.min(0, left - 55000), visits) end
end
redis.call('HINCRBY', 'tally:accepted', 'unique_visitors', sum)
"""
FILLED_A_MS = 100  # stores, so that few come due before a load begins
# Warm-up and window of the method of before, in seconds: of hits, and of all else.
OLD_HITS, OLD = (2.3, 1.0), (0.2, 0.6)


@dataclass
class Sizes:
    rounds: int = 2
    window_s: float = 10.0
    warm_s: float = 4.0  # with everysec and no WAITAOF a batch is merged 2.1 s after its claim: merges run in the window, too
    peer_warm_s: float = 1.0
    known_s: float = 2.0
    drained_hashes: int = 100_000
    drained_fields: int = 1_000_000
    limit_fields: int = 200_000
    many_stores: int = 1_000_000
    idle_connections: int = 10_000
    names: int = 100_000
    patience_s: float = 120  # for what is owed


QUICK = Sizes(rounds=1, window_s=0.5, warm_s=0.3, peer_warm_s=0.3, known_s=0.1, drained_hashes=5_000, drained_fields=20_000,
              limit_fields=20_000, many_stores=20_000, idle_connections=200, names=2_000,
              patience_s=1)


@dataclass
class Work:
    """A load on a tallyd."""
    name: str  # for --only
    title: str
    options: list
    server: str = "tallyd"
    standing: bool = False  # before it, all stores are in the midst of their ways (World.fill)
    fresh: bool = False  # each second, and each round, has names of its own


@dataclass
class Peer:
    """What is put beside it, and what the ratio should be. less: it is how much dearer the work is than this."""
    work: str
    server: str
    options: list
    against: str
    at_least: float
    aim: float
    less: bool = False
    unit: str = ""


def hot(pipeline):
    return ["-k", HOT_STORES, "-z", 1.0, "-P", pipeline]


def uniform(pipeline, stores=UNIFORM_STORES):
    return ["-k", stores, "-z", 0, "-P", pipeline]


HITS = [Work(f"uniform-{p}", f"uniform: 100,000 keys, P={p}", uniform(p), standing=True) for p in (100, 16, 1)]
HITS += [Work(f"hot-{p}", f"hot: 1,000 keys, Zipf 1.0, P={p}", hot(p)) for p in (100, 16, 1)]
HITS += [Work("connect", "connect, one hit, close", [*hot(1), "-x"])]

RAW, SEEDS, TRIPS = "raw HINCRBY", "the seeds' protocol, pipelined", "the seeds' protocol, two round trips"
DIRECT_CONNECTIONS = (1, 8, 32)
DIRECT = "direct upsert per hit, best of 1, 8, 32 connections"
HIT_PEERS = [
    Peer("hot-100", "plain", [], RAW, 3.8, 4.5),
    Peer("hot-16", "plain", [], RAW, 1.5, 2.0),
    Peer("hot-1", "plain", [], RAW, 0.85, 0.95),
    Peer("uniform-100", "plain", [], RAW, 0.85, 1.0),
    Peer("uniform-16", "plain", [], RAW, 0.95, 1.1),
    Peer("uniform-1", "plain", [], RAW, 0.85, 0.95),
    Peer("hot-100", "plain", ["-m", "seeds"], SEEDS, 4.0, 5.0),
    Peer("uniform-100", "plain", ["-m", "seeds"], SEEDS, 1.4, 1.8),
    Peer("hot-1", "plain", ["-m", "trips"], TRIPS, 1.4, 1.7),
    Peer("hot-100", "nutcracker", [], "twemproxy", 8, 12),
    Peer("hot-16", "nutcracker", [], "twemproxy", 2, 2.5),
    Peer("hot-100", "null", [], "the null RESP server", 0.4, 0.6),
    Peer("connect", "plain", [], "raw redis-server", 0.8, 0.95),
    *(Peer(f"hot-{p}", "direct", [], DIRECT, 40, 100) for p in (100, 16, 1)),
]


def say(text):
    print(f"{time.monotonic() - STARTED_S:6.1f} s  {text}", file=sys.stderr, flush=True)


STARTED_S = time.monotonic()


def middle(values):
    return statistics.median(values)


class World:
    """The servers and programs of a run. only: names of blocks and works; empty: all."""

    def __init__(self, stack, build, directory, sizes, only):
        self.sizes, self.directory, self.only, self.moment = sizes, directory, only, int(time.time())
        self.programs = os.path.join(build, "tests/bench")
        self.tallyd_program = os.path.join(build, "tallyd")
        self.stack = stack
        self.mysql = self.up(MariaDB(directory, "mariadbd").install())
        self.plain = self.up(RedisServer(directory, "plain"))
        self.behind = self.up(RedisServer(directory, "behind"))
        self.nutcracker = self.up(Nutcracker(directory, self.plain))
        self.null = self.up(Null(directory, self.program("null")))
        self.tallyd = self.up(self.make_tallyd("shop", self.behind))
        self.servers = {"tallyd": self.tallyd, "plain": self.plain, "nutcracker": self.nutcracker, "null": self.null}
        self.unused = None
        self.stand(self.plain, UNIFORM_STORES, 50)

    def wants(self, *names):
        return not self.only or not self.only.isdisjoint(names)

    def up(self, server):
        self.stack.callback(lambda: server.process and server.close())
        return server.start()

    def program(self, name):
        return os.path.join(self.programs, name)

    def make_tallyd(self, name, behind, **more):
        return Tallyd(self.directory, f"bench-{name}", self.tallyd_program, behind, self.mysql, name, **more)

    def stand(self, server, stores, hits, ages_in_ms=""):
        """Counts and locks of all stores halfway through, and their ages, as they are after that long: they come due as
        evenly as in a long run."""
        run = server.admin.register_script(MIDWAY)
        for first in range(1, stores + 1, 1_000):
            run(args=[first, min(stores, first + 999), hits, ages_in_ms])

    def fill(self, tallyd, stores, hits):
        """... and tallyd has seen each of them once."""
        self.stand(tallyd.behind, stores, hits, stores // FILLED_A_MS)
        self.touch(tallyd, stores)

    def load_argv(self, server, *options):
        return [self.program("load"), "-t", str(server.port), "-c", str(CONNECTIONS), "-a", str(self.moment), *map(str, options)]

    def touch(self, server, stores):
        """A hit for each of them."""
        subprocess.run(self.load_argv(server, "-S", "-P", 16, "-k", stores, "-R", stores, "-n", stores, "-d", 100),
                       stdout=subprocess.DEVNULL, check=True, timeout=120)

    @contextlib.contextmanager
    def load(self, server, *options):
        """A load under way whose window has begun: a Window, which has its figures when the block ends, and what was owed then
        is paid. The function that is yielded with it ends the load."""
        window, before = Window(), []
        process = subprocess.Popen(self.load_argv(server, *options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.stack.callback(process.kill)
        while not select.select([process.stdout], [], [], 0.1)[0]:
            before.append(server.owed())
        first = process.stdout.readline()
        try:
            if first == "window\n":
                yield window, process.terminate
        finally:
            rest = process.stdout.read()
            then = server.now()
            process.wait(120)
        assert process.returncode == 0, f"load {options}: {first}{rest}"
        window.read(rest).paid_s = paid_s(lambda: server.owed(then), most(before), self.sizes.patience_s)  # what remains: in the warm-up

    def window(self, server, *options):
        """With how many Redis commands and MySQL rows each hit had."""
        sizes, warm_s, behind = self.sizes, self.sizes.peer_warm_s, self.plain
        if isinstance(server, Tallyd):
            warm_s, behind = sizes.warm_s, server.behind
            paid_s(server.owed, {"journals": 0})  # so a short window would begin, after a pause
        with self.load(server, *options, "-w", warm_s, "-d", sizes.window_s) as (window, _):
            began_s, commands, rows = time.monotonic(), behind.commands(), self.mysql.rows()
            time.sleep(0.9 * sizes.window_s)  # not to wait for something: most of the window
            took_s, commands, rows = time.monotonic() - began_s, behind.commands() - commands, self.mysql.rows() - rows
        window.redis_a_hit, window.mysql_a_hit = (n / (window.hits_per_s * took_s) for n in (commands, rows))
        return window

    def direct(self):
        """What the fastest of some numbers of connections makes of an upsert a hit."""
        rates = [self.upsert("hit", "-c", n, "-k", HOT_STORES, "-z", 1.0, "-w", self.sizes.peer_warm_s, "-d", self.sizes.window_s)
                 for n in DIRECT_CONNECTIONS]
        return Window(hits_per_s=max(rates), seconds=self.sizes.window_s)

    def upsert(self, *options, mysql=None):
        done = subprocess.run([self.program("upsert"), options[0], str((mysql or self.mysql).port), *map(str, options[1:])],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout
        return float(re.search(r"rows_per_s=([\d.]+)", done.stdout)[1])


def visits(store):
    return b"s%d:unique_visitors:daily" % store


# --- works beside their peers ---

def options_of(world, work, turn):
    if not work.fresh:
        return work.options
    parts = math.ceil(world.sizes.warm_s + world.sizes.window_s) + 1
    return [*work.options, "-F", parts, "-f", 10_000_000 + turn * parts * world.sizes.names]


def forget_events(world, works):
    """They only grow: the next round begins with empty logs again."""
    for server in {server for work in works for server in (world.plain, world.servers[work.server].behind)}:
        server.pour(resp(b"UNLINK", b"s%d:view" % name) for name in range(1, max(HOT_STORES, world.sizes.names) + 1))


def side_by_side(world, block, works, peers, old=OLD):
    """A row for each peer: in each round all works that are wanted, each on its tallyd and then on its peers."""
    works = [work for work in works if world.wants(block, work.name)]
    ours, theirs, direct = {}, {}, None
    for turn in range(world.sizes.rounds):
        for work in works:
            tallyd, options = world.servers[work.server], options_of(world, work, turn)
            if work.standing:
                world.fill(tallyd, UNIFORM_STORES, 50)
            found = world.window(tallyd, *options)
            ours.setdefault(work.name, []).append(found)
            if work.server in ("hour", "million"):  # a million rows wait: they are not to be merged beside a peer
                tallyd.pause()
            else:
                tallyd.settle()
            for at, peer in enumerate(peers):
                if peer.work == work.name and peer.server == "direct":
                    direct = direct or world.direct()
                    theirs.setdefault(at, []).append(direct)
                elif peer.work == work.name:
                    theirs.setdefault(at, []).append(world.window(world.servers[peer.server], *options, *peer.options))
            tallyd.resume()
            say(f"{work.name}, round {turn + 1}: {found.rate:,.0f}/s, p99 {found.p99_us:,.0f} us, owed {found.paid_s:.2f} s; peers "
                f"{', '.join(f'{w[-1].rate:,.0f}' for at, w in theirs.items() if peers[at].work == work.name)}")
        forget_events(world, [work for work in works if work.name.startswith("event")])
        for server in {world.plain, *(world.servers[work.server].behind for work in works)}:
            server.trim()
    titles = {work.name: work.title for work in works}
    return ours, [compared(titles[peer.work], peer.against, ours[peer.work], theirs[at], peer.at_least, peer.aim, old, peer.less,
                           peer.unit) for at, peer in enumerate(peers) if at in theirs]


def hits(world):
    ours, rows = side_by_side(world, "hits", HITS, HIT_PEERS, OLD_HITS)
    return rows + [Row(f"hot, P={p}: row writes a hit", "direct upsert per hit (1 row write)",
                       [w.mysql_a_hit for w in ours[f"hot-{p}"]], 0.001, 0.001, less=True)
                   for p in (100, 16, 1) if f"hot-{p}" in ours]


# --- drains ---

def drain(world, what="ALL"):
    """Seconds until what is pending is merged, and seconds until its first chunk was seen to be written: more rows than
    tallyd's upkeep writes meanwhile."""
    rows, began_s, first_s = world.mysql.rows(), time.monotonic(), None
    done = threading.Event()

    def wait():
        try:
            world.tallyd.settle(what)
        finally:
            done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not done.wait(0.02):
        if first_s is None and world.mysql.rows() > rows + 100:
            first_s = time.monotonic() - began_s
    waiter.join()
    took_s = time.monotonic() - began_s
    return took_s, first_s if first_s is not None else 0.0


def now_ms(world):
    seconds, micros = world.behind.admin.time()
    return seconds * 1000 + micros // 1000


def put_hashes(world, first, n):
    score = b"%d" % now_ms(world)
    world.behind.pour(resp(b"HSET", visits(store), DAY, b"1") + resp(b"ZADD", b"tally:dirty", score, visits(store))
                      for store in range(first, first + n))
    world.behind.admin.hincrby("tally:accepted", "unique_visitors", n)


def put_big_hash(world, store, n):
    key = b"s%d:product_views" % store
    fields = (word for field in range(1, n + 1) for word in (b"%d" % field, b"1"))
    world.behind.pour(resp(b"HSET", key, *chunk) for chunk in chunks(fields, 1000))
    world.behind.admin.zadd("tally:dirty", {key: now_ms(world)})
    world.behind.admin.hincrby("tally:accepted", "product_views", n)
    return key.decode()


def check_rows(world, sql_table, where, n):
    found = world.mysql.query(f"SELECT COUNT(*) FROM {sql_table} WHERE {where}")[0][0]
    assert found == n, f"{found} of {n} rows in {sql_table}"


def drain_rows(title, n, takes, limits, at_least, aim):
    rates = [n / took_s for took_s, _ in takes]
    return [Row(f"{title}, rows/s", "the bare upsert limit", [a / b for a, b in zip(rates, limits)], at_least, aim,
                figures={"tallyd": middle(rates), "limit": middle(limits), "first row after s": middle([f for _, f in takes])})]


def drain_hashes(world):
    n, takes, limits = world.sizes.drained_hashes, [], []
    for i in range(world.sizes.rounds):
        first = 1_000_000 + 2 * i * n
        put_hashes(world, first, n)
        takes.append(drain(world))
        check_rows(world, VISITORS, f"store_id BETWEEN {first} AND {first + n - 1}", n)
        limits.append(world.upsert("rows", "-c", WRITERS, "-n", n, "-t", "visitors", "-f", first + n))
        say(f"drain of {n:,} hashes: {takes[-1][0]:.1f} s, limit {limits[-1]:,.0f} rows/s")
    title = f"drain of {n:,} one-field hashes"
    return [Row(title, "seconds", [took_s for took_s, _ in takes], 0.7, 0.5, unit=" s", less=True),
            *drain_rows(title, n, takes, limits, None, None)]


def drain_big_hash(world):
    n, takes, limits = world.sizes.drained_fields, [], []
    for i in range(world.sizes.rounds):
        key = put_big_hash(world, 2 * i + 1, n)
        takes.append(drain(world, key))
        check_rows(world, VIEWS, f"store_id = {2 * i + 1}", n)
        limits.append(world.upsert("rows", "-c", WRITERS, "-n", world.sizes.limit_fields, "-t", "views",
                                   "-f", 2 * i + 2))
        say(f"drain of one hash of {n:,} fields: {takes[-1][0]:.1f} s, limit {limits[-1]:,.0f} rows/s")
    return drain_rows(f"drain of one hash of {n:,} fields", n, takes, limits, 0.8, 0.95)


# --- times of a hit ---

def p99_us(world, rate, during=None):
    """during(): while the window lasts, which ends with it."""
    with world.load(world.tallyd, *hot(1), "-r", round(rate), "-w", world.sizes.peer_warm_s,
                    "-d", 120 if during else world.sizes.window_s) as (window, end):
        if during:
            during()
            end()
    return window.p99_us


def stalled(world, _):
    def during():
        world.mysql.pause()
        try:
            time.sleep(world.sizes.window_s)  # the stall itself
        finally:
            world.mysql.resume()

    return during


def killed(world, _, mysql=None):
    def during():
        ends_s = time.monotonic() + world.sizes.window_s
        (mysql or world.mysql).restart()
        time.sleep(max(0, ends_s - time.monotonic()))  # the window itself: what waited is merged in the rest of it

    return during


def unused(world, turn):
    """What of killed() is the machine's: MariaDB's recovery takes processors that Redis, tallyd and the load want. As many rows
    were written to it as the drains write to the other."""
    if not world.unused:
        world.unused = world.up(MariaDB(world.directory, "unused").install())
        for table in (VISITORS, VIEWS):
            world.unused.query(world.mysql.query(f"SHOW CREATE TABLE {table}")[0][1])
    for table, n in (("visitors", world.sizes.drained_hashes), ("views", world.sizes.drained_fields)):
        world.upsert("rows", "-c", WRITERS, "-n", n, "-t", table, "-f", 1 + turn * n, mysql=world.unused)
    return killed(world, turn, world.unused)


def draining(world, turn):
    key = put_big_hash(world, 1_000 + turn, world.sizes.drained_fields)
    return lambda: world.tallyd.settle(key)


TIMES = [(stalled, "MySQL is stalled", 1.1, 1.0),
         (killed, "MySQL is killed and comes back", 1.2, 1.0),
         (unused, "a MariaDB that tallyd does not use is killed and comes back", None, None),
         (draining, "{:,} rows drain", 2.0, 1.3)]


def times(world):
    with world.load(world.tallyd, *hot(1), "-w", world.sizes.peer_warm_s, "-d", world.sizes.known_s) as (closed, _):
        pass
    rate, rows = closed.hits_per_s / 2, []
    for begin, title, at_least, aim in TIMES:
        idle, then = [], []
        for turn in range(world.sizes.rounds if world.wants("times", begin.__name__) else 0):
            world.tallyd.settle()
            idle.append(p99_us(world, rate))
            then.append(p99_us(world, rate, begin(world, turn)))
            say(f"p99 {idle[-1]:,.0f} us, {begin.__name__} {then[-1]:,.0f} us")
        if idle:
            title = title.format(world.sizes.drained_fields)
            rows.append(Row(f"p99 of a hit at half load (hot, P=1) while {title}", "MySQL with nothing but this load's merges",
                            [a / b for a, b in zip(then, idle)], at_least, aim, unit=" x", less=True,
                            figures={"then us": middle(then), "idle us": middle(idle), "hits/s": rate}))
    world.tallyd.settle()
    return rows


# --- many stores, many connections ---

def hold_connections(tallyd, n):
    """n connections that each said PING once and are answered again after all are there; bytes of memory each."""
    before = tallyd.rss_kib()
    links = [socket.create_connection((HOST, tallyd.port)) for _ in range(n)]
    for _ in range(2):
        for link in links:
            link.sendall(b"PING\r\n")
        assert all(link.recv(7) == b"+PONG\r\n" for link in links)
    grown = tallyd.rss_kib() - before
    for link in links:
        link.close()
    return grown * 1024 / n


def memory(world, n):
    """On the tallyd whose names come due after an hour, as it begins."""
    tallyd = world.servers["hour"]
    idle_bytes = hold_connections(tallyd, world.sizes.idle_connections)
    with world.load(tallyd, *hot(16), "-d", 0.2):
        pass
    before = tallyd.rss_kib()
    world.touch(tallyd, n)
    return [Row(f"memory of an idle connection, {world.sizes.idle_connections:,} held", "bytes", [idle_bytes], 2048, 1024,
                unit=" B", less=True),
            Row("memory of a store known dirty", "bytes", [(tallyd.rss_kib() - before) * 1024 / n], 200, 100, unit=" B", less=True)]


def many(world):
    n, rows = world.sizes.many_stores, []
    works = [Work("million", f"{n:,} stores uniform, all dirty, `every: 60s`, P=100", uniform(100, n), "million"),
             Work("once", f"{n:,} stores, each hit once a round, `every: 1h`, P=16", [*uniform(16, n), "-S", "-R", n], "hour")]
    peers = [Peer("million", "million-plain", [], RAW, 0.5, 0.7), Peer("once", "million-plain", [], RAW, 0.9, 1.0)]
    world.servers["million-plain"] = world.up(RedisServer(world.directory, "plain-million"))
    world.stand(world.servers["million-plain"], n, 2)
    for name, every_s, work in (("hour", 3600, "once"), ("million", 60, "million")):
        if not world.wants("many", work, *["memory"] * (name == "hour")):
            continue
        behind = world.up(RedisServer(world.directory, f"behind-{name}"))
        tallyd = world.servers[name] = world.up(world.make_tallyd(name, behind, every_s=every_s))
        if name == "hour":
            rows += memory(world, n)
        else:
            world.fill(tallyd, n, 2)
        rows = side_by_side(world, "many", [w for w in works if w.name == work], peers)[1] + rows
        tallyd.settle()
        tallyd.verb("verify")
        tallyd.kill9()
        behind.kill9()
    world.servers["million-plain"].kill9()
    return rows


# --- the other ways to count ---

WAYS = [("series", "SERIES.INCRBY, seven precisions"), ("event", "EVENT.ADD"), ("box", "BOX.INCRBY")]
SEED = "the seed's pipeline on raw redis-server"


def op_works(world):
    names = uniform(100, world.sizes.names)
    works = [work for mode, title in WAYS for work in (
        Work(f"{mode}-hot", f"{title}, hot: 1,000 names, Zipf 1.0, P=100", [*hot(100), "-R", 65536, "-m", mode], "ops"),
        Work(f"{mode}-uniform", f"{title}, uniform: 100,000 names, P=100", [*names, "-m", mode], "ops"))]
    cold = [Work(f"{mode}-cold", f"{title}, cold: 100,000 names new each second, P=100", [*names, "-R", 65536, "-m", mode], "ops",
                 fresh=True) for mode, title in WAYS]
    fed = Work("fed", "a hit that feeds a series of seven precisions: its cost, hot, P=100", [*hot(100), "-m", "fed"], "ops")
    return [*works, *cold, fed]


OP_GOALS = {"series-hot": (10, 30), "series-uniform": (4, 8), "event-hot": (2, 4), "event-uniform": (2, 4), "box-hot": (8, 12),
            "box-uniform": (4, 6), "series-cold": (1, 1), "event-cold": (1, 1), "box-cold": (1, 1)}
OP_PEERS = [*(Peer(work, "plain", ["-m", f"{work.partition('-')[0]}-seed"], SEED, *goals) for work, goals in OP_GOALS.items()),
            Peer("fed", "ops", ["-m", "hit"], "a hit that feeds none", 1.5, 1.2, less=True, unit=" x")]


def stand_buckets(world, works):
    """So that the seed's pipeline need not make them first."""
    bucket = b"%d" % (world.moment - world.moment % 60)
    last = [options_of(world, work, world.sizes.rounds) for work in works if work.name == "box-cold"]
    names = range(10_000_000, last[0][-1] if last else 10_000_000)
    world.plain.pour(resp(b"ZADD", b"tb.s%d:views" % name, bucket, bucket)
                     for name in (*range(1, max(HOT_STORES, world.sizes.names) + 1), *names))


def ops(world):
    """A tallyd of their own, so that they do not affect the others."""
    works = [work for work in op_works(world) if world.wants("ops", work.name)]
    behind = world.up(RedisServer(world.directory, "behind-ops"))
    tallyd = world.servers["ops"] = world.up(world.make_tallyd("ops", behind, more=FED))
    stand_buckets(world, works)
    for work in works:  # every name is known to both sides
        seed = [peer for peer in OP_PEERS if peer.work == work.name]
        for server, options in ((tallyd, []), (world.servers[seed[0].server], seed[0].options)) if not work.fresh else ():
            with world.load(server, *work.options, *options, "-d", world.sizes.known_s):
                pass
    ours, rows = side_by_side(world, "ops", works, OP_PEERS)
    if "series-uniform" in ours:
        rows.append(Row("p99 of SERIES.INCRBY, uniform: 100,000 names, P=100", "ms", [w.p99_us / 1000 for w in ours["series-uniform"]],
                        30, 30, unit=" ms", less=True))
    tallyd.settle()
    tallyd.verb("verify")
    tallyd.kill9()
    behind.kill9()
    return rows


# --- panels and scrapers ---

PANELS = 10


def watched(world):
    """The same load without readers and with ten panels and a scraper, in turn, on a tallyd of its own."""
    behind = world.up(RedisServer(world.directory, "behind-watched"))
    tallyd = world.up(world.make_tallyd("watched", behind, http=True))
    alone, looked_at, asked = [], [], 0
    for n in range(world.sizes.rounds):
        alone.append(world.window(tallyd, *hot(16)))
        with Watchers(HOST, tallyd.http_port, PANELS, DAY.decode()) as watchers:
            looked_at.append(world.window(tallyd, *hot(16)))
        asked += watchers.asked
        say(f"watched, round {n + 1}: {looked_at[-1].rate / alone[-1].rate:.3f}, {watchers.asked} requests")
    tallyd.settle()
    tallyd.verb("verify")
    tallyd.kill9()
    behind.kill9()
    row = compared(f"hot: 1,000 keys, Zipf 1.0, P=16, while {PANELS} panels are open and /metrics is scraped every second",
                   "nobody looks", looked_at, alone, 0.97, 0.99, OLD)
    row.figures["requests"] = asked
    return [row]


# --- a cluster ---

LANES = [("lanes-uniform-100", "uniform: 100,000 keys, P=100", uniform(100), 1.10), ("lanes-hot-100", "hot: 1,000 keys, Zipf 1.0, P=100", hot(100), 1.25),
         ("lanes-hot-1", "hot: 1,000 keys, Zipf 1.0, P=1", hot(1), 2.0)]


def cpu_a_hit(world, tallyd, options):
    """Microseconds of Redis, all servers together, whose locks are set."""
    sizes = world.sizes
    world.touch(tallyd, UNIFORM_STORES)
    tallyd.settle()
    with world.load(tallyd, *options, "-w", sizes.warm_s, "-d", sizes.window_s) as (window, _):
        began_s, used_s = time.monotonic(), tallyd.behind.cpu_s()
        time.sleep(0.9 * sizes.window_s)  # not to wait for something: most of the window
        took_s, used_s = time.monotonic() - began_s, tallyd.behind.cpu_s() - used_s
    tallyd.settle()
    return 1e6 * used_s / (window.hits_per_s * took_s)


ONE = (0, 0)  # nodes and lanes: a Redis of its own
DIVIDED = [(n, lanes) for n in (1, 2, 3) for lanes in (16, n)]


def lanes(world):
    """What Redis' part costs on one server, and in lanes on one, two and three: cost a hit shows on two cores, rates would not.
    With 16 lanes, and with one a node, which is what a cluster costs however few the lanes are."""
    behind = {ONE: world.up(RedisServer(world.directory, "behind-one"))}
    for n, lanes_n in DIVIDED:
        behind[n, lanes_n] = Cluster([world.up(ClusterNode(world.directory, f"node-{n}-{lanes_n}-{i}")) for i in range(n)])
    tallyds = {of: world.up(LanesTallyd(world.directory, f"bench-{of[0]}-lanes{of[1]}", world.tallyd_program, server, world.mysql,
                                        f"nodes{of[0]}lanes{of[1]}", of[1])) for of, server in behind.items()}
    rows = []
    for name, title, options, bound in LANES:
        if not world.wants("lanes", name):
            continue
        found = {of: [] for of in tallyds}
        for turn in range(world.sizes.rounds):
            for of, tallyd in tallyds.items():
                found[of].append(cpu_a_hit(world, tallyd, options))
            say(f"{name}, round {turn + 1}: us of Redis a hit on one Redis {found[ONE][-1]:.3f}; on nodes, in lanes: "
                f"{', '.join(f'{n}, {lanes_n}: {found[n, lanes_n][-1]:.3f}' for n, lanes_n in DIVIDED)}")
        rows += [Row(f"Redis' CPU a hit, {lanes_n} lane{'s' * (lanes_n > 1)} on {n} node{'s' * (n > 1)}, {title}", "one Redis",
                     [a / b for a, b in zip(found[n, lanes_n], found[ONE])], bound, bound, unit=" x", less=True,
                     figures={"us": middle(found[n, lanes_n]), "one Redis us": middle(found[ONE])}) for n, lanes_n in DIVIDED]
    for of, tallyd in tallyds.items():
        tallyd.verb("verify")
        tallyd.kill9()
        for server in behind[of].nodes if of != ONE else [behind[of]]:
            server.kill9()
    return rows


# --- a cluster whose servers move ---

def spared_us(world, tallyd, store, during=None):
    """p99 of hits on one store; during(): within the window, which ends with it, but not before its time."""
    sizes = world.sizes
    options = ["-k", 1, "-f", store, "-P", 1, "-c", 8, "-r", moving.RATE]
    with world.load(tallyd, *options, "-w", sizes.peer_warm_s, "-d", 300 if during else sizes.window_s) as (window, end):
        if during:
            ends_s = time.monotonic() + sizes.window_s
            during()
            time.sleep(max(0, ends_s - time.monotonic()))  # the window itself: a move takes a part of it
            end()
    return window.p99_us


def spared(world, tallyd, cluster, move):
    """How many times its p99 is what it was, on a master that the move spares, and on a tallyd with a Redis of its own: that is the
    machine's part."""
    found = []
    for on in (tallyd, world.tallyd):
        store = moving.store_on(moving.masters(cluster)[2]) if on is tallyd else 1
        idle, then = spared_us(world, on, store), spared_us(world, on, store, lambda: move(cluster))
        found.append(then / idle)
        say(f"p99 {idle:,.0f} us, {move.__name__} {then:,.0f} us{'' if on is tallyd else ', elsewhere'}")
    return found


def moves(world):
    rows = []
    with moving.three_masters(world.directory) as cluster:
        tallyd = world.up(LanesTallyd(world.directory, "bench-moving", world.tallyd_program, cluster, world.mysql, "moving", moving.LANES))
        with moving.loaded(tallyd) as shadow:
            wait_until(lambda: shadow.answered > 2 * moving.RATE, 60, "hits are answered")
            for move, title in moving.MOVES:
                if not world.wants("moves", move.__name__):
                    continue
                found = [spared(world, tallyd, cluster, move) for _ in range(world.sizes.rounds)]
                rows.append(Row(f"p99 of hits on a master's lanes, {2 * moving.RATE:,} hits/s in all, while {title}", "no server moves",
                                [here for here, _ in found], 1.2, 1.0, unit=" x", less=True,
                                figures={"a tallyd on another Redis x": middle([elsewhere for _, elsewhere in found])}))
        tallyd.settle()
        tallyd.verb("verify")
        tallyd.kill9()
    return rows


# --- instructions ---

def as_placed(hit):
    key, field = b"store:%b:product:7:views" % hit[1], b"%b::web" % hit[2]
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in (key, field))


def instructions(world):
    stream = os.path.join(world.directory, "stream.resp")
    subprocess.run([world.program("load"), *map(str, hot(1)), "-W", stream], check=True, timeout=60)

    today = f"{stream}.today"  # the same hits as CTR.HIT
    with open(stream, "rb") as old, open(today, "wb") as new:
        new.write(re.sub(rb"\*4\r\n\$7\r\nHINCRBY\r\n(\$\d+\r\n\S+\r\n)\$8\r\n\d+\r\n\$1\r\n1\r\n",
                         rb"*2\r\n$7\r\nCTR.HIT\r\n\1", old.read()))

    placed = f"{stream}.placed"  # the same hits as those of a counter with two placeholders in its key and a pattern for its field
    with open(stream, "rb") as old, open(placed, "wb") as new:
        new.write(re.sub(rb"\$\d+\r\ns(\d+):unique_visitors:daily\r\n\$8\r\n(\d+)\r\n", as_placed, old.read()))

    def collected(stream, pipeline, turns, *more):
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={world.directory}/callgrind.out",
             world.program("instructions"), stream, "-c", str(CONNECTIONS), "-P", str(pipeline), "-n", str(turns), *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout
        return int(re.search(r"Collected : (\d+)", done.stdout)[1])

    rows = []
    for pipeline, bound in ((100, 500), (16, 600), (1, 900)):
        turns = 1600 // pipeline
        for of, more, name, bound in ((stream, [], "", bound), (stream, ["-u"], ", a user's", bound + 60),
                                      (stream, ["-L", "16"], ", in 16 lanes", bound + 60),
                                      (today, [], ", CTR.HIT", bound + 100),
                                      (placed, ["-p"], ", two placeholders and a pattern for the field", 1.6 * bound)):
            per_hit = ((collected(of, pipeline, 2 * turns, *more) - collected(of, pipeline, turns, *more)) /
                       (turns * pipeline * CONNECTIONS))
            plain = rows[-4].value if of == placed else per_hit
            rows.append(Row(f"instructions a hit, hot, P={pipeline}{name}", "parse + coalesce + reply, callgrind",
                            [per_hit], bound, 350, less=True, figures={"times the plain hit": per_hit / plain} if of == placed else {}))
    return rows


# --- the run ---

def machine():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = int(re.search(r"MemTotal:\s*(\d+)", file.read())[1])
    return (f"{os.cpu_count()} cores ({model[1] if model else os.uname().machine}), {kib / 1024 / 1024:.0f} GiB, "
            f"Linux {os.uname().release}")


BLOCKS = {hits: [work.name for work in HITS], drain_hashes: [], drain_big_hash: [], times: [begin.__name__ for begin, *_ in TIMES],
          ops: [*OP_GOALS, "fed"], many: ["million", "once", "memory"], watched: [],
          lanes: [name for name, *_ in LANES], moves: [move.__name__ for move, _ in moving.MOVES], instructions: []}


def measure(build, sizes, only):
    """Rows, and what they were measured on."""
    rows = []
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tly-bench-"))
        world = World(stack, build, directory, sizes, only)
        described = {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "server": world.plain.version(),
                     "machine": machine(), "setting": SETTING}
        for block, names in BLOCKS.items():
            if world.wants(block.__name__, *names):
                say(block.__name__)
                rows += block(world)
                world.tallyd.settle()
                world.tallyd.verb("verify")  # nothing was gained by losing hits
                say("the books balance")
    return rows, described


def options():
    parser = argparse.ArgumentParser(description="run.sh builds what is needed and calls this")
    parser.add_argument("--build", required=True)
    parser.add_argument("json", nargs="?", help="where the figures go; by default bench.json in the build directory")
    parser.add_argument("--markdown")
    parser.add_argument("--quick", action="store_true", help="shows in two minutes that all of it works; no figures")
    parser.add_argument("--rounds", type=int, help="instead of 2")
    parser.add_argument("--only", default="", help="by commas, blocks or works: " + "; ".join(
        f"{block.__name__} {' '.join(names)}".strip() for block, names in BLOCKS.items()))
    chosen = parser.parse_args()
    chosen.json = chosen.json or os.path.join(chosen.build, "bench.json")
    chosen.only = {name for name in chosen.only.split(",") if name}
    known = {name for block, names in BLOCKS.items() for name in (block.__name__, *names)}
    if chosen.only - known:
        parser.error(f"nothing is called {', '.join(chosen.only - known)}")
    return chosen


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that servers end and files go
    sizes = QUICK if chosen.quick else Sizes()
    rows, described = measure(chosen.build, dataclasses.replace(sizes, rounds=chosen.rounds or sizes.rounds), chosen.only)
    moved = []
    if os.path.exists(chosen.json):
        moved = ["", *table.moved(rows, chosen.json)]
        rows = table.merged(rows, chosen.json) if chosen.only else rows
    text = table.markdown(rows, described)
    print(text, end="")
    print("\n".join(moved))
    table.keep(rows, described, chosen.json)
    if chosen.markdown:
        with open(chosen.markdown, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
