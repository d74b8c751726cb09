"""Load from eight clients; tallyd, redis-server and mariadbd killed, links cut; after each the shadow must agree.

After each kill, per field: MySQL + pending + claimed and not in the ledger lies between what was acknowledged and that
plus those in doubt; `tallyd verify` exits 0. 30 kills in the normal run, 200 in the soak. TORTURE_SEED repeats a run."""
import os
import random
import signal
import time

import pytest

from harness.books import counted, nothing_left
from harness.daemon import counters
from harness.load import Load
from harness.shadow import Shadow
from harness.wait import wait_until

# name -> how often the point may be passed before it ends the process (frames are many, the rest a few a second)
CRASH_POINTS = {
    "frame_before_send": 200, "frame_after_send": 200, "frame_applied": 200,
    "claim_before_send": 4, "claim_after_send": 4, "claim_done": 4,
    "scan_mid": 3, "scan_done": 3, "fence_mid": 2, "fence_done": 2,
    "merge_after_ledger": 4, "merge_before_commit": 4, "merge_after_commit": 4, "merge_between_chunks": 1,
    "discard_before_send": 3, "discard_after_send": 3, "discard_done": 3,
}
# One hash with thousands of fields makes batches of several chunks; small hashes make many claims.
FAMILIES = counters(hits=50, every="3s", product_views={"sync": {"hits": 2500, "every": "5s"}})


def pick(rng):
    kind = rng.random()
    if kind < 0.6:
        return b"s1:product_views", b"%d" % rng.randrange(4000), rng.choice((1, 1, 1, 7))
    if kind < 0.9:
        return b"s%d:unique_visitors:daily" % rng.randrange(1, 31), b"201409%02d" % rng.randrange(1, 4), 1
    return b"s%d:searches" % rng.randrange(1, 4), rng.choice((b"red shoes", b"Red shoes", b"\xc3\xa1 ")), 2


class Rig:
    families, pick, shadow_class = FAMILIES, staticmethod(pick), Shadow

    def __init__(self, make_redis, make_daemon, make_proxy, make_way, mysql, seed):
        self.rng = random.Random(seed)
        self.redis, self.mysql = make_redis(appendfsync="everysec", in_memory=True), mysql
        self.to_redis, url = make_way(self.redis)
        self.to_mysql = make_proxy(mysql.socket)
        self.daemon = make_daemon(
            self.redis, families=self.families, redis_url=url,
            mysql_url=f"mysql://root@localhost/shop?socket={self.to_mysql.path}")
        self.to_clients = make_proxy(self.daemon.socket)
        self.shadow = self.shadow_class()
        self.load = Load(self.to_clients.path, self.shadow, self.pick, clients=8, depth=20, per_second=3000, seed=seed)

    def acked(self):
        with self.shadow.lock:
            return sum(self.shadow.acked.values())

    def more_acked(self, hits, deadline_s=60):
        """The service serves: that many hits more were acknowledged."""
        wanted = self.acked() + hits
        wait_until(lambda: self.acked() >= wanted, deadline_s, f"{hits} hits more are acknowledged")

    def crash_at(self, point, passes):
        status = self.daemon.terminate()
        assert status == 0, f"SIGTERM under load: exit status {status}\n{self.daemon.log_tail()}"
        self.daemon.crash = f"{point}:{passes}"
        self.daemon.spawn()  # not start(): the point may be passed before it is seen to be ready
        status = self.daemon.ended()
        assert status == -signal.SIGKILL, f"{point}: exit status {status}\n{self.daemon.log_tail()}"
        self.daemon.crash = None
        self.daemon.start()

    def kill_daemon(self):
        self.daemon.restart()

    def kill_redis(self):
        self.redis.kill9_written()
        self.redis.start()

    def kill_mysql(self):
        self.mysql.restart()

    def cut(self):
        """The link to Redis at once, with requests lost on the way, with answers lost; then one of the other links."""
        losses = (lambda proxy: None, lambda proxy: proxy.stall("up"), lambda proxy: proxy.swallow_replies())
        for lose in losses:
            self.cut_one(self.to_redis, lose)
            self.more_acked(200)
        self.cut_one(self.rng.choice((self.to_mysql, self.to_clients)), self.rng.choice(losses))

    def cut_one(self, proxy, lose):
        lose(proxy)
        ends_at = time.monotonic() + self.rng.uniform(0.01, 0.3)  # what is sent now is lost
        wait_until(lambda: time.monotonic() > ends_at, 5, every_s=0.005)
        proxy.cut()
        proxy.flow()

    def hurt(self, kind):
        if kind in CRASH_POINTS:
            self.crash_at(kind, self.rng.randint(1, CRASH_POINTS[kind]))
        else:
            {"tallyd": self.kill_daemon, "redis": self.kill_redis, "mysql": self.kill_mysql, "cut": self.cut}[kind]()

    def counted(self):
        return counted(self.redis.client(), self.mysql, self.families)

    def stop(self):
        self.load.stop()

    def check(self):
        """tallyd is paused meanwhile: nothing moves between the look into Redis and the look into MySQL."""
        self.daemon.pause()
        try:
            everything = self.counted()
        finally:
            self.daemon.resume()
        self.shadow.check(everything)
        self.daemon.verify()

    def settle(self):
        """All is merged; MySQL alone has it."""
        self.daemon.sync_all(90)
        wait_until(lambda: nothing_left(self.redis.client()), 30, "nothing left in Redis")
        self.check()

    def round(self, kind):
        self.load.go()
        self.more_acked(self.rng.randint(200, 3000))
        self.hurt(kind)
        self.more_acked(200)
        self.load.pause()
        self.check()


def torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql, rig_class=Rig):
    seed = int(os.environ.get("TORTURE_SEED", random.randrange(10**6)))
    rig = rig_class(make_redis, make_daemon, make_proxy, make_way, mysql, seed)
    rig.rng.shuffle(kinds)
    try:
        for number, kind in enumerate(kinds, 1):
            print(f"TORTURE_SEED={seed} round {number} of {len(kinds)}: {kind}", flush=True)
            rig.round(kind)
            if number % 10 == 0:
                rig.settle()
        rig.settle()
    finally:
        rig.stop()
    shadow = rig.shadow
    acked, unknown, refused = (sum(map(abs, sums.values())) for sums in (shadow.acked, shadow.unknown, shadow.refused))
    print(f"acknowledged {acked}, unknown {unknown}, refused {refused}: {dict(shadow.refusals)}")
    assert acked > 200 * len(kinds) and unknown < acked / 5  # the bounds are narrow
    return rig


def test_thirty_kills(make_redis, make_daemon, make_proxy, make_way, mysql):
    kinds = [*CRASH_POINTS, *["tallyd"] * 3, *["redis"] * 4, *["mysql"] * 3, *["cut"] * 3]  # a cut is four
    assert len(kinds) == 30
    torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql)


@pytest.mark.soak
def test_two_hundred_kills(make_redis, make_daemon, make_proxy, make_way, mysql):
    kinds = [*list(CRASH_POINTS) * 6, *["tallyd"] * 26, *["redis"] * 26, *["mysql"] * 22, *["cut"] * 24]
    assert len(kinds) == 200
    torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql)


def test_crash_points_are_all_here(make_redis, make_daemon):
    """The list above is the binary's own."""
    daemon = make_daemon(make_redis(in_memory=True), start=False)
    done = daemon.verb("run", environment={"TALLYD_CRASH": "list"})
    named = {line.strip() for line in (done.stdout + done.stderr).splitlines() if line.startswith("  ")}
    assert named == set(CRASH_POINTS)
