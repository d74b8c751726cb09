"""A claim is merged only when Redis has it on its disk: each batch of the ledger against the fsyncs of redis-server (disk_shim.c),
beside what keeps Redis from syncing."""
import glob
import os
import threading
import time
from datetime import timezone

import pytest

from harness.daemon import counters
from harness.wait import wait_until

BATCHES, SOAK_BATCHES = 12, 500
SLACK_S = 0.002  # merged_at is in milliseconds


class Hits(threading.Thread):
    """One after the other, each for a store of its own, which is due at once."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_socket, self.ending, self.sent = daemon, threading.Event(), 0

    def run(self):
        with self.daemon_socket.client() as client:
            while not self.ending.wait(0.01):
                client.call("HINCRBY", f"s{self.sent}:product_views", "1", 1)
                self.sent += 1


def saves(server, clock):
    """Children that take 4 s, with always less, and pauses."""
    if server.appendfsync == "everysec":
        server.client().mset({f"filler{i}": i for i in range(1000)})
    server.client().execute_command("BGSAVE")
    wait_until(lambda: not server.client().info("persistence")["rdb_bgsave_in_progress"], 60, "it is saved")
    time.sleep(0.3)


def rewrites(server, clock):
    """What the old file has is not on the disk until the rewrite's child, which takes 0.4 s, has nearly ended."""
    server.client().mset({f"filler{i}": i for i in range(200)})
    wait_until(lambda: not server.client().info("persistence")["aof_rewrite_in_progress"], 60, "it is rewritten")
    server.disk.hold("threads")
    server.client().bgrewriteaof()
    time.sleep(0.3)
    server.disk.flow()
    time.sleep(0.4)


def stalls(server, clock):
    server.disk.hold()
    time.sleep(1.5)
    server.disk.flow()
    time.sleep(0.7)


def jumps(server, clock):
    time.sleep(1.2)
    clock.step(0, jump_s=-6)
    time.sleep(4)
    clock.step(0, jump_s=6)


LAX = {"extra": ["--no-appendfsync-on-rewrite", "yes", "--rdb-key-save-delay", "4000"]}
TROUBLES = {
    "saves": (saves, LAX),
    "saves-always": (saves, {**LAX, "appendfsync": "always"}),
    "rewrites": (rewrites, {"extra": ["--rdb-key-save-delay", "2000"]}),
    "stalls": (stalls, {}),
    "jumps": (jumps, {}),
    "none": (lambda server, clock: time.sleep(0.1), {}),
}


class Aof:
    """Its files stay, rewritten or not."""

    def __init__(self, server):
        self.disk, self.files = server.disk, {}
        for path in glob.glob(os.path.join(server.disk.files, "appendonly.aof.*.*")):
            _, _, number, kind, *_ = os.path.basename(path).split(".")
            if kind in ("incr", "base"):
                self.files[kind, int(number)] = path

    def place(self, batch):
        """(number, offset) in the increments."""
        for (kind, number), path in sorted(self.files.items()):
            if kind == "incr":
                with open(path, "rb") as file:
                    at = file.read().find(batch)
                if at >= 0:
                    return number, at
        raise AssertionError(f"batch {batch} is in no file of the AOF")

    def safe_at(self, batch):
        """When an fsync of it ended, or of a rewrite that began later; never: infinity."""
        number, at = self.place(batch)
        covers = {os.stat(self.files["incr", number]).st_ino: at + 1}
        covers.update({os.stat(path).st_ino: 0 for (kind, n), path in self.files.items() if kind == "base" and n > number})
        return min((ended for inode, size, _, ended in self.disk.syncs() if size >= covers.get(inode, float("inf"))),
                   default=float("inf"))


def fences_are_true(name, batches, make_redis, make_clock, make_daemon, mysql):
    trouble, how = TROUBLES[name]
    clock = make_clock().flow() if name == "jumps" else None
    how = {"appendfsync": "everysec", **how, "extra": [*how.get("extra", []), "--aof-disable-auto-gc", "yes"]}
    server = make_redis(disk=True, clock=clock, **how)
    daemon = make_daemon(server, families=counters(hits=10**9, every="3600s"))
    hits, behind = Hits(daemon), time.time() - time.monotonic()
    hits.start()
    until = time.monotonic() + 30 * batches

    def merged():
        return mysql.query("SELECT LOWER(HEX(batch)), merged_at FROM tally_ledger")

    while len(merged()) < batches:
        assert time.monotonic() < until, daemon.log_tail()
        trouble(server, clock)
    hits.ending.set()
    hits.join()
    aof, early = Aof(server), []
    for batch, at in merged():
        merged_at = at.replace(tzinfo=timezone.utc).timestamp() - behind
        if aof.safe_at(batch.encode()) > merged_at + SLACK_S:
            early.append((batch, merged_at, aof.place(batch.encode())))
    print(f"\n{name}: {len(merged())} batches, merged before their fsync {len(early)}")
    assert not early, early
    daemon.sync_all()
    assert mysql.query("SELECT SUM(views) FROM product_views") == ((hits.sent,),)
    daemon.verify()


@pytest.mark.parametrize("name", ["saves-always", "rewrites"])
def test_fences_are_true(name, make_redis, make_clock, make_daemon, mysql):
    fences_are_true(name, BATCHES, make_redis, make_clock, make_daemon, mysql)


@pytest.mark.soak
@pytest.mark.parametrize("name", TROUBLES)
def test_many_fences_are_true(name, make_redis, make_clock, make_daemon, mysql):
    fences_are_true(name, SOAK_BATCHES, make_redis, make_clock, make_daemon, mysql)
