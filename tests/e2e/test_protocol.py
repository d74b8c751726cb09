"""The wire: byte for byte as redis-server, however the bytes are cut, and nobody waits for a client that does not read."""
import re
import threading
import time

import pytest

from harness.daemon import counters
from harness.resp import Resp, encode
from harness.wait import wait_until

SENTINEL = b"the-end-of-the-vector"
PING = encode("PING")
VECTORS = {
    "ping": PING,
    "ping with a message": encode("PING", "hello"),
    "echo": encode("ECHO", "a\r\nb"),
    "lower case": encode("ping") + encode("eCHo", "x"),
    "inline": b"PING\r\n",
    "inline, bare LF": b"PING\nPING\n",
    "inline, several spaces": b"  ECHO    hello  \r\n",
    "inline, quoted, hex": b'ECHO "\\x41\\x42 c"\r\n',
    "inline, single quotes": b"ECHO 'a \\'b'\r\n",
    "inline, escapes": b'ECHO "a\\n\\t\\r\\\\"\r\n',
    "empty inline lines": b"\r\n\r\n\nPING\r\n",
    "*0": b"*0\r\n" + PING,
    "*-1": b"*-1\r\n" + PING,
    "*-10": b"*-10\r\n" + PING,
    "bulk not followed by CRLF": b"*1\r\n$4\r\nPINGxx" + PING,
    "empty argument": b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "* and no digits": b"*\r\n",
    "*x": b"*x\r\n",
    "*+1": b"*+1\r\n$4\r\nPING\r\n",
    "*01": b"*01\r\n$4\r\nPING\r\n",
    "* 1": b"* 1\r\n$4\r\nPING\r\n",
    "*2147483648": b"*2147483648\r\n",
    "$-1": b"*1\r\n$-1\r\n",
    "$ and no digits": b"*1\r\n$\r\n",
    "$+4": b"*1\r\n$+4\r\nPING\r\n",
    "$536870913": b"*1\r\n$536870913\r\n",
    ":4 where $ is due": b"*1\r\n:4\r\n",
    "bare word where $ is due": b"*2\r\n$4\r\nECHO\r\nhello\r\n",
    "unbalanced quotes": b'ECHO "abc\r\n',
    "text behind a closing quote": b'ECHO "abc"def\r\n',
    "inline too big": b"a" * (64 * 1024 + 10),
    "multibulk count too big": b"*" + b"1" * (64 * 1024 + 10),
    "bulk count too big": b"*1\r\n$" + b"1" * (64 * 1024 + 10),
    "answers before a malformed request": PING + encode("ECHO", "x") + b"*x\r\n" + PING,
    "QUIT drops the rest": PING + encode("QUIT") + PING,
    "POST": b"POST / HTTP/1.1\r\n",
    "Host:": b"Host: example\r\n",
    "unknown command": encode("FOO") + encode("FOO", "a", "b c"),
    "unknown command, CR and LF": encode("F\r\nOO", "a\r\nb"),
    "unknown command, long": encode("X" * 300, *["y" * 60] * 5),
    "HINCRBY, arguments missing": encode("HINCRBY", "s1:product_views", "1"),
    "HINCRBY, arguments too many": encode("HINCRBY", "s1:product_views", "1", "1", "1"),
    "ECHO, arguments missing": encode("ECHO"),
    "PING, arguments too many": encode("PING", "a", "b"),
    "not an integer": b"".join(encode("HINCRBY", "s1:product_views", "1", n)
                               for n in ("", "x", "+1", "01", " 1", "1 ", "-0", "1.0", "0x1", "9223372036854775808")),
    "MULTI": encode("MULTI") + encode("HINCRBY", "s1:product_views", "1", "3") + encode("EXEC"),
    "MULTI, empty": encode("MULTI") + encode("EXEC"),
    "MULTI in MULTI": encode("MULTI") + encode("MULTI") + encode("EXEC"),
    "MULTI, DISCARD": encode("MULTI") + encode("HINCRBY", "s1:product_views", "1", "3") + encode("DISCARD"),
    "MULTI with an unknown command": encode("MULTI") + encode("FOO") + PING + encode("EXEC") + PING,
    "MULTI with too few arguments": encode("MULTI") + encode("HINCRBY", "k") + encode("EXEC"),
    "EXEC without MULTI": encode("EXEC"),
    "DISCARD without MULTI": encode("DISCARD"),
    "SELECT": encode("SELECT", "0") + encode("SELECT", "x"),
    "CLIENT names": encode("CLIENT", "SETNAME", "shop") + encode("CLIENT", "GETNAME"),
    "CLIENT names, bad": encode("CLIENT", "SETNAME", "a b"),
    "RESET": encode("MULTI") + encode("RESET") + encode("EXEC"),
    "HELLO, no such protocol": encode("HELLO", "4") + encode("HELLO", "x"),
    "nil in RESP2": encode("CLIENT", "GETNAME"),
}


@pytest.fixture(scope="module")
def pair(template, mariadbd, tmp_path_factory):
    """tallyd and a redis-server of their own for the whole file: no vector may leave anything behind."""
    import os
    import shutil
    import tempfile

    from harness.daemon import Daemon
    from harness.redis_server import RedisServer

    made = tempfile.mkdtemp(prefix="tly-")
    os.mkdir(f"{made}/a"), os.mkdir(f"{made}/b")
    mariadbd.fresh_database()
    behind, plain = RedisServer(f"{made}/a").start(), RedisServer(f"{made}/b").start()
    daemon = Daemon(made, behind, mariadbd, families=counters(hits=10**9, every="3600s")).migrate().start()
    yield daemon, plain
    for server in (daemon, behind, plain):
        server.close()
    shutil.rmtree(made, ignore_errors=True)


def fresh(daemon, plain):
    """Nothing pending on either side, and nothing due on tallyd's."""
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 1)
    daemon.sync_all()
    plain.client().flushall()


def answer(address, data, chunk=None):
    """Everything that comes back, up to the sentinel's echo or the end of the connection."""
    with Resp(address) as link:
        try:
            for at in range(0, len(data), chunk or len(data)):
                link.send(data[at:at + (chunk or len(data))])
            link.send(encode("ECHO", SENTINEL))
        except OSError:
            pass  # closed on us; what it said before still stands in the socket
        return link.until(SENTINEL + b"\r\n")


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name, pair):
    daemon, plain = pair
    fresh(daemon, plain)
    expected = answer(plain.socket, VECTORS[name])
    assert answer(daemon.socket, VECTORS[name]) == expected


@pytest.mark.parametrize("name", [name for name, data in VECTORS.items() if len(data) < 1000])
def test_vector_byte_by_byte(name, pair):
    daemon, plain = pair
    fresh(daemon, plain)
    expected = answer(plain.socket, VECTORS[name])
    assert answer(daemon.socket, VECTORS[name], chunk=1) == expected


def test_vectors_as_resp3(pair):
    """After HELLO 3: only nil differs, and as in Redis."""
    daemon, plain = pair
    for data in (encode("CLIENT", "GETNAME"), encode("FOO"), PING, encode("MULTI") + encode("EXEC")):
        got = []
        for address in (plain.socket, daemon.socket):
            with Resp(address) as link:
                hello = link.call("HELLO", "3")
                assert hello[b"proto"] == 3 and set(hello) >= {b"server", b"version", b"id", b"mode", b"role", b"modules"}
                link.send(data + encode("ECHO", SENTINEL))
                got.append(link.until(SENTINEL + b"\r\n"))
        assert got[0] == got[1]


def test_hello_2_is_flat(pair):
    with pair[0].client() as link:
        hello = link.call("HELLO", "2")
        assert len(hello) == 14 and hello[4:6] == [b"proto", 2]


def test_protocol_error_costs_only_that_client(pair):
    daemon, _ = pair
    with daemon.client() as steady:
        assert steady.call("PING") == "PONG"
        for data in (b"*x\r\n", b"*1\r\n$-1\r\n", b"\x00\xff\xfe" * 40000, b"*1\r\n:4\r\n"):
            with daemon.client() as broken:
                broken.send(data)
                assert broken.until_closed().startswith(b"-ERR Protocol error: ")
        assert steady.call("PING") == "PONG"


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


def test_redis_a_byte_at_a_time(make_daemon, redis, make_proxy):
    proxy = make_proxy(redis.socket)
    proxy.dribbling = True
    daemon = make_daemon(redis, redis_url=f"unix://{proxy.path}?db=0")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(at), 1) for at in range(200)])
    daemon.sync_all()
    daemon.verify()


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
        sender.join(30)
        assert daemon.rss_kib() - before < 64 * 1024
    assert redis.client().hget("s1:product_views", "7") == b"100000"


def test_slow_reader(make_daemon, redis):
    """One client sends and never reads: it is not read from, others are served as ever; then it reads everything."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
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
        waits = []
        for _ in range(500):
            began = time.monotonic()
            assert isinstance(other.call("HINCRBY", "s2:product_views", "7", 1), int)
            waits.append(time.monotonic() - began)
        assert sorted(waits)[len(waits) * 99 // 100] < 0.1, sorted(waits)[-5:]
    assert [slow.reply() for _ in range(count)] == list(range(1, count + 1))
    sender.join(30)
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

    def full():
        links.append(daemon.client(timeout_s=5))
        links[-1].send(PING)
        return re.match(rb"-ERR max number of clients reached\r\n", links[-1].until(b"\r\n"))

    wait_until(full, 30, "the 21st connection is refused")
    assert 20 <= len(links) <= 22
    links[0].close()
    links[1].close()
    wait_until(daemon.is_ready, 10, "a place is free again")
    for link in links:
        link.close()
