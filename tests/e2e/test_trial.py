"""`tallyd check` tries rows at the bounds of a counter's kinds, in a transaction that is rolled back: what would become rejects is told
in the server's own words, before a hit is lost to it."""
import datetime
import re

import pytest

from harness.mariadb import numbers
from harness.wait import wait_until

TODAY = datetime.datetime.now(datetime.timezone.utc).date()
COUNTS = {"key": "s<store>:n", "field": "integer", "sync": {"hits": 10**9, "every": "3600s"}, "table": "n",
          "columns": {"store": "store_id", "field": "f", "count": "n"}}
KEY = ", PRIMARY KEY (store_id, f))"
WIDE = "store_id BIGINT NOT NULL, f BIGINT NOT NULL, n BIGINT NOT NULL DEFAULT 0"


@pytest.fixture
def check(make_daemon, redis, mysql):
    """check(kind, *sql) -> the exit status and the lines about the counter; nothing is left in the table."""
    def make(kind, *sql, words=(), **more):
        for one in sql:
            mysql.query(one)
        daemon = make_daemon(redis, start=False, families={"n": {**COUNTS, "field": kind, **more}})
        daemon.migrate()
        before = mysql.query("SELECT COUNT(*) FROM n")
        done = daemon.verb("check", *words)
        assert mysql.query("SELECT COUNT(*) FROM n") == before
        return done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if "counter n: " in line]

    return make


def test_wide(check):
    assert check("integer", f"CREATE TABLE n ({WIDE}{KEY}") == (0, [])


def test_two_rows_of_a_key(check, mysql):
    """Before a unique key is added: which rows keep it from being added."""
    status, (line,) = check("integer", f"CREATE TABLE n ({WIDE})", "INSERT INTO n VALUES (1, 7, 3), (1, 8, 1), (1, 7, 2)")
    assert status == 78 and list(mysql.query(re.search(r"\((SELECT .*);", line)[1])) == [(1, 7, 2)]


def test_narrow(check):
    status, lines = check("integer", f"CREATE TABLE n (store_id SMALLINT UNSIGNED NOT NULL, f INT NOT NULL, n BIGINT NOT NULL{KEY}")
    assert status == 0 and len(lines) == 2, lines
    assert "warning: counter n: tried in n: hits with <store> above 65535 would become rejects: MySQL error 1264" in lines[0]
    assert "<field> above 2147483647 would become rejects: MySQL error 1264" in lines[1]


def test_texts(check):
    status, lines = check("text", "CREATE TABLE n (store_id BIGINT NOT NULL, f VARBINARY(64) NOT NULL, n BIGINT NOT NULL" + KEY)
    assert status == 0 and len(lines) == 1 and "<field> longer than (in bytes) 64 would become rejects: MySQL error 1406" in lines[0], lines


def test_partitions(check):
    end = TODAY + datetime.timedelta(days=40)
    status, lines = check("date", "CREATE TABLE n (store_id BIGINT NOT NULL, f DATE NOT NULL, n BIGINT NOT NULL DEFAULT 0" + KEY +
                          f" PARTITION BY RANGE COLUMNS (f) (PARTITION p0 VALUES LESS THAN ('{end}'))")
    last = (end - datetime.timedelta(days=1)).strftime("%Y%m%d")
    assert status == 0 and len(lines) == 1 and f"<field> after {last} would become rejects: MySQL error 1526" in lines[0], lines


def test_foreign_key(check):
    """Products from 1 to 100 are there; and where the first is not, others may be."""
    status, lines = check("integer", "CREATE TABLE products (id BIGINT PRIMARY KEY)", f"INSERT INTO products SELECT seq FROM {numbers(100)}",
                          f"CREATE TABLE n ({WIDE}{KEY}", "ALTER TABLE n ADD FOREIGN KEY (f) REFERENCES products (id)")
    assert status == 0 and len(lines) == 2 and all("1452" in line for line in lines), lines
    assert "<field> below 1 " in lines[0] and "<field> above 100 " in lines[1]
    status, lines = check("integer", "DELETE FROM products")
    assert status == 0 and len(lines) == 1 and "a row that was tried for n would become a reject" in lines[0], lines


def test_trigger_and_check(check):
    status, lines = check("integer", f"CREATE TABLE n ({WIDE}, CHECK (store_id < 1000){KEY}",
                          "CREATE TRIGGER no BEFORE INSERT ON n FOR EACH ROW IF NEW.f > 5000 THEN SIGNAL SQLSTATE '45000'"
                          " SET MESSAGE_TEXT = 'no such product'; END IF")
    assert status == 0 and len(lines) == 2 and "<store> above 999 " in lines[0] and ("4025" in lines[0] or "3819" in lines[0]), lines
    assert "<field> above 5000 would become rejects" in lines[1] and "no such product" in lines[1]


def test_nothing_is_taken(check):
    """A key that the server computes, and a trigger that refuses all."""
    status, lines = check("integer", f"CREATE TABLE n ({WIDE}{KEY}",
                          "CREATE TRIGGER no BEFORE INSERT ON n FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'closed'")
    assert status == 78 and len(lines) == 1 and "MySQL takes no row for n that was tried" in lines[0] and "closed" in lines[0], lines


GENERATED = {
    "the key": ("store_id BIGINT NOT NULL, ts DATETIME, day DATE AS (DATE(ts)) STORED, n BIGINT NOT NULL, UNIQUE KEY (store_id, day)", "n.day"),
    "beside an id": ("id BIGINT AUTO_INCREMENT PRIMARY KEY, store_id BIGINT NOT NULL, ts DATETIME, day DATE AS (DATE(ts)) STORED,"
                     " n BIGINT NOT NULL, UNIQUE KEY (store_id, day)", "n.day"),
    "the count": ("store_id BIGINT NOT NULL, day DATE NOT NULL, a BIGINT DEFAULT 0, n BIGINT AS (a + 1) VIRTUAL, PRIMARY KEY (store_id, day)",
                  "n.n"),
}


@pytest.mark.parametrize("which", GENERATED)
def test_generated(check, which):
    """A column that the server computes is given no value. One of the key finds rows, where none is made."""
    columns, column = GENERATED[which]
    family = {"columns": {"store": "store_id", "field": "day", "count": "n"}}
    status, lines = check("date", f"CREATE TABLE n ({columns})", **family)
    assert status == 78 and len(lines) == 1 and f"column {column} is " in lines[0], lines
    assert "1906" in lines[0] and "Make it a plain column, or name one. Columns that do for columns." in lines[0]
    status, lines = check("date", missing="reject", **family)
    assert status == (78 if which == "the count" else 0) and len(lines) == (which == "the count"), lines


def test_not_tried(check, mysql):
    """What would leave something behind: ids, procedures, tables without transactions."""
    surrogate = "id BIGINT AUTO_INCREMENT PRIMARY KEY, "
    status, lines = check("integer", f"CREATE TABLE n ({surrogate}store_id BIGINT NOT NULL, f INT NOT NULL, n BIGINT NOT NULL,"
                          " UNIQUE KEY (store_id, f))")
    assert status == 0 and len(lines) == 1 and "`tallyd check --try`" in lines[0], lines
    status, lines = check("integer", words=("--try",))
    assert len(lines) == 1 and "<field> above 2147483647" in lines[0], lines
    mysql.query("DROP TABLE n")
    status, lines = check("integer", f"CREATE TABLE n ({WIDE}{KEY}", "CREATE TABLE notes (x INT) ENGINE=MyISAM",
                          "CREATE TRIGGER note AFTER INSERT ON n FOR EACH ROW INSERT INTO notes VALUES (1)")
    assert status == 0 and len(lines) == 1 and "writes a table without transactions" in lines[0], lines
    assert mysql.query("SELECT COUNT(*) FROM notes") == ((0,),)


def test_an_id_as_key(check, mysql):
    """It would go on after the highest id that was tried, also when that is taken back."""
    status, lines = check("integer", "CREATE TABLE n (f BIGINT AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL DEFAULT 0)", words=("--try",),
                          key="n", columns={"field": "f", "count": "n"})
    assert status == 0 and any("would go on after the ids that were tried" in line for line in lines), lines
    mysql.query("INSERT INTO n (n) VALUES (0)")
    assert mysql.query("SELECT f FROM n") == ((1,),)


def test_places(check):
    status, lines = check("<campaign>@<day>", "CREATE TABLE n (store_id BIGINT, product INT, campaign VARCHAR(9), day DATE, n BIGINT NOT NULL,"
                          " PRIMARY KEY (store_id, product, campaign, day))", key="s<store>:p<product>:n",
                          kinds={"campaign": "text", "day": "date"},
                          columns={"store": "store_id", "product": "product", "campaign": "campaign", "day": "day", "count": "n"})
    said = [line for line in lines if "tried" in line]
    assert status == 0 and len(said) == 2 and "<product> above 2147483647" in said[0] and "<campaign> longer than (in bytes) 9" in said[1], lines


def test_books_of_no_counter(make_daemon, redis, mysql):
    """A counter was renamed: its books have the old name."""
    daemon = make_daemon(redis, families={"n": {**COUNTS, "table": "product_views", "columns": {
        "store": "store_id", "field": "product_id", "count": "views"}}})
    with daemon.client() as client:
        client.call("HINCRBY", "s1:n", "5", 3)
    daemon.sync_all()
    assert daemon.terminate() == 0
    daemon.config["counters"] = {"renamed": daemon.config["counters"]["n"]}
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 0 and 'books of a counter "n" that is not configured. If it was renamed' in done.stdout, done.stdout
    daemon.start()
    assert 'that is not configured. If it was renamed' in daemon.log()


def test_renamed_with_hits_under_way(make_daemon, redis, mysql):
    """From a report: 4 pending, 3 claimed, nothing merged. The start says that the old name has books, verify how to mend them."""
    family = {**COUNTS, "table": "product_views", "sync": {"hits": 10**9, "every": "1s"},
              "columns": {"store": "store_id", "field": "product_id", "count": "views"}}
    daemon = make_daemon(redis, families={"n": family})
    with mysql.connect() as shop, shop.cursor() as cursor:
        cursor.execute("LOCK TABLES product_views WRITE")
        with daemon.client() as client:
            client.call("HINCRBY", "s1:n", "5", 3)
            wait_until(lambda: redis.client().exists("tally:batches"), 60, "they are claimed")
            client.call("HINCRBY", "s2:n", "5", 4)
        daemon.kill9()
    daemon.config["counters"] = {"renamed": family}
    daemon.write_config()
    daemon.start()
    daemon.log_contains('books of a counter \\"n\\" that is not configured')
    done = daemon.verb("verify")
    assert done.returncode == 1 and "renamed does not balance: 4 of its hits were accepted under another name" in done.stdout, done.stdout
    assert "`redis-cli HINCRBY tally:accepted n -4`, and 4 for the new name" in done.stdout and "FLUSHALL" not in done.stdout
    redis.client().hincrby("tally:accepted", "n", -4)
    redis.client().hincrby("tally:accepted", "renamed", 4)
    daemon.verify()
