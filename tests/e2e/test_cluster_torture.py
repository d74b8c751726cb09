"""Load over the lanes of a Redis Cluster; masters, replicas and tallyd killed. After each kill, per field: MySQL and all lanes
have what was acknowledged, and at most what nobody knows besides; `tallyd verify` exits 0. A few kills in the normal run, 200 in
the soak, with one lane, too. TORTURE_SEED repeats a run."""
import os
import random
import signal

import pytest

from harness.account import Account
from harness.cluster import Cluster
from harness.daemon import counters
from harness.load import Load
from harness.wait import wait_until

LANES = 16
# name -> how often the point may be passed, of all lanes, before it ends the process
CRASH_POINTS = {"frame_after_send": 2000, "frame_applied": 2000, "claim_after_send": 20, "claim_done": 20, "scan_done": 10,
                "fence_done": 10, "merge_after_ledger": 20, "merge_after_commit": 20, "discard_after_send": 10, "discard_done": 10}
FAMILIES = counters(hits=50, every="3s", product_views={"sync": {"hits": 500, "every": "5s"}})


def pick(rng):
    kind = rng.random()
    if kind < 0.6:
        return b"s%d:product_views" % rng.randrange(1, 65), b"%d" % rng.randrange(100), rng.choice((1, 1, 1, 7))
    if kind < 0.9:
        return b"s%d:unique_visitors:daily" % rng.randrange(1, 65), b"201409%02d" % rng.randrange(1, 4), 1
    return b"s%d:searches" % rng.randrange(1, 65), rng.choice((b"red shoes", b"Red shoes", b"\xc3\xa1 ")), 2


class Rig:
    def __init__(self, cluster, daemon, mysql, seed):
        self.cluster, self.daemon, self.rng = cluster, daemon, random.Random(seed)
        self.account = Account(cluster, mysql, FAMILIES)
        self.load = Load(daemon.socket, self.account.shadow, pick, per_second=3000, seed=seed)

    def answered(self, more):
        wanted = self.account.shadow.answered + more
        wait_until(lambda: self.account.shadow.answered >= wanted, 90, f"{more} hits more are acknowledged")

    def draw(self, masters):
        return self.rng.choice([node for node in self.cluster.nodes if node.is_master() == masters])

    def kill_master(self):
        master = self.draw(True)
        heir = self.cluster.replica_of(master)
        master.kill9()
        wait_until(heir.is_master, 60, "its replica is promoted")
        self.answered(200)
        master.start()

    def kill_replica(self):
        replica = self.draw(False)
        replica.kill9()
        self.answered(200)
        replica.start()

    def crash_at(self, point):
        assert self.daemon.terminate() == 0, self.daemon.log_tail()
        self.daemon.crash = f"{point}:{self.rng.randint(1, CRASH_POINTS[point])}"
        self.daemon.spawn()  # not start(): the point may be passed before it is seen to be ready
        assert self.daemon.ended() == -signal.SIGKILL, f"{point}\n{self.daemon.log_tail()}"
        self.daemon.crash = None
        self.daemon.start()

    def hurt(self, kind):
        if kind in CRASH_POINTS:
            self.crash_at(kind)
        else:
            {"master": self.kill_master, "replica": self.kill_replica, "tallyd": self.daemon.restart}[kind]()

    def check(self):
        """tallyd stands still meanwhile: nothing moves between the look into Redis and the look into MySQL."""
        self.daemon.pause()
        try:
            self.account.check()
        finally:
            self.daemon.resume()
        self.daemon.verify()

    def round(self, kind):
        self.load.go()
        self.answered(self.rng.randint(200, 3000))
        self.hurt(kind)
        self.answered(200)
        self.load.pause()
        self.cluster.wait_well()
        self.check()


def torture(kinds, workdir, make_daemon, mysql, lanes=LANES):
    seed = int(os.environ.get("TORTURE_SEED", random.randrange(10**6)))
    cluster = Cluster(workdir, lanes=lanes)
    rig = None
    try:
        cluster.start()
        where = {"url": cluster.url, "lanes": lanes, "replicas": 1}
        rig = Rig(cluster, make_daemon(cluster, families=FAMILIES, redis_url=where), mysql, seed)
        rig.rng.shuffle(kinds)
        for number, kind in enumerate(kinds, 1):
            print(f"TORTURE_SEED={seed} round {number} of {len(kinds)}: {kind}", flush=True)
            rig.round(kind)
            if number % 10 == 0:
                rig.account.settle(rig.daemon)
        rig.account.settle(rig.daemon)
    finally:
        if rig is not None:
            rig.load.stop()
        cluster.close()
    shadow = rig.account.shadow
    print(f"acknowledged {rig.account.acked}, unknown {rig.account.unknown}, refused {dict(shadow.refusals)}")
    assert "event=frames_lost" not in rig.daemon.log()
    assert rig.account.unknown < rig.account.acked / 5  # the bounds are narrow


def test_eight_kills(workdir, make_daemon, mysql):
    points = ["frame_after_send", "claim_done", "merge_after_commit"]
    torture(["master", "master", "replica", "tallyd", "tallyd", *points], workdir, make_daemon, mysql)


@pytest.mark.soak
@pytest.mark.parametrize("lanes", [1, LANES], ids=["one lane", "sixteen"])
def test_two_hundred_kills(workdir, make_daemon, mysql, lanes):
    kinds = ["master"] * 70 + ["replica"] * 40 + ["tallyd"] * 40 + list(CRASH_POINTS) * 5
    assert len(kinds) == 200
    torture(kinds, workdir, make_daemon, mysql, lanes)
