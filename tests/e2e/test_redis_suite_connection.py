"""What Redis' own tests of 7.0.15 ask of connections (unit/introspection, unit/tracking, unit/auth), in cases of ours, each also
asked of a redis-server; and the clients that need it: rueidis' greeting, redis-py, one that counts and never reads."""
import os
import re
import shutil
import subprocess
import tempfile
import threading

import pytest
from harness.daemon import TALLYD, Daemon, counters
from harness.programs import PYTHON_CLIENT
from harness.redis_server import RedisServer
from harness.resp import Closed, Resp, RespError, encode
from harness.wait import patience, wait_until

FIELDS = ("id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem "
          "tot-mem events cmd user redir resp").split()
LINE = re.compile(r"id=\d+ addr=\S*:\d+ laddr=\S*:\d+ fd=\d+ name=\S* age=\d+ idle=\d+ flags=[NU] db=0 sub=0 psub=0 ssub=0 multi=-1 "
                  r"qbuf=\d+ qbuf-free=\d+ argv-mem=\d+ multi-mem=0 rbs=\d+ rbp=\d+ obl=0 oll=0 omem=0 tot-mem=\d+ events=r "
                  r"cmd=client\|(list|info) user=default redir=-1 resp=2( lib-name=\S* lib-ver=\S*)?\n")
NEWER = re.compile(r" (watch|io-thread)=\d+")  # what Redis 8.0 has beside
HIT = encode("HINCRBY", "s1:product_views", "7", "1")


@pytest.fixture(scope="module")
def pair(mariadbd):
    """tallyd and a redis-server of their own for the whole file."""
    made = tempfile.mkdtemp(prefix="tly-")
    os.mkdir(f"{made}/a")
    os.mkdir(f"{made}/b")
    mariadbd.fresh_database()
    behind, plain = (RedisServer(f"{made}/{name}", appendfsync="always").start() for name in "ab")
    daemon = Daemon(made, behind, mariadbd, families=counters(hits=10**9, every="3600s")).migrate().start()
    yield {"tallyd": daemon, "redis": plain}
    for server in (daemon, behind, plain):
        server.close()
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=["tallyd", "redis"])
def server(pair, request):
    return pair[request.param]


@pytest.fixture
def connect(server):
    """connect() -> one more client."""
    made = []

    def make():
        made.append(Resp(server.socket))
        return made[-1]

    yield make
    for client in made:
        client.close()


def lines(client, *words):
    """CLIENT LIST: number -> {field: value}."""
    text = client.call("CLIENT", "LIST", *words).decode()
    assert text == "" or text.endswith("\n")
    found = [dict(word.split("=", 1) for word in line.split(" ")) for line in text.splitlines()]
    return {int(line["id"]): line for line in found}


def is_closed(client):
    try:
        client.call("PING")
    except (Closed, OSError):
        return True
    return False


# ---- CLIENT LIST and INFO ----


def test_a_line_has_the_fields_of_redis_in_their_order(pair, server, connect):
    client = connect()
    for words in (("LIST", "ID", client.call("CLIENT", "ID")), ("INFO",)):
        line = client.call("CLIENT", *words).decode()
        if server is pair["redis"]:
            line = NEWER.sub("", line)
        assert LINE.fullmatch(line), line
        assert [word.split("=")[0] for word in line.split()][:len(FIELDS)] == FIELDS


def test_list_with_ids(connect):
    first, second = connect(), connect()
    ids = [client.call("CLIENT", "ID") for client in (second, first)]
    assert list(lines(first, "ID", *ids)) == ids
    assert lines(first, "ID", 10**9) == {}
    assert set(ids) <= set(lines(first)) and set(ids) <= set(lines(first, "TYPE", "normal"))
    assert lines(first, "TYPE", "pubsub") == lines(first, "TYPE", "master") == lines(first, "TYPE", "replica") == {}
    mine = lines(first, "ID", ids[1])[ids[1]]
    assert mine["cmd"] == "client|list" and (mine["multi"], mine["resp"]) == ("-1", "2")


def test_a_line_tells_what_its_client_does(connect):
    watcher, client = connect(), connect()
    number = client.call("CLIENT", "ID")
    assert lines(watcher, "ID", number)[number]["cmd"] == "client|id"
    client.call("HELLO", "3")
    client.send(HIT)
    client.reply()
    seen = lines(watcher, "ID", number)[number]
    assert (seen["cmd"], seen["resp"]) == ("hincrby", "3")
    client.pipeline([("MULTI",), ("PING",), ("PING",)])
    seen = lines(watcher, "ID", number)[number]
    assert seen["multi"] == "2" and "x" in seen["flags"] and "N" not in seen["flags"]
    client.call("DISCARD")
    client.call("CLIENT", "NO-EVICT", "on")
    client.call("CLIENT", "TRACKING", "on", "REDIRECT", watcher.call("CLIENT", "ID"))
    seen = lines(watcher, "ID", number)[number]
    assert {"t", "e"} <= set(seen["flags"]) and seen["redir"] == str(watcher.call("CLIENT", "ID"))


def test_idle_is_the_time_since_the_last_request(connect):
    watcher, client = connect(), connect()
    number = client.call("CLIENT", "ID")
    wait_until(lambda: lines(watcher, "ID", number)[number]["idle"] == "1", 60, "it was idle for a second")
    client.call("PING")
    seen = lines(watcher, "ID", number)[number]
    assert seen["idle"] == "0" and int(seen["age"]) >= 1


# ---- names ----


def test_names_stand_in_the_list(connect):
    client = connect()
    number = client.call("CLIENT", "ID")
    assert client.call("CLIENT", "GETNAME") is None
    assert lines(client, "ID", number)[number]["name"] == ""
    assert client.call("CLIENT", "SETNAME", "foo bar").startswith("ERR ")
    for name in ("myname", "someothername"):
        assert client.call("CLIENT", "SETNAME", name) == "OK"
        assert lines(client, "ID", number)[number]["name"] == name


def test_who_leaves_is_not_listed_any_more(connect):
    watcher, client = connect(), connect()
    assert client.call("CLIENT", "SETNAME", "foobar") == "OK"
    assert "foobar" in {line["name"] for line in lines(watcher).values()}
    client.close()
    wait_until(lambda: "foobar" not in {line["name"] for line in lines(watcher).values()}, 60, "its line is gone")


# ---- CLIENT KILL ----


@pytest.mark.parametrize("words, error", [
    ([], "ERR wrong number of arguments for 'client|kill' command"),
    (["id", "10", "wrong_arg"], "ERR syntax error"),
    (["id", "str"], "ERR client-id should be greater than 0"),
    (["id", "-1"], "ERR client-id should be greater than 0"),
    (["id", "0"], "ERR client-id should be greater than 0"),
    (["type", "wrong_type"], "ERR Unknown client type 'wrong_type'"),
    (["user", "wrong_user"], "ERR No such user 'wrong_user'"),
    (["skipme", "yes_or_no"], "ERR syntax error"),
    (["000.123.321.567:0"], "ERR No such client"),
    (["127.0.0.1:"], "ERR No such client"),
])
def test_kill_with_illegal_arguments(connect, words, error):
    assert connect().call("CLIENT", "KILL", *words) == error


def test_kill_all_without_and_with_me(connect):
    client, others = connect(), [connect() for _ in range(3)]
    for other in others:
        assert other.call("PING") == "PONG"
    clients = len(lines(client))
    assert clients >= 4
    assert client.call("CLIENT", "KILL", "SKIPME", "yes") == clients - 1
    assert all(is_closed(other) for other in others)
    other = connect()
    assert other.call("PING") == "PONG" and len(lines(client)) == 2
    assert client.call("CLIENT", "KILL", "SKIPME", "no") == 2
    assert is_closed(client) and is_closed(other)
    assert connect().call("PING") == "PONG"


def test_kill_by_number_address_and_user(connect):
    client, other, third = connect(), connect(), connect()
    number = other.call("CLIENT", "ID")
    address = lines(client, "ID", number)[number]["addr"]
    assert client.call("CLIENT", "KILL", "ID", number, "ADDR", "127.0.0.1:1") == 0
    assert client.call("CLIENT", "KILL", "ID", number, "ADDR", address, "LADDR", address, "USER", "default", "TYPE", "normal") == 1
    assert is_closed(other) and not is_closed(third)
    assert client.call("CLIENT", "KILL", "ID", number) == 0
    assert client.call("CLIENT", "KILL", address) == "OK"  # a unix socket has one address, so this is everybody, me too
    assert is_closed(client) and is_closed(third)


def test_who_kills_itself_hears_what_came_before(connect):
    client = connect()
    number = client.call("CLIENT", "ID")
    client.send(encode("ECHO", "x") + encode("CLIENT", "KILL", "ID", number, "SKIPME", "no") + encode("PING"))
    assert client.until_closed() == b"$1\r\nx\r\n:1\r\n"


def test_kill_by_address_over_tcp(make_daemon, redis, free_port):
    daemon = make_daemon(redis, tcp_port=free_port, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client, Resp(("127.0.0.1", free_port)) as other, Resp(("127.0.0.1", free_port)) as third:
        number = other.call("CLIENT", "ID")
        line = lines(client, "ID", number)[number]
        host, port = other.socket.getsockname()
        assert line["addr"] == f"{host}:{port}" and line["laddr"] == f"127.0.0.1:{free_port}" and line["flags"] == "N"
        other.send(HIT * 100)  # what it had sent before counts
        assert [other.reply() for _ in range(100)][-1] == 100
        assert client.call("CLIENT", "KILL", line["addr"]) == "OK"
        assert is_closed(other) and not is_closed(third)
        assert client.call("CLIENT", "KILL", "LADDR", line["laddr"]) == 1
        assert is_closed(third) and not is_closed(client)


# ---- CLIENT REPLY ----


def test_reply_off_and_on(connect):
    client = connect()
    for words in (("CLIENT", "REPLY", "OFF"), ("PING", "pong"), ("PING", "pong2"), ("NOSUCH",), ("CLIENT", "REPLY", "ON")):
        client.send(encode(*words))
    assert client.reply() == "OK"
    assert client.call("PING", "pong3") == b"pong3"


def test_reply_skip(connect):
    client = connect()
    client.send(encode("CLIENT", "REPLY", "SKIP") + encode("PING", "pong"))
    assert client.call("PING", "pong2") == b"pong2"
    client.send(encode("CLIENT", "REPLY", "SKIP"))
    assert client.call("CLIENT", "REPLY", "ON") == "OK"
    assert client.call("PING") == "PONG"


def test_reply_skip_of_hits(connect):
    client = connect()
    client.send(encode("HINCRBY", "s1:product_views", "8", "1") + encode("CLIENT", "REPLY", "SKIP") +
                encode("HINCRBY", "s1:product_views", "8", "10") + encode("HINCRBY", "s1:product_views", "8", "100"))
    first, last = client.reply(), client.reply()
    assert last - first == 110
    client.send(encode("CLIENT", "REPLY", "OFF") + encode("MULTI") + encode("HINCRBY", "s1:product_views", "8", "1000") +
                encode("PING") + encode("EXEC") + encode("CLIENT", "REPLY", "ON") + encode("HINCRBY", "s1:product_views", "8", "1"))
    assert client.reply() == "OK" and client.reply() == last + 1001


def test_the_last_word_of_a_quiet_client_is_the_end(pair):
    """Redis 7.0 says nothing, and leaves the connection open."""
    for last in (b"*x\r\n", encode("QUIT")):
        with pair["tallyd"].client() as client:
            client.send(encode("CLIENT", "REPLY", "OFF") + last)
            assert client.until_closed() == b""


# ---- CLIENT TRACKING ----


def flags(client):
    info = client.call("CLIENT", "TRACKINGINFO")
    return info[1], info[3], info[5]


def test_trackinginfo_tells_what_was_said(connect):
    client, other = connect(), connect()
    number = other.call("CLIENT", "ID")
    assert flags(client) == ([b"off"], -1, []) and client.call("CLIENT", "GETREDIR") == -1
    for words, known, redirect in ((["ON"], [b"on"], 0),
                                   (["ON", "REDIRECT", number, "NOLOOP"], [b"on", b"noloop"], number),
                                   (["ON", "OPTOUT"], [b"on", b"optout"], 0),
                                   (["ON", "OPTIN", "NOLOOP"], [b"on", b"optin", b"noloop"], 0)):
        assert client.call("CLIENT", "TRACKING", "OFF") == "OK"
        assert client.call("CLIENT", "TRACKING", *words) == "OK"
        assert flags(client) == (known, redirect, [])
        assert client.call("CLIENT", "GETREDIR") == redirect
    assert client.call("CLIENT", "CACHING", "yes") == "OK"
    assert client.call("RESET") == "RESET"
    assert flags(client) == ([b"off"], -1, [])


def test_bcast_is_refused(pair):
    """It would promise messages about writes."""
    with pair["tallyd"].client() as client:
        assert isinstance(client.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "s1:"), RespError)
        assert flags(client) == ([b"off"], -1, [])


def test_the_greeting_of_rueidis(connect):
    """One write of its defaults: 7.0 knows no CLIENT SETINFO, and rueidis does not mind."""
    client = connect()
    client.send(encode("HELLO", "3") + encode("CLIENT", "TRACKING", "ON", "OPTIN") +
                encode("CLIENT", "SETINFO", "LIB-NAME", "rueidis") + encode("CLIENT", "SETINFO", "LIB-VER", "1.0.54"))
    hello, tracking, _, _ = (client.reply() for _ in range(4))
    assert hello[b"proto"] == 3 and tracking == "OK"


# ---- UNWATCH ----


def test_unwatch_is_always_ok(connect):
    client = connect()
    assert client.call("UNWATCH") == "OK"
    assert client.pipeline([("MULTI",), ("UNWATCH",), ("PING",), ("EXEC",)]) == ["OK", "QUEUED", "QUEUED", ["OK", "PONG"]]
    assert client.call("UNWATCH", "x").startswith("ERR wrong number of arguments")


# ---- AUTH ----


def test_auth_without_a_password(connect):
    client = connect()
    assert "any password" in client.call("AUTH", "foo")
    assert client.call("AUTH", "a", "b", "c") == "ERR syntax error"


@pytest.fixture
def locked(make_daemon, make_redis, redis):
    """Servers with a password: the user `default`."""
    made = subprocess.run([TALLYD, "hash"], input="foobar\n", stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    plain = make_redis("locked")
    plain.client().config_set("requirepass", "foobar")
    return [make_daemon(redis, families=counters(hits=10**9, every="3600s"),
                        more={"users": {"default": {"password": made, "keys": ["s1:*"]}}}),
            plain]


def test_auth_with_a_password(locked):
    said = []
    for server in locked:
        with Resp(server.socket) as client:
            said.append(client.pipeline([("AUTH", "wrong!"), ("HINCRBY", "s1:product_views", "1", "100"), ("AUTH", "foobar"),
                                         ("HINCRBY", "s1:product_views", "1", "100"), ("HINCRBY", "s1:product_views", "1", "1")]))
    assert said[0] == said[1] and said[0][2:] == ["OK", 100, 101]


@pytest.mark.parametrize("rude", [b"*100\r\n", b"*1\r\n$100000000\r\n"])
def test_unauthenticated_requests_are_short(locked, rude):
    said = []
    for server in locked:
        with Resp(server.socket) as client:
            client.send(rude)
            said.append(client.until_closed())
    assert said[0] == said[1] and b"unauthenticated" in said[0]


# ---- a client that counts and never reads ----


def test_fire_and_forget(make_daemon, redis, mysql):
    """200,000 hits without a look at the socket: all of them in MySQL, nothing of them left in memory."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as warm:
        warm.pipeline([("HINCRBY", "s2:product_views", "1", 1)] * 1000)
    before_kib = daemon.rss_kib()
    with daemon.client() as client:
        client.send(encode("CLIENT", "REPLY", "OFF"))
        for _ in range(200):
            client.send(HIT * 999 + encode("HINCRBY", "s1:product_views", "8", "1"))
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.setblocking(True)
        assert client.call("CLIENT", "REPLY", "ON") == "OK"
    assert daemon.rss_kib() - before_kib < 24 * 1024
    daemon.sync_all()
    assert mysql.query("SELECT product_id, views FROM product_views WHERE store_id = 1 ORDER BY 1") == \
        ((7, 200 * 999), (8, 200))
    daemon.verify()


def test_quiet_and_gone(make_daemon, redis, mysql):
    """A client that closes right behind its last hit: PHP's way."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))

    def count():
        with daemon.client() as client:
            client.send(encode("CLIENT", "REPLY", "OFF") + HIT * 5000)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with daemon.client() as client:
        wait_until(lambda: len(lines(client)) == 1, 30, "all of them are gone")
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views") == ((40000,),)


# ---- redis-py ----

REDIS_PY = """
import sys, redis
r = redis.Redis(unix_socket_path=sys.argv[1], client_name="shop")
other = redis.Redis(unix_socket_path=sys.argv[1], client_name="other")
number = other.client_id()
mine = r.client_info()
assert mine["name"] == "shop" and mine["id"] == r.client_id() and mine["argv-mem"] >= 0 and mine["qbuf"] >= 0, mine
names = {line["name"] for line in r.client_list()}
assert {"shop", "other"} <= names, names
assert [line["id"] for line in r.client_list(client_id=[str(number)])] == [str(number)]
assert r.client_list(_type="pubsub") == []
assert r.client_tracking_on() and r.client_tracking_off() and r.client_tracking_on(optin=True)
assert r.client_trackinginfo()[1] == [b"on", b"optin"] and r.client_getredir() == 0
assert r.client_kill_filter(_id=str(number)) == 1
assert "other" not in {line["name"] for line in r.client_list()}
try:
    r.client_kill("127.0.0.1:1")
    raise SystemExit("nobody was killed")
except redis.ResponseError as why:
    assert str(why) == "No such client", why
with r.pipeline() as pipe:
    pipe.unwatch()
    assert pipe.hincrby("s1:product_views", "9", 1).execute()[-1] >= 1
"""


def test_redis_py(server):
    done = subprocess.run([PYTHON_CLIENT, "-c", REDIS_PY, server.socket], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=patience(60), check=False)
    assert done.returncode == 0, done.stdout
