"""The fault matrix' rows of MySQL: dead, standing still, cut, full, read-only, behind, and refusing; every hit is answered
meanwhile, and each is in MySQL once at the end."""
import json
import os
import re
import shutil
import threading

import pytest

from harness.books import read_mysql
from harness.mariadb import NO_PAD, MariaDB
from harness.moment import COMMIT, Hold, Moment
from harness.shop import FAMILIES, VIEWS, Shop
from harness.wait import patience, wait_until

TRANSACTION = (b"START TRANSACTION", b"INSERT INTO tally_ledger", b"INSERT INTO `product_views`", b"UPDATE tally_counters",
               COMMIT)


@pytest.fixture
def closed(make_redis, make_daemon, make_proxy, mysql):
    return Shop(make_redis, make_daemon, make_proxy, mysql)


@pytest.fixture
def shop(closed):
    return closed.open().start()


def sessions(mysql):
    return [session for session, database in
            mysql.query("SELECT id, db FROM information_schema.processlist WHERE id <> CONNECTION_ID()") if database == "shop"]


def kill_sessions(mysql):
    """All of tallyd's."""
    for session in sessions(mysql):
        try:
            mysql.query(f"KILL CONNECTION {session}")
        except Exception as gone:  # it ended by itself
            assert "Unknown thread" in str(gone)


def instead(*changes):
    """For Proxy.filter: what is `old` in a statement of MySQL's protocol is `new` on the way."""
    def rewrite(link, way, data):
        if way != "up" or data[4:5] != b"\x03" or not any(old in data for old, _ in changes):
            return data
        said = data[4:]
        for old, new in changes:
            said = said.replace(old, new)
        return len(said).to_bytes(3, "little") + data[3:4] + said

    return rewrite


def only(action):
    """For Moment: the bytes go on as they came."""
    def act(link, data):
        action()

    return act


@pytest.mark.parametrize("moment", [
    pytest.param("before", marks=pytest.mark.fault("mysql-killed-before-commit")),
    pytest.param("in", marks=pytest.mark.fault("mysql-killed-in-commit")),
    pytest.param("after", marks=pytest.mark.fault("mysql-killed-after-commit"))])
def test_killed_at_the_commit(moment, shop):
    """kill -9 mariadbd: before the COMMIT arrives; right behind it; when it is done and its answer is lost."""
    shop.hits()
    shop.daemon.sync_all()
    rows, killed = shop.ledger_rows(), threading.Event()

    def kill(link=None, data=b""):
        if moment == "in":
            link.far.sendall(data)
        shop.mysql.kill9()
        killed.set()
        return b""

    Moment(shop.proxy, "up", COMMIT, kill if moment != "after" else lambda link, data: setattr(link, "swallow", True))
    shop.hits()
    link = shop.ask_for_merging()
    if moment == "after":
        wait_until(lambda: shop.ledger_rows() > rows, 30, "committed")
        kill()
    assert killed.wait(patience(30))
    shop.hits()
    shop.mysql.start()
    if moment != "in":
        assert shop.ledger_rows() >= rows + (moment == "after")
    link.close()
    shop.exact()


@pytest.mark.fault("mysql-stopped-insert", "mysql-stopped-commit")
def test_stands_still_in_insert_and_commit(closed, make_proxy):
    """SIGSTOP while an INSERT of one tallyd and a COMMIT of another are on their way: the links stay open and say nothing;
    own time limits. The old sessions still hold their locks when it goes on, and their statements run late."""
    limits = {"timeout": "5s"}
    closed.open(more={"mysql": {"url": f"mysql://root@localhost/shop?socket={closed.proxy.path}", **limits}}).start()
    to_other = make_proxy(closed.mysql.socket)
    url = f"mysql://root@localhost/shop?socket={to_other.path}"
    other = closed.make_daemon(closed.redis, families=FAMILIES, instance="two", migrate=False, mysql_url=url,
                               more={"mysql": {"url": url, **limits}})
    both = threading.Barrier(2, closed.mysql.pause)
    Moment(closed.proxy, "up", b"INSERT INTO `product_views`", only(lambda: both.wait(patience(30))))
    Moment(to_other, "up", COMMIT, only(lambda: both.wait(patience(30))))
    closed.hits(fields=["1", "2", "3"], key="s8:product_views")  # the first hits of a store are due at once
    closed.hits(fields=["1", "2", "3"], key="s9:product_views", to=other)
    for daemon in (closed.daemon, other):
        daemon.log_contains("2013")
        closed.hits(n=3, to=daemon)
    closed.mysql.resume()
    other.sync_all()
    closed.exact()


@pytest.mark.fault("mysql-session-killed")
def test_session_killed_between_statements(shop):
    """Whatever statement meets the dead session: the whole transaction comes again, ledger first, nothing alone."""
    for statement in TRANSACTION:
        shop.hits()
        moment = Moment(shop.proxy, "up", statement, only(lambda: kill_sessions(shop.mysql)))
        shop.daemon.sync_all()
        assert moment.over.is_set(), statement
        assert shop.counted() == shop.acked, statement
    assert shop.daemon.log().count("event=chunk_retry") >= len(TRANSACTION) - 1
    shop.exact()


@pytest.mark.fault("mysql-wait-timeout")
def test_wait_timeout(closed):
    """MySQL ends a session that is idle: between two transactions, and between two statements of one."""
    closed.proxy.filter = instead((b" wait_timeout = 60", b" wait_timeout = 1"))
    shop = closed.open().start()
    shop.hits()
    shop.daemon.sync_all()
    wait_until(lambda: not sessions(shop.mysql), 30, "the idle sessions are ended")
    shop.hits()
    shop.daemon.sync_all()
    assert shop.counted() == shop.acked
    late = Hold(shop.proxy, "up", b"UPDATE tally_counters")
    shop.hits()
    link = shop.ask_for_merging()
    late.wait_held()
    wait_until(lambda: not sessions(shop.mysql), 30, "the session is ended in its transaction")
    late.let_go()
    assert isinstance(link.reply(), int)
    link.close()
    shop.exact()


@pytest.mark.fault("mysql-commit-rst")
def test_reset_on_the_commits_answer(closed, make_proxy):
    shop = closed
    shop.proxy = make_proxy(shop.mysql.socket, tcp=True)
    shop.open().daemon.config["mysql"] = f"mysql://root@127.0.0.1:{shop.proxy.port}/shop"
    shop.daemon.write_config()
    shop.start()
    for _ in range(3):
        rows = shop.ledger_rows()
        moment = Moment(shop.proxy, "up", COMMIT, lambda link, data: setattr(link, "swallow", True))
        shop.hits()
        link = shop.ask_for_merging()
        moment.wait()
        wait_until(lambda: shop.ledger_rows() > rows, 30, "committed")
        shop.proxy.reset()
        link.close()
        shop.daemon.sync_all()
        assert shop.counted() == shop.acked
    assert shop.daemon.log().count("event=chunk_retry") >= 3
    shop.exact()


def retried(shop, code):
    return len(re.findall(rf"event=chunk_retry.*\b{code}\b", shop.daemon.log()))


@pytest.fixture
def holder(mysql):
    """Another program's session, in a transaction."""
    link = mysql.connect()
    cursor = link.cursor()
    cursor.execute("BEGIN")
    yield cursor.execute
    link.close()


@pytest.mark.fault("mysql-1205")
def test_lock_wait_timeout(closed, holder):
    """Somebody holds a row for longer than tallyd waits for it."""
    closed.proxy.filter = instead((b"innodb_lock_wait_timeout = 3", b"innodb_lock_wait_timeout = 1"))
    shop = closed.open().start()
    shop.hits()
    shop.daemon.sync_all()
    holder("SELECT * FROM product_views WHERE store_id = 1 AND product_id = 49 FOR UPDATE")
    shop.hits()
    link = shop.ask_for_merging()
    wait_until(lambda: "event=rows_locked" in shop.daemon.log(), 30, "1205")
    holder("ROLLBACK")
    assert isinstance(link.reply(), int)
    link.close()
    shop.exact()


@pytest.mark.fault("mysql-1213")
def test_deadlock(shop, holder):
    """Another session locks rows in the opposite order; MySQL picks tallyd as the victim, since it wrote less."""
    shop.hits()
    shop.daemon.sync_all()
    holder("INSERT INTO searches WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
           " SELECT 1000 + i, 'x', 1 FROM n")
    holder("UPDATE product_views SET views = views + 0 WHERE store_id = 2")
    shop.hits()
    link = shop.ask_for_merging()
    waiting = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
    wait_until(lambda: shop.mysql.query(waiting)[0][0] == 1, 30, "tallyd waits for the second store", every_s=0.2)  # cached
    holder("UPDATE product_views SET views = views + 0 WHERE store_id = 1")
    wait_until(lambda: retried(shop, 1213), 30, "1213")
    holder("ROLLBACK")
    assert isinstance(link.reply(), int)
    link.close()
    shop.exact()


@pytest.mark.fault("mysql-1020")
def test_record_has_changed(closed):
    """1020 is for snapshots that are older than the row: MariaDB has them for REPEATABLE READ (innodb_snapshot_isolation),
    which is put under tallyd here; it asks for READ COMMITTED, where this does not come up."""
    shop = closed
    if not shop.mysql.query("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'"):
        pytest.skip("an older MariaDB, or MySQL: it has no such snapshots")
    shop.mysql.query("SET GLOBAL innodb_snapshot_isolation = ON")
    try:
        shop.proxy.filter = instead((b"LEVEL READ COMMITTED", b"LEVEL REPEATABLE READ"),
                                    (b"START TRANSACTION", b"START TRANSACTION WITH CONSISTENT SNAPSHOT"))
        shop.open().start()
        shop.hits()
        shop.daemon.sync_all()
        rows = shop.ledger_rows()
        shop.hits()
        theirs = "UPDATE product_views SET views = views + 1000 WHERE store_id = 2 AND product_id = 7"
        shop.acked[b"s2:product_views", b"7"] += 1000
        Moment(shop.proxy, "up", b"INSERT INTO `product_views`", only(lambda: shop.mysql.query(theirs)))
        shop.daemon.sync_all()
        assert retried(shop, 1020) == 1 and shop.ledger_rows() > rows
        shop.proxy.filter = None
        shop.exact()
    finally:
        shop.mysql.query("SET GLOBAL innodb_snapshot_isolation = OFF")


@pytest.mark.parametrize("code,alter,field,key", [
    pytest.param(1264, "MODIFY product_id INT NOT NULL", b"3000000000", VIEWS, marks=pytest.mark.fault("row-1264")),
    pytest.param(1690, None, b"9", VIEWS, marks=pytest.mark.fault("row-1690")),
    pytest.param(1406, "MODIFY term VARBINARY(8) NOT NULL", b"longer than eight", "s1:searches",
                 marks=pytest.mark.fault("row-1406")),
    pytest.param(1366, f"MODIFY term VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {NO_PAD} NOT NULL", b"\xff",
                 "s1:searches", marks=pytest.mark.fault("row-1366"))])
def test_one_row_is_refused(code, alter, field, key, shop):
    """It is kept with its value and MySQL's reason, the rest is merged; mended and replayed, MySQL has all."""
    table = "product_views" if key == VIEWS else "searches"
    if alter:
        shop.mysql.query(f"ALTER TABLE {table} {alter}")
    else:
        shop.mysql.query(f"INSERT INTO product_views VALUES (1, 9, {2**63 - 2})")
    shop.hits()
    shop.hits(key=key, fields=[b"%d" % at for at in range(10, 60)] + [field])
    shop.daemon.sync_all()
    rows = shop.mysql.query("SELECT pending_hash, field, delta, reason FROM tally_rejects")  # of a batch or two
    assert {row[:2] for row in rows} == {(key.encode(), field)} and all(str(code) in row[3] for row in rows)
    assert sum(int(row[2]) for row in rows) == shop.acked[key.encode(), field]
    assert shop.redis.client().zcard("tally:batches") == 0
    shop.daemon.verify()
    if alter:
        shop.mysql.query(f"ALTER TABLE {table} MODIFY " + ("product_id BIGINT NOT NULL" if key == VIEWS else
                                                          "term VARBINARY(255) NOT NULL"))
    else:
        shop.mysql.query("UPDATE product_views SET views = 0 WHERE store_id = 1 AND product_id = 9")
    assert shop.daemon.verb("rejects", "replay", "--all").returncode == 0
    shop.exact()


def long_terms(first, n=300):
    return [b"%05d" % at + b"x" * 200 for at in range(first, first + n)]


@pytest.mark.fault("mysql-packet")
def test_packets_get_smaller(shop):
    """max_allowed_packet is lowered below what tallyd sends: new sessions see it, and statements are cut smaller; and
    a proxy between may take still less, and hangs up on more, which looks like a dead link."""
    shop.hits(key="s1:searches", fields=long_terms(0))
    shop.daemon.sync_all()
    usual, = shop.mysql.query("SELECT @@global.max_allowed_packet")[0]
    sizes = []

    def measure(link, way, data):
        if way == "up":
            sizes.append(len(data))
        return data

    def hang_up_on_more(link, way, data):
        if way == "up" and len(data) > 20_000:
            raise OSError("too much")
        return data

    try:
        shop.mysql.query("SET GLOBAL max_allowed_packet = 65536")
        kill_sessions(shop.mysql)
        shop.proxy.filter = measure
        shop.hits(key="s1:searches", fields=long_terms(100))
        shop.daemon.sync_all()
        assert 20_000 < max(sizes) <= 65536
        assert shop.counted() == shop.acked
        shop.proxy.filter = hang_up_on_more
        shop.hits(key="s1:searches", fields=long_terms(200))
        shop.daemon.sync_all()
        assert shop.daemon.log().count("event=chunk_retry") < 20
        assert read_mysql(shop.mysql, FAMILIES)[0] == shop.acked
        shop.exact()
    finally:
        shop.mysql.query(f"SET GLOBAL max_allowed_packet = {usual}")


@pytest.mark.fault("mysql-read-only")
def test_read_only(closed):
    """In the middle of a transaction MySQL becomes read-only, as a demoted primary: hits go on, merges wait for its end."""
    shop = closed
    shop.mysql.query("DROP USER IF EXISTS least@localhost")
    shop.mysql.query("CREATE USER least@localhost")
    shop.mysql.query("GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO least@localhost")
    shop.open(user="least").daemon.config["mysql"] = shop.mysql.url  # for migrate
    shop.daemon.write_config()
    shop.daemon.migrate()
    shop.daemon.config["mysql"] = f"mysql://least@localhost/shop?socket={shop.proxy.path}"
    shop.daemon.write_config()
    shop.daemon.start()
    shop.hits()
    shop.daemon.sync_all()
    merged = read_mysql(shop.mysql, FAMILIES)[0]
    try:
        Moment(shop.proxy, "up", b"INSERT INTO tally_ledger",
               only(lambda: shop.mysql.query("SET GLOBAL read_only = ON")))
        shop.hits()
        with shop.ask_for_merging() as link:
            assert "MySQL" in link.reply()
        shop.hits()
        # of the writer, or of the one that looks what MySQL takes
        wait_until(lambda: "1290" in shop.daemon.log() or "read_only is on" in shop.daemon.log(), 30, "the log says why")
        assert read_mysql(shop.mysql, FAMILIES)[0] == merged and shop.counted() == shop.acked
    finally:
        shop.mysql.query("SET GLOBAL read_only = OFF")
    shop.exact()


def lost(shop, most):
    """What MySQL lacks of what was answered is `most`, and `verify` says so, to the hit."""
    assert shop.acked - read_mysql(shop.mysql, FAMILIES)[0] == most
    done = shop.daemon.verb("verify", "--json")
    views, = [counter for counter in json.loads(done.stdout)["counters"] if counter["name"] == "product_views"]
    assert done.returncode == 1 and views["difference"] == sum(most.values()), done.stdout
    return done


def copy_of(shop, workdir):
    """MySQL as it is on disk, in a directory of its own."""
    shop.mysql.kill9()
    os.mkdir(f"{workdir}/copy")
    made = MariaDB(f"{workdir}/copy", shop.mysql.data)
    shop.mysql.start()
    shop.daemon.sync_all()
    return made


@pytest.mark.fault("mysql-failover")
def test_failover_to_a_copy_that_lags(shop, workdir):
    """What the old primary merged alone is gone with it, reported, and to the hit; what was under way is merged once."""
    shop.hits()
    shop.daemon.sync_all()
    replica, before = copy_of(shop, workdir), shop.acked.copy()
    try:
        shop.hits(20)
        shop.daemon.sync_all()
        gone = shop.acked - before
        shop.hits()
        Moment(shop.proxy, "up", COMMIT, only(shop.mysql.kill9))
        link = shop.ask_for_merging()
        wait_until(lambda: not shop.mysql.alive(), 30, "the primary is dead")
        link.close()
        shop.hits()
        shop.mysql, shop.proxy.upstream = replica.start(), replica.socket
        shop.hits()
        shop.daemon.sync_all()
        shop.daemon.log_contains("event=mysql_behind")
        lost(shop, gone)
        assert shop.daemon.log().count("event=mysql_behind") == 1
    finally:
        replica.close()


@pytest.mark.fault("mysql-restored")
def test_put_back_from_a_backup(shop, workdir):
    """Batches that were merged and discarded after the backup are gone with the rows: there is no copy of them in Redis.
    `verify` says that MySQL is behind, by how many batches, and how many hits that is; hits go on, and are merged once."""
    shop.hits()
    shop.daemon.sync_all()
    backup, before = copy_of(shop, workdir), shop.acked.copy()
    for _ in range(2):
        shop.hits(20)
        shop.daemon.sync_all()
    gone = shop.acked - before
    downs = shop.daemon.log().count("event=mysql_down")
    shop.mysql.kill9()
    wait_until(lambda: shop.daemon.log().count("event=mysql_down") > downs, 30, "tallyd has seen it go")
    shutil.rmtree(shop.mysql.data)
    shutil.move(backup.data, shop.mysql.data)
    shop.mysql.start()
    shop.daemon.log_contains("event=mysql_behind")
    assert json.loads(lost(shop, gone).stdout)["batches_lost"] == 2
    said = shop.daemon.verb("verify")
    assert said.returncode == 1 and "MySQL is behind: 2 batches" in said.stdout and "backup" in said.stdout
    shop.hits()
    shop.daemon.sync_all()
    lost(shop, gone)
