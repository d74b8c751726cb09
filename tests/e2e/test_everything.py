"""An hour with everything moving at once. Two tallyds on one Redis take hits, series, timeboxes, events and visitors; the
first is killed, reloaded and restarted, its links to Redis and MySQL are cut, Redis and MySQL are killed; the second lives
through all of it, with a panel and a scraper looking on. Once a minute all is paused and the books must balance. At the end
what the second holds (memory, descriptors) and how fast it answers is as it was in the beginning. SOAK_S: how long."""
import json
import os
import random
import signal
import statistics
import threading
import time

import pytest

from harness.books import counted
from harness.daemon import counters
from harness.load import Load
from harness.resp import Closed
from harness.shadow import Shadow
from harness.wait import patience, wait_until
from harness.web import Web

SOAK_S = float(os.environ.get("SOAK_S", 3600))
FAMILIES = counters(hits=50, every="5s")
MORE = {"uniques": {"days": 0}}
LOOKS = ("/metrics", "/healthz", "/api/status", "/api/stores/1/counters/product_views")
PROBES = 200


def hit(rng):
    if rng.random() < 0.7:
        return b"s%d:product_views" % rng.randrange(1, 200), b"%d" % rng.randrange(50), 1
    return b"s%d:unique_visitors:daily" % rng.randrange(1, 200), b"201409%02d" % rng.randrange(1, 4), 1


def other(rng):
    name = rng.randrange(100)
    return rng.choice((("SERIES.INCRBY", f"soak{name}", 1), ("BOX.INCRBY", f"soak{name}", 1), ("EVENT.ADD", f"soak{name}", "seen"),
                       ("UNIQ.ADD", f"soak{name}", "20140920", rng.randrange(10_000))))


class Worker:
    """Calls `turn` again and again; what a fault does to a turn is no fault of the turn."""

    def __init__(self, turn, gap_s):
        self.turn, self.gap_s = turn, gap_s
        self.ended = threading.Event()
        self.turns = self.failed = 0
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.ended.wait(self.gap_s):
            try:
                self.turn()
                self.turns += 1
            except (AssertionError, Closed, OSError):
                self.failed += 1

    def stop(self):
        self.ended.set()
        self.thread.join(patience(60))


class Soak:
    def __init__(self, make_redis, make_daemon, make_proxy, mysql, workdir):
        self.rng = random.Random(int(os.environ.get("SOAK_SEED", "1")))
        self.redis, self.mysql = make_redis(appendfsync="everysec"), mysql
        self.to_redis, self.to_mysql = make_proxy(self.redis.socket), make_proxy(mysql.socket)
        urls = {"redis_url": f"unix://{self.to_redis.path}?db=0",
                "mysql_url": f"mysql://root@localhost/shop?socket={self.to_mysql.path}"}
        self.first = make_daemon(self.redis, families=FAMILIES, more=MORE, **urls)
        self.second = make_daemon(self.redis, start=False, families=FAMILIES, more=MORE, instance="two", **urls)
        self.web = os.path.join(workdir, "web.sock")
        self.second.config["listen"]["http"] = f"unix://{self.web}"
        self.second.write_config()
        self.second.start()
        self.shadow = Shadow()
        self.loads = [Load(daemon.socket, self.shadow, hit, clients=4, depth=20, per_second=1500, seed=seed)
                      for seed, daemon in enumerate((self.first, self.second))]
        self.workers = [Worker(lambda: self.others(self.first, 1), 0.05), Worker(lambda: self.others(self.second, 2), 0.05),
                        *[Worker(lambda at=at: Web(self.web, timeout_s=10).ask(LOOKS[at], check=False), 0.5)
                          for at in range(len(LOOKS))]]
        self.held = []

    def others(self, daemon, seed):
        rng = random.Random(seed + time.monotonic_ns())
        with daemon.client(10) as client:
            client.pipeline([other(rng) for _ in range(30)])

    def acked(self):
        with self.shadow.lock:
            return sum(self.shadow.acked.values())

    def serves(self):
        wanted = self.acked() + 500
        wait_until(lambda: self.acked() >= wanted, 90, "500 hits more are acknowledged")

    def reload(self):
        for daemon in (self.first, self.second):
            daemon.process.send_signal(signal.SIGHUP)

    def cut(self):
        self.rng.choice((self.to_redis, self.to_mysql)).cut()

    def lost(self):
        self.to_redis.swallow_replies()
        ends_at = time.monotonic() + 0.2
        wait_until(lambda: time.monotonic() > ends_at, 5, every_s=0.01)
        self.to_redis.cut()
        self.to_redis.flow()

    def kill_redis(self):
        self.redis.kill9_written()
        self.redis.start()

    def hurt(self):
        kinds = (self.reload, self.cut, self.cut, self.lost, self.first.restart, self.first.restart, self.kill_redis,
                 self.mysql.restart)
        kind = self.rng.choice(kinds)
        print(f"{time.monotonic():.0f} {getattr(kind, '__qualname__', kind)}", flush=True)
        kind()

    def probe(self):
        """How long a hit takes, p99 in ms, while the loads run and nothing is hurt."""
        took = []
        with self.second.client() as client:
            for n in range(PROBES):
                began = time.monotonic()
                reply = client.call("HINCRBY", "s999:product_views", n % 7, 1)
                took.append(1000 * (time.monotonic() - began))
                self.shadow.settle([(b"s999:product_views", b"%d" % (n % 7), 1)], [reply])
        return statistics.quantiles(took, n=100)[98]

    def hold(self, p99_ms):
        """The loads are paused, so the descriptors are tallyd's own and those of as many clients as ever."""
        pid = self.second.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            rss_kib = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        self.held.append({"rss_kib": rss_kib, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "p99_ms": round(p99_ms, 2)})
        print(json.dumps(self.held[-1]), flush=True)

    def slice(self, slice_s):
        ends_at = time.monotonic() + slice_s
        for load in self.loads:
            load.go()
        p99_ms = self.probe()
        while time.monotonic() < ends_at:
            self.hurt()
            self.serves()
        for load in self.loads:
            load.pause(90)
        for daemon in (self.first, self.second):
            daemon.sync_all(120)
        self.hold(p99_ms)
        self.check()

    def check(self):
        for daemon in (self.first, self.second):
            daemon.pause()
        try:
            everything = counted(self.redis.client(), self.mysql, FAMILIES)
        finally:
            for daemon in (self.first, self.second):
                daemon.resume()
        self.shadow.check(everything)
        self.second.verify()

    def stop(self):
        for load in self.loads:
            load.stop()
        for worker in self.workers:
            worker.stop()


def thirds(held, name):
    """(first, last) third of what was held, the very first of it left out: caches fill."""
    values = [one[name] for one in held[1:]]
    n = max(1, len(values) // 3)
    return statistics.median(values[:n]), statistics.median(values[-n:])


def moves(soak, for_s, slice_s):
    pid = soak.second.process.pid
    ends_at = time.monotonic() + for_s
    try:
        while time.monotonic() < ends_at:
            soak.slice(slice_s)
    finally:
        soak.stop()
    soak.second.sync_all(120)
    wait_until(lambda: not soak.redis.client().exists("tally:batches", "tally:dirty"), 60, "nothing is claimed or dirty")
    soak.check()
    assert soak.second.process.pid == pid and all(worker.turns > 0 for worker in soak.workers)
    print(f"acknowledged {soak.acked()}, unknown {sum(soak.shadow.unknown.values())}")


@pytest.fixture
def soak(make_redis, make_daemon, make_proxy, mysql, workdir):
    return Soak(make_redis, make_daemon, make_proxy, mysql, workdir)


@pytest.mark.soak
def test_an_hour_with_everything_moving(soak):
    moves(soak, SOAK_S, min(60.0, SOAK_S / 9))
    (rss, rss_later), (fds, fds_later), (p99, p99_later) = (thirds(soak.held, name)
                                                            for name in ("rss_kib", "descriptors", "p99_ms"))
    print(f"RSS {rss} -> {rss_later} KiB, descriptors {fds} -> {fds_later}, p99 {p99} -> {p99_later} ms")
    assert rss_later <= 1.15 * rss + 4096 and fds_later <= fds + 8 and p99_later <= 2 * p99 + 5
