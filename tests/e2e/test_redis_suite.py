"""Redis' own tests of 7.0.15 (protocol, multi, hash, and of introspection-2 what is about commands) as cases of ours, with
HINCRBY for what tallyd has not: each on tallyd, and on a redis-server beside it, which must say the same. Then what the page of commands
lists as different, and INFO's text."""
import os
import re
import socket
import subprocess

import pytest

from harness.resp import Resp, RespError, encode
from harness.wait import patience, wait_until
from test_protocol import answer, fresh, pair, skip_where_valkey_differs  # noqa: F401 (pair is a fixture)

PAGE = os.path.join(os.path.dirname(__file__), "../../src/command/README.md")
KEY, OTHER = "s1:product_views", "s2:product_views"


@pytest.fixture
def as_they_are(pair):  # noqa: F811
    """For what counts nothing."""
    return pair


@pytest.fixture
def servers(pair):  # noqa: F811
    """Both without counts: addresses that say the same to the same."""
    daemon, plain = pair
    fresh(daemon, plain)
    return daemon, plain


def both(servers, *requests):
    """The replies to these requests in one write, which are the same from both."""
    said = []
    for server in servers:
        with Resp(server.socket) as link:
            said.append(link.pipeline(requests))
    assert said[0] == said[1]
    return said[0]


def hit(n, key=KEY, field="7"):
    return "HINCRBY", key, field, str(n)


# ---- protocol.tcl ----

@pytest.mark.parametrize("data", [b"\r\n", b"*-10\r\n", b"*0\r\n"])
def test_empty_queries_are_passed_over(as_they_are, data):
    said = [answer(server.socket, data + encode("PING")) for server in as_they_are]
    assert said[0] == said[1] and said[0].startswith(b"+PONG\r\n")


@pytest.mark.parametrize("data, why", [
    (b"*3000000000\r\n", b"invalid multibulk length"),
    (b"*3\r\n$7\r\nHINCRBY\r\n$1\r\nx\r\nfooz\r\n", b"expected '$', got 'f'"),
    (b"*3\r\n$7\r\nHINCRBY\r\n$1\r\nx\r\n$-10\r\n", b"invalid bulk length"),
    (b"*3\r\n$7\r\nHINCRBY\r\n$1\r\nx\r\n$2000000000\r\n", b"invalid bulk length"),
    (b"*3\r\n$7\r\nHINCRBY\r\n$1\r\nx\r\n$blabla\r\n", b"invalid bulk length"),
    (b"*1\r\nfoo\r\n", b"expected '$', got 'f'"),
    (b'hincrby """test-key""" 7 1\r\nping\r\n', b"unbalanced quotes in request"),
])
def test_malformed_requests(as_they_are, data, why):
    if b"quotes" in why:
        skip_where_valkey_differs("text behind a closing quote", as_they_are[1])
    said = [answer(server.socket, data) for server in as_they_are]
    assert said[0] == said[1] == b"-ERR Protocol error: " + why + b"\r\n"


@pytest.mark.parametrize("begins", [b"\x00", b"*\x00", b"$\x00"])
def test_protocol_desync(as_they_are, begins):
    """A line that never ends is told so, and the connection closed, before it is a burden."""
    for server in as_they_are:
        with Resp(server.socket, timeout_s=30) as link:
            sent = 0
            try:
                link.send(begins)
                while sent < 64 << 20:
                    link.send(b"payload" * 150)
                    sent += 1050
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent < 64 << 20, "was not closed"
            try:
                assert b"Protocol error" in link.until_closed()
            except ConnectionResetError:
                pass  # as in Redis' own test, what it said may be lost with the connection


def test_replies_as_bytes(servers):
    for data, expected in ((encode("CLIENT", "GETNAME"), b"$-1\r\n"), (encode(*hit(12)), b":12\r\n"),
                           (encode("MULTI") + encode(*hit(3)) + encode("EXEC"), b"+OK\r\n+QUEUED\r\n*1\r\n:15\r\n"),
                           (encode("PING", "x", "y", "z"), b"-ERR wrong number of arguments for 'ping' command\r\n")):
        said = [answer(server.socket, data) for server in servers]
        assert said[0] == said[1] and said[0].startswith(expected)


def test_arguments_of_a_request_that_waits(servers):
    """A MULTI keeps requests that came in pieces, and in inline form."""
    data = b"MULTI\r\n" + encode(*hit(1)) + b"hincrby %s 7 2\r\n" % KEY.encode() + encode("EXEC")
    for chunk in (1, 3, 1000):
        fresh(*servers)
        said = [answer(server.socket, data, chunk=chunk) for server in servers]
        assert said[0] == said[1] and b"*2\r\n:1\r\n:3\r\n" in said[0]


def test_blocking_commands_in_a_pipeline(servers):
    """Redis' regression with two BLPOPs; here the command that waits is CTR.SYNC."""
    with servers[0].client() as client:
        said = client.pipeline([hit(1), ("CTR.SYNC", KEY), ("CTR.SYNC", KEY), ("PING",), hit(2)])
        assert said[0] == 1 and said[1] >= 0 and said[2] == 0 and said[3] == "PONG" and said[4] == 2


# ---- multi.tcl ----

def test_multi_exec(servers):
    assert both(servers, hit(5), ("MULTI",), hit(1), ("PING",), ("EXEC",)) == [5, "OK", "QUEUED", "QUEUED", [6, "PONG"]]


def test_discard(servers):
    assert both(servers, hit(5), ("MULTI",), hit(1), ("DISCARD",), hit(2)) == [5, "OK", "QUEUED", "OK", 7]
    assert both(servers, ("DISCARD",)) == ["ERR DISCARD without MULTI"]
    assert both(servers, ("MULTI",), ("DISCARD",), ("MULTI",), hit(1), ("EXEC",))[-1] == [8]


def test_multi_is_not_nested(servers):
    skip_where_valkey_differs("MULTI in MULTI", servers[1])
    said = both(servers, ("MULTI",), ("MULTI",), hit(1), ("EXEC",))
    assert said == ["OK", "ERR MULTI calls can not be nested", "QUEUED", [1]]


def test_watch_inside_multi(servers):
    skip_where_valkey_differs("MULTI in MULTI", servers[1])
    for server in servers:
        with Resp(server.socket) as link:
            said = link.pipeline([("MULTI",), ("WATCH", "x"), hit(1), ("EXEC",)])
            assert said[1].startswith("ERR WATCH") and said[2:] == ["QUEUED", [1]]


@pytest.mark.parametrize("bad", [("non-existing-command",), ("HINCRBY", KEY, "7"), ("ECHO",), ("CLIENT", "NOPE")])
def test_exec_after_an_error_while_queueing(servers, bad):
    said = both(servers, ("MULTI",), hit(1), bad, hit(2), ("EXEC",), ("PING",), hit(5))
    assert said[4].startswith("EXECABORT") and said[5:] == ["PONG", 5]  # nothing counted, and the state is cleared


def test_exec_with_arguments(servers):
    said = both(servers, ("MULTI",), hit(1), ("EXEC", "x"), ("EXEC",))
    assert said[2].startswith("EXECABORT") and said[3] == "ERR EXEC without MULTI"


def test_exec_empty_and_without_multi(as_they_are):
    assert both(as_they_are, ("MULTI",), ("EXEC",), ("EXEC",)) == ["OK", [], "ERR EXEC without MULTI"]


def test_what_may_be_asked_in_multi(as_they_are):
    asked, said = [("MULTI",), ("ROLE",), ("ACL", "WHOAMI"), ("SELECT", "0"), ("PING",), ("EXEC",)], []
    for server in as_they_are:
        with Resp(server.socket) as link:
            said.append(link.pipeline(asked))
    assert said[0][-1] == [[b"master", 0, []], b"default", "OK", "PONG"]
    role = said[1][-1][0]
    role[1] = min(role[1], 0)  # from Redis 7.2 on it counts what goes to the AOF, also without replicas
    assert said[0] == said[1]


# ---- type/hash.tcl ----

def test_hincrby_of_what_is_not_there(servers):
    assert both(servers, hit(2)) == [2]  # no key
    assert both(servers, hit(2, field="8"), hit(3, field="8")) == [2, 5]  # no field, then one that HINCRBY made
    assert both(servers, *[hit(1, field=str(field)) for field in range(100, 1124)]) == [1] * 1024  # a big hash
    assert both(servers, hit(2, field="8"), hit(-9, field="8")) == [7, -2]


def set_in(servers, key, field, value):
    """Another program's HSET: into Redis itself, behind tallyd, and into the one beside."""
    for server in (servers[0].redis, servers[1]):
        server.client().hset(key, field, value)


def test_hincrby_of_what_hset_wrote(servers):
    set_in(servers, OTHER, "9", 100)
    assert both(servers, hit(2, OTHER, "9")) == [102]


def test_hincrby_over_32_bits(servers):
    assert both(servers, hit(17179869184), hit(1), hit(17179869184)) == [17179869184, 17179869185, 34359738369]


@pytest.mark.parametrize("value", [" 11", "11 ", "eleven"])
def test_hincrby_of_no_integer(servers, value):
    set_in(servers, OTHER, "11", value)
    try:
        assert both(servers, hit(1, OTHER, "11")) == ["ERR hash value is not an integer"]
    finally:
        for server in (servers[0].redis, servers[1]):
            server.client().hdel(OTHER, "11")


def test_hincrby_detects_overflows(servers):
    set_in(servers, OTHER, "12", -9223372036854775484)
    try:
        assert both(servers, hit(-1, OTHER, "12")) == [-9223372036854775485]
        assert both(servers, hit(-10000, OTHER, "12")) == ["ERR increment or decrement would overflow"]
        assert both(servers, hit(-1, OTHER, "12")) == [-9223372036854775486]
    finally:
        for server in (servers[0].redis, servers[1]):
            server.client().hdel(OTHER, "12")


@pytest.mark.parametrize("n", ["", "x", " 1", "1 ", "+1", "01", "1.0", "1e3", "0x10", "9223372036854775808"])
def test_hincrby_by_no_integer(as_they_are, n):
    assert both(as_they_are, hit(n)) == ["ERR value is not an integer or out of range"]


def test_hincrby_of_a_wrong_type(servers):
    for server in (servers[0].redis, servers[1]):
        server.client().set("s3:product_views", "wrong")
    try:
        assert both(servers, hit(2, "s3:product_views")) == \
            ["WRONGTYPE Operation against a key holding the wrong kind of value"]
    finally:
        for server in (servers[0].redis, servers[1]):
            server.client().delete("s3:product_views")


# ---- introspection-2.tcl: COMMAND ----

@pytest.mark.parametrize("words", [
    ("GETKEYS", "HINCRBY", "key", "f", "1"), ("GETKEYS", "hincrby", "key"), ("GETKEYS", "PING", "x"), ("GETKEYS", "CLIENT", "ID"),
    ("GETKEYS", "NOPE", "x"), ("GETKEYS", "CLIENT", "NOPE"), ("GETKEYS",),
    ("LIST", "bad"), ("LIST", "FILTERBY", "bad"), ("LIST", "FILTERBY", "bad", "bad"), ("LIST", "FILTERBY", "MODULE", "nope"),
    ("LIST", "FILTERBY", "ACLCAT", "nope"), ("LIST", "FILTERBY", "PATTERN", "hincrby"), ("LIST", "FILTERBY", "PATTERN", "nope*"),
    ("LIST", "filterby", "pattern", "CLIENT|G*NAME"), ("INFO", "hincrby|x"), ("INFO", "config|get|key"), ("NOPE",),
])
def test_command(as_they_are, words):
    both(as_they_are, ("COMMAND", *words))


def test_command_list(as_they_are):
    with as_they_are[0].client() as client:
        every = client.call("COMMAND", "LIST")
        hashes = client.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "hash")
        transaction = client.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "TRANSACTION")
        config = client.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "config*")
    assert b"hincrby" in every and b"client|id" in every and len(set(every)) == len(every)
    assert hashes == [b"hincrby", b"hget", b"hmget"] and set(transaction) >= {b"multi", b"exec", b"discard", b"watch"}
    assert b"config" in config and b"config|get" in config


SHARED = ("hincrby", "ping", "echo", "hello", "auth", "select", "quit", "reset", "multi", "exec", "discard", "role", "time",
          "client", "command", "acl", "expire", "pexpire", "expireat", "pexpireat", "persist", "exists", "ttl", "pttl", "hget",
          "hmget")
OF_REDIS = {b"noscript", b"loading", b"stale", b"allow_busy", b"skip_slowlog",  # of scripts and replicas
            b"admin", b"dangerous", b"no_multi"}


def test_command_info_as_redis(as_they_are):
    """Arity and key positions are Redis'; flags and categories too, but for what tallyd has not, or lets each user do."""
    if not as_they_are[1].client().info("server")["redis_version"].startswith(("7.0.", "8.0.")):
        pytest.skip("others have other flags")
    said = [dict() for _ in as_they_are]
    for told, server in zip(said, as_they_are):
        with Resp(server.socket) as link:
            for info in link.call("COMMAND", "INFO", *SHARED):
                told[info[0]] = info
    for name in map(str.encode, SHARED):
        mine, theirs = said[0][name], said[1][name]
        assert mine[1] == theirs[1] and mine[3:6] == theirs[3:6], name
        ours, redis = ({word.lstrip("@").encode() for word in info[2] + info[6]} - OF_REDIS for info in (mine, theirs))
        if name in (b"hget", b"hmget"):  # which wait for MySQL
            assert ours == redis - {b"fast"} | {b"slow", b"blocking"}, (name, ours, redis)
        else:
            assert ours == redis or name in (b"acl", b"client", b"command"), (name, ours, redis)


def test_every_command_says_its_key(as_they_are):
    """GETKEYS and the positions of COMMAND name the same word, for each command that has names of data."""
    with as_they_are[0].client() as client:
        keyed = [info for info in client.call("COMMAND") if info[3]]
        assert len(keyed) > 15
        for info in keyed:
            words = [info[0], *[b"word%d" % at for at in range(1, abs(info[1]))]]
            assert info[3:6] == [1, -1 if info[0] == b"exists" else 1, 1] and client.call("COMMAND", "GETKEYS", *words) == [b"word1"]
            assert {"@write", "@read", "@admin"} & set(info[6]), info
        assert client.call("COMMAND", "GETKEYS", "CTR.SYNC", "ALL") == []


# ---- INFO ----

def info_of(client, *sections):
    """{section: {field: value}}, as strictly as aioredis: every line is `key:value`, and only sections are set apart."""
    text = client.call("INFO", *sections).decode()
    assert text.endswith("\r\n") and not text.endswith("\r\n\r\n") or text == ""
    told = {}
    for part in text[:-2].split("\r\n\r\n") if text else ():
        title, *lines = part.split("\r\n")
        assert re.fullmatch(r"# [A-Z][A-Za-z]+", title), part
        told[title[2:]] = dict(line.split(":", 1) for line in lines)
    return told


def test_info_sections(as_they_are):
    with as_they_are[0].client() as client, Resp(as_they_are[1].socket) as link:
        usual = info_of(client)
        assert info_of(client, "default").keys() == usual.keys() and "Commandstats" not in usual
        for every in ("all", "everything", "ALL"):
            assert info_of(client, every).keys() == usual.keys() | {"Commandstats"}
        for name in (*usual, "Commandstats"):
            assert list(info_of(client, name.lower())) == [name]
        assert list(info_of(client, "cluster", "Server", "CLUSTER")) == ["Server", "Cluster"]  # in the order of the whole
        assert info_of(client, "nonsense") == {}
        theirs = info_of(link, "everything")
        for name, fields in usual.items():  # what has Redis' name is where Redis has it
            others = {field for title in theirs for field in theirs[title] if title != name}
            assert not fields.keys() & (others - theirs.get(name, {}).keys()), name
        assert usual["Replication"] == {"role": "master", "connected_slaves": "0"}
        assert usual["Cluster"] == theirs["Cluster"] == {"cluster_enabled": "0"}


def test_info_counts_commands(servers):
    def figures():
        with servers[0].client() as client:
            told = info_of(client, "all")
        calls = {name[8:]: int(re.match(r"calls=(\d+),usec=\d+,usec_per_call=\d+\.\d\d$", value)[1])
                 for name, value in told["Commandstats"].items()}
        assert int(told["Stats"]["total_commands_processed"]) == sum(calls.values())
        return calls, told

    before, _ = figures()
    with servers[0].client() as client:
        assert client.pipeline([hit(1)] * 1000)[-1] == 1000
        client.pipeline([("MULTI",), hit(1), ("PING",), ("EXEC",), ("PING",), ("NOPE",), ("PING", "x", "y")])
        calls, told = figures()
        assert {name: calls[name] - before.get(name, 0) for name in ("hincrby", "multi", "ping", "exec", "info")} == \
            {"hincrby": 1001, "multi": 1, "ping": 3, "exec": 1, "info": 1}
        stats, memory = told["Stats"], told["Memory"]
        assert int(stats["total_connections_received"]) == int(stats["connections_accepted"]) > 0
        assert int(told["Clients"]["connected_clients"]) >= 2 and told["Clients"]["blocked_clients"] == "0"
        assert 1 << 20 < int(memory["used_memory"]) < int(memory["used_memory_rss"]) < 1 << 30


def test_info_rate(as_they_are):
    """It rises with what comes, and is nothing again soon after."""
    def rate(client):
        return int(info_of(client, "stats")["Stats"]["instantaneous_ops_per_sec"])

    with as_they_are[0].client() as client:
        def busy():
            client.pipeline([hit(1)] * 2000)
            return rate(client) > 1000
        wait_until(busy, what="a rate above 1,000")
        wait_until(lambda: rate(client) < 500, what="a rate of those who only look", every_s=0.2)


def test_info_counts_who_waits(servers):
    """A client whose CTR.SYNC waits for a merge is blocked."""
    def blocked(client):
        return info_of(client, "clients")["Clients"]["blocked_clients"]

    servers[0].redis.pause()
    try:
        with servers[0].client() as client, servers[0].client() as looker:
            client.send(encode(*hit(1)) + encode("CTR.SYNC", KEY))
            wait_until(lambda: blocked(looker) == "1", what="one client that waits")
    finally:
        servers[0].redis.resume()
    with servers[0].client() as looker:
        wait_until(lambda: blocked(looker) == "0", what="nobody waits")


def test_inline_checks_of_proxies(as_they_are):
    """HAProxy's usual check, byte for byte, and with ROLE."""
    for request, expected in ((b"info replication\r\n", b"role:master\r\n"), (b"ROLE\r\n", b"*3\r\n$6\r\nmaster\r\n")):
        for server in as_they_are:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(patience(30))
                link.connect(server.socket)
                link.sendall(b"PING\r\n" + request)
                said = b""
                while expected not in said:
                    data = link.recv(4096)
                    assert data, said
                    said += data
                assert said.startswith(b"+PONG\r\n")


def test_redis_cli_stat(as_they_are):
    """Its line: keys, memory, clients, blocked, requests, connections; none of them negative."""
    with subprocess.Popen(["redis-cli", "-s", as_they_are[0].socket, "--stat", "-i", "0.02"], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "LC_ALL": "C"}) as cli:
        try:
            lines = [cli.stdout.readline() for _ in range(4)]
        finally:
            cli.kill()
    for line in lines[2:]:
        keys, memory, clients, blocked, requests, more, connections = line.split()
        assert keys == "0" and re.fullmatch(r"\d+\.\d\d[KMG]", memory), line
        assert int(clients) >= 1 and blocked == "0" and int(requests) > 0 and int(connections) > 0, line
        assert re.fullmatch(r"\(\+\d+\)", more), line


# ---- src/command/README.md: what differs ----

def differences():
    """Its rows: what -> the text of the row."""
    with open(PAGE, encoding="utf-8") as file:
        part = file.read().split("## What differs from Redis\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    assert all(len(row) == 4 for row in rows)
    return {row[0]: row[1] for row in rows}


def errors_of(row):
    return re.findall(r"`((?:ERR|EXECABORT) [^`]+)`", differences()[row])


def fits(reply, error):
    """`...` on that page stands for anything."""
    return isinstance(reply, RespError) and re.fullmatch(".*".join(map(re.escape, error.split("..."))), reply)


def assert_refused(daemon, error, *requests):
    with daemon.client() as client:
        said = client.pipeline(requests)
    assert fits(said[-1], error), (error, said)
    return said


def test_readme_databases(servers):
    daemon, plain = servers
    (error,) = errors_of("Databases")
    assert_refused(daemon, error, ("SELECT", "1"))
    with Resp(plain.socket) as link:
        assert error.startswith(link.call("SELECT", "1000") + ":")  # clients that look at the beginning find Redis'
    with daemon.client() as client:
        assert client.pipeline([("SELECT", "0"), ("CONFIG", "GET", "databases"), ("SELECT", "1"), hit(1)])[::3] == ["OK", 1]
        assert client.call("CONFIG", "GET", "databases") == [b"databases", b"1"]


def test_readme_watch(servers):
    (error,) = errors_of("`WATCH`")
    assert_refused(servers[0], error, ("WATCH", KEY))
    with servers[0].client() as client:
        assert client.pipeline([("WATCH", KEY), ("MULTI",), hit(1), ("EXEC",)])[1:] == ["OK", "QUEUED", [1]]


def test_readme_errors_in_multi(servers):
    daemon, plain = servers
    (error,) = errors_of("Errors in `MULTI`")
    requests = [("MULTI",), hit(1), hit("x"), ("EXEC",)]
    assert_refused(daemon, error, *requests)
    with Resp(plain.socket) as link:  # Redis counts the first
        assert link.pipeline(requests)[-1] == [1, "ERR value is not an integer or out of range"]
    with daemon.client() as client:
        assert client.call(*hit(1)) == 1


def test_readme_what_may_not_stand_in_multi(servers):
    daemon = servers[0]
    (error,) = errors_of("Commands in `MULTI`")
    said = differences()["Commands in `MULTI`"]
    named = re.findall(r"`([A-Z. ]+)`", said)
    assert len(named) == 10
    for name in named:
        with daemon.client() as client:
            (info,) = client.call("COMMAND", "INFO", name.replace(" ", "|"))
        words = name.split()
        assert_refused(daemon, error, ("MULTI",), words + ["x"] * (abs(info[1]) - len(words)))
        assert_refused(daemon, "EXECABORT ...", ("MULTI",), hit(1), words + ["x"] * (abs(info[1]) - len(words)), ("EXEC",))
    queued = [("PING",), ("ECHO", "x"), ("SELECT", "0"), ("TIME",), ("ROLE",), ("ACL", "WHOAMI"), hit(1)]
    with daemon.client() as client:
        assert client.pipeline([("MULTI",), *queued, ("EXEC",)])[1:-1] == ["QUEUED"] * len(queued)


def test_readme_increments(servers):
    (error,) = errors_of("Increments")
    for n in (10**12 + 1, -10**12 - 1, 2**63 - 1):
        assert_refused(servers[0], error, hit(n))
    assert both(servers, hit(10**12), hit(-10**12)) == [10**12, 0]


def test_readme_keys(as_they_are):
    (error,) = errors_of("Keys")
    assert_refused(as_they_are[0], error, hit(1, "not:configured"))


def test_readme_fields(servers):
    daemon = servers[0]
    (error,) = errors_of("Fields")
    for key, field in ((KEY, "007"), (KEY, "x"), (KEY, ""), ("s1:unique_visitors:daily", "20140231"),
                       ("s1:searches", ""), ("s1:searches", "x" * 256)):
        assert_refused(daemon, error, hit(1, key, field))
    with daemon.client() as client:
        assert client.pipeline([hit(1, "s1:searches", "x" * 255), hit(1, KEY, "0")]) == [1, 1]


def test_readme_long_requests(as_they_are):
    daemon = as_they_are[0]
    words, word, whole = errors_of("Long requests")
    with daemon.client() as client:
        assert client.call("PING", *["x"] * 1023).startswith("ERR wrong number")  # 1,024 words
        assert len(client.call("ECHO", "x" * (64 << 10))) == 64 << 10
    for error, data in ((words, encode("PING", *["x"] * 1024)), (word, encode("ECHO", "x" * ((64 << 10) + 1))),
                        (whole, encode("PING", *["x" * 60000] * 20))):
        with daemon.client() as client:
            try:
                client.send(data)
            except OSError:
                pass  # closed before all of it was sent
            assert client.until_closed().decode() == f"-{error}\r\n"
