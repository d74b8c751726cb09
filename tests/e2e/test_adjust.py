"""tallyd adjust: a stored count corrected by hand, exactly once, with the reason; the books balance all the while."""
import json
import threading

import pytest

from harness.daemon import counters

STORE = ["--counter", "product_views", "--store", "7", "--field", "42"]
WHY = ["--reason", "a crawler"]


@pytest.fixture
def shop(make_daemon, redis):
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", "42", 500)
        daemon.sync_all()
        client.call("HINCRBY", "s7:product_views", "42", 3)  # pending
    return daemon


def stored(mysql, product=42):
    rows = mysql.query(f"SELECT views FROM product_views WHERE store_id = 7 AND product_id = {product}")
    return int(rows[0][0]) if rows else None


def adjusted(daemon):
    said = daemon.verb("verify", "--json")
    assert said.returncode == 0, said.stdout
    return next(one["adjusted"] for one in json.loads(said.stdout)["counters"] if one["name"] == "product_views")


def test_by_and_set(shop, mysql):
    """Added, set, a row that was not there; live totals and the books; sent again nothing changes."""
    assert shop.verb("adjust", *STORE, "--by", "-300", *WHY, "--id", "ticket-1").returncode == 0
    assert stored(mysql) == 200 and adjusted(shop) == -300
    again = shop.verb("adjust", *STORE, "--by", "-300", *WHY, "--id", "ticket-1")
    assert again.returncode == 0 and "before" in again.stdout and stored(mysql) == 200
    for other in (["--by", "-301"], ["--set", "-300"]):
        done = shop.verb("adjust", *STORE, *other, *WHY, "--id", "ticket-1")
        assert done.returncode == 1 and "another adjustment" in done.stderr and stored(mysql) == 200
    assert shop.verb("adjust", *STORE, "--set", "1000", *WHY, "--id", "ticket-2").returncode == 0
    assert shop.verb("adjust", *STORE, "--set", "1000", *WHY, "--id", "ticket-2").returncode == 0
    assert stored(mysql) == 1000 and adjusted(shop) == 500
    assert shop.verb("adjust", *[*STORE[:-1], "43"], "--set", "9", *WHY).returncode == 0
    assert stored(mysql, 43) == 9 and adjusted(shop) == 509
    assert "product_views: 509 adjusted by hand" in shop.verb("verify").stdout
    with shop.client() as client:
        assert client.call("CTR.TOTAL", "s7:product_views", "42", "43") == [1003, 9]
    listed = json.loads(shop.verb("adjust", "list", "--json").stdout)
    assert [(one["delta"], one["set_to"]) for one in listed] == [(9, 9), (800, 1000), (-300, None)]
    assert {one["reason"] for one in listed} == {"a crawler"} and listed[-1]["id"] == "ticket-1"
    assert "ticket-2" in shop.verb("adjust", "list", "--counter", "product_views", "--store", "7").stdout
    assert "Nothing" in shop.verb("adjust", "list", "--counter", "searches").stdout
    shop.sync_all()
    assert stored(mysql) == 1003
    shop.verify()


def test_refused(shop, mysql):
    """By the command line, and by MySQL: nothing is done, and nothing is listed."""
    mysql.query("ALTER TABLE product_views ADD CONSTRAINT few CHECK (views < 1000)")
    big = shop.verb("adjust", *STORE, "--by", "900", *WHY)
    assert big.returncode == 1 and stored(mysql) == 500, big.stderr
    mysql.query("ALTER TABLE product_views DROP CONSTRAINT few")
    mysql.query("UPDATE product_views SET views = 9223372036854775800")
    assert shop.verb("adjust", *STORE, "--by", "900", *WHY).returncode == 1
    assert shop.verb("adjust", *STORE, "--set", "-900", *WHY).returncode == 1
    mysql.query("UPDATE product_views SET views = 500")
    for words, part in (([*STORE[:-1], "x7", "--by", "1", *WHY], "not a field"), ([*STORE, "--by", "1"], "--reason"),
                        ([*STORE, "--by", "1", "--set", "1", *WHY], "either"), ([*STORE, "--by", "1.5", *WHY], "integer"),
                        ([*STORE[:2], *STORE[4:], "--by", "1", *WHY], "give --store"),
                        (["--counter", "nothing", *STORE[2:], "--by", "1", *WHY], "no counter"),
                        ([*STORE, "--by", "1", "--reason", "x" * 301], "300 bytes")):
        done = shop.verb("adjust", *words)
        assert done.returncode == 64 and part in done.stderr, (words, done.stderr)
    assert "Nothing" in shop.verb("adjust", "list").stdout and stored(mysql) == 500 and adjusted(shop) == 0


def test_table_without_its_key(shop, mysql):
    """Nothing would tell which row is meant."""
    mysql.query("ALTER TABLE product_views DROP PRIMARY KEY")
    for how in ("--by", "--set"):
        done = shop.verb("adjust", *STORE, how, "7", *WHY)
        assert done.returncode == 78 and "tallyd check" in done.stderr, done
    mysql.query("ALTER TABLE product_views ADD PRIMARY KEY (store_id, product_id)")
    assert stored(mysql) == 500 and "Nothing" in shop.verb("adjust", "list").stdout


def test_cut_at_each_step(shop, mysql, make_proxy):
    """The link to MySQL ends in place of each of its answers, so each statement was run or not; the same id again: it is there once."""
    proxy = make_proxy(mysql.socket)
    shop.config["mysql"] = f"mysql://root@localhost/shop?socket={proxy.path}"
    shop.write_config()  # for the verb alone
    cut = done = 0
    while not done:
        words = [*STORE, "--by", "-3", *WHY, "--id", f"cut {cut}"]
        proxy.answers_most = cut
        done = shop.verb("adjust", *words).returncode == 0
        proxy.answers_most = None
        assert shop.verb("adjust", *words).returncode == 0
        cut += 1
        assert stored(mysql) == 500 - 3 * cut and adjusted(shop) == -3 * cut
    assert cut > 10


def test_beside_merges(shop, mysql):
    """Eight at once with the same id while hits are merged into that row: it counts once."""
    done = []
    asked = [threading.Thread(target=lambda: done.append(shop.verb("adjust", *STORE, "--by", "-300", *WHY, "--id", "one")))
             for _ in range(8)]
    for each in asked:
        each.start()
    with shop.client() as client:
        for _ in range(20):
            client.call("HINCRBY", "s7:product_views", "42", 1)
            shop.sync_all()
    for each in asked:
        each.join()
    assert {one.returncode for one in done} == {0}
    assert sum("Adjusted by" in one.stdout for one in done) == 1
    assert stored(mysql) == 500 + 3 + 20 - 300 and adjusted(shop) == -300
    shop.verify()
