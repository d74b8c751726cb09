"""Tables of shops under kills: keys of several placeholders, an id of the table's own, rows that only the shop makes and deletes
while the load runs, fields that name the count, times in parts, columns that are set, UNSIGNED counts that go down, texts that a collation folds. After each kill the shadow
must agree with what MySQL has and Redis holds. 12 kills in the normal run, 80 in the soak. TORTURE_SEED repeats a run."""
import threading
from collections import Counter

import pymysql
import pytest

from harness.books import add_up, read_ledger, read_redis
from harness.mariadb import numbers
from harness.shadow import Shadow
from harness.wait import patience
from test_torture import CRASH_POINTS, Rig, torture

STOCK = 10**6  # of each product, but for the one that has none
MADE_MOST = 4096  # ids that the first rows may have used up


def counter(key, field, table, columns, **more):
    return {"key": key, "field": field, "sync": {"hits": 50, "every": "3s"}, "table": table, "columns": columns, **more}


FAMILIES = {
    "views": counter("store:<store>:product:<product>:views", "date", "daily_views",
                     {"store": "store_id", "product": "product_id", "field": "day", "count": "views"}, constants={"kind": "it's"}),
    "likes": counter("liked:<day>", "<id>::<kind>", "likes", {"day": "day", "id": "item_id", "kind": "item_type", "count": "likes"},
                     kinds={"day": "date 2024-05-01", "kind": "text"}),
    "viewed": counter("product:viewed", "integer", "products", {"field": "product", "count": "viewed"}, missing="reject"),
    "seen": counter("product:seen", "integer", "products", {"field": "product", "count": "seen"}, missing="drop",
                    set={"seen_at": "now at update"}),
    "searches": counter("search:<lang>", "text", "searches", {"lang": "lang", "field": "term", "count": "n"}, kinds={"lang": "text"},
                        set={"updated_at": "now", "created_at": "now at insert", "source": "'web'"}),
    "articles": counter("article:<article>", "count", "articles", {"article": "id", "counts": {"views": "view_count", "likes": "like_count"}},
                        missing="reject"),
    "metrics": counter("metrics:<at>:<channel>", "count", "metrics",
                       {"at": ["y", "m", "d", "h"], "channel": "channel", "counts": {"sent": "sent", "read": "been_read"}},
                       kinds={"at": "hour 2024-05-01T13", "channel": "text"}),
    "stock": counter("stock:<store>", "integer", "stock", {"store": "store_id", "field": "product_id", "count": "n"}),
}
TABLES = [
    "CREATE TABLE daily_views (store_id INT NOT NULL, product_id INT NOT NULL, day DATE NOT NULL, kind VARCHAR(9) NOT NULL,"
    " views INT NOT NULL, PRIMARY KEY (day, kind, store_id, product_id))",
    "CREATE TABLE likes (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, day DATE NOT NULL, item_id INT UNSIGNED NOT NULL,"
    " item_type VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL, likes INT UNSIGNED NULL,"
    " UNIQUE KEY u (day, item_id, item_type))",
    "CREATE TABLE products (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, product INT NOT NULL UNIQUE, viewed INT UNSIGNED NULL,"
    " seen BIGINT NOT NULL DEFAULT 0, seen_at INT NOT NULL DEFAULT 0, made_by VARCHAR(9) NOT NULL DEFAULT 'tallyd')",
    "CREATE TABLE gone (product INT NOT NULL, viewed BIGINT NOT NULL)",
    "CREATE TRIGGER keep_gone BEFORE DELETE ON products FOR EACH ROW INSERT INTO gone VALUES (OLD.product, COALESCE(OLD.viewed, 0))",
    "CREATE TABLE searches (lang CHAR(2) NOT NULL, term VARCHAR(40) COLLATE utf8mb4_general_ci NOT NULL, n INT NOT NULL,"
    " updated_at DATETIME NULL, created_at INT NULL, source VARCHAR(9) NULL, PRIMARY KEY (lang, term))",
    "CREATE TABLE stock (store_id INT NOT NULL, product_id INT NOT NULL, n INT UNSIGNED NOT NULL, PRIMARY KEY (store_id, product_id))",
    "CREATE TABLE articles (id INT NOT NULL PRIMARY KEY, view_count INT UNSIGNED NOT NULL DEFAULT 0, like_count BIGINT NULL)",
    f"INSERT INTO articles (id) SELECT 2 * seq FROM {numbers(30)}",
    "CREATE TABLE metrics (y SMALLINT NOT NULL, m TINYINT NOT NULL, d TINYINT NOT NULL, h TINYINT NOT NULL, channel VARCHAR(20)"
    " CHARACTER SET ascii COLLATE ascii_bin NOT NULL, sent INT NOT NULL DEFAULT 0, been_read INT NOT NULL DEFAULT 0,"
    " UNIQUE KEY u (channel, y, m, d, h))",
    f"INSERT INTO stock SELECT a.seq, b.seq, {STOCK} FROM {numbers(5, 'a')}, {numbers(40, 'b')}",
    "INSERT INTO stock VALUES (1, 0, 0)",
    f"INSERT INTO products (product, made_by) SELECT 2 * seq, 'shop' FROM {numbers(750)}"]
# What the rows are of the counts: key, field and sum.
SUMS = [
    "SELECT CONCAT('store:', store_id, ':product:', product_id, ':views'), DATE_FORMAT(day, '%Y%m%d'), views FROM daily_views",
    "SELECT CONCAT('liked:', day), CONCAT(item_id, '::', item_type), COALESCE(likes, 0) FROM likes",
    "SELECT 'product:viewed', product, COALESCE(viewed, 0) FROM products", "SELECT 'product:viewed', product, viewed FROM gone",
    "SELECT CONCAT('search:', lang), term, n FROM searches",
    "SELECT CONCAT('article:', id), 'views', view_count FROM articles", "SELECT CONCAT('article:', id), 'likes', COALESCE(like_count, 0) FROM articles",
    *(f"SELECT CONCAT('metrics:', y, '-', LPAD(m, 2, 0), '-', LPAD(d, 2, 0), 'T', LPAD(h, 2, 0), ':', channel), '{field}', {column} FROM metrics"
      for field, column in (("sent", "sent"), ("read", "been_read"))),
    f"SELECT CONCAT('stock:', store_id), product_id, CAST(n AS SIGNED) - IF(product_id = 0, 0, {STOCK}) FROM stock",
    "SELECT pending_hash, field, CAST(delta AS SIGNED) FROM tally_rejects WHERE replayed_at IS NULL",
    "SELECT 'product:seen', '', CAST(SUM(merged + rejected) AS SIGNED) FROM tally_counters WHERE counter = 'seen'"]
WORDS = [word.encode() for word in ("Shoes", "shoes", "SHOES", "sh\u00f6es", "m\u00fctze", "MUTZE", "bag", "Bag")]


def pick(rng):
    kind = rng.random()
    if kind < 0.3:
        return b"product:viewed", b"%d" % rng.randrange(1, 1500), rng.choice((1, 1, 7))
    if kind < 0.4:
        return b"product:seen", b"%d" % rng.randrange(1, 1500), 1
    if kind < 0.6:
        return (b"store:%d:product:%d:views" % (rng.randrange(1, 6), rng.randrange(1, 30)), b"2014090%d" % rng.randrange(1, 4), 1)
    if kind < 0.75:
        return b"liked:2024-05-0%d" % rng.randrange(1, 4), b"%d::%s" % (rng.randrange(40), rng.choice((b"post", b"Post", b"a:b"))), 2
    if kind < 0.78:
        return b"article:%d" % rng.randrange(1, 61), rng.choice((b"views", b"likes")), rng.choice((1, 4))
    if kind < 0.81:
        return b"metrics:2024-05-01T%02d:%s" % (rng.randrange(9, 12), rng.choice((b"mail", b"a.b"))), rng.choice((b"sent", b"read")), 2
    if kind < 0.88:
        return b"search:" + rng.choice((b"de", b"en")), rng.choice(WORDS), 3
    if kind < 0.89:
        return b"stock:1", b"0", -1  # never taken: rejects
    return b"stock:%d" % rng.randrange(1, 6), b"%d" % rng.randrange(1, 41), rng.choice((-3, -1, 5))


def folded(key, field):
    """The field of the row that counts it: as the collation has it. What is dropped is in the books alone, as one sum."""
    if key == b"product:seen":
        return key, b""
    if key.startswith(b"search:"):
        return key, field.decode().lower().replace("\u00f6", "o").replace("\u00fc", "u").encode()
    return key, field


class Folded(Shadow):
    def settle(self, requests, replies):
        super().settle([(*folded(key, field), delta) for key, field, delta in requests], replies)


def bytes_of(value):
    return value if isinstance(value, bytes) else str(value).encode()


def fold_all(counts):
    total = Counter()
    for (key, field), count in counts.items():
        total[folded(key, field)] += count
    return total


class ShopThread(threading.Thread):
    """Makes products and deletes them, and says how often it asked for a new id."""

    def __init__(self, mysql, rng):
        super().__init__(daemon=True)
        self.mysql, self.rng, self.asked, self.deleted, self.ending = mysql, rng, 0, 0, threading.Event()

    def run(self):
        while not self.ending.wait(0.01):  # the pace of a shop, not a synchronisation
            try:
                link = self.mysql.connect()
            except (pymysql.err.MySQLError, OSError):
                continue
            try:
                with link.cursor() as cursor:
                    while not self.ending.wait(0.01):
                        self.change(cursor, self.rng.randrange(1, 1500))
            except (pymysql.err.MySQLError, OSError):
                continue  # killed; its trigger keeps what a deleted row had
            finally:
                try:
                    link.close()
                except (pymysql.err.MySQLError, OSError):
                    pass

    def change(self, cursor, product):
        if cursor.execute("DELETE FROM products WHERE product = %s", (product,)):
            self.deleted += 1
            return
        self.asked += 1
        cursor.execute("INSERT INTO products (product, made_by) VALUES (%s, 'shop')", (product,))

    def stop(self):
        self.ending.set()
        self.join(patience(60))
        assert not self.is_alive()


class TableRig(Rig):
    families, pick, shadow_class = FAMILIES, staticmethod(pick), Folded

    def __init__(self, make_redis, make_daemon, make_proxy, make_way, mysql, seed):
        for statement in TABLES:
            mysql.query(statement)
        super().__init__(make_redis, make_daemon, make_proxy, make_way, mysql, seed)
        self.shop = ShopThread(mysql, self.rng)
        self.shop.start()

    def stop(self):
        super().stop()
        self.shop.stop()

    def counted(self):
        """Redis is read first, as in books.counted; MySQL in one snapshot."""
        pending, claimed = read_redis(self.redis.client())
        rows = Counter()
        link = self.mysql.connect()
        try:
            with link.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                for statement in SUMS:
                    cursor.execute(statement)
                    for key, field, count in cursor.fetchall():
                        rows[bytes_of(key), bytes_of(field)] += count or 0
                ledger = read_ledger(cursor)
        finally:
            link.close()
        return fold_all(add_up(pending, claimed, rows, ledger))


def tables_torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql):
    rig = torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql, TableRig)
    assert mysql.query("SELECT COUNT(*) FROM products WHERE made_by <> 'shop'") == ((0,),)
    mysql.query("INSERT INTO products (product, made_by) VALUES (1000000, 'shop')")
    ((used,),) = mysql.query("SELECT id FROM products WHERE product = 1000000")
    assert used <= MADE_MOST + rig.shop.asked, f"ids up to {used} are used up; the shop asked for {rig.shop.asked}"
    assert rig.shop.deleted > len(kinds)
    ((rejected, in_rows, in_gone),) = mysql.query("SELECT (SELECT COUNT(*) FROM tally_rejects WHERE pending_hash = 'product:viewed'),"
                                                  " (SELECT SUM(viewed) FROM products), (SELECT SUM(viewed) FROM gone)")
    assert rejected > 0 and in_rows > 0 and in_gone > 0, "each of them was a part of the sum"
    assert mysql.query("SELECT MAX(view_count) > 0, MAX(like_count) > 0 FROM articles")[0] == (1, 1)
    assert mysql.query("SELECT COUNT(*) FROM searches WHERE updated_at IS NULL OR created_at IS NULL OR source <> 'web'") == ((0,),)
    assert mysql.query("SELECT n FROM stock WHERE product_id = 0") == ((0,),)


def test_twelve_kills(make_redis, make_daemon, make_proxy, make_way, mysql):
    kinds = ["merge_after_ledger", "merge_before_commit", "merge_after_commit", "scan_mid", "claim_done", "discard_after_send",
             "frame_applied", "tallyd", "redis", "mysql", "mysql", "cut"]
    assert len(kinds) == 12
    tables_torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql)


@pytest.mark.soak
def test_eighty_kills(make_redis, make_daemon, make_proxy, make_way, mysql):
    points = [point for point in CRASH_POINTS if point != "merge_between_chunks"]  # no batch has several chunks here
    kinds = [*points * 3, *["tallyd"] * 6, *["redis"] * 8, *["mysql"] * 12, *["cut"] * 6]
    assert len(kinds) == 80
    tables_torture(kinds, make_redis, make_daemon, make_proxy, make_way, mysql)
