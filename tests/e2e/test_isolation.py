"""One store's trouble stays its own: rows that MySQL refuses for any reason go to tally_rejects, one by one; other stores are merged
beside them. The causes are those of public reports of people who write counters behind to MySQL."""
import json
import os
import re
import time

import pytest

from harness.daemon import counters
from harness.mariadb import numbers
from harness.wait import wait_until

PLAIN = "CREATE TABLE n (store_id BIGINT NOT NULL, {field} NOT NULL, n BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (store_id, f)){end}"
TRIGGER = ("CREATE TRIGGER refuse BEFORE INSERT ON n FOR EACH ROW IF NEW.store_id = 1 AND NEW.f > 100 THEN SIGNAL SQLSTATE '45000'"
           " SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'the shop says no'; END IF")


class Cause:
    def __init__(self, kind, field, says, bad, good, *sql, end="", delta=1, undo=None):
        self.kind, self.says, self.bad, self.good, self.delta, self.undo = kind, says, bad, good, delta, undo
        self.sql = (PLAIN.format(field=field, end=end), *sql)


SMALL = range(1, 21)
PRODUCTS = ("CREATE TABLE products (id BIGINT PRIMARY KEY)", f"INSERT INTO products SELECT seq FROM {numbers(100)}")
CAUSES = {
    # a column that the shop made too narrow for what a client sends
    "ids beyond INT": Cause("integer", "f INT", "1264", range(2**31, 2**31 + 30), SMALL, undo="ALTER TABLE n MODIFY f BIGINT NOT NULL"),
    # products that were deleted while their pages are still seen
    "deleted products": Cause("integer", "f BIGINT", "1452", (200, 201, 202), SMALL, *PRODUCTS,
                              "ALTER TABLE n ADD FOREIGN KEY (f) REFERENCES products (id)",
                              undo="INSERT INTO products VALUES (200), (201), (202)"),
    # terms of a search, longer than the table's
    "long terms": Cause("text", "f VARBINARY(64)", "1406", ("x" * 100, "y" * 100), [f"term{i}" for i in range(10)],
                        undo="ALTER TABLE n MODIFY f VARBINARY(255) NOT NULL"),
    # a sum that passes 2^63
    "full counts": Cause("integer", "f BIGINT", "1690", (200, 201), SMALL, "INSERT INTO n VALUES (1, 200, 9223372036854775800),"
                         " (1, 201, 9223372036854775800)", delta=1000, undo="UPDATE n SET n = 0 WHERE n > 1000000"),
    # a date for which nobody made a partition
    "no partition": Cause("date", "f DATE", "1526", ("20991231",), [f"202609{day:02}" for day in range(1, 21)],
                          end=" PARTITION BY RANGE COLUMNS (f) (PARTITION p0 VALUES LESS THAN ('2027-01-01'))",
                          undo="ALTER TABLE n ADD PARTITION (PARTITION p1 VALUES LESS THAN MAXVALUE)"),
    # a shop's trigger, with a code of its own, with one of a proxy, and with one that else says that the table is gone
    "a trigger's code": Cause("integer", "f BIGINT", "the shop says no", (200, 201), SMALL, TRIGGER.format(code=30001),
                              undo="DROP TRIGGER refuse"),
    "a proxy's code": Cause("integer", "f BIGINT", "the shop says no", (200, 201), SMALL, TRIGGER.format(code=9501),
                            undo="DROP TRIGGER refuse"),
    "a code of tables": Cause("integer", "f BIGINT", "the shop says no", (200, 201), SMALL, TRIGGER.format(code=1146),
                              undo="DROP TRIGGER refuse"),
    "a code of nobody": Cause("integer", "f BIGINT", "the shop says no", (200, 201), SMALL, TRIGGER.format(code=777),
                              undo="DROP TRIGGER refuse"),
}


@pytest.fixture
def make_shop(make_daemon, redis, mysql):
    """make(cause) -> a daemon whose counter has the cause's table."""
    def make(cause, every="3600s"):
        for sql in cause.sql:
            mysql.query(sql)
        family = {"key": "s<store>:n", "field": cause.kind, "sync": {"hits": 10**9, "every": every}, "table": "n",
                  "columns": {"store": "store_id", "field": "f", "count": "n"}}
        return make_daemon(redis, families={"n": family})

    return make


def hit(daemon, store, fields, delta=1):
    with daemon.client() as client:
        client.pipeline([("HINCRBY", f"s{store}:n", str(field), delta) for field in fields])


def rejects(daemon, *words):
    done = daemon.verb("rejects", *words, "--json")
    return json.loads(done.stdout)


def merged(mysql, store):
    return mysql.query("SELECT CAST(COALESCE(SUM(n), 0) AS SIGNED) FROM n WHERE store_id = %s AND n < 1000000", (store,))[0][0]


@pytest.mark.parametrize("name", CAUSES)
def test_a_bad_row_among_good_ones(make_shop, mysql, name):
    """In one claim and in claims of their own; mended and replayed, all is in the table."""
    cause = CAUSES[name]
    daemon = make_shop(cause)
    hit(daemon, 1, cause.bad, cause.delta)
    hit(daemon, 1, cause.good[:3])
    hit(daemon, 2, cause.good)
    daemon.sync_all()
    hit(daemon, 1, cause.bad, cause.delta)  # alone: another row was taken before
    daemon.sync_all()
    hit(daemon, 3, cause.good)
    daemon.sync_all()
    assert [merged(mysql, store) for store in (1, 2, 3)] == [3, len(cause.good), len(cause.good)]
    rows = rejects(daemon, "list", "--limit", "1000")["rejects"]
    assert len(rows) == 2 * len(cause.bad) and all(cause.says in row["reason"] for row in rows), rows
    assert {row["key"] for row in rows} == {"s1:n"} and "level=warn event=rows_rejected counter=n" in daemon.log()
    daemon.verify()
    assert len(rejects(daemon, "replay", "--all")["refused"]) == len(rows)  # nothing is mended yet
    mysql.query(cause.undo)
    assert rejects(daemon, "replay", "--all")["replayed"] == len(rows)
    assert merged(mysql, 1) == 3 + 2 * cause.delta * len(cause.bad)
    daemon.verify()


def test_bad_rows_alone(make_shop, mysql):
    """Nothing of the counter was merged yet: they wait, with what MySQL says; what comes then is merged, and they are rejects."""
    cause = CAUSES["a code of tables"]
    daemon = make_shop(cause, every="1s")
    hit(daemon, 1, cause.bad)
    wait_until(lambda: "event=batch_held" in daemon.log(), 60, "they wait")
    seen = json.loads(daemon.verb("status", "--json").stdout)
    held = [batch["held"] for batch in seen["batches"]["oldest"] if batch["held"]]
    assert len(held) == 1 and "rows_refused: MySQL takes none of 2 rows for n" in held[0] and "the shop says no" in held[0]
    assert any("once it takes other rows of the counter, these become rejects" in line for line in
               daemon.verb("status").stdout.splitlines())
    hit(daemon, 2, cause.good)
    wait_until(lambda: merged(mysql, 2) == len(cause.good), 60, "another store is merged")
    wait_until(lambda: rejects(daemon, "list")["waiting"] == 2, 60, "they are rejects")
    daemon.sync_all()
    daemon.verify()


def test_a_table_that_takes_nothing(make_shop, mysql):
    """No row is to blame: nothing is rejected, and all is merged once the table is back."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause, every="1s")
    hit(daemon, 1, cause.good)
    wait_until(lambda: merged(mysql, 1) == len(cause.good), 60, "it is merged")
    mysql.query("CREATE TRIGGER refuse BEFORE INSERT ON n FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'closed'")
    for store in range(1, 6):
        hit(daemon, store, cause.good)
    wait_until(lambda: "why=rows_refused" in daemon.log() and "closed" in daemon.log(), 60, "they wait")
    assert rejects(daemon, "list")["waiting"] == 0
    mysql.query("DROP TRIGGER refuse")
    wait_until(lambda: [merged(mysql, store) for store in range(1, 6)] == [2 * len(cause.good)] + 4 * [len(cause.good)], 120,
               "all is merged")
    assert rejects(daemon, "list")["waiting"] == 0
    daemon.verify()


def test_generated_columns(make_daemon, redis, mysql):
    """A key and a count that the server computes from now on hold the counters that write them, and no other; mended, all is merged."""
    families = {}
    for name, kind, column in (("days", "date", "f DATE"), ("sums", "integer", "f BIGINT")):
        mysql.query(f"CREATE TABLE {name} (store_id BIGINT, ts DATETIME, {column}, n BIGINT NOT NULL DEFAULT 0, UNIQUE KEY (store_id, f))")
        families[name] = {"key": f"s<store>:{name}", "field": kind, "sync": {"hits": 10**9, "every": "1s"}, "table": name,
                          "columns": {"store": "store_id", "field": "f", "count": "n"}}
    daemon = make_daemon(redis, families={**families, **counters(every="1s")})
    mysql.query("ALTER TABLE days MODIFY f DATE AS (DATE(ts)) STORED")
    mysql.query("ALTER TABLE sums MODIFY n BIGINT AS (store_id) STORED")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", f"s{store}:{key}", "20260901", 1) for store in (1, 2) for key in ("days", "sums", "product_views")])
    wait_until(lambda: mysql.query("SELECT SUM(views) FROM product_views")[0] == (2,), 60, "another counter is merged")
    # by what MySQL says to a merge, or by tallyd's own look at its tables, whichever comes first
    wait_until(lambda: all(f"specified for generated column '{name}' in table" in daemon.log() or f"column {table}.{name} is" in daemon.log()
                           for table, name in (("days", "f"), ("sums", "n"))), 60, "both are held")
    assert daemon.verb("check").stderr.count("Make it a plain column, or name one") == 2
    daemon.verify()
    mysql.query("ALTER TABLE days MODIFY f DATE")
    mysql.query("ALTER TABLE sums MODIFY n BIGINT NOT NULL DEFAULT 0")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", f"s3:{key}", "20260901", 1) for key in families])  # those that it takes show that it takes others
    wait_until(lambda: [mysql.query(f"SELECT SUM(n) FROM {table}")[0] for table in families] == [(3,), (3,)], 60, "all is merged")
    assert rejects(daemon, "list")["waiting"] == 0
    daemon.verify()


def test_written_by_hand(make_shop, redis, mysql):
    """Fields and values that no client of tallyd could send."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause)
    hit(daemon, 3, cause.good[:1])
    daemon.sync_all()  # the store's first hit is due at once, the next ones are not
    hit(daemon, 3, cause.good)
    hit(daemon, 2, cause.good)
    redis.client().hset("s3:n", mapping={"abc": 7, "8": "1.5"})
    daemon.sync_all()
    assert [merged(mysql, store) for store in (2, 3)] == [len(cause.good), 1 + len(cause.good) - 1]
    assert sorted((row["field"], row["delta"]) for row in rejects(daemon, "list")["rejects"]) == [("8", "1.5"), ("abc", "7")]


def test_fields_of_another_kind(make_daemon, redis, mysql):
    """The counter's field was a date, and is an hour now; four old fields are pending. Replayed with the kind that they have."""
    mysql.query("CREATE TABLE days (store_id BIGINT, f DATE, n BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (store_id, f))")
    mysql.query("CREATE TABLE hours (store_id BIGINT, f DATETIME, n BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (store_id, f))")
    family = {"key": "s<store>:n", "field": "date", "sync": {"hits": 10**9, "every": "3600s"}, "table": "days",
              "columns": {"store": "store_id", "field": "f", "count": "n"}}
    daemon = make_daemon(redis, families={"n": family})
    hit(daemon, 1, ["20260831"])  # the first of a store is due at once
    daemon.sync_all()
    hit(daemon, 1, ["20260901", "20260902", "20260903", "20260904"])
    assert daemon.terminate() == 0
    of_days = json.loads(json.dumps(daemon.config))
    daemon.config["counters"]["n"].update(field="hour", table="hours")
    daemon.write_config()
    daemon.start()
    hit(daemon, 1, ["2026090100"])
    hit(daemon, 2, ["2026090100"])
    daemon.sync_all()
    assert mysql.query("SELECT COUNT(*) FROM hours") == ((2,),)
    assert rejects(daemon, "list")["waiting"] == 4
    daemon.verify()
    daemon.config = of_days
    daemon.write_config()  # for the verb alone
    assert rejects(daemon, "replay", "--all")["replayed"] == 4
    assert mysql.query("SELECT CAST(SUM(n) AS SIGNED) FROM days") == ((5,),)


def test_a_storm(make_shop, mysql):
    """More rejects than a store may have in a minute: it waits, named, and others go on."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause, every="1s")
    hit(daemon, 2, cause.good)
    wait_until(lambda: merged(mysql, 2) == len(cause.good), 60, "it is merged")
    for chunk in range(3):
        hit(daemon, 1, range(2**31 + 1000 * chunk, 2**31 + 1000 * chunk + 1000))
    wait_until(lambda: rejects(daemon, "list")["waiting"] == 3000, 60, "they are rejects")
    wait_until(lambda: "event=store_waits counter=n store=1" in daemon.log(), 60, "it waits")
    hit(daemon, 1, cause.good)

    def waits():  # for a minute
        return json.loads(daemon.verb("status", "--json").stdout)["counters"][0]["stores_wait"]

    assert "1; 1 (3000 rows refused): MySQL error 1264" in waits()
    assert "n: stores wait: 1; 1 (" in daemon.verb("status").stdout
    for store in range(2, 22):
        hit(daemon, store, cause.good)
    wait_until(lambda: all(merged(mysql, store) >= len(cause.good) for store in range(2, 22)), 60, "others are merged")
    assert merged(mysql, 1) == 0 or not waits()  # on a busy machine the minute may be over
    with daemon.client() as client:
        assert client.call("CTR.SYNC", "s1:n") >= 0  # whoever asks for it gets it
    assert merged(mysql, 1) == 20
    daemon.verify()


def test_a_lock_of_the_shop(make_shop, mysql):
    """It delays the rows that it covers: other stores of the same batch are merged, and whose lock it is is told."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause, every="1s")
    with mysql.connect() as shop, shop.cursor() as cursor:
        cursor.executemany("INSERT INTO n VALUES (%s, 1, 0)", [(store,) for store in range(1, 21)])
        cursor.execute("BEGIN")
        cursor.execute("UPDATE n SET n = n + 100 WHERE store_id = 7 AND f = 1")
        with daemon.client() as client:
            client.pipeline([("HINCRBY", f"s{store}:n", field, 1) for store in range(1, 21) for field in (1, 2)])
            wait_until(lambda: all(merged(mysql, store) == 2 for store in range(1, 21) if store != 7), 60, "others are merged")
            assert client.call("CTR.TOTAL", "s7:n", "1", "2") == [1, 1] and client.call("CTR.TOTAL", "s8:n", "1") == [1]
            wait_until(lambda: "event=store_waits counter=n store=7" in daemon.log(), 60, "it waits, and that is told")
            assert client.call("CTR.SYNC", "s8:n") == 0
            client.pipeline([("HINCRBY", f"s{store}:n", 1, 1) for store in (7, 8)])
            assert client.call("CTR.SYNC", "s8:n") == 1 and client.call("CTR.TOTAL", "s7:n", "1", "2") == [2, 1]
        seen = json.loads(daemon.verb("status", "--json").stdout)["counters"][0]["stores_wait"]
        assert f"7 (0 rows refused): its rows are locked in MySQL by thread {shop.thread_id()} (" in seen, seen
        assert merged(mysql, 7) == 0
        daemon.verify()
        shop.rollback()
    daemon.sync_all()
    assert merged(mysql, 7) == 3
    wait_until(lambda: "event=store_goes_on counter=n store=7" in daemon.log(), 60, "it goes on")
    daemon.verify()


def test_a_cleaning_script(make_shop, redis):
    """Its TTL on keys that count is taken off, and told; their hits would be lost."""
    daemon = make_shop(CAUSES["ids beyond INT"])
    hit(daemon, 1, [1, 2])
    daemon.sync_all()  # the first hits of a store are merged at once, later ones wait
    hit(daemon, 1, [1, 2])
    assert redis.client().expire("s1:n", 1000) == 1
    wait_until(lambda: 'event=ttl_ended hashes=1 keys=s1:n' in daemon.log(), 60, "it is told")
    assert redis.client().ttl("s1:n") == -1
    daemon.verify()


BELOW = "CREATE TRIGGER {0}_guard BEFORE {0} ON n FOR EACH ROW IF NEW.n < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'below 0'; END IF"


@pytest.mark.parametrize("guards", [["ALTER TABLE n ADD CONSTRAINT guard CHECK (n >= 0)"], [BELOW.format("INSERT"), BELOW.format("UPDATE")]],
                         ids=["CHECK", "trigger"])
def test_a_sum_that_stays_valid(guards, make_shop, mysql):
    """It refuses to insert -3, but not 10 - 3."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause)
    for guard in guards:
        mysql.query(guard)
    hit(daemon, 1, [1, 2], 10)
    daemon.sync_all()
    hit(daemon, 1, [1], -3)
    hit(daemon, 1, [2, 3], -13)
    daemon.sync_all()
    assert mysql.query("SELECT f, n FROM n ORDER BY f") == ((1, 7), (2, 10))
    assert rejects(daemon, "list")["waiting"] == 2
    hit(daemon, 1, [2], 5)
    daemon.sync_all()
    assert rejects(daemon, "replay", "--all")["replayed"] == 1
    assert mysql.query("SELECT f, n FROM n ORDER BY f") == ((1, 7), (2, 2))
    daemon.verify()


def through(daemon, mysql, make_proxy):
    """It goes to MySQL by a proxy, from its next start on."""
    proxy = make_proxy(mysql.socket)
    assert daemon.terminate() == 0
    daemon.config["mysql"] = mysql.url.replace(mysql.socket, proxy.path)
    daemon.write_config()
    daemon.start()
    return proxy


def test_a_proxy_that_splits_reads(make_shop, mysql, make_proxy):
    """It sends transactions that are READ ONLY to a replica, which is behind: here it cuts them."""
    daemon = make_shop(CAUSES["ids beyond INT"])
    proxy, seen = through(daemon, mysql, make_proxy), []
    proxy.filter = lambda link, way, data: (seen.append(data), link.end(), b"")[2] if b"READ ONLY" in data.upper() else data
    hit(daemon, 1, [1, 2], 10)
    daemon.sync_all()
    with daemon.client() as client:
        assert client.call("CTR.TOTAL", "s1:n", "1") == [10]
    daemon.verify()
    assert seen == []


@pytest.mark.parametrize("statement", [b"START TRANSACTION", b""], ids=["begins", "all"])
def test_a_proxy_that_refuses(statement, make_shop, mysql, make_proxy):
    """It answers by itself for a while, with codes that MySQL does not have: nothing is held, no row is to blame, and all is merged soon after."""
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause, every="1s")
    hit(daemon, 1, cause.good)
    wait_until(lambda: merged(mysql, 1) == len(cause.good), 60, "it is merged")
    proxy, refused = through(daemon, mysql, make_proxy), []

    def refuse(link, way, data):
        if way == "down" or data[4:5] != b"\x03" or statement not in data:
            return data
        refused.append(time.monotonic())
        said = b"\xff" + (502, 1105, 9501, 9502)[len(refused) % 4].to_bytes(2, "little") + b"#HY000the proxy has no server"
        link.say(len(said).to_bytes(3, "little") + b"\1" + said)
        return b""

    proxy.filter = refuse
    for store in range(1, 6):
        hit(daemon, store, cause.good)
    wait_until(lambda: refused and time.monotonic() > refused[0] + 3, 60, "it refuses for three seconds")
    proxy.filter = None
    over = time.monotonic()
    wait_until(lambda: [merged(mysql, store) for store in range(1, 6)] == [2 * len(cause.good)] + 4 * [len(cause.good)], 60, "all is merged")
    print(f"{len(refused)} refused, all merged {time.monotonic() - over:.1f} s after it")
    assert not any(word in daemon.log() for word in ("event=batch_held", "table_refuses", "rows_rejected"))
    assert rejects(daemon, "list")["waiting"] == 0
    daemon.verify()


def statements(mysql):
    return sum(int(value) for _, value in mysql.query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_insert', 'Com_update', 'Com_select')"))


def resident_mib(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) // 1024


@pytest.mark.soak
@pytest.mark.parametrize("bad_a_second", [40, 167], ids=["each kind", "10,000 a minute"])
def test_twenty_stores(make_shop, mysql, bad_a_second):
    """One of 20 stores has rows that MySQL refuses for four reasons, at 2,000 hits a second over all. Says how far the others are behind."""
    every, seconds = 2, int(os.environ.get("SOAK_S", "120"))
    cause = CAUSES["ids beyond INT"]
    daemon = make_shop(cause, every=f"{every}s")
    mysql.query(TRIGGER.format(code=30001).replace("NEW.f > 100 THEN", "NEW.f BETWEEN 200 AND 299 THEN"))
    mysql.query("ALTER TABLE n ADD CONSTRAINT guard CHECK (store_id <> 1 OR f NOT BETWEEN 300 AND 399)")
    sent, logs, worst, bad = [0] * 21, [[(time.monotonic(), 0)] for _ in range(21)], 0, 0
    begin, asked, merges = time.monotonic(), statements(mysql), daemon.figure("chunks_merged")
    with daemon.client() as client:
        while (now := time.monotonic()) < begin + seconds:
            wanted = int(2000 * (now - begin)) - sum(sent) - bad
            for store in range(1, 21):
                count = max(wanted // 20, 0)
                client.pipeline([("HINCRBY", f"s{store}:n", str(hit % 50), 1) for hit in range(count)])
                sent[store] += count
                logs[store].append((time.monotonic(), sent[store]))
            for number in range(bad, int(bad_a_second * (now - begin))):
                client.call("HINCRBY", "s1:n", str((200, 300, 2**31)[number % 3] + number % 100 + (number if number % 3 == 2 else 0)), 1)
                bad += 1
            stored = dict(mysql.query("SELECT store_id, CAST(SUM(n) AS SIGNED) FROM n GROUP BY store_id"))
            for store in range(2, 21):
                behind = next(at for at, count in logs[store] if count > stored.get(store, 0) or count == sent[store])
                worst = max(worst, time.monotonic() - behind)
    print(f"{sum(sent) + bad} hits, {bad} of them bad: other stores at most {worst:.1f} s behind with every = {every} s;"
          f" {(statements(mysql) - asked) / max(daemon.figure('chunks_merged') - merges, 1):.0f} statements a chunk,"
          f" {rejects(daemon, 'list', '--limit', '1')['waiting']} rejects, {resident_mib(daemon)} MiB")
    daemon.sync_all()
    assert [merged(mysql, store) for store in range(1, 21)] == sent[1:]
    waiting = sum(int(row["delta"]) for row in rejects(daemon, "list", "--limit", "1000000")["rejects"])
    assert waiting == bad
    daemon.verify()


@pytest.mark.parametrize("loss", ["ALTER TABLE product_views DROP PRIMARY KEY",
                                  "ALTER TABLE product_views ADD w INT NOT NULL DEFAULT 0, ADD UNIQUE KEY more (product_id, w)"])
def test_the_key_goes_while_it_runs(loss, make_daemon, redis, mysql):
    """MySQL would add rows, or count into another one, and say nothing: that counter waits until its table fits again, alone."""
    daemon = make_daemon(redis, families=counters(hits=3, every="1s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", 7, 5)
        daemon.sync_all()
        mysql.query(loss)
        wait_until(lambda: "event=schema_refused" in daemon.log(), 60, "the refusal")
        client.call("HINCRBY", "s1:product_views", 7, 10)
        client.call("HINCRBY", "s2:product_views", 7, 20)
        client.call("HINCRBY", "s1:searches", "word", 4)
        wait_until(lambda: mysql.query("SELECT searches FROM searches") == ((4,),), 60, "another counter goes on")
        assert mysql.query("SELECT store_id, views FROM product_views") == ((1, 5),)
        mysql.query("ALTER TABLE product_views ADD PRIMARY KEY (store_id, product_id)" if "DROP" in loss
                    else "ALTER TABLE product_views DROP KEY more")
        daemon.sync_all()
    assert mysql.query("SELECT store_id, views FROM product_views ORDER BY 1") == ((1, 15), (2, 20))
    daemon.verify()
