"""The oracle and the shadow themselves: a check that cannot fail proves nothing."""
import os
import subprocess

import pytest

from harness.books import counted, nothing_left, row_key
from harness.daemon import COUNTERS
from harness.load import Load
from harness.proxy import Proxy
from harness.resp import Closed, Resp
from harness.shadow import Shadow
from harness.wait import wait_until

SQL = os.path.join(os.path.dirname(__file__), "../../sql/001_tables.sql")
VIEWS = {"product_views": COUNTERS["product_views"]}
BATCH = "ab" * 16


@pytest.fixture
def tables(mysql):
    with open(SQL, "rb") as source:
        done = subprocess.run(["mariadb", "--no-defaults", "-S", mysql.socket, "-u", "root", "shop"], stdin=source,
                              capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    mysql.query("ALTER TABLE tally_ledger ADD waiting LONGBLOB")
    mysql.query("CREATE TABLE product_views (store_id BIGINT, product_id BIGINT, views BIGINT)")
    return mysql


def ledger(mysql, first, last):
    mysql.query("INSERT INTO tally_ledger VALUES (UNHEX(%s), 0, 2, 'product_views', 1, %s, %s, '', 1, 5, NOW(), NULL)",
                (BATCH, row_key(*first), row_key(*last)))


def test_oracle_counts_each_place_once(tables, redis):
    key = b"s1:product_views"
    direct = redis.client()
    tables.query("INSERT INTO product_views VALUES (1, 7, 100)")
    direct.hset(key, "7", 10)
    direct.hset(key + b"_" + BATCH.encode(), mapping={"7": 1, "8": 2, "9": 4})
    assert counted(direct, tables, VIEWS) == {(key, b"7"): 111, (key, b"8"): 2, (key, b"9"): 4}
    assert not nothing_left(direct)
    ledger(tables, (key, b"7"), (key, b"8"))  # chunk 0 is merged: its rows are in MySQL already
    assert counted(direct, tables, VIEWS) == {(key, b"7"): 110, (key, b"9"): 4}
    tables.query("UPDATE tally_ledger SET waiting = %s", (len(key).to_bytes(4, "big") + key,))  # all but this hash
    assert counted(direct, tables, VIEWS) == {(key, b"7"): 111, (key, b"8"): 2, (key, b"9"): 4}
    direct.delete(key, key + b"_" + BATCH.encode())
    assert nothing_left(direct)


def test_ledger_keys_order_as_rows():
    """Shorter first, then by bytes: the order of the cut."""
    rows = [(b"a", b"2"), (b"a", b"10"), (b"b", b"1"), (b"aa", b"0")]
    assert [row_key(*row) for row in rows] == sorted(row_key(*row) for row in rows)


@pytest.mark.parametrize("value,sound", [(4, False), (5, True), (8, True), (9, False)])
def test_shadow_bounds(value, sound):
    shadow = Shadow()
    shadow.settle([("k", "f", 5), ("k", "f", 3), ("k", "f", 100)], [5, "ERR outcome unknown", "OOM command not allowed"])
    if sound:
        shadow.check({("k", "f"): value})
    else:
        with pytest.raises(AssertionError, match="acknowledged 5, at most 8"):
            shadow.check({("k", "f"): value})


@pytest.mark.parametrize("value,sound", [(1, False), (2, True), (5, True), (6, False)])
def test_shadow_bounds_of_hits_that_take_away(value, sound):
    shadow = Shadow()
    shadow.settle([("k", "f", 5), ("k", "f", -3)], [5, None])
    if sound:
        shadow.check({("k", "f"): value})
    else:
        with pytest.raises(AssertionError, match="acknowledged 5, at most 5, at least 2"):
            shadow.check({("k", "f"): value})


def test_shadow_sees_what_nobody_sent():
    with pytest.raises(AssertionError):
        Shadow().check({("k", "f"): 1})


def test_load_keeps_the_shadow(redis, workdir):
    """Against a redis-server, through a proxy that cuts: the shadow holds; with one hit taken away it does not."""
    proxy = Proxy(redis.socket, f"{workdir}/p.sock")
    shadow = Shadow()
    load = Load(proxy.path, shadow, lambda rng: (b"s1:product_views", b"%d" % rng.randrange(5), 1), per_second=20000)
    load.go()
    for _ in range(5):
        before = sum(shadow.acked.values())
        wait_until(lambda: sum(shadow.acked.values()) > before + 500, 30)
        proxy.swallow_replies()
        proxy.cut()
    load.pause()
    load.stop()
    proxy.close()
    direct = redis.client()
    found = {(b"s1:product_views", field): int(n) for field, n in direct.hgetall("s1:product_views").items()}
    shadow.check(found)
    assert sum(shadow.unknown.values()) > 0
    field = min(found)
    found[field] = shadow.acked[field] - 1
    with pytest.raises(AssertionError):
        shadow.check(found)


def test_proxy_swallows_stalls_and_resets(redis, workdir):
    proxy = Proxy(redis.socket, f"{workdir}/p.sock")
    with Resp(proxy.path) as link:
        assert link.call("INCR", "n") == 1
        proxy.swallow_replies()
        link.send(b"INCR n\r\n")
        wait_until(lambda: redis.client().get("n") == b"2", 60)
        proxy.cut()
        assert link.until_closed() == b""
    proxy.refuse()
    with Resp(proxy.path) as link, pytest.raises((Closed, OSError)):
        link.call("PING")
    proxy.close()
    tcp = Proxy(redis.socket, tcp=True)
    with Resp(("127.0.0.1", tcp.port)) as link:
        assert link.call("PING") == "PONG"
        tcp.reset()
        with pytest.raises(ConnectionResetError):
            link.call("PING")
    tcp.close()
