"""Each option of `limits` that other files do not move: with it tallyd does otherwise than without."""
import itertools
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness.daemon import TALLYD, counters
from harness.resp import RespError, encode
from harness.wait import wait_until
from harness.web import Web

FAMILIES = counters(hits=10**9, every="3600s")


@pytest.fixture
def limited(make_daemon, redis, workdir):
    """A daemon with these limits, and HTTP."""
    numbers = itertools.count()

    def make(redis_timeout="5s", users=None, **limits):
        number = next(numbers)
        more = {"limits": limits, **({"users": users} if users else {})}
        daemon = make_daemon(redis, start=False, families=FAMILIES, instance=f"limited{number}", more=more)
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


def test_reads(limited):
    """The bounds of one answer; each error names its option, and up to the bound it is answered."""
    daemon = limited(read=10001, read_bytes="1MiB", days=400)
    with daemon.client() as client:
        refused = client.call("EVENT.COUNT", "blob", "submit", 10002, 1)
        assert refused == "ERR span / window is 10002 windows; at most 10001 are counted at once (limits.read)"
        assert len(client.call("EVENT.COUNT", "blob", "submit", 10001, 1)) == 10001
        assert "at most 10001 events come at once (limits.read)" in client.call("EVENT.RANGE", "a", "b", 0, 1, "LIMIT", 0, 10002)
        assert "at most 400 are united at once (limits.days)" in client.call("UNIQ.COUNT", "who", 20130101, 20140205)
        assert client.call("UNIQ.COUNT", "who", 20130101, 20140204) == [0, b"exact"]
        added = client.pipeline([("EVENT.ADD", "blob", "submit", "ID", f"{n:0512}") for n in range(2100)])
        assert not any(isinstance(one, RespError) for one in added), added[0]
        assert "(limits.read_bytes)" in client.call("EVENT.RANGE", "blob", "submit", 0, 2**40)
        assert len(client.call("EVENT.RANGE", "blob", "submit", 0, 2**40, "LIMIT", 0, 2000)) == 4000


def test_bytes_of_transactions(limited):
    daemon = limited(multi_bytes="64KiB", frame_bytes="64KiB")
    with daemon.client() as client:
        replies = client.pipeline([("MULTI",), *[("PING", "x" * 40000)] * 2, ("EXEC",)])
        assert replies[1:3] == ["QUEUED", "ERR transaction is too large: at most 65536 bytes (limits.multi_bytes)"]
        hits = [("HINCRBY", "s1:product_views", n, 1) for n in range(110)]  # a reply of up to 640 bytes is reckoned with each
        assert "limits.frame_bytes" in client.pipeline([("MULTI",), *hits, ("EXEC",)])[-1]
        assert client.pipeline([("MULTI",), *hits[:90], ("EXEC",)])[-1] == [1] * 90


def users_of(*names):
    done = subprocess.run([TALLYD, "hash"], input="secret\n", stdout=subprocess.PIPE, check=True, text=True)
    return {name: {"password": done.stdout.strip(), "keys": ["*"]} for name in names}


def guesses(client, user, most=20):
    """How many wrong passwords are looked at before one is refused unproved."""
    for at in range(most):
        time.sleep(0.01)  # in which what is forgiven after a millisecond is no bound
        said = client.call("AUTH", user, f"guess {at}")
        if not said.startswith("WRONGPASS"):
            assert said == "ERR too many wrong passwords from this address; wait some seconds (limits.guesses)"
            return at
    return most


@pytest.mark.parametrize("of_user,of_address,ann,bob", [((1, "1ms"), (4, "1h"), 4, 0), ((2, "1h"), (1, "1ms"), 2, 2)])
def test_guesses(limited, of_user, of_address, ann, bob):
    daemon = limited(users=users_of("ann", "bob"), guesses=of_user[0], guesses_every=of_user[1],
                     address_guesses=of_address[0], address_guesses_every=of_address[1])
    with daemon.client() as client:
        assert (guesses(client, "ann"), guesses(client, "bob")) == (ann, bob)


def test_strangers_rate(limited):
    """250 requests of a stranger: a hundred at once, the others at a hundred a second; a SIGHUP takes another rate over."""
    daemon = limited(users=users_of("ann"), strangers_rate=100)

    def took_s():
        with daemon.client() as client:
            began = time.monotonic()
            assert client.pipeline([("RESET",)] * 250) == ["RESET"] * 250
            return time.monotonic() - began

    slow_s = took_s()
    assert slow_s >= 1.4
    daemon.config["limits"]["strangers_rate"] = 1000000
    daemon.write_config()
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: "event=users n=1" in daemon.log(), 10, "the reload")
    assert took_s() < slow_s / 2


def test_proofs(limited):
    """Nine different passwords at once: one is proved, one waits, others are refused."""
    daemon = limited(users=users_of("ann"), proofs=1)
    clients = [daemon.client() for _ in range(9)]
    for at, client in enumerate(clients):
        client.send(encode("AUTH", "ann", f"guess {at}"))
    said = [client.reply() for client in clients]
    assert "ERR too many clients authenticate at once; try again (limits.proofs)" in said
    for client in clients:
        client.close()


def http_says(daemon, request):
    """All that comes until the connection is closed."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(daemon.web.at)
        client.sendall(request)
        said = b""
        while True:
            try:
                more = client.recv(65536)
            except ConnectionResetError:
                return said
            if not more:
                return said
            said += more


def test_http_of_one_connection(limited):
    daemon = limited(http_silent="1s", http_head="8KiB", http_body="1KiB")
    began = time.monotonic()
    assert b"200 OK" in http_says(daemon, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert time.monotonic() - began < 8, "without the option it is open for ten seconds"

    def sent(head, body, method=b"GET"):
        return http_says(daemon, method + b" /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * head +
                         b"\r\nContent-Length: %d\r\n\r\n" % body + b"b" * body)

    assert b" 200 OK" in sent(4000, 1024)
    assert b" 431 " in sent(9000, 0)
    assert sent(100, 1025) == b""


def test_http_head_may_be_longer(limited):
    daemon = limited(http_head="64KiB")
    assert daemon.web.ask("/healthz", headers={"X": "x" * 40000}).status == 200


def test_busy_total(limited, mysql):
    """A CTR.TOTAL that meets a later merge in each read gives up after so long."""
    daemon = limited(busy="1s")
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", 7, 1)
        daemon.sync_all()
        mysql.query("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged,"
                    " total, merged_at) VALUES ((SELECT MIN(realm) FROM tally_realms), REPEAT('x', 16), 0, 1, 'product_views', 1000000, '', '', REPEAT('x', 16), 0, 0,"
                    " NOW(3))")
        began = time.monotonic()
        assert client.call("CTR.TOTAL", "s1:product_views", 7).startswith("TRYAGAIN")
        assert time.monotonic() - began < 4


LEAST = {"strangers_rate": 100, "proofs": 1, "guesses": 1, "guesses_every": "1ms", "address_guesses": 1,
         "address_guesses_every": "1ms", "multi_bytes": "64KiB", "frame_bytes": "64KiB", "share": 32, "read": 10000,
         "read_bytes": "1MiB", "days": 366, "http_silent": "1s", "http_head": "8KiB", "http_body": "0B",
         "streams_unread": "4KiB"}
MOST = {"strangers_rate": 100000000, "proofs": 65536, "guesses": 1000000, "guesses_every": "1h", "address_guesses": 1000000,
        "address_guesses_every": "1h", "multi_bytes": "1GiB", "frame_bytes": "16MiB", "share": 1000000, "read": 1000000,
        "read_bytes": "1GiB", "days": 3660, "http_silent": "1h", "http_head": "1MiB", "http_body": "1GiB",
        "streams_unread": "16MiB"}


@pytest.mark.parametrize("limits", [LEAST, MOST], ids=["least", "most"])
def test_at_both_ends(limited, limits):
    """What stands at an end of an option's range is no fault of the configuration, and all goes on."""
    daemon = limited(users=users_of("ann"), **limits)
    with daemon.client() as client:
        assert client.call("AUTH", "ann", "secret") == "OK"
        hits = [("HINCRBY", "s1:product_views", n, 1) for n in range(50)]
        assert client.pipeline([("MULTI",), *hits, ("EXEC",)])[-1] == [1] * 50
        long = ["x" * 505 + str(n) for n in range(500)]  # four frames at least, where one has 64 KiB
        assert not any(isinstance(one, RespError) for one in client.pipeline([("SERIES.INCRBY", name, 1) for name in long]))
        client.call("EVENT.ADD", "blob", "submit")
        assert len(client.call("EVENT.RANGE", "blob", "submit", 0, 2**40)) == 2
        assert len(client.call("EVENT.COUNT", "blob", "submit", 10000, 1)) == 10000
        first = 20130206 if limits is LEAST else 20040131  # of 366 and of 3,660 days
        assert client.call("UNIQ.COUNT", "who", first, 20140206) == [0, b"exact"]
    with daemon.web.stream() as stream:
        stream.until("status")
        assert len(daemon.web.ask("/").text) > 1000
        assert daemon.web.metrics()["tallyd_hits_total"] == 50 + 500 + 1
    daemon.verify()
