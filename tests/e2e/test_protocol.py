"""The wire: byte for byte as redis-server, however the bytes are cut."""
import os
import shutil
import tempfile

import pytest

from harness.daemon import Daemon, counters
from harness.redis_server import RedisServer
from harness.resp import Resp, encode

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
ENDLESS = {  # no line end comes, and nothing behind them: what is said depends on how much was read before one
    "inline too big": b"a" * (64 * 1024 + 10),
    "multibulk count too big": b"*" + b"1" * (64 * 1024 + 10),
    "bulk count too big": b"*1\r\n$" + b"1" * (64 * 1024 + 10),
}


@pytest.fixture(scope="module")
def pair(mariadbd):
    """tallyd and a redis-server of their own for the whole file: no vector may leave anything behind."""
    made = tempfile.mkdtemp(prefix="tly-")
    os.mkdir(f"{made}/a")
    os.mkdir(f"{made}/b")
    mariadbd.fresh_database()
    behind, plain = (RedisServer(f"{made}/{name}", appendfsync="always").start() for name in "ab")
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
            pass  # closed on us; what it said before is still in the socket
        return link.until(SENTINEL + b"\r\n")


# Where Valkey went another way than Redis, as which tallyd answers: stricter about a bulk's end, laxer about quotes, in
# other words about a nested MULTI.
VALKEY_SINCE = {"bulk not followed by CRLF": 9, "text behind a closing quote": 9, "MULTI in MULTI": 8}


def skip_where_valkey_differs(name, plain):
    said = plain.client().info("server")
    if name in VALKEY_SINCE and int(said.get("valkey_version", "0").split(".")[0]) >= VALKEY_SINCE[name]:
        pytest.skip("Valkey answers otherwise than Redis")


@pytest.mark.fault("malformed-resp")
@pytest.mark.parametrize("name", VECTORS)
def test_vector(name, pair):
    daemon, plain = pair
    skip_where_valkey_differs(name, plain)
    fresh(daemon, plain)
    expected = answer(plain.socket, VECTORS[name])
    assert answer(daemon.socket, VECTORS[name]) == expected


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_line(name, pair):
    said = []
    for server in pair:
        with Resp(server.socket) as link:
            link.send(ENDLESS[name])
            said.append(link.until_closed())
    assert said[0] == said[1] and said[0].startswith(b"-ERR Protocol error: too big ")


@pytest.mark.parametrize("name", VECTORS)
def test_vector_byte_by_byte(name, pair):
    daemon, plain = pair
    skip_where_valkey_differs(name, plain)
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


@pytest.mark.fault("malformed-resp")
def test_protocol_error_costs_only_that_client(pair):
    daemon, _ = pair
    with daemon.client() as steady:
        assert steady.call("PING") == "PONG"
        for data in (b"*x\r\n", b"*1\r\n$-1\r\n", b"\x00\xff\xfe" * 40000, b"*1\r\n:4\r\n"):
            with daemon.client() as broken:
                broken.send(data)
                assert broken.until_closed().startswith(b"-ERR Protocol error: ")
        assert steady.call("PING") == "PONG"
