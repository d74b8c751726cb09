"""Measures tallyd beside its peers and limits in one run; run.sh builds and calls it. One block a function, each gives
rows of the table. All on 127.0.0.1, in turn: a round measures tallyd, then each peer: one sample of each ratio."""
import argparse
import contextlib
import datetime
import os
import random
import re
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
from servers import FED, HOST, MariaDB, Null, Nutcracker, RedisServer, Tallyd, chunks, resp
from table import Row

CONNECTIONS = 50
WRITERS = 2  # tallyd's mysql.writers, and the connections of the bare upsert client
HOT_STORES, UNIFORM_STORES = 1_000, 100_000
BARRIER_S = 2.3  # with everysec and no WAITAOF (Redis 7.0) a batch is merged 2.1 s after its claim; so long tallyd is
#                  warmed up, so that its own merges of the same load run in the window
DAY = b"20140920"
VISITORS, VIEWS = "daily_visitors", "product_views"
SETTING = ("Everything on this machine, over TCP on 127.0.0.1: 50 connections, AOF everysec, "
           "innodb_flush_log_at_trx_commit=1, sync (hits 50, every 60s) running all the while.")


@dataclass
class Sizes:
    rounds: int = 5
    window_s: float = 1.0
    warm_s: float = BARRIER_S
    peer_warm_s: float = 0.2
    op_window_s: float = 0.6
    op_warm_s: float = 1.0
    watched_s: float = 4.0
    steady_warm_s: float = 4.0
    steady_s: float = 8.0
    drained_hashes: int = 100_000
    drained_fields: int = 1_000_000
    limit_fields: int = 200_000
    stall_s: float = 5.0
    drains_under_load: int = 2
    many_stores: int = 1_000_000
    idle_connections: int = 10_000
    names: int = 100_000


QUICK = Sizes(rounds=1, window_s=0.2, warm_s=0.2, peer_warm_s=0.05, steady_warm_s=0.2, steady_s=0.3,
              op_window_s=0.1, op_warm_s=0.1, watched_s=1.5, drained_hashes=5_000, drained_fields=20_000,
              limit_fields=20_000, stall_s=0.5, drains_under_load=1, many_stores=20_000, idle_connections=200,
              names=2_000)


@dataclass
class Work:
    stores: str  # hot, uniform, connect
    pipeline: int

    @property
    def options(self):
        keys, zipf = (UNIFORM_STORES, 0) if self.stores == "uniform" else (HOT_STORES, 1.0)
        options = ["-k", str(keys), "-z", str(zipf), "-P", str(self.pipeline)]
        return options + ["-x"] if self.stores == "connect" else options

    @property
    def name(self):
        if self.stores == "connect":
            return "connect, one hit, close"
        keys = "hot: 1,000 keys, Zipf 1.0" if self.stores == "hot" else "uniform: 100,000 keys"
        return f"{keys}, P={self.pipeline}"


WORKS = {(stores, pipeline): Work(stores, pipeline)
         for stores, pipelines in (("uniform", (100, 16, 1)), ("hot", (100, 16, 1)), ("connect", (1,)))
         for pipeline in pipelines}


@dataclass
class Peer:
    """One line of the table: what is put beside tallyd at a work."""
    work: tuple
    server: str  # attribute of World
    options: list
    title: str
    at_least: float
    aim: float


RAW, SEEDS, TRIPS = "raw HINCRBY", "the seeds' protocol, pipelined", "the seeds' protocol, two round trips"
PEERS = [
    Peer(("hot", 100), "plain", [], RAW, 3.0, 4.0),
    Peer(("hot", 16), "plain", [], RAW, 1.25, 1.5),
    Peer(("hot", 1), "plain", [], RAW, 0.8, 0.95),
    Peer(("uniform", 100), "plain", [], RAW, 0.85, 1.1),
    Peer(("uniform", 16), "plain", [], RAW, 0.95, 1.2),
    Peer(("uniform", 1), "plain", [], RAW, 0.75, 0.9),
    Peer(("hot", 100), "plain", ["-m", "seeds"], SEEDS, 4.0, 5.0),
    Peer(("uniform", 100), "plain", ["-m", "seeds"], SEEDS, 1.4, 1.8),
    Peer(("hot", 1), "plain", ["-m", "trips"], TRIPS, 1.4, 1.7),
    Peer(("hot", 100), "nutcracker", [], "twemproxy", 8, 12),
    Peer(("hot", 16), "nutcracker", [], "twemproxy", 2, 2.5),
    Peer(("hot", 100), "null", [], "the null RESP server", 0.4, 0.6),
    Peer(("connect", 1), "plain", [], "raw redis-server", 0.8, 0.95),
]
DIRECT_CONNECTIONS = (1, 8, 32)


def say(text):
    print(f"{time.monotonic() - STARTED_S:6.1f} s  {text}", file=sys.stderr, flush=True)


STARTED_S = time.monotonic()


def figures_of(line):
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", line)}


class World:
    """The servers and programs of a run."""

    def __init__(self, stack, build, directory, sizes):
        self.sizes, self.directory = sizes, directory
        self.programs = os.path.join(build, "tests/bench")
        self.tallyd_program = os.path.join(build, "tallyd")
        self.stack = stack
        self.mysql = self.up(MariaDB(directory, "mariadbd").install())
        self.plain = self.up(RedisServer(directory, "plain"))
        self.behind = self.up(RedisServer(directory, "behind"))
        self.nutcracker = self.up(Nutcracker(directory, self.plain))
        self.null = self.up(Null(directory, self.program("null")))
        self.tallyd = self.make_tallyd("bench", self.behind, "shop")
        self.standing = list(self.midway())
        self.plain.pour(self.standing)
        self.up(self.tallyd)

    def up(self, server):
        self.stack.callback(lambda: server.process and server.close())
        return server.start()

    def program(self, name):
        return os.path.join(self.programs, name)

    def make_tallyd(self, name, behind, database, more="", http=False):
        return Tallyd(self.directory, name, self.tallyd_program, behind, self.mysql, database, more, http)

    def midway(self):
        """Counts and locks of all stores in the midst of their ways: they come due as evenly as in a long run."""
        dice = random.Random(1)
        hits = [dice.randrange(1, 50) for _ in range(UNIFORM_STORES)]
        for n, count in enumerate(hits, 1):
            yield resp(b"HINCRBY", visits(n), DAY, b"%d" % count)
            yield resp(b"SET", lock(n), b"bench", b"NX", b"EX", b"%d" % dice.randrange(1, 61))
        yield resp(b"HINCRBY", b"tally:accepted", b"unique_visitors", b"%d" % sum(hits))

    def fill(self):
        """... and their ages; then tallyd has seen each of them once."""
        now_ms = int(time.time() * 1000)
        ages = ((b"%d" % (now_ms - random.randrange(60_000)), visits(n)) for n in range(1, UNIFORM_STORES + 1))
        self.behind.pour([b"".join(self.standing)])
        self.behind.pour(resp(b"ZADD", b"tally:dirty", b"NX", *[word for pair in chunk for word in pair])
                         for chunk in chunks(ages, 1000))
        self.touch(self.tallyd.port, UNIFORM_STORES)

    def touch(self, port, stores):
        """A hit for each of them."""
        with self.load(port, "-S", "-P", 16, "-k", stores, "-R", stores, "-n", stores, "-d", 100):
            pass

    @contextlib.contextmanager
    def load(self, port, *options):
        """A load under way whose window has begun. Its figures are in what is yielded when the block ends."""
        figures = {}
        process = subprocess.Popen([self.program("load"), "-t", str(port), "-c", str(CONNECTIONS), *map(str, options)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.stack.callback(process.kill)
        first = process.stdout.readline()
        try:
            if first == "window\n":
                yield figures
        finally:
            rest = process.stdout.read()
            process.wait(120)
        assert process.returncode == 0, f"load {options}: {first}{rest}"
        figures.update(figures_of(rest))

    def hits_per_s(self, port, *options):
        with self.load(port, *options) as figures:
            pass
        return figures["hits_per_s"]

    def upsert(self, *options):
        done = subprocess.run([self.program("upsert"), options[0], str(self.mysql.port), *map(str, options[1:])],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout
        return figures_of(done.stdout)["rows_per_s"]


def visits(store):
    return b"s%d:unique_visitors:daily" % store


def lock(store):
    return b"s%d:unique_visitors:sync" % store


# --- hits ---

def tallyd_window(world, work, warm_s=None, window_s=None):
    """hits_per_s, and Redis commands and MySQL rows each hit, of one window."""
    warm_s, window_s = warm_s or world.sizes.warm_s, window_s or world.sizes.window_s
    with world.load(world.tallyd.port, *work.options, "-w", warm_s, "-d", window_s) as figures:
        began_s, commands, rows = time.monotonic(), world.behind.commands(), world.mysql.rows()
        time.sleep(window_s)  # not to wait for something: the window's own length
        took_s = time.monotonic() - began_s
        commands, rows = world.behind.commands() - commands, world.mysql.rows() - rows
    hits = figures["hits_per_s"] * took_s
    return {"hits": figures["hits_per_s"], "redis": commands / hits, "mysql": rows / hits}


def hit_round(world):
    """Everything about hits once: tallyd at each work, then, with nothing left to merge, the peers."""
    sizes = world.sizes
    world.fill()
    ours = {}
    for key, work in WORKS.items():
        if key == ("hot", 100):
            world.tallyd.settle()  # what is hot is not measured beside 99,000 other stores' merges
        ours[key] = tallyd_window(world, work)
    world.tallyd.settle()
    peers, direct = [], {}
    for peer in PEERS:
        peers.append(world.hits_per_s(getattr(world, peer.server).port, *WORKS[peer.work].options, *peer.options,
                                      "-w", sizes.peer_warm_s, "-d", sizes.window_s))
    for n in DIRECT_CONNECTIONS:
        direct[n] = world.upsert("hit", "-c", n, "-k", HOT_STORES, "-z", 1.0, "-w", sizes.peer_warm_s,
                                 "-d", sizes.window_s)
    for server in (world.plain, world.behind):
        server.trim()
    return {"ours": ours, "peers": peers, "direct": direct}


def middle(values):
    return statistics.median(values)


def peer_row(rounds, index):
    peer = PEERS[index]
    ours = [r["ours"][peer.work] for r in rounds]
    theirs = [r["peers"][index] for r in rounds]
    return Row(WORKS[peer.work].name, peer.title, [o["hits"] / t for o, t in zip(ours, theirs)],
               peer.at_least, peer.aim,
               redis_a_hit=middle([o["redis"] for o in ours]), mysql_a_hit=middle([o["mysql"] for o in ours]),
               figures={"tallyd": middle([o["hits"] for o in ours]), "peer": middle(theirs)})


def direct_rows(rounds, steady):
    rows = []
    for pipeline in (100, 16, 1):
        ours = [r["ours"]["hot", pipeline] for r in rounds]
        best = [max(r["direct"].values()) for r in rounds]
        shown = {f"direct {n}": middle([r["direct"][n] for r in rounds]) for n in DIRECT_CONNECTIONS}
        rows.append(Row(f"hot, P={pipeline}: hits", "direct upsert per hit, best of 1, 8, 32 connections",
                        [o["hits"] / b for o, b in zip(ours, best)], 40, 100,
                        figures={"tallyd": middle([o["hits"] for o in ours]), **shown}))
        rows.append(Row(f"hot, P={pipeline}: row writes a hit", "direct upsert per hit (1 row write)",
                        [steady[pipeline]["mysql"]], 0.001, 0.001, less=True,
                        figures={"tallyd": steady[pipeline]["hits"]}))
    return rows


def steady_rows(world):
    """Row writes a hit once the rows that were saved up are used: a longer window of each."""
    sizes = world.sizes
    return {pipeline: tallyd_window(world, WORKS["hot", pipeline], sizes.steady_warm_s, sizes.steady_s)
            for pipeline in (100, 16, 1)}


def hits(world):
    rounds = []
    for n in range(world.sizes.rounds):
        say(f"hits, round {n + 1} of {world.sizes.rounds}")
        rounds.append(hit_round(world))
    say("hits, row writes")
    steady = steady_rows(world)
    world.tallyd.settle()
    return [peer_row(rounds, i) for i in range(len(PEERS))] + direct_rows(rounds, steady)


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
    pure = [n / (took_s - first_s) for took_s, first_s in takes]
    return [Row(title, "the bare upsert limit", [a / b for a, b in zip(rates, limits)], at_least, aim,
                figures={"tallyd": middle(rates), "limit": middle(limits)}),
            Row(f"{title}, from its first row on", "the bare upsert limit", [a / b for a, b in zip(pure, limits)],
                None, None, figures={"tallyd": middle(pure), "first row after s": middle([f for _, f in takes])})]


def drain_hashes(world):
    n, takes, limits = world.sizes.drained_hashes, [], []
    for i in range(world.sizes.rounds):
        first = 1_000_000 + 2 * i * n
        put_hashes(world, first, n)
        takes.append(drain(world))
        check_rows(world, VISITORS, f"store_id BETWEEN {first} AND {first + n - 1}", n)
        limits.append(world.upsert("rows", "-c", WRITERS, "-n", n, "-t", "visitors", "-f", first + n))
        say(f"drain of {n:,} hashes: {takes[-1][0]:.1f} s, limit {limits[-1]:,.0f} rows/s")
    return drain_rows(f"drain of {n:,} one-field hashes, rows/s", n, takes, limits, 0.6, 0.9)


def drain_big_hash(world):
    n, takes, limits = world.sizes.drained_fields, [], []
    for i in range(world.sizes.rounds):
        key = put_big_hash(world, 2 * i + 1, n)
        takes.append(drain(world, key))
        check_rows(world, VIEWS, f"store_id = {2 * i + 1}", n)
        limits.append(world.upsert("rows", "-c", WRITERS, "-n", world.sizes.limit_fields, "-t", "views",
                                   "-f", 2 * i + 2))
        say(f"drain of one hash of {n:,} fields: {takes[-1][0]:.1f} s, limit {limits[-1]:,.0f} rows/s")
    return drain_rows(f"drain of one hash of {n:,} fields, rows/s", n, takes, limits, 0.8, 0.95)


# --- times of a hit ---

def p99_us(world, rate, warm_s, window_s, during=None):
    with world.load(world.tallyd.port, *WORKS["hot", 1].options, "-r", round(rate), "-w", warm_s,
                    "-d", window_s) as figures:
        if during is not None:
            during()
    return figures["p99_us"]


def stalled_p99_us(world, rate):
    def stall():
        world.mysql.pause()
        time.sleep(world.sizes.stall_s)  # the stall itself
        world.mysql.resume()

    try:
        return p99_us(world, rate, 0.5, world.sizes.stall_s, stall)
    finally:
        world.mysql.resume()


def idle_p99_us(world, rate):
    return p99_us(world, rate, world.sizes.warm_s, 2 * world.sizes.window_s)


def times_row(title, rate, busy, idle, at_least, aim):
    return Row(f"p99 of a hit at half load (hot, P=1) while {title}", "MySQL with nothing but this load's merges",
               [a / b for a, b in zip(busy, idle)], at_least, aim, unit=" x", less=True,
               figures={"then us": middle(busy), "idle us": middle(idle), "hits/s": rate})


def times_stalled(world, rate):
    idle, stalled = [], []
    for _ in range(world.sizes.rounds):
        idle.append(idle_p99_us(world, rate))
        stalled.append(stalled_p99_us(world, rate))
        world.tallyd.settle()
        say(f"p99 {idle[-1]:,.0f} us, with MySQL stalled {stalled[-1]:,.0f} us")
    return times_row("MySQL is stalled 5 s", rate, stalled, idle, 1.1, 1.0)


def windows_in_drain(world, rate, key):
    """p99 of windows that lie wholly inside the drain of key."""
    found, done = [], threading.Event()

    def wait():
        try:
            world.tallyd.settle(key)
        finally:
            done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not done.is_set():
        window_us = p99_us(world, rate, 0.1, world.sizes.window_s)
        if not done.is_set() or not found:
            found.append(window_us)
    waiter.join()
    return found


def times_draining(world, rate):
    idle, draining = [], []
    for i in range(world.sizes.drains_under_load):
        key = put_big_hash(world, 1_000 + i, world.sizes.drained_fields)
        before = idle_p99_us(world, rate)
        windows = windows_in_drain(world, rate, key)
        world.tallyd.settle()
        draining += windows
        idle += [before] * len(windows)
        say(f"p99 {before:,.0f} us, while a big hash drains {middle(windows):,.0f} us ({len(windows)} windows)")
    return times_row(f"{world.sizes.drained_fields:,} rows drain", rate, draining, idle, 2.0, 1.3)


def times(world):
    closed = world.hits_per_s(world.tallyd.port, *WORKS["hot", 1].options, "-w", world.sizes.warm_s,
                              "-d", world.sizes.window_s)
    world.tallyd.settle()
    return [times_stalled(world, closed / 2), times_draining(world, closed / 2)]


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


def many(world):
    sizes, n = world.sizes, world.sizes.many_stores
    behind = world.up(RedisServer(world.directory, "behind-many"))
    tallyd = world.up(world.make_tallyd("bench-many", behind, "many"))
    idle_bytes = hold_connections(tallyd, sizes.idle_connections)
    # Locks are held already, so that the million is known and dirty but not due while it is measured.
    behind.pour(resp(b"SET", lock(store), b"bench", b"EX", b"3600") for store in range(1, n + 1))
    each_once = ["-S", "-P", 16, "-R", n]
    with world.load(tallyd.port, *WORKS["hot", 16].options, "-d", 0.2):
        pass
    before = tallyd.rss_kib()
    world.touch(tallyd.port, n)
    store_bytes = (tallyd.rss_kib() - before) * 1024 / n
    say(f"{n:,} stores known; {idle_bytes:,.0f} B a connection, {store_bytes:,.0f} B a store")
    few, most = [], []
    for _ in range(sizes.rounds):
        window = ["-w", sizes.peer_warm_s, "-d", sizes.window_s]
        most.append(world.hits_per_s(tallyd.port, *each_once, "-k", n, *window))
        few.append(world.hits_per_s(world.tallyd.port, *each_once, "-k", HOT_STORES, *window))
    tallyd.kill9()
    behind.kill9()
    return [
        Row(f"throughput with {n:,} stores, each hit another store, P=16", "with 1,000 stores",
            [a / b for a, b in zip(most, few)], 0.75, 0.9, figures={"many": middle(most), "1,000": middle(few)}),
        Row(f"memory of an idle connection, {sizes.idle_connections:,} held", "bytes", [idle_bytes], 2048, 1024,
            unit=" B", less=True),
        Row("memory of a store known dirty", "bytes", [store_bytes], 200, 100, unit=" B", less=True),
    ]


# --- the other ways to count ---

@dataclass
class Op:
    """A command of tallyd's beside what the seeds send to a bare Redis for it."""
    title: str
    mode: str
    stores: str
    at_least: float
    aim: float

    def options(self, sizes, moment):
        keys, zipf = (sizes.names, 0) if self.stores == "uniform" else (HOT_STORES, 1.0)
        return ["-k", keys, "-z", zipf, "-P", 100, "-R", 65536, "-a", moment]

    @property
    def name(self):
        names = "uniform: 100,000 names" if self.stores == "uniform" else "hot: 1,000 names, Zipf 1.0"
        return f"{self.title}, {names}, P=100"


OPS = [
    Op("SERIES.INCRBY, seven precisions", "series", "hot", 10, 15),
    Op("SERIES.INCRBY, seven precisions", "series", "uniform", 2, 3),
    Op("EVENT.ADD", "event", "hot", 2, 3),
    Op("EVENT.ADD", "event", "uniform", 2, 3),
    Op("BOX.INCRBY", "box", "hot", 2, 3),
    Op("BOX.INCRBY", "box", "uniform", 2, 3),
]


class OpsWorld:
    """A tallyd of their own, so that nothing of theirs stands in the others' way."""

    def __init__(self, world):
        self.world, self.sizes, self.moment = world, world.sizes, int(time.time())
        self.behind = world.up(RedisServer(world.directory, "behind-ops"))
        self.tallyd = world.up(world.make_tallyd("bench-ops", self.behind, "ops", FED))
        bucket = b"%d" % (self.moment - self.moment % 60)  # so that the seed's pipeline need not make it first
        world.plain.pour(resp(b"ZADD", b"tb.s%d:views" % name, bucket, bucket) for name in range(1, self.names + 1))

    @property
    def names(self):
        return max(HOT_STORES, self.sizes.names)

    def window(self, server, mode, op, warm_s):
        return self.world.hits_per_s(server.port, "-m", mode, *op.options(self.sizes, self.moment), "-w", warm_s,
                                     "-d", self.sizes.op_window_s)

    def round(self, warm_s):
        """[(tallyd's, the seed's)] of OPS, and (hits, hits that feed)."""
        found = [(self.window(self.tallyd, op.mode, op, warm_s),
                  self.window(self.world.plain, f"{op.mode}-seed", op, warm_s)) for op in OPS]
        plain_hits, fed_hits = (self.window(self.tallyd, mode, OPS[0], warm_s) for mode in ("hit", "fed"))
        self.forget_events()
        return found, (plain_hits, fed_hits)

    def forget_events(self):
        """They only grow: the next round begins with empty logs again."""
        for server in (self.behind, self.world.plain):
            server.pour(resp(b"UNLINK", b"s%d:view" % name) for name in range(1, self.names + 1))

    def close(self):
        self.tallyd.settle()
        self.tallyd.verb("verify")
        self.tallyd.kill9()
        self.behind.kill9()


def op_row(op, found):
    return Row(op.name, "the seed's pipeline on raw redis-server", [ours / theirs for ours, theirs in found],
               op.at_least, op.aim, figures={"tallyd": middle([ours for ours, _ in found]),
                                             "peer": middle([theirs for _, theirs in found])})


def ops(world):
    own = OpsWorld(world)
    own.round(world.sizes.op_warm_s)  # every name is known to both sides
    rounds, fed = [], []
    for n in range(world.sizes.rounds):
        say(f"the other ways to count, round {n + 1} of {world.sizes.rounds}")
        found, feeding = own.round(world.sizes.peer_warm_s)
        rounds.append(found)
        fed.append(feeding)
    own.close()
    rows = [op_row(op, [found[at] for found in rounds]) for at, op in enumerate(OPS)]
    return rows + [Row("a hit that feeds a series of seven precisions: its cost, hot, P=100", "a hit that feeds none",
                       [plain / feeding for plain, feeding in fed], 1.5, 1.2, unit=" x", less=True,
                       figures={"fed": middle([feeding for _, feeding in fed]),
                                "not fed": middle([plain for plain, _ in fed])})]


# --- who looks on ---

PANELS = 10


def watched(world):
    """The same load with nobody looking and with ten panels and a scraper, in turn, on a tallyd of its own."""
    sizes, work = world.sizes, WORKS["hot", 16]
    behind = world.up(RedisServer(world.directory, "behind-watched"))
    tallyd = world.up(world.make_tallyd("bench-watched", behind, "watched", http=True))
    window = ["-w", sizes.peer_warm_s, "-d", sizes.watched_s]
    alone, looked_at, asked = [], [], 0
    world.hits_per_s(tallyd.port, *work.options, "-w", sizes.warm_s, "-d", sizes.window_s)
    for n in range(sizes.rounds):
        alone.append(world.hits_per_s(tallyd.port, *work.options, *window))
        with Watchers(HOST, tallyd.http_port, PANELS, DAY.decode()) as watchers:
            looked_at.append(world.hits_per_s(tallyd.port, *work.options, *window))
        asked += watchers.asked
        say(f"watched, round {n + 1}: {looked_at[-1] / alone[-1]:.3f}, {watchers.asked} requests")
    tallyd.settle()
    tallyd.verb("verify")
    tallyd.kill9()
    behind.kill9()
    return [Row(f"{work.name}, while {PANELS} panels are open and /metrics is scraped every second", "nobody looks",
                [a / b for a, b in zip(looked_at, alone)], 0.97, 0.99,
                figures={"watched": middle(looked_at), "alone": middle(alone), "requests": asked})]


# --- instructions ---

def instructions(world):
    stream = os.path.join(world.directory, "stream.resp")
    subprocess.run([world.program("load"), *WORKS["hot", 1].options, "-W", stream], check=True, timeout=60)

    def collected(pipeline, turns, *more):
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={world.directory}/callgrind.out",
             world.program("instructions"), stream, "-c", str(CONNECTIONS), "-P", str(pipeline), "-n", str(turns), *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout
        return int(re.search(r"Collected : (\d+)", done.stdout)[1])

    rows = []
    for pipeline in (100, 16, 1):
        turns = 1600 // pipeline
        for more, name, bound in (([], "", 600), (["-u"], ", a user's", 650)):
            per_hit = ((collected(pipeline, 2 * turns, *more) - collected(pipeline, turns, *more)) /
                       (turns * pipeline * CONNECTIONS))
            rows.append(Row(f"instructions a hit, hot, P={pipeline}{name}", "parse + coalesce + reply, callgrind",
                            [per_hit], bound, 350, less=True))
    return rows


# --- the run ---

def machine():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = int(re.search(r"MemTotal:\s*(\d+)", file.read())[1])
    return (f"{os.cpu_count()} cores ({model[1] if model else os.uname().machine}), {kib / 1024 / 1024:.0f} GiB, "
            f"Linux {os.uname().release}")


def about():
    return {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "machine": machine(), "setting": SETTING}


BLOCKS = [hits, drain_hashes, drain_big_hash, times, ops, many, watched, instructions]


def measure(build, sizes, blocks):
    rows = []
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tly-bench-"))
        world = World(stack, build, directory, sizes)
        for block in blocks:
            say(block.__name__)
            rows += block(world)
        world.tallyd.settle()
        world.tallyd.verb("verify")  # nothing was gained by losing hits
        say("the books balance")
    return rows


def options():
    parser = argparse.ArgumentParser(description="run.sh builds what is needed and calls this")
    parser.add_argument("--build", required=True)
    parser.add_argument("json", nargs="?", help="where the figures go; by default bench.json in the build directory")
    parser.add_argument("--markdown")
    parser.add_argument("--quick", action="store_true", help="shows in half a minute that all of it works; no figures")
    parser.add_argument("--only", help=f"blocks, by commas: {', '.join(b.__name__ for b in BLOCKS)}")
    chosen = parser.parse_args()
    chosen.json = chosen.json or os.path.join(chosen.build, "bench.json")
    return chosen


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that servers end and files go
    blocks = [b for b in BLOCKS if chosen.only is None or b.__name__ in chosen.only.split(",")]
    described = about()
    rows = measure(chosen.build, QUICK if chosen.quick else Sizes(), blocks)
    text = table.markdown(rows, described)
    print(text, end="")
    if os.path.exists(chosen.json):
        print("\n" + "\n".join(table.moved(rows, chosen.json)))
    table.keep(rows, described, chosen.json)
    if chosen.markdown:
        with open(chosen.markdown, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
