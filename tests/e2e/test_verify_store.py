"""`tallyd verify --store`: one store's figures are in one place each, and what is not as it should be is named."""
import json
import threading
import time

import pytest

from harness.daemon import counters
from harness.wait import patience

VIEWS = "s1:product_views"
BATCH = "00112233445566778899aabbccddeeff"


@pytest.fixture
def daemon(make_daemon, redis):
    """Store 1: 7 + 2 in MySQL, 3 pending; store 2 has figures of its own."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.pipeline([("HINCRBY", VIEWS, "7", 7), ("HINCRBY", VIEWS, "8", 2), ("HINCRBY", "s2:product_views", "7", 99),
                         ("HINCRBY", "s1:unique_visitors:daily", "20261121", 4)])
    daemon.sync_all()
    with daemon.client() as client:
        client.pipeline([("HINCRBY", VIEWS, "7", 3), ("HINCRBY", "s2:product_views", "7", 1)])
    return daemon


def verify(daemon, *words, status=0, store="1"):
    done = daemon.verb("verify", "--store", store, "--json", *words)
    assert done.returncode == status, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["proved"] == (status == 0) and seen["store"] == store
    return seen


def views(seen):
    one = next(one for one in seen["counters"] if one["name"] == "product_views")
    assert one["total"] == one["stored"] + one["pending"] + one["claimed"]
    return one["stored"], one["pending"], one["claimed"], one["rows"], one["rejects"]


def problem(seen):
    one, = seen["problems"]
    assert one["next"]
    return one["what"]


def claim(redis, key=VIEWS, registered=2, fields=None, counter="product_views"):
    """A batch of another tallyd that is alive, so that no process merges it now."""
    link = redis.client()
    link.incr("tally:gen")
    link.hset(f"tally:batch:{BATCH}", mapping={"format": 99, "counter": counter, "gen": 1, "owner": "two:0123456789abcdef",
                                               "lowest_ms": int(time.time() * 1000), f"={key}": registered})
    link.hset(f"{key}_{BATCH}", mapping=fields or {"7": 10, "9": 20})
    link.zadd("tally:batches", {BATCH: int(time.time() * 1000)})


def test_figures(daemon):
    seen = verify(daemon)
    assert views(seen) == (9, 3, 0, 2, 0)
    assert {one["name"]: one["total"] for one in seen["counters"]} == {"unique_visitors": 4, "product_views": 12, "searches": 0}
    assert views(verify(daemon, store="2")) == (99, 1, 0, 1, 0)
    one, = verify(daemon, "--counter", "product_views")["counters"]
    assert one["key"] == VIEWS
    done = daemon.verb("verify", "--store", "1")
    assert done.returncode == 0 and "in one place" in done.stdout and "product_views" in done.stdout


def test_a_store_that_nobody_hit(daemon):
    assert views(verify(daemon, store="4711")) == (0, 0, 0, 0, 0)


def test_claimed(daemon, redis):
    """A claimed hash counts until its chunk is in the ledger."""
    claim(redis)
    assert views(verify(daemon)) == (9, 3, 30, 2, 0)
    assert views(verify(daemon, store="2")) == (99, 1, 0, 1, 0)


def test_claimed_and_in_the_ledger(daemon, redis, mysql):
    claim(redis)
    mysql.query("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged, total,"
                " merged_at) SELECT (SELECT MIN(realm) FROM tally_realms), UNHEX(%s), 0, 1, 'product_views', 1, CONCAT(x'0010', %s, x'0001', '7'),"
                " CONCAT(x'0010', %s, x'0001', '9'), REPEAT(x'00', 16), 2, 30, UTC_TIMESTAMP(3)", (BATCH, VIEWS, VIEWS))
    assert views(verify(daemon)) == (9, 3, 0, 2, 0)


def test_fields_are_missing(daemon, redis):
    claim(redis, registered=3)
    assert BATCH in problem(verify(daemon, status=1)) and views(verify(daemon, status=1))[2] == 30


def test_in_no_index(daemon, redis):
    redis.client().zrem("tally:dirty", VIEWS)
    assert "index" in problem(verify(daemon, status=1))
    assert "index" in daemon.verb("verify", "--store", "1").stdout


def test_in_the_index_of_no_counter(daemon, redis):
    redis.client().zadd("tally:held", {VIEWS: 1})
    assert "tally:held" in problem(verify(daemon, status=1))


def test_lock_that_never_expires(daemon, redis):
    redis.client().set(f"{VIEWS}:sync", "somebody")
    assert "lock" in problem(verify(daemon, status=1))


def test_no_hash(daemon, redis):
    redis.client().delete(VIEWS)
    redis.client().set(VIEWS, "x")
    assert "not a hash" in problem(verify(daemon, status=1))


@pytest.mark.parametrize("field,value", [("7", "many"), ("x", "5"), ("7", "1.5"), ("7", "99999999999999999999")])
def test_values_of_others(field, value, daemon, redis):
    redis.client().delete(VIEWS)
    redis.client().hset(VIEWS, field, value)
    seen = verify(daemon, status=1)
    assert "not integers" in problem(seen) and views(seen)[1] == 0


def test_rejects(daemon, mysql):
    mysql.query("INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field, delta, counted, reason,"
                " rejected_at) VALUES ((SELECT MIN(realm) FROM tally_realms), x'00', 0, 1, 'product_views', %s, 'x', '1', 0, 'why', UTC_TIMESTAMP(3))", (VIEWS,))
    seen = verify(daemon, status=1)
    assert "refused 1 row" in problem(seen) and views(seen)[4] == 1
    assert views(verify(daemon, store="2"))[4] == 0


def test_keys_of_several_placeholders(make_daemon, redis, mysql):
    """A store has many: those that wait in Redis are proved, each in a line; a fault in one of them is named."""
    mysql.query("CREATE TABLE days (store_id INT, product_id INT, day DATE, n INT NOT NULL, PRIMARY KEY (store_id, product_id, day))")
    family = {"key": "store:<store>:product:<product>", "field": "date", "sync": {"hits": 10**9, "every": "3600s"}, "table": "days",
              "columns": {"store": "store_id", "product": "product_id", "field": "day", "count": "n"}}
    daemon = make_daemon(redis, families={**counters(hits=10**9, every="3600s"), "days": family})
    with daemon.client() as client:
        client.pipeline([("HINCRBY", f"store:{store}:product:{product}", "20260501", 10 * store + product)
                         for store in (1, 2) for product in (1, 2, 3)])
        daemon.sync_all()
        client.pipeline([("HINCRBY", "store:1:product:2", "20260501", 5), ("HINCRBY", "store:2:product:1", "20260501", 9)])
    claim(redis, "store:1:product:3", counter="days", fields={"20260501": 10, "20260502": 20})
    seen = {one["key"]: (one["stored"], one["pending"], one["claimed"]) for one in verify(daemon)["counters"] if one["name"] == "days"}
    assert seen == {"store:1:product:2": (12, 5, 0), "store:1:product:3": (13, 0, 30)}
    assert "store:1:product:2" in daemon.verb("verify", "--store", "1").stdout
    redis.client().hset("store:1:product:2", "20260501", "x")
    seen = verify(daemon, status=1)
    assert "store:1:product:2: 1 values are not integers" in problem(seen)


def test_merged_after_the_look_at_redis(daemon, mysql):
    """The ledger has a later gen than Redis had: never added up, said instead."""
    mysql.query("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged, total,"
                " merged_at) VALUES ((SELECT MIN(realm) FROM tally_realms), REPEAT(x'77', 16), 0, 1, 'product_views', 999, 'a', 'b', REPEAT(x'00', 16), 1, 5,"
                " UTC_TIMESTAMP(3))")
    done = daemon.verb("verify", "--store", "1", "--counter", "product_views")
    assert done.returncode == 1 and done.stdout == "" and "run verify again" in done.stderr


def test_sums_past_64_bits(daemon, redis, mysql):
    mysql.query("UPDATE product_views SET views = 9223372036854775807 WHERE store_id = 1")
    redis.client().hset(VIEWS, "8", 9223372036854775807)
    one = next(one for one in verify(daemon)["counters"] if one["name"] == "product_views")
    assert one["stored"] == 2 * (2**63 - 1) and one["total"] == 3 * (2**63 - 1) + 3


def test_under_traffic(make_daemon, redis):
    """Never a false alarm while hits come in and merges go on; and the total never falls."""
    daemon = make_daemon(redis, families=counters(hits=20, every="1s"))
    ending = threading.Event()

    def traffic():
        with daemon.client() as client:
            while not ending.is_set():
                client.pipeline([("HINCRBY", VIEWS, str(n), 1) for n in range(30)])

    threads = [threading.Thread(target=traffic) for _ in range(2)]
    for thread in threads:
        thread.start()
    before, proved = 0, 0
    try:
        while proved < 15:
            done = daemon.verb("verify", "--store", "1", "--counter", "product_views", "--json")
            if "run verify again" in done.stderr:
                continue
            assert done.returncode == 0, done.stdout + done.stderr
            total = json.loads(done.stdout)["counters"][0]["total"]
            assert total >= before
            before, proved = total, proved + 1
    finally:
        ending.set()
        for thread in threads:
            thread.join(patience(60))
    daemon.sync_all()
    stored, pending, claimed, _, _ = views(verify(daemon))
    assert (pending, claimed) == (0, 0) and stored >= before


@pytest.mark.parametrize("store", ["01", "-1", "abc", "1:2", "9" * 30, "x" * 400])
def test_wrong_stores(store, make_daemon):
    daemon = make_daemon(None, start=False, migrate=False, redis_url="redis://127.0.0.1:1/0")
    done = daemon.verb("verify", f"--store={store}")
    assert done.returncode == 64 and "store" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("away", ["redis", "mysql"])
def test_without_a_server(away, daemon, redis, mysql):
    {"redis": redis, "mysql": mysql}[away].kill9()
    done = daemon.verb("verify", "--store", "1")
    assert done.returncode == 69 and done.stdout == "" and {"redis": "Redis", "mysql": "MySQL"}[away] in done.stderr
