"""Each option of `limits` that other files do not move: with it tallyd does otherwise than without."""
import itertools
import os
import socket
import threading
import time

import pytest

from harness.daemon import counters
from harness.resp import encode
from harness.wait import wait_until
from harness.web import Web

FAMILIES = counters(hits=10**9, every="3600s")


@pytest.fixture
def limited(make_daemon, redis, workdir):
    """A daemon with these limits, and HTTP."""
    numbers = itertools.count()

    def make(redis_timeout="5s", **limits):
        number = next(numbers)
        daemon = make_daemon(redis, start=False, families=FAMILIES, instance=f"limited{number}", more={"limits": limits})
        daemon.config["redis"] = {"url": redis.url, "timeout": redis_timeout}
        daemon.web = Web(os.path.join(workdir, f"web{number}.sock"))
        daemon.config["listen"]["http"] = f"unix://{daemon.web.at}"
        daemon.write_config()
        daemon.migrate()
        daemon.start()
        return daemon
    return make


def said(client, name):
    info = dict(line.split(":", 1) for line in client.call("INFO").decode().splitlines() if ":" in line)
    return int(info[name])


@pytest.mark.parametrize("frame,fits", [(100, False), (500, True)])
def test_frame(limited, frame, fits):
    daemon = limited(frame=frame)
    with daemon.client() as client:
        replies = client.pipeline([("MULTI",), *[("HINCRBY", "s1:product_views", n, 1) for n in range(200)], ("EXEC",)])
        if fits:
            assert replies[-1] == [1] * 200
        else:
            assert str(replies[-1]).startswith("EXECABORT") and daemon.web.metrics()["tallyd_hits_total"] == 0


@pytest.mark.parametrize("answers,frames_least", [(1000, 20), (65536, 0)])
def test_answers(limited, redis, answers, frames_least):
    """20,000 hits on one field while Redis stands still: so many answers wait for one frame, and no more."""
    daemon = limited(answers=answers)
    with daemon.client() as client:
        before = said(client, "frames")
        redis.pause()
        sender = threading.Thread(target=client.send, args=(encode("HINCRBY", "s1:product_views", 7, 1) * 20000,))
        sender.start()
        sender.join(0.5)  # what is not taken by now finds no room
        redis.resume()
        assert all(isinstance(client.reply(), int) for _ in range(20000))
        sender.join()
        took = said(client, "frames") - before
    assert took >= frames_least if frames_least else took < 20, took


@pytest.mark.parametrize("hashes,again_least", [(1000, 1500), (1000000, 0)])
def test_hashes(limited, redis, hashes, again_least):
    """Of a hash that is forgotten the lock is asked for again."""
    daemon = limited(hashes=hashes)
    hits = [("HINCRBY", f"s{store}:product_views", 7, 1) for store in range(1, 3001)]

    def locks():
        with redis.client() as inside:
            return inside.info("commandstats")["cmdstat_set"]["calls"]

    with daemon.client() as client:
        client.pipeline(hits)
        daemon.sync_all()
        client.pipeline(hits)
        before = locks()
        client.pipeline(hits)
        took = locks() - before
    assert took >= again_least and (again_least or took < 500), took


@pytest.mark.parametrize("names,more_mib", [(16777216, True), (1024, False)])
def test_names(limited, names, more_mib):
    """Tables for so many names, taken when the first name comes."""
    daemon = limited(names=names)

    def size_mib():
        with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE") >> 20

    before = size_mib()
    with daemon.client() as client:
        client.call("SERIES.INCRBY", "visits", 1)
    assert (size_mib() - before > 300) == more_mib, size_mib() - before


@pytest.mark.parametrize("busy,within_s", [("1s", 6), ("60s", None)])
def test_busy(limited, redis, busy, within_s):
    """Redis stands still, and is taken as lost after a second: its answer is waited for so long."""
    daemon = limited(redis_timeout="1s", busy=busy)
    with daemon.client(8) as client:
        client.call("HINCRBY", "s1:product_views", 7, 1)
        redis.pause()
        try:
            client.send(encode("HINCRBY", "s1:product_views", 7, 1))
            began = time.monotonic()
            if within_s:
                assert "outcome unknown" in client.reply() and time.monotonic() - began < within_s
            else:
                with pytest.raises(socket.timeout):
                    client.reply()
        finally:
            redis.resume()


def test_streams(limited):
    daemon = limited(streams=1)
    with daemon.web.stream() as stream:
        stream.until("status")
        refused = daemon.web.ask("/api/stream")
        assert refused.status == 503 and "1 streams" in refused.text


def test_http_connections(limited):
    """The seventeenth connection waits until another goes."""
    daemon = limited(http=16)
    held = []
    for _ in range(16):
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].connect(daemon.web.at)
        held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[-1].recv(9) == b"HTTP/1.1 "
    one_more = socket.socket(socket.AF_UNIX)
    one_more.settimeout(1)
    one_more.connect(daemon.web.at)
    one_more.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try:
        assert one_more.recv(12) == b""
    except (socket.timeout, ConnectionResetError):
        pass
    for one in (*held, one_more):
        one.close()
    wait_until(lambda: daemon.web.ask("/healthz").status == 200, 20, "there is room again")
