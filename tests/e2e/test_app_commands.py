"""What shops' apps send beside HINCRBY, with redis-py: HGET and HMGET read live totals, EXPIRE and the like and TTL leave counts as
they are, EXISTS is a health check, and what would set or delete a count, or read a whole hash, says what to send.
Texts that Redis has are a redis-server's."""
import os
import re
import shutil
import tempfile

import pytest
import redis as redis_py

from harness.daemon import Daemon, counters
from harness.redis_server import RedisServer
from harness.resp import Resp, RespError
from harness.wait import patience
from test_redis_suite import errors_of, fits

KEY, DAYS, NOWHERE = "s1:product_views", "s1:unique_visitors:daily", "elsewhere"


@pytest.fixture(scope="module")
def pair(mariadbd):
    """tallyd and a redis-server of their own for the whole file. Another client holds the keys' locks, so that a new key is not
    merged before CTR.SYNC asks for it."""
    made = tempfile.mkdtemp(prefix="tly-")
    os.mkdir(f"{made}/a")
    os.mkdir(f"{made}/b")
    mariadbd.fresh_database()
    behind, plain = (RedisServer(f"{made}/{name}", appendfsync="always").start() for name in "ab")
    for store in range(1, 6):
        behind.client().mset({f"s{store}:product_views:sync": "somebody", f"s{store}:unique_visitors:sync": "somebody"})
    daemon = Daemon(made, behind, mariadbd, families=counters(hits=10**9, every="3600s")).migrate().start()
    yield daemon, plain
    for server in (daemon, behind, plain):
        server.close()
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def daemon(pair):
    return pair[0]


@pytest.fixture
def shop(daemon):
    with redis_py.Redis(unix_socket_path=daemon.socket, socket_timeout=patience(60), decode_responses=True) as client:
        yield client


def refused(ask):
    with pytest.raises(redis_py.ResponseError) as why:
        ask()
    return f"ERR {why.value}"


# ---- HGET, HMGET ----

def test_totals_before_and_after_a_merge(daemon, shop):
    assert shop.hincrby(DAYS, "20140920", 40) == 40
    daemon.sync_all()
    assert shop.hincrby(DAYS, "20140920", 2) == 2  # pending
    assert shop.hget(DAYS, "20140920") == "42"
    assert shop.hmget(DAYS, ["20140921", "20140920"]) == ["0", "42"]
    assert shop.execute_command("CTR.TOTAL", DAYS, "20140920") == [42]
    daemon.sync_all()
    assert shop.hget(DAYS, "20140920") == "42"
    daemon.verify()


def test_a_read_in_a_pipeline_sees_the_hits_before_it(shop):
    with shop.pipeline(transaction=False) as pipe:
        for _ in range(3):
            pipe.hincrby("s2:product_views", "7", 5)
        pipe.hget("s2:product_views", "7").hincrby("s2:product_views", "7", 1).hmget("s2:product_views", "7", "8")
        assert pipe.execute() == [5, 10, 15, "15", 16, ["16", "0"]]


def test_reads_are_refused_as_ctr_total_is(daemon):
    with daemon.client() as client:
        for name in ("HGET", "HMGET"):
            for key, field in ((NOWHERE, "7"), (KEY, "07"), (DAYS, "20140931")):
                said, as_total = client.call(name, key, field), client.call("CTR.TOTAL", key, field)
                assert isinstance(said, RespError) and said == as_total
            assert client.pipeline([("MULTI",), (name, KEY, "7"), ("EXEC",)])[1].startswith("ERR Command not allowed")


def test_a_client_that_caches_asks_again(daemon):
    """As libraries with client-side caching do: an answer is theirs until its key is invalidated, which follows at once."""
    with daemon.client() as client:
        client.call("HELLO", "3")
        assert client.call("CLIENT", "TRACKING", "ON") == "OK"
        assert client.call("HGET", "s3:product_views", "7") == b"0"
        assert client.reply() == [b"invalidate", [b"s3:product_views"]]
        assert client.call("PING") == "PONG"


# ---- EXPIRE and the like, EXISTS, TTL ----

def test_expiry_beside_hits(daemon, shop):
    """The usual way to count a day: one transaction, with the lifetime of the key in it."""
    with shop.pipeline() as pipe:
        assert pipe.hincrby("s4:product_views", "7", 2).expire("s4:product_views", 86400).hincrby(
            "s4:product_views", "7", 1).ttl("s4:product_views").execute() == [2, True, 3, -1]
    with shop.pipeline(transaction=False) as pipe:
        assert pipe.hincrby("s4:product_views", "7", 1).pexpire("s4:product_views", 1).execute() == [4, True]
    for answer in (shop.expireat("s4:product_views", 1), shop.pexpireat("s4:product_views", 1), shop.persist("s4:product_views"),
                   shop.expire("s4:product_views", 5, nx=True), shop.expire("s4:product_views", -1, lt=True)):
        assert answer is True
    assert shop.ttl("s4:product_views") == shop.pttl("s4:product_views") == -1
    assert daemon.redis.client().ttl("s4:product_views") == -1  # what is pending does not expire
    daemon.sync_all()
    assert shop.hget("s4:product_views", "7") == "4"
    daemon.verify()


BAD = [("EXPIRE", "{key}"), ("EXPIRE", "{key}", "x"), ("PEXPIRE", "{key}", "1.5"), ("EXPIREAT", "{key}", ""),
       ("EXPIRE", "{key}", "9223372036854775807"), ("PEXPIRE", "{key}", "9223372036854775807"),
       ("EXPIREAT", "{key}", "-9223372036854775807"), ("EXPIRE", "{key}", "1", "YY"), ("EXPIRE", "{key}", "x", "YY"),
       ("EXPIRE", "{key}", "1", "NX", "GT"), ("PEXPIREAT", "{key}", "1", "gt", "lt"), ("PERSIST", "{key}", "x"), ("PERSIST",),
       ("EXISTS",), ("TTL",), ("PTTL", "{key}", "x"), ("HGET", "{key}"), ("HMGET", "{key}"), ("HGET", "{key}", "1", "2")]
GOOD = [("EXPIRE", "{key}", "100", "NX"), ("EXPIREAT", "{key}", "9223372036854775"), ("PEXPIREAT", "{key}", "9223372036854775807"),
        ("EXISTS", "{key}", "{key}", NOWHERE), ("TTL", NOWHERE), ("PTTL", NOWHERE)]


@pytest.mark.parametrize("words", BAD + GOOD, ids=lambda words: " ".join(words).replace("{key} ", ""))
def test_as_redis(words, pair):
    daemon, plain = pair
    if not plain.client().info("server")["redis_version"].startswith("7."):
        pytest.skip("others have other words")
    plain.client().flushall()
    said = []
    for server in (daemon, plain):
        with Resp(server.socket) as client:
            client.call("HINCRBY", KEY, "7", "1")
            said.append(client.call(*(word.format(key=KEY) for word in words)))
    assert said[0] == said[1] and isinstance(said[0], RespError) == (words in BAD)


def test_no_counter_no_expiry(shop):
    said = refused(lambda: shop.expire(NOWHERE, 60))
    assert said == refused(lambda: shop.hincrby(NOWHERE, "7", 1)) == refused(lambda: shop.persist(NOWHERE))


def test_exists_is_no_error_for_any_key(shop):
    assert shop.exists(NOWHERE) == 0 and shop.exists("", "tally:dirty", "s1:product_views:sync") == 0
    assert shop.exists(KEY, NOWHERE, DAYS) == 2 and shop.exists("s77:product_views") == 1  # never counted
    assert shop.ttl(NOWHERE) == shop.pttl(NOWHERE) == -2


# ---- what would set or delete ----

def test_counters_only_go_by_increments(daemon, shop):
    increments, integers = errors_of("Setting and deleting")
    shop.hincrby("s5:product_views", "7", 3)
    key = "s5:product_views"
    for ask in (lambda: shop.set(key, 1), lambda: shop.delete(key), lambda: shop.unlink(key), lambda: shop.hset(key, "7", 1),
                lambda: shop.hdel(key, "7"), lambda: shop.getset(key, 1), lambda: shop.getdel(key), lambda: shop.append(key, "1"),
                lambda: shop.setex(key, 60, 1), lambda: shop.rename(key, NOWHERE)):
        assert refused(ask) == increments
    assert refused(lambda: shop.hincrbyfloat(key, "7", 0.5)) == integers
    with daemon.client() as client:
        said = client.pipeline([("MULTI",), ("HINCRBY", key, "7", 1), ("HDEL", key, "7"), ("EXEC",)])
        assert said[2] == increments and said[3].startswith("EXECABORT")
    assert shop.hget(key, "7") == "3"
    assert re.match("ERR unknown command 'SET'", refused(lambda: shop.set(NOWHERE, 1)))
    listed = set(shop.command())
    assert {"hget", "hmget", "expire", "exists", "ttl"} <= listed and not {"set", "del", "hincrbyfloat"} & listed


# ---- what would read a whole hash ----

def test_a_read_of_a_whole_hash_says_what_to_send(shop):
    shop.hincrby(KEY, "7", 1)
    for name, ask in (("HGETALL", lambda: shop.hgetall(KEY)), ("HLEN", lambda: shop.hlen(KEY)), ("HKEYS", lambda: shop.hkeys(KEY)),
                      ("HVALS", lambda: shop.hvals(KEY)), ("HEXISTS", lambda: shop.hexists(KEY, "7")),
                      ("HSCAN", lambda: shop.hscan(KEY)), ("HSTRLEN", lambda: shop.hstrlen(KEY, "7"))):
        said = refused(ask)
        assert said.startswith(f"ERR unknown command '{name}', with args beginning with: '{KEY}'")
        assert fits(RespError(said), errors_of("Reads")[0]), said
