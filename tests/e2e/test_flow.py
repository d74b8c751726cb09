"""Bytes that dribble, floods, clients that do not read, and too many of them: bounded, and no client waits for another."""
import contextlib
import threading
import time

import pytest

from harness.daemon import counters
from harness.resp import Resp, encode
from harness.wait import patience, wait_until

PING = encode("PING")


@pytest.mark.fault("dribble")
def test_one_byte_dribble_through_a_proxy(make_daemon, redis, make_proxy):
    """Requests and replies a byte at a time; the same values as whole."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 1)
    daemon.sync_all()
    proxy = make_proxy(daemon.socket)
    proxy.dribbling = True
    with Resp(proxy.path) as slow:
        assert slow.pipeline([("HINCRBY", "s1:product_views", "7", 2)] * 20) == list(range(2, 42, 2))


@pytest.mark.fault("dribble")
def test_redis_a_byte_at_a_time(make_daemon, redis, make_proxy):
    proxy = make_proxy(redis.socket)
    proxy.dribbling = True
    daemon = make_daemon(redis, redis_url=f"unix://{proxy.path}?db=0")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(at), 1) for at in range(200)])
    daemon.sync_all()
    daemon.verify()


@pytest.mark.fault("giant-pipeline")
def test_giant_pipeline(make_daemon, redis):
    """100,000 hits in one go, replies read only while sending: exact running values, in order, one bounded daemon."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 1)
        daemon.sync_all()
        before = daemon.rss_kib()
        hits = encode("HINCRBY", "s1:product_views", "7", 1) * 100_000
        sender = threading.Thread(target=client.send, args=(hits,), daemon=True)
        sender.start()
        assert [client.reply() for _ in range(100_000)] == list(range(1, 100_001))
        sender.join(patience(30))
        assert daemon.rss_kib() - before < 64 * 1024
    assert redis.client().hget("s1:product_views", "7") == b"100000"


@pytest.mark.fault("slow-reader")
def test_slow_reader(make_daemon, redis):
    """One client sends and never reads: beyond its output buffer it is not read from, others are served as ever; then it reads
    everything."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), more={"limits": {"memory": "8MiB"}})
    slow, sent = daemon.client(), [0]
    slow.call("HINCRBY", "s1:product_views", "1", 1)
    daemon.sync_all()
    count = 400_000
    block = encode("HINCRBY", "s1:product_views", "7", 1) * 1000

    def pour():
        for _ in range(count // 1000):
            slow.send(block)
            sent[0] += 1000

    before = daemon.rss_kib()
    sender = threading.Thread(target=pour, daemon=True)
    sender.start()
    seen = [(-1, 0.0)]

    def stuck():  # no progress for half a second: the daemon has stopped reading it
        now = time.monotonic()
        if sent[0] != seen[0][0]:
            seen[0] = (sent[0], now)
        return now - seen[0][1] > 0.5

    wait_until(stuck, 60, "the daemon stops reading who does not read")
    assert sent[0] < count
    assert daemon.rss_kib() - before < 64 * 1024
    with daemon.client() as other:
        for _ in range(500):
            assert isinstance(other.call("HINCRBY", "s2:product_views", "7", 1), int)
    assert sent[0] < count, "it is not read from until it reads"
    assert [slow.reply() for _ in range(count)] == list(range(1, count + 1))
    sender.join(patience(30))
    slow.close()


def test_many_connections(make_daemon, redis):
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    links = [daemon.client() for _ in range(500)]
    for at, link in enumerate(links):
        link.send(encode("HINCRBY", "s1:searches", f"term {at % 7}", 1))
    assert all(isinstance(link.reply(), int) for link in links)
    for link in links:
        link.close()
    daemon.sync_all()
    daemon.verify()


def test_client_limit(make_daemon, redis):
    """One connection more than allowed is told so and closed, and a place that falls free is given again."""
    daemon = make_daemon(redis, more={"limits": {"clients": 20}})
    links = []

    def answers():
        """A new connection; it is kept when it has a place."""
        link = daemon.client()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # tallyd has told it and closed it already
            link.send(PING)
        said = link.until(b"\r\n")
        if said == b"+PONG\r\n":
            links.append(link)
            return True
        assert said == b"-ERR max number of clients reached\r\n", said
        link.close()
        return False

    wait_until(lambda: answers() and len(links) == 20, 60, "places for 20")  # the start's own client may still have one
    assert not answers()
    links.pop().close()
    wait_until(answers, 60, "a place is free again")
    for link in links:
        link.close()
