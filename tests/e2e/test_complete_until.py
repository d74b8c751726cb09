"""complete_until, before which every hit is in MySQL: it waits for hits in doubt, and says when it cannot be written."""
import threading
import time

from harness.daemon import counters
from harness.resp import encode
from harness.wait import patience, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
EVERY_S = 10  # it is written so often


def complete_until(mysql):
    """Seconds since 1970, None: never written."""
    rows = mysql.query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', complete_until) / 1e6 FROM tally_counters"
                       " WHERE counter = 'product_views'")
    return float(rows[0][0]) if rows and rows[0][0] is not None else None


def steps(clock, seconds):
    """A second at a time, so that no answer looks late."""
    for _ in range(seconds):
        clock.step(1)
        time.sleep(0.05)


class Held:
    """A proxy's filter that keeps one client's hit from Redis until it is let go."""

    def __init__(self):
        self.seen, self.let_go = threading.Event(), threading.Event()

    def __call__(self, link, way, data):
        if way == "up" and (self.seen.is_set() or b"HINCRBY" in data):
            self.seen.set()
            self.let_go.wait()
        return data


def test_waits_for_the_hits_in_doubt_of_another_tallyd(make_clock, make_redis, make_daemon, make_proxy, mysql):
    """A frame in doubt is sent again with the time of its first sending: not even then anything older than what the other
    tallyd wrote meanwhile gets into Redis."""
    clock, more = make_clock().flow(), {"limits": {"busy_timeout": "30s"}}
    redis = make_redis(appendfsync="always", clock=clock)
    peer = make_daemon(redis, families=FAMILIES, instance="peer", clock=clock, more=more)
    proxy = make_proxy(redis.socket)
    cut_off = make_daemon(redis, families=FAMILIES, instance="far", clock=clock, more=more,
                          redis_url=f"unix://{proxy.path}")
    with cut_off.client() as client:
        assert client.call("HINCRBY", VIEWS, "7", 1) == 1
        peer.sync_all()
        proxy.filter = held = Held()
        before = wait_until(lambda: complete_until(mysql), 30, "complete_until is written")
        client.send(encode("HINCRBY", VIEWS, "7", 1))
        assert held.seen.wait(patience(30))
        steps(clock, 28)
        wait_until(lambda: complete_until(mysql) >= before + 2 * EVERY_S - 1, 30, "the other one writes it meanwhile")
        proxy.cut()
        held.let_go.set()
        assert client.reply() == 1
        assert complete_until(mysql) < redis.client().zscore("tally:dirty", VIEWS) / 1000


def test_what_mysql_refuses_is_told_once(make_clock, make_redis, make_daemon, mysql):
    clock = make_clock().flow()
    daemon = make_daemon(make_redis(appendfsync="always", clock=clock), families=FAMILIES, clock=clock)
    wait_until(lambda: complete_until(mysql), 30, "complete_until is written")
    mysql.query("CREATE TRIGGER refuses BEFORE UPDATE ON tally_counters FOR EACH ROW IF NOT NEW.complete_until <=> OLD.complete_until"
                " THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'; END IF")
    steps(clock, EVERY_S)
    daemon.log_contains("event=complete_until error=")
    stood = complete_until(mysql)
    with daemon.client() as client:
        client.call("HINCRBY", VIEWS, "7", 1)
    daemon.sync_all()
    steps(clock, 2 * EVERY_S)
    mysql.query("DROP TRIGGER refuses")
    steps(clock, EVERY_S)
    wait_until(lambda: complete_until(mysql) > stood, 30, "it goes on")
    assert daemon.log().count("event=complete_until ") == 1
    assert "not today" in daemon.log() and "does not move" in daemon.log()
