"""What shops' apps send beside HINCRBY, with redis-py: HGET and HMGET read live totals."""
import os
import shutil
import tempfile

import pytest
import redis as redis_py

from harness.daemon import Daemon, counters
from harness.redis_server import RedisServer
from harness.resp import RespError
from harness.wait import patience

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
