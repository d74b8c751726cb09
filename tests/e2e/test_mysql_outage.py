"""MySQL away at a steady load: clients notice nothing, tallyd's memory stays flat, all is merged after its return."""
import os
import re
import subprocess
import time

import pytest

from harness.books import counted
from harness.daemon import counters
from harness.programs import SANITIZED
from harness.wait import patience, wait_until

LOAD = os.environ.get("LOAD", os.path.join(os.path.dirname(__file__), "../../build/tests/bench/load"))
HITS_PER_S = 10_000
FAMILIES = counters()


def lasting(seconds, make_redis, make_daemon, mysql):
    redis = make_redis()
    daemon = make_daemon(redis, families=FAMILIES)
    load = subprocess.Popen([LOAD, "-s", daemon.socket, "-c", "50", "-P", "10", "-k", "1000", "-z", "1.0",
                             "-r", str(HITS_PER_S), "-d", "3600"], stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: mysql.query("SELECT SUM(visitors) FROM daily_visitors")[0][0] > HITS_PER_S, 60,
                   "the load runs, hits get into MySQL")
        outage_shows_nowhere(seconds, daemon, mysql)
        daemon.sync_all()  # under load: everything that was counted before this call
    finally:
        load.terminate()
        report = load.communicate(timeout=patience(60))[0]
    assert load.returncode == 0, report
    figures = dict(re.findall(r"(\w+)=([\d.]+)", report))
    assert figures["errors"] == "0" and figures["lost"] == "0", report
    daemon.pause()
    assert sum(counted(redis.client(), mysql, FAMILIES).values()) == int(figures["hits"])
    daemon.resume()
    daemon.sync_all()
    assert mysql.query("SELECT SUM(visitors) FROM daily_visitors") == ((int(figures["hits"]),),)
    daemon.verify()


def outage_shows_nowhere(seconds, daemon, mysql):
    """Stops MySQL for that long, and for as many hits as half the load's, and starts it again; tallyd's memory at the end is what
    it was at the beginning."""
    mysql.kill9()
    began, sizes, wanted = time.monotonic(), [], daemon.figure("hits") + seconds * HITS_PER_S // 2

    def over():
        sizes.append(daemon.rss_kib())
        return time.monotonic() - began > seconds and daemon.figure("hits") >= wanted

    wait_until(over, seconds + 60, "hits go on through the outage", every_s=0.25)
    mysql.start()
    early, late = max(sizes[:len(sizes) // 4]), max(sizes[-len(sizes) // 4:])
    assert late - early < 4 * 1024 or SANITIZED, f"tallyd grew from {early} to {late} KiB"


@pytest.mark.fault("mysql-down-long")
def test_fifteen_seconds(make_redis, make_daemon, mysql):
    lasting(15, make_redis, make_daemon, mysql)


@pytest.mark.soak
def test_sixty_seconds(make_redis, make_daemon, mysql):
    lasting(60, make_redis, make_daemon, mysql)


@pytest.mark.fault("mysql-down-at-start")
def test_down_at_start(make_redis, make_daemon, mysql):
    """MySQL down when tallyd starts: it counts all the same, and merges when MySQL is there."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, start=False).migrate()
    mysql.kill9()
    daemon.start()
    with daemon.client() as client:
        assert client.pipeline([("HINCRBY", "s1:product_views", "7", 1)] * 100) == list(range(1, 101))
        assert "MySQL" in client.call("CTR.SYNC", "ALL")
    mysql.start()
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views") == ((100,),)
    daemon.verify()
