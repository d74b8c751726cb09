"""A database and a Redis as a tallyd left them that knew one Redis and no realms (schema 1): what is there is merged
once, hits are counted all the while, and what waits for an operator still waits."""
import json
import os
import re
import time

import pymysql
import pytest

from harness.account import Account
from harness.books import nothing_left
from harness.daemon import counters
from harness.load import Load
from harness.moment import Reply
from harness.resp import encode
from harness.wait import stays, wait_until
from test_pods import held

SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sql")
FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
FULL = 9223372036854775807
ROWS = 2500  # of the batch that is half merged: three chunks
OWN = ("tally_ledger", "tally_counters", "tally_rejects", "tally_schema")
fault = pytest.mark.fault


def statements(name):
    with open(os.path.join(SQL, name), encoding="utf-8") as file:
        text = "".join(line for line in file if not line.startswith("--"))
    return [one.strip() for one in re.split(r";\n", text) if one.strip()]


def execute(mysql, sqls):
    """In one session."""
    link = mysql.connect()
    try:
        with link.cursor() as cursor:
            for sql in sqls:
                cursor.execute(sql)
    finally:
        link.close()


def columns(mysql, table):
    return [row[0] for row in mysql.query(f"SHOW COLUMNS FROM {table}")]


def version_1(mysql):
    """Its tables are those of the first version, with the same rows."""
    execute(mysql, [f"RENAME TABLE {name} TO {name}_now" for name in OWN])
    execute(mysql, statements("001_tables.sql"))
    for name in OWN[:3]:
        kept = ", ".join(columns(mysql, name))
        execute(mysql, [f"INSERT INTO {name} ({kept}) SELECT {kept} FROM {name}_now"])
    execute(mysql, ["INSERT INTO tally_schema VALUES (1, UTC_TIMESTAMP(3))"])
    for row in mysql.query("SHOW TABLES LIKE 'tally\\_%'"):
        if row[0] not in OWN:
            execute(mysql, [f"DROP TABLE {row[0]}"])


def no_realm(redis):
    redis.client().delete("tally:realm", "tally:gens")


class Before:
    """What the older tallyd left: books and a ledger, rejects that wait, a batch of which one chunk of three is merged, and
    hits that are pending. The tallyd of now reaches MySQL through a proxy."""

    def __init__(self, make_redis, make_daemon, make_proxy, mysql):
        self.mysql, self.redis = mysql, make_redis(appendfsync="always", in_memory=True)
        self.proxy = make_proxy(mysql.socket)
        url = f"mysql://root@localhost/shop?socket={self.proxy.path}"
        self.daemon = make_daemon(self.redis, families=FAMILIES, start=False, mysql_url=url,
                                  more={"mysql": {"url": url, "writers": 1}}).migrate()
        self.account = Account(self.redis, mysql, FAMILIES)
        self.make()
        version_1(mysql)
        no_realm(self.redis)
        self.ledger = set(mysql.query("SELECT batch, chunk, digest FROM tally_ledger"))

    def hit(self, key, fields):
        requests = [(key, field, 1 + field % 3) for field in fields]
        replies = self.account.hit(self.daemon, requests)
        assert len(replies) == len(requests) and all(isinstance(reply, int) for reply in replies), replies[:3]

    def make(self):
        self.mysql.query(f"INSERT INTO product_views VALUES (2, 8, {FULL}), (2, 9, {FULL})")
        self.daemon.start()
        self.hit("s2:product_views", range(8, 80))
        self.hit(VIEWS, range(1, 4))
        self.daemon.sync_all()
        self.hit(VIEWS, range(1, ROWS + 1))
        self.daemon.terminate()
        self.daemon.crash = "merge_between_chunks"
        self.daemon.start()
        with self.daemon.client() as client:
            client.send(encode("CTR.SYNC", "ALL"))
            assert self.daemon.ended() == -9
        self.daemon.crash = None
        self.proxy.refuse()
        self.daemon.start()
        wait_until(lambda: self.daemon.figure("redis_up") == 1, 30, "its links are up")
        self.hit(VIEWS, range(1, 30))
        self.hit("s3:searches", range(1, 30))
        self.daemon.kill9()
        assert self.redis.client().zcard("tally:batches") == 1
        assert self.mysql.query("SELECT COUNT(*) FROM tally_rejects WHERE replayed_at IS NULL") == ((2,),)

    def start_without_mysql(self):
        """Where MySQL answers at the start, `run` ends instead."""
        self.proxy.refuse()
        self.daemon.start()
        self.proxy.refuse(False)
        self.daemon.log_contains("event=schema_refused", 30)

    def merged_chunks(self):
        return set(self.mysql.query("SELECT batch, chunk, digest FROM tally_ledger"))


@pytest.fixture
def before(make_redis, make_daemon, make_proxy, mysql):
    return Before(make_redis, make_daemon, make_proxy, mysql)


def test_it_says_what_is_missing(before):
    before.proxy.refuse(False)
    done = before.daemon.verb("check")
    assert done.returncode == 78 and "version 1" in done.stderr and "tallyd migrate" in done.stderr, done.stderr
    done = before.daemon.verb("run", timeout_s=60)
    assert done.returncode == 78 and "tallyd migrate" in done.stderr, done.stderr
    assert before.merged_chunks() == before.ledger


@fault("upgrade-realms")
def test_migrated_under_load(before, mysql):
    """A tallyd of now counts, and merges nothing until its tables are there; then each chunk and each hit once."""
    daemon, account = before.daemon, before.account
    before.start_without_mysql()

    def pick(rng):
        return b"s%d:product_views" % rng.randrange(3, 9), b"%d" % rng.randrange(300), rng.choice((1, 7))

    load = Load(daemon.socket, account.shadow, pick, clients=4, depth=20, per_second=3000, seed=17)
    load.go()
    try:
        counted = account.acked
        wait_until(lambda: account.acked > counted + 3000, 60, "hits are counted")
        stays(lambda: before.merged_chunks() == before.ledger, 1, "nothing is merged")
        assert "version 1" in daemon.log()
        done = daemon.verb("migrate")
        assert done.returncode == 0 and "(1 before)" in done.stdout, done.stdout + done.stderr
        wait_until(lambda: before.merged_chunks() > before.ledger, 30, "merging goes on by itself")
        counted = account.acked
        wait_until(lambda: account.acked > counted + 3000, 60, "hits go on")
        daemon.verify()
    finally:
        load.pause()
        load.stop()
    daemon.sync_all()
    wait_until(lambda: nothing_left(before.redis.client()), 30, "nothing is left in Redis")
    assert account.unknown == 0 and not account.shadow.refused
    assert re.search(rf"event=merged .*rows={ROWS - 1000} already=1000 ", daemon.log())
    own = before.redis.client().get("tally:realm").decode()
    for table in ("tally_ledger", "tally_counters", "tally_rejects", "tally_realms"):
        assert mysql.query(f"SELECT DISTINCT LOWER(HEX(realm)) FROM {table}") == ((own,),), table
    replayed(before, mysql)
    assert "already" in daemon.verb("migrate").stdout


def replayed(before, mysql):
    """The rows that waited since the version before."""
    before.daemon.verify()
    mysql.query("UPDATE product_views SET views = 0 WHERE views > 1000000")
    done = before.daemon.verb("rejects", "replay", "--all", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["replayed"] == 2, done.stdout + done.stderr
    before.daemon.verify()
    before.account.check()
    assert before.account.merged() == before.account.acked


@fault("upgrade-realms")
def test_migrated_before_the_start(before):
    """The usual order: everything stopped, migrate, start."""
    before.proxy.refuse(False)
    done = before.daemon.verb("migrate")
    assert done.returncode == 0, done.stdout + done.stderr
    before.daemon.start()
    before.hit(VIEWS, range(1, 9))
    before.daemon.sync_all()
    wait_until(lambda: nothing_left(before.redis.client()), 30, "nothing is left in Redis")
    replayed(before, before.mysql)


@fault("upgrade-realms")
def test_another_redis_comes_first(before, make_redis, make_daemon, mysql):
    """What the version before left is one realm, and free. A Redis that is new is not the one that it belongs to."""
    before.proxy.refuse(False)
    redis = make_redis("another", appendfsync="always")
    another = make_daemon(redis, families=FAMILIES, instance="another")
    wait_until(lambda: held(another), 30, "it is held")
    assert "--another-redis" in held(another) and redis.client().get("tally:realm") is None
    assert another.verb("migrate", "--another-redis").returncode == 0
    wait_until(lambda: held(another) is None, 30, "it has a realm of its own")
    before.daemon.start()
    before.daemon.sync_all()
    wait_until(lambda: nothing_left(before.redis.client()), 30, "nothing is left in Redis")
    assert before.account.hit(another, [("s4:product_views", 1, 1)]) == [1]
    another.sync_all()
    another.verify()
    replayed(before, mysql)


@pytest.fixture
def schema_1(make_daemon, redis, mysql):
    """A database of version 1 with a row in each table; the service does not run."""
    def make():
        mysql.fresh_database()
        execute(mysql, statements("001_tables.sql"))
        execute(mysql, [
            "INSERT INTO tally_schema VALUES (1, UTC_TIMESTAMP(3))",
            "INSERT INTO tally_ledger VALUES (REPEAT('b', 16), 0, 1, 'product_views', 3, 'x', 'y', REPEAT('d', 16), 1, 5,"
            " UTC_TIMESTAMP(3))",
            "INSERT INTO tally_counters (counter, merged) VALUES ('product_views', 5), ('searches', 0)",
            "INSERT INTO tally_rejects (batch, chunk, seq, counter, pending_hash, field, delta, counted, reason, rejected_at)"
            " VALUES (REPEAT('b', 16), 0, 0, 'product_views', 's1:product_views', '7', '5', 1, 'full', UTC_TIMESTAMP(3))"])

    daemon = make_daemon(redis, start=False, families=FAMILIES)
    make()
    return daemon, make


def shapes(mysql):
    return {name: mysql.query(f"SHOW CREATE TABLE {name}")[0][1] for name, in mysql.query("SHOW TABLES LIKE 'tally\\_%'")}


def test_migrate_goes_on_where_it_was_interrupted(schema_1, mysql):
    """Killed between any two statements: the next one ends with the same tables, and each row has the one realm."""
    daemon, make = schema_1
    assert daemon.verb("migrate").returncode == 0
    whole = shapes(mysql)
    steps = statements("002_realms.sql")
    assert len(steps) > 10
    for done in range(1, len(steps) + 1):
        make()
        execute(mysql, steps[:done])
        said = daemon.verb("migrate")
        assert said.returncode == 0, (steps[done - 1], said.stderr)
        assert shapes(mysql) == whole, steps[done - 1]
        for table in ("tally_ledger", "tally_counters", "tally_rejects"):
            assert mysql.query(f"SELECT DISTINCT realm FROM {table}") == mysql.query("SELECT realm FROM tally_realms"), table
        assert mysql.query("SELECT counter, merged FROM tally_counters ORDER BY 1") == ((b"product_views", 5), (b"searches", 0))


def test_migrate_rewrites_no_ledger(schema_1, mysql):
    daemon, _ = schema_1
    mysql.query("INSERT INTO tally_ledger SELECT RANDOM_BYTES(16), 0, 1, 'product_views', 2, 'x', 'y', REPEAT('d', 16), 1, 5, UTC_TIMESTAMP(3)"
                " FROM information_schema.COLLATIONS, (SELECT 1 UNION SELECT 2 UNION SELECT 3) three")
    had = mysql.query("SELECT COUNT(*) FROM tally_ledger")[0][0]
    updated = "SHOW GLOBAL STATUS LIKE 'Handler_update'"
    before = int(mysql.query(updated)[0][1])
    assert daemon.verb("migrate").returncode == 0
    assert int(mysql.query(updated)[0][1]) - before < 20 < 300 < had
    assert mysql.query("SELECT l.realm = r.realm, COUNT(*) FROM tally_ledger l, tally_realms r GROUP BY 1") == ((1, had),)


def test_migrate_waits_for_mysql(schema_1, mysql, make_proxy, make_daemon, redis):
    """An index of a large ledger takes longer than mysql.timeout."""
    proxy = make_proxy(mysql.socket)
    url = f"mysql://root@localhost/shop?socket={proxy.path}"
    daemon = make_daemon(redis, start=False, families=FAMILIES, mysql_url=url, more={"mysql": {"url": url, "timeout": "5s"}})
    slow = Reply(proxy, b"ADD KEY realm_gen", lambda *_: time.sleep(6))
    done = daemon.verb("migrate")
    assert done.returncode == 0 and slow.over.is_set(), done.stderr


@pytest.mark.parametrize("sql", [
    "INSERT INTO tally_ledger (batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged, total, merged_at)"
    " VALUES (REPEAT('c', 16), 0, 1, 'product_views', 4, 'x', 'y', REPEAT('d', 16), 1, 5, UTC_TIMESTAMP(3))",
    "INSERT INTO tally_counters (counter, merged, rejected) VALUES ('product_views', 5, 0)"
    " ON DUPLICATE KEY UPDATE merged = merged + (5), rejected = rejected + (0)",
    "INSERT INTO tally_counters (counter, complete_until) VALUES ('product_views', UTC_TIMESTAMP(3))"
    " ON DUPLICATE KEY UPDATE complete_until = UTC_TIMESTAMP(3)",
], ids=["ledger", "books", "complete_until"])
def test_what_an_older_tallyd_writes_is_refused(sql, schema_1, mysql):
    """It runs beside the new tables for a while: MySQL refuses what names no realm, and says so."""
    daemon, _ = schema_1
    assert daemon.verb("migrate").returncode == 0
    held = mysql.query("SELECT counter, merged, rejected FROM tally_counters ORDER BY 1")
    link = mysql.connect()
    try:
        with link.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
            with pytest.raises(pymysql.MySQLError) as refused:
                cursor.execute(sql)
    finally:
        link.close()
    assert refused.value.args[0] == 1364 and "realm" in refused.value.args[1], refused.value
    assert mysql.query("SELECT counter, merged, rejected FROM tally_counters ORDER BY 1") == held


def test_an_older_one_meets_newer_tables(make_daemon, redis, mysql):
    """While it runs it counts on. Its next start is refused, and the newer one merges what it left, as the page says."""
    daemon = make_daemon(redis, families=FAMILIES)
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, [(VIEWS, 1, 1)])
    execute(mysql, ["INSERT INTO tally_schema VALUES (99, UTC_TIMESTAMP(3))"])
    assert account.hit(daemon, [(VIEWS, 2, 3)]) == [3]
    for verb in ("check", "migrate"):
        done = daemon.verb(verb)
        assert done.returncode == 78 and "made by a newer tallyd" in done.stdout + done.stderr, done.stdout + done.stderr
    assert daemon.terminate() == 0
    done = daemon.verb("run")
    assert done.returncode == 78 and "made by a newer tallyd" in done.stderr, done.stderr
    execute(mysql, ["DELETE FROM tally_schema WHERE version = 99"])  # the newer one
    account.settle(daemon.start())
    assert account.acked == 4
