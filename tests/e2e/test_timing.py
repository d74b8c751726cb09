"""When hits get into MySQL: the first ever, at `hits`, at `every` with no further traffic; days kept apart."""
import pytest

from harness.daemon import counters
from harness.wait import wait_until


def visitors(mysql, store, day):
    rows = mysql.query("SELECT visitors FROM daily_visitors WHERE store_id = %s AND day = %s", (store, day))
    return rows[0][0] if rows else 0


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_first_hit_ever(appendfsync, make_redis, make_daemon, mysql):
    """It is due at once: neither `hits` nor `every` would bring it to MySQL today."""
    redis = make_redis(appendfsync=appendfsync)
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        assert client.call("HINCRBY", "s12345:unique_visitors:daily", "20140920", 1) == 1
        wait_until(lambda: visitors(mysql, 12345, "2014-09-20") == 1, 60, "the first hit is in MySQL")
    daemon.verify()


def test_hits_with_deltas_of_seven(make_redis, make_daemon, mysql):
    """49 hits wait, 56 do not: `hits: 50` fires at >= 50, and counts deltas, not requests."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=counters(hits=50, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:unique_visitors:daily", "20140920", 1)
        wait_until(lambda: visitors(mysql, 1, "2014-09-20") == 1, 60, "the first hit")
        wait_until(lambda: not redis.client().exists("s1:unique_visitors:daily"), 60)
        assert [client.call("HINCRBY", "s1:unique_visitors:daily", "20140920", 7) for _ in range(7)] == \
            [7, 14, 21, 28, 35, 42, 49]
        client.call("HINCRBY", "s2:unique_visitors:daily", "20140920", 1)
        wait_until(lambda: visitors(mysql, 2, "2014-09-20") == 1, 60, "what is due after them is merged")
        assert redis.client().hget("s1:unique_visitors:daily", "20140920") == b"49", "49 hits wait"
        assert client.call("HINCRBY", "s1:unique_visitors:daily", "20140920", 7) == 56
        wait_until(lambda: visitors(mysql, 1, "2014-09-20") == 57, 30, "56 hits are merged")
    daemon.verify()


def test_hits_over_many_fields(make_redis, make_daemon, mysql):
    """What reaches `hits` is what was sent to the hash since its last claim, over all its fields."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=counters(hits=50, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 1)
        wait_until(lambda: not redis.client().exists("s1:product_views"), 60)
        for product in range(60):
            client.call("HINCRBY", "s1:product_views", product, 1)
    wait_until(lambda: mysql.query("SELECT SUM(views) FROM product_views")[0][0] >= 51, 30, "60 products, a hit each")
    daemon.sync_all()
    assert mysql.query("SELECT COUNT(*), SUM(views) FROM product_views") == ((60, 61),)
    daemon.verify()


def test_hits_of_twenty_stores(make_redis, make_daemon, mysql):
    """At light load no merge waits for rows: each store is merged when it reaches `hits`."""
    def merged():
        return mysql.query("SELECT COUNT(*), SUM(visitors) FROM daily_visitors")[0]

    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=counters(hits=50, every="3600s"))
    keys = [f"s{store}:unique_visitors:daily" for store in range(1, 21)]
    with daemon.client() as client:
        for key in keys:
            client.call("HINCRBY", key, "20140920", 1)
        wait_until(lambda: merged() == (20, 20), 60, "the first hits")
        for _ in range(50):
            for key in keys:
                client.call("HINCRBY", key, "20140920", 1)
        wait_until(lambda: merged() == (20, 20 * 51), 30, "20 stores, 50 hits each")
    daemon.verify()


def test_quiet_store_is_merged(make_redis, make_daemon, mysql):
    """No further traffic at all: `every` merges it."""
    redis = make_redis()
    daemon = make_daemon(redis, families=counters(hits=1000, every="1s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s5:unique_visitors:daily", "20140920", 1)
        wait_until(lambda: visitors(mysql, 5, "2014-09-20") == 1, 60, "the first hit")
        client.call("HINCRBY", "s5:unique_visitors:daily", "20140920", 2)
    wait_until(lambda: visitors(mysql, 5, "2014-09-20") == 3, 30, "the quiet store's hits")
    daemon.verify()


def test_without_a_lock(make_redis, make_daemon, mysql):
    """`lock: none`: two tallyds merge each store in time, and Redis has no key of a lock; verify of a store names none."""
    redis = make_redis(appendfsync="always")
    families = counters(hits=10**9, every="2s", unique_visitors={"lock": "none"}, product_views={"lock": "none"})
    one, two = (make_daemon(redis, families=families, instance=name) for name in ("one", "two"))
    locks, sent = set(), 0

    def all_merged():
        nonlocal sent
        for client in clients:
            for store in range(1, 6):
                client.call("HINCRBY", f"s{store}:unique_visitors:daily", "20140920", 1)
        sent += 10
        locks.update(redis.client().keys("*:sync"))
        return mysql.query("SELECT COUNT(*) FROM daily_visitors")[0][0] == 5
    with one.client() as first, two.client() as second:
        clients = first, second
        wait_until(all_merged, 60, "each store is merged while its hits come")
    wait_until(lambda: mysql.query("SELECT SUM(visitors) FROM daily_visitors")[0][0] == sent, 60, "the rest when none come")
    assert not locks
    assert one.verb("verify", "--store", "1").returncode == 0
    one.verify()


def test_day_boundary(make_redis, make_daemon, mysql):
    """Hits of two days in one pending hash land on both days."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=counters(hits=50, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s7:unique_visitors:daily", "20140919", 1)
        wait_until(lambda: not redis.client().exists("s7:unique_visitors:daily"), 60, "the first hit is claimed")
        for day, count in (("20140919", 20), ("20140920", 31)):
            for _ in range(count):
                client.call("HINCRBY", "s7:unique_visitors:daily", day, 1)
    wait_until(lambda: visitors(mysql, 7, "2014-09-20") > 0, 60, "51 hits are merged by themselves")
    daemon.sync_all()
    assert (visitors(mysql, 7, "2014-09-19"), visitors(mysql, 7, "2014-09-20")) == (21, 31)
    daemon.verify()
