"""`tallyd rejects list|export|replay|drop`: rows that MySQL refused, replayed exactly once, with the books true all the while."""
import csv
import io
import json
import re
import threading

import pytest

from harness.daemon import counters
from harness.wait import patience

FULL = 9223372036854775800
ID = re.compile(r"[0-9a-f]{32}-\d+-\d+")
NOBODY = "f" * 32 + "-0-0"


@pytest.fixture
def daemon(make_daemon, redis):
    return make_daemon(redis, families=counters(hits=10**9, every="3600s"))


@pytest.fixture
def refused(daemon, mysql):
    """Two rows of store 1 and one of store 2 that do not fit their column, among many that do."""
    mysql.query(f"INSERT INTO product_views VALUES (1, 9, {FULL}), (1, 8, {FULL}), (2, 9, {FULL})")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(field), 100) for field in range(8, 80)])
        client.pipeline([("HINCRBY", "s2:product_views", str(field), 7 if field > 9 else 70) for field in range(9, 40)])
    daemon.sync_all()
    return daemon


def run(daemon, *words, status=0, json_=True):
    done = daemon.verb("rejects", *words, *(["--json"] if json_ else []))
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout) if json_ else done


def waiting(daemon, *words):
    """By store and field: which of two batches was refused first is not promised."""
    seen = run(daemon, "list", *words)
    assert seen["waiting"] >= len(seen["rejects"])
    return sorted(seen["rejects"], key=lambda row: (row["store"], row["field"]))


def sums(mysql):
    """Of all lanes."""
    return mysql.query("SELECT CAST(SUM(merged) AS SIGNED), CAST(SUM(rejected) AS SIGNED) FROM tally_counters"
                       " WHERE counter = 'product_views'")[0]


def mend(mysql):
    mysql.query("UPDATE product_views SET views = 0 WHERE views > 1000000")


def views(mysql, store, product):
    return mysql.query("SELECT views FROM product_views WHERE store_id = %s AND product_id = %s", (store, product))[0][0]


def test_list(refused):
    rows = waiting(refused)
    assert [(row["store"], row["key"], row["field"], row["delta"]) for row in rows] == [
        ("1", "s1:product_views", "8", "100"), ("1", "s1:product_views", "9", "100"), ("2", "s2:product_views", "9", "70")]
    assert all(ID.fullmatch(row["id"]) and row["counter"] == "product_views" for row in rows)
    assert all("out of range" in row["reason"].lower() and row["rejected_at"] > 1_600_000_000 for row in rows)
    text = run(refused, "list", json_=False).stdout
    assert all(row["id"] in text and row["reason"] in text for row in rows)
    refused.verify()


def test_by_any_column(make_daemon, redis, mysql):
    """Of a counter with several placeholders: by the store, by a part of the key, by a part of the field."""
    mysql.query("CREATE TABLE sold (store_id INT, product_id INT, campaign VARCHAR(9), day DATE, n TINYINT NOT NULL,"
                " PRIMARY KEY (store_id, product_id, campaign, day))")
    family = {"key": "store:<store>:product:<product>", "field": "<campaign>@<day>", "kinds": {"campaign": "text", "day": "date"},
              "sync": {"hits": 10**9, "every": "3600s"}, "table": "sold",
              "columns": {"store": "store_id", "product": "product_id", "campaign": "campaign", "day": "day", "count": "n"}}
    daemon = make_daemon(redis, families={"sold": family})
    with daemon.client() as client:
        for store, product, campaign in ((1, 4, "mail"), (1, 42, "mail"), (12, 4, "a_b"), (2, 1, "a%b")):
            client.call("HINCRBY", f"store:{store}:product:{product}", f"{campaign}@20260501", 300)
            client.pipeline([("HINCRBY", f"store:{store}:product:{product}", f"x@202605{at:02}", 1) for at in range(1, 25)])
    daemon.sync_all()
    rows = lambda *words: sorted(row["key"].removeprefix("store:").replace(":product", "") for row in run(daemon, "list", *words)["rejects"])
    assert rows() == ["12:4", "1:4", "1:42", "2:1"]
    assert rows("--store", "1") == ["1:4", "1:42"] and rows("--store", "12", "--counter", "sold") == ["12:4"]
    assert rows("--key", "store:*:product:4") == ["12:4", "1:4"] and rows("--key", "*:4*", "--field", "mail@*") == ["1:4", "1:42"]
    assert rows("--field", "a_b@*") == ["12:4"] and rows("--field", "a%b@20260501") == ["2:1"] and rows("--field", "mail") == []
    assert run(daemon, "drop", "--store", "1", "--field", "mail@*", "--yes")["dropped"] == 2
    mysql.query("ALTER TABLE sold MODIFY n INT NOT NULL")
    assert run(daemon, "replay", "--key", "store:*:product:1")["replayed"] == 1
    assert mysql.query("SELECT SUM(n) FROM sold") == ((4 * 24 + 300,),)
    daemon.verify()


def test_a_store_of_a_counter_that_is_gone(refused, mysql):
    """Its rows are found by their keys, which another counter has now."""
    mysql.query("UPDATE tally_rejects SET counter = 'gone' WHERE pending_hash = 's2:product_views'")
    assert [row["key"] for row in waiting(refused, "--store", "2")] == ["s2:product_views"]
    assert [row["key"] for row in waiting(refused, "--counter", "gone", "--store", "2")] == ["s2:product_views"]


def test_list_a_part(refused):
    assert len(waiting(refused, "--store", "2")) == 1
    assert len(waiting(refused, "--counter", "product_views", "--store", "1")) == 2
    assert waiting(refused, "--counter", "searches") == []
    seen = run(refused, "list", "--limit", "1")
    assert len(seen["rejects"]) == 1 and seen["waiting"] == 3
    assert "oldest 1 of 3" in run(refused, "list", "--limit", "1", json_=False).stdout
    assert "No row waits" in run(refused, "list", "--store", "3", json_=False).stdout


def test_replay_one_then_all(refused, mysql):
    first, second, third = (row["id"] for row in waiting(refused))
    before = sums(mysql)
    assert before[1] == 270
    again = run(refused, "replay", first, status=1)  # its cause is not mended
    assert again["replayed"] == 0 and [row["id"] for row in again["refused"]] == [first]
    assert sums(mysql) == before
    mend(mysql)
    assert run(refused, "replay", first)["replayed"] == 1
    assert views(mysql, 1, 8) == 100 and sums(mysql) == (before[0] + 100, 170)
    refused.verify()
    assert "2 rows replayed, 0 refused again" in run(refused, "replay", "--all", json_=False).stdout
    assert (views(mysql, 1, 9), views(mysql, 2, 9), sums(mysql)) == (100, 70, (before[0] + 270, 0))
    assert waiting(refused) == []
    refused.verify()
    done = run(refused, "replay", second, third, status=1)
    assert done == {"refused": [], "replayed": 0, "missing": 2}
    assert (views(mysql, 1, 9), views(mysql, 2, 9)) == (100, 70)


def test_replay_into_a_table_without_its_key(refused, mysql):
    """It would insert a second row of a field."""
    mend(mysql)
    before, rows = sums(mysql), mysql.query("SELECT COUNT(*) FROM product_views")
    mysql.query("ALTER TABLE product_views DROP PRIMARY KEY")
    done = run(refused, "replay", "--all", status=1)
    assert done["replayed"] == 0 and all("tallyd check" in row["reason"] for row in done["refused"]), done
    mysql.query("ALTER TABLE product_views ADD PRIMARY KEY (store_id, product_id)")
    assert mysql.query("SELECT COUNT(*) FROM product_views") == rows and sums(mysql) == before
    assert run(refused, "replay", "--all")["replayed"] == 3


def test_cut_as_a_replay_looks_at_the_table(refused, mysql, make_proxy):
    """No row is called refused for that."""
    proxy = make_proxy(mysql.socket)
    refused.config["mysql"] = mysql.url.replace(mysql.socket, proxy.path)
    refused.write_config()  # for the verb alone
    before = waiting(refused)
    proxy.filter = lambda link, way, data: link.end() or b"" if b"COLUMN_TYPE" in data else data
    done = run(refused, "replay", "--all", status=69)
    assert done == {"refused": [], "replayed": 0, "missing": 0}
    proxy.filter = None
    assert waiting(refused) == before


def test_replay_of_a_store(refused, mysql):
    mend(mysql)
    assert run(refused, "replay", "--store", "2")["replayed"] == 1
    assert len(waiting(refused)) == 2
    assert run(refused, "replay", "--counter", "product_views")["replayed"] == 2
    refused.verify()


def test_replay_by_several_at_once(refused, mysql):
    """Each row once, whichever process gets it."""
    mend(mysql)
    got = []
    threads = [threading.Thread(target=lambda: got.append(run(refused, "replay", "--all")["replayed"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(60))
    assert sum(got) == 3 and (views(mysql, 1, 8), views(mysql, 1, 9), views(mysql, 2, 9)) == (100, 100, 70)
    refused.verify()


def test_replay_under_traffic(refused, mysql):
    """The books balance at every look while rows go from rejected to merged and hits come in."""
    mend(mysql)
    ending = threading.Event()

    def traffic():
        with refused.client() as client:
            while not ending.is_set():
                client.pipeline([("HINCRBY", f"s{n % 5}:product_views", "9", 1) for n in range(50)])
                client.call("CTR.SYNC", "ALL")

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        for row in waiting(refused):
            run(refused, "replay", row["id"])
            refused.verify()
    finally:
        ending.set()
        thread.join(patience(60))


def test_drop(refused, mysql):
    """Dry unless --yes; the dropped rows' sum stays in rejected, so the books go on to balance."""
    first = waiting(refused, "--store", "1")[0]["id"]
    assert run(refused, "drop", "--all") == {"would_drop": 3, "missing": 0}
    assert "--yes" in run(refused, "drop", first, json_=False).stdout and len(waiting(refused)) == 3
    before = sums(mysql)
    assert run(refused, "drop", first, "--yes") == {"dropped": 1, "missing": 0}
    assert len(waiting(refused)) == 2
    assert run(refused, "drop", "--store", "2", "--yes")["dropped"] == 1
    assert sums(mysql) == before
    refused.verify()
    mend(mysql)
    assert run(refused, "replay", "--all")["replayed"] == 1
    refused.verify()
    assert run(refused, "drop", "--all", "--yes")["dropped"] == 0


@pytest.fixture
def many(daemon, mysql):
    """1,000 rows of store 3 that a CHECK refuses."""
    mysql.query("ALTER TABLE product_views ADD CONSTRAINT short CHECK (store_id <> 3)")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s3:product_views", str(field), 2) for field in range(1000)])
        client.pipeline([("HINCRBY", "s4:product_views", str(field), 2) for field in range(40)])
    daemon.sync_all()
    return daemon


@pytest.fixture
def by_hand(many):
    """And one field of store 4 that is no integer, which no client of tallyd sent."""
    with many.client() as client:
        client.call("HINCRBY", "s4:product_views", "1", 1)
    many.redis.client().hset("s4:product_views", "=1+1", 7)
    many.sync_all()
    return many


def test_reasons(by_hand):
    many = by_hand
    seen = run(many, "list", "--by", "reason")
    assert seen["waiting"] == 1001 and [(row["rows"], row["delta"], row["key"]) for row in seen["reasons"]] == [
        (1000, 2000, "s3:product_views"), (1, 7, "s4:product_views")]
    assert "constraint" in seen["reasons"][0]["reason"].lower() and "not of the counter's kind" in seen["reasons"][1]["reason"]
    text = run(many, "list", "--by", "reason", json_=False).stdout
    assert "1000 rows of product_views" in text.replace(",", "") and len(text.splitlines()) == 4, text
    assert [row["rows"] for row in run(many, "list", "--by", "reason", "--store", "4")["reasons"]] == [1]


def test_export(by_hand):
    many = by_hand
    done = run(many, "export", json_=False)
    rows = list(csv.reader(io.StringIO(done.stdout, newline="")))
    assert rows[0] == ["id", "rejected_at", "counter", "key", "field", "delta", "reason"] and len(rows) == 1002
    assert len({row[0] for row in rows[1:]}) == 1001 and sum(int(row[5]) for row in rows[1:]) == 2007
    assert [row[4] for row in rows if row[3] == "s4:product_views"] == ["'=1+1"]
    assert len(run(many, "export", "--store", "4", json_=False).stdout.splitlines()) == 2


def commits(mysql):
    return int(mysql.query("SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1])


def test_many_are_replayed_in_few_transactions(many, mysql):
    mysql.query("ALTER TABLE product_views DROP CONSTRAINT short")
    before = commits(mysql)
    assert run(many, "replay", "--all")["replayed"] == 1000
    assert commits(mysql) - before < 20
    assert mysql.query("SELECT COUNT(*), CAST(SUM(views) AS SIGNED) FROM product_views WHERE store_id = 3") == ((1000, 2000),)
    many.verify()
    assert run(many, "list")["waiting"] == 0


def test_of_many_one_is_refused_again(many, mysql):
    mysql.query("ALTER TABLE product_views DROP CONSTRAINT short")
    mysql.query("ALTER TABLE product_views ADD CONSTRAINT short CHECK (product_id <> 777)")
    done = run(many, "replay", "--store", "3", status=1)
    assert done["replayed"] == 999 and len(done["refused"]) == 1
    assert mysql.query("SELECT COUNT(*), CAST(SUM(views) AS SIGNED) FROM product_views WHERE store_id = 3") == ((999, 1998),)
    many.verify()


def test_many_and_a_commit_whose_answer_is_lost(many, mysql, make_proxy):
    """The second transaction's; the next run goes on where this one was."""
    mysql.query("ALTER TABLE product_views DROP CONSTRAINT short")
    proxy, seen = make_proxy(mysql.socket), []
    many.config["mysql"] = mysql.url.replace(mysql.socket, proxy.path)
    many.write_config()  # for the verb alone

    def lose(link, way, data):
        seen.extend([0] * data.count(b"\x03COMMIT"))
        return link.end() or b"" if len(seen) > 1 and b"\x03COMMIT" not in data else data

    proxy.filter = lose
    first = run(many, "replay", "--store", "3", status=69)
    assert first["replayed"] in (200, 400)
    proxy.filter = None
    again = run(many, "replay", "--store", "3")
    assert again["replayed"] in (600, 800)
    assert mysql.query("SELECT COUNT(*), CAST(SUM(views) AS SIGNED) FROM product_views WHERE store_id = 3") == ((1000, 2000),)
    many.verify()


def test_an_id_that_does_not_wait(refused):
    done = run(refused, "replay", NOBODY, status=1, json_=False)
    assert NOBODY in done.stderr and "rejects list" in done.stderr
    assert run(refused, "drop", NOBODY, "--yes", status=1) == {"dropped": 0, "missing": 1}


def test_a_row_of_no_counter(refused, mysql):
    """Its counter was taken out of the configuration: listed by its name, refused again with the reason."""
    mysql.query("UPDATE tally_rejects SET counter = 'gone' WHERE pending_hash = 's2:product_views'")
    row, = waiting(refused, "--counter", "gone")
    assert row["store"] is None
    again = run(refused, "replay", "--counter", "gone", status=1)
    assert "not configured" in again["refused"][0]["reason"]
    assert run(refused, "drop", "--counter", "gone", "--yes")["dropped"] == 1


def test_bytes_that_are_no_text(refused, mysql):
    mysql.query("UPDATE tally_rejects SET field = x'00ff0a22', delta = REPEAT('9', 1000)")
    assert {row["field"] for row in waiting(refused)} == {"\0\ufffd\n\""}
    text = run(refused, "list", json_=False).stdout
    assert "\0" not in text and max(map(len, text.splitlines())) < 400
    assert all("not an integer" in row["reason"] for row in run(refused, "replay", "--all", status=1)["refused"])


@pytest.mark.parametrize("words,said", [
    ((), "list|export|replay|drop"), (("fly",), "list|export|replay|drop"), (("replay",), "--all"), (("drop",), "--all"),
    (("replay", "12"), "rejects list"), (("replay", "f" * 32 + "-99999999999999999999-0"), "rejects list"),
    (("replay", "F" * 32 + "-0-0"), "rejects list"), (("replay", "x" * 5000), "rejects list"),
    (("replay", NOBODY, "--all"), "only one of"), (("replay", "--all", "--counter", "searches"), "only one of"),
    (("list", NOBODY), "--limit"), (("list", "--all"), "--limit"), (("list", "--limit", "0"), "1 to 1000000"),
    (("list", "--by", "key"), "--by reason"), (("export", "--by", "reason"), "--by reason"), (("export", "--limit", "3"), "--limit"),
    (("export", "--json"), "CSV"), (("export", NOBODY), "--field"), (("list", "--yes"), "--yes"), (("replay", "--all", "--yes"), "--yes"), (("drop", "--all", "--limit", "3"), "--limit"),
    (("list", "--counter", "serches"), "searches"), (("list", "--counter", "x" * 300), "no counter"),
    (("list", "--store", "1:2"), "store"), (("list", "--store", "01"), "store"),
    (("list", "--store", "99999999999999999999"), "store"), (("list", "--store", ""), "--store"),
], ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "")
def test_usage(words, said, make_daemon):
    """Words are read before any server is asked; a counter's name behind the tables."""
    daemon = make_daemon(None, start=False, redis_url="redis://127.0.0.1:1/0")
    if "--counter" in words:
        daemon.migrate()
    done = daemon.verb("rejects", *words)
    assert done.returncode == 64 and said in done.stderr and done.stdout == "", done.stderr


def test_mysql_down(refused, mysql):
    mysql.kill9()
    for words in (("list",), ("replay", "--all"), ("drop", "--all")):
        done = refused.verb("rejects", *words)
        assert done.returncode == 69 and "MySQL" in done.stderr


def test_not_migrated(make_daemon, redis):
    done = make_daemon(redis, start=False).verb("rejects", "list")
    assert done.returncode == 78 and "tallyd check" in done.stderr
