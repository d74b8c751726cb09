"""The crash windows of five services of this kind: the very moment made on tallyd, several times, under hits; and a model of
the peer's way, a few lines on the same servers, that the same schedule does lose or double: so the schedule can fail.

Hits go through one tallyd that lives (`front`), so every one is answered and the sum is exact; the merging is asked of
another one (`back`), which is killed or cut."""
import signal

import pytest
import redis as redis_py

from harness.books import counted
from harness.daemon import counters
from harness.load import Load
from harness.moment import COMMIT, Hold, Moment
from harness.resp import Closed
from harness.shadow import Shadow
from harness.wait import wait_until

FAMILIES = counters(hits=10**9, every="3600s")


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, 6), b"%d" % rng.randrange(40), rng.choice((1, 2, 5))


class Rig:
    def __init__(self, make_redis, make_daemon, make_proxy, mysql):
        self.redis, self.mysql = make_redis(appendfsync="always", in_memory=True), mysql
        self.to_redis, self.to_mysql = make_proxy(self.redis.socket), make_proxy(mysql.socket)
        self.front = make_daemon(self.redis, families=FAMILIES, instance="front")
        self.back = make_daemon(self.redis, families=FAMILIES, instance="back", start=False, migrate=False,
                                redis_url=f"unix://{self.to_redis.path}?db=0",
                                mysql_url=f"mysql://root@localhost/shop?socket={self.to_mysql.path}")
        self.shadow = Shadow()
        self.load = Load(self.front.socket, self.shadow, pick, clients=2, depth=10, per_second=1500)

    def acked(self):
        with self.shadow.lock:
            return sum(self.shadow.acked.values())

    def more_hits(self, least=100):
        self.load.go()
        wanted = self.acked() + least
        wait_until(lambda: self.acked() >= wanted, 30, "hits are counted")

    def dies_at(self, point):
        """back merges what there is, while hits run, and is killed at this point."""
        self.more_hits()
        self.back.crash = point
        self.back.spawn()  # not start(): a batch in Redis may take it past the point before it is ready
        wait_until(lambda: not self.back.alive() or self.back.is_ready(), 30, "back is up, or gone")
        self.ask_for_merging()
        assert self.back.ended() == -signal.SIGKILL, f"{point}\n{self.back.log_tail()}"
        self.back.crash = None
        self.right()

    def ask_for_merging(self):
        """CTR.SYNC ALL without waiting for its answer; a process that dies gives no answer."""
        try:
            link = self.back.client()
            link.send(b"CTR.SYNC ALL\r\n")
            return link
        except (Closed, OSError):
            return None

    def right(self):
        """Now, with batches half done: MySQL, and what is not merged yet, is what was answered."""
        self.load.pause()
        self.front.pause()
        try:
            assert counted(self.redis.client(), self.mysql, FAMILIES) == self.shadow.acked
        finally:
            self.front.resume()

    def ends_exact(self):
        """All is merged, and MySQL alone has it, to the last hit."""
        self.more_hits()
        self.load.pause()
        if not self.back.alive():
            self.back.start()
        self.back.sync_all()
        self.load.stop()
        assert not self.shadow.unknown and not self.shadow.refused, "every hit was answered"
        merged = {(f"s{store}:product_views".encode(), b"%d" % product): int(views) for store, product, views in
                  self.mysql.query("SELECT store_id, product_id, views FROM product_views")}
        assert merged == self.shadow.acked
        self.back.verify()


@pytest.fixture
def rig(make_redis, make_daemon, make_proxy, mysql):
    made = Rig(make_redis, make_daemon, make_proxy, mysql)
    yield made
    made.load.stop()


class Killed(Exception):
    """The peer's process ends here."""


class Peer:
    """What the five have in common: hits are counted in Redis, flush() brings them into a table of MySQL."""

    def __init__(self, rig):
        self.redis = redis_py.Redis(unix_socket_path=rig.redis.socket, db=1)  # beside tallyd's
        self.mysql, self.hits, self.dies = rig.mysql, 0, None
        self.mysql.query("CREATE TABLE peer (page BIGINT PRIMARY KEY, views BIGINT NOT NULL)")

    def point(self, name):
        if name == self.dies:
            self.dies = None
            raise Killed(name)

    def hit(self, n=1):
        for _ in range(n):
            self.hits += 1
            self.count()

    def killed_at(self, name):
        self.dies = name
        with pytest.raises(Killed):
            self.flush()

    def stored(self):
        return int(self.mysql.query("SELECT COALESCE(SUM(views), 0) FROM peer")[0][0])

    def add(self, views, cursor=None):
        sql = f"INSERT INTO peer VALUES (1, {views}) ON DUPLICATE KEY UPDATE views = views + VALUES(views)"
        return cursor.execute(sql) if cursor else self.mysql.query(sql)


def hit_and_flush_again(peer):
    """The schedule's end: hits and flushes without any fault. What is wrong now stays wrong."""
    peer.hit(3)
    peer.flush()
    peer.flush()
    return peer.stored()


class FlushDeletedBeforeCommit(Peer):
    def count(self):
        self.redis.incr("peer:page:1")

    def flush(self):
        views = int(self.redis.getdel("peer:page:1") or 0)
        link = self.mysql.connect()
        try:
            with link.cursor() as cursor:
                cursor.execute("BEGIN")
                self.add(views, cursor)
                self.point("before the commit")
                cursor.execute("COMMIT")
        finally:
            link.close()


def test_flush_deleted_before_commit_gitlab(rig):
    """GitLab: the counter is taken out of Redis, then the transaction that adds it to the row rolls back, or its process
    dies: those increments are nowhere."""
    peer = FlushDeletedBeforeCommit(rig)
    peer.hit(5)
    peer.killed_at("before the commit")
    assert hit_and_flush_again(peer) == peer.hits - 5

    for point in ("merge_after_ledger", "merge_before_commit", "merge_before_commit"):
        rig.dies_at(point)
    rig.back.start()
    for statement in (b"INSERT INTO `product_views`", COMMIT):  # rolled back by MySQL: the session is killed under it
        rig.more_hits()
        moment = Moment(rig.to_mysql, "up", statement, lambda link, data: kill_sessions(rig.mysql))
        rig.back.sync_all()
        assert moment.over.is_set(), "the session was killed in the transaction"
        rig.right()
    rig.ends_exact()


def kill_sessions(mysql):
    """Every session of tallyd's, while its next statement is on the way."""
    for session, database in mysql.query("SELECT id, db FROM information_schema.processlist WHERE id <> CONNECTION_ID()"):
        if database == "shop":
            try:
                mysql.query(f"KILL CONNECTION {session}")
            except Exception as gone:  # it ended by itself
                assert "Unknown thread" in str(gone)


class HashDeletedBeforeSql(Peer):
    def count(self):
        self.redis.hincrby("peer:buffer", "1", 1)

    def flush(self):
        pipe = self.redis.pipeline(transaction=True)
        pipe.hgetall("peer:buffer")
        pipe.delete("peer:buffer")
        fields, _ = pipe.execute()
        self.point("before the SQL")
        for views in fields.values():
            self.add(int(views))


def test_hash_deleted_before_the_sql_sentry_discourse(rig):
    """Sentry's buffer, Discourse's view counts: the hash is read and deleted in Redis, and the process dies before its SQL
    is written: the whole hash is lost."""
    peer = HashDeletedBeforeSql(rig)
    peer.hit(5)
    peer.killed_at("before the SQL")
    assert hit_and_flush_again(peer) == peer.hits - 5

    for point in ("claim_after_send", "claim_done", "scan_done", "fence_done"):
        rig.dies_at(point)
    rig.ends_exact()


class LateHitsDropped(Peer):
    def count(self):
        self.redis.hincrby("peer:buffer", "1", 1)

    def flush(self):
        for page, views in self.redis.hgetall("peer:buffer").items():
            self.mysql.query(f"INSERT IGNORE INTO peer VALUES ({int(page)}, {int(views)})")  # the row exists: done before
        self.redis.delete("peer:buffer")


def test_late_hits_dropped_once_the_row_exists_buildbuddy(rig):
    """BuildBuddy: a flush inserts the row; hits of the same key that come after it find the row there and are ignored."""
    peer = LateHitsDropped(rig)
    peer.hit(5)
    peer.flush()
    assert hit_and_flush_again(peer) == peer.hits - 3

    rig.dies_at("merge_after_commit")  # the rows exist, the batch is still in Redis
    seen = rig.mysql.query("SELECT COUNT(*) FROM product_views")[0][0]
    assert seen > 0
    rig.more_hits()  # of the same keys and fields
    rig.dies_at("discard_before_send")
    rig.more_hits()
    rig.back.start()
    batches = rig.redis.client().zcard
    for _ in range(2):  # and while the very transaction of their rows is open
        moment = Moment(rig.to_mysql, "up", COMMIT, lambda link, data: rig.more_hits())
        rig.more_hits()
        rig.back.sync_all()
        assert moment.over.is_set() and batches("tally:batches") == 0
    rig.ends_exact()


class TrimFails(Peer):
    def count(self):
        self.redis.rpush("peer:queue", 1)

    def flush(self):
        page = self.redis.lrange("peer:queue", 0, 24)
        if page:
            self.add(sum(map(int, page)))
        self.point("the trim")
        self.redis.ltrim("peer:queue", len(page), -1)


def test_repeat_after_a_failed_trim_matomo(rig):
    """Matomo's queue: requests are processed, then trimmed off the queue; when the trim fails, the next worker processes
    them again: each counts twice."""
    peer = TrimFails(rig)
    peer.hit(5)
    peer.killed_at("the trim")
    assert hit_and_flush_again(peer) == peer.hits + 5

    for point in ("merge_after_commit", "discard_before_send", "discard_after_send"):
        rig.dies_at(point)
    rig.back.start()
    for arrives in (False, True):
        discard_fails(rig, arrives)
    rig.ends_exact()


def discard_fails(rig, arrives):
    """back has committed and says so to Redis: that does not arrive, or its answer does not; and its links are cut."""
    batches = rig.redis.client().zcard
    rig.back.sync_all()  # what it adopted is out of the way: there is one batch
    rig.more_hits()
    rig.load.pause()
    rows = ledger_rows(rig)
    Moment(rig.to_mysql, "up", COMMIT,
           lambda link, data: rig.to_redis.swallow_replies() if arrives else rig.to_redis.stall("up"))
    link = rig.ask_for_merging()
    wait_until(lambda: ledger_rows(rig) > rows, 30, "committed")
    if arrives:
        wait_until(lambda: batches("tally:batches") == 0, 30, "discarded")
    else:
        assert batches("tally:batches") == 1
    rig.more_hits()
    rig.to_redis.cut()
    rig.to_redis.flow()
    link.close()
    rig.back.sync_all()
    rig.right()


def ledger_rows(rig):
    return rig.mysql.query("SELECT COUNT(*) FROM tally_ledger")[0][0]


class AbsoluteOverwrite(Peer):
    """Write-behind of values: each change goes to a stream as the value that it made, workers write it as it is."""

    def count(self):
        self.redis.rpush("peer:stream", self.redis.hincrby("peer:row", "1", 1))

    def flush(self, late=None):
        values = [late] if late is not None else self.redis.lrange("peer:stream", 0, -1)
        for value in values:
            self.mysql.query(f"REPLACE INTO peer VALUES (1, {int(value)})")
        self.redis.delete("peer:stream")


def test_absolute_overwrite_rgsync(rig):
    """rgsync's write-behind: the value itself is written; one that comes late or again overwrites a newer one, and every
    one overwrites what others changed in SQL."""
    peer = AbsoluteOverwrite(rig)
    peer.hit(5)
    peer.flush()
    peer.mysql.query("UPDATE peer SET views = views + 100")  # the shop's own edit
    assert hit_and_flush_again(peer) == peer.hits  # the 100 are gone
    peer.flush(late=5)
    assert peer.stored() == 5  # and a write that came late took three newer hits away

    rig.dies_at("merge_after_commit")
    edited = rig.mysql.query("SELECT store_id, product_id FROM product_views ORDER BY 1, 2 LIMIT 1")[0]
    rig.mysql.query("UPDATE product_views SET views = views + 100 WHERE store_id = %s AND product_id = %s", edited)
    rig.shadow.acked[b"s%d:product_views" % edited[0], b"%d" % edited[1]] += 100
    rig.right()
    rig.back.start()
    rig.back.sync_all()
    for lose in (lambda link, data: setattr(link, "swallow", True), lambda link, data: link.end()):  # COMMIT's answer lost; or cut
        rig.more_hits()
        Moment(rig.to_mysql, "up", COMMIT, lose)
        rows = ledger_rows(rig)
        link = rig.ask_for_merging()
        wait_until(lambda: ledger_rows(rig) > rows, 30, "committed, or redone")
        rig.to_mysql.cut()
        link.close()
        rig.back.sync_all()
        rig.right()
    late_write(rig)
    rig.ends_exact()


def late_write(rig):
    """A statement of back's that is held on the way while front merges newer hits of the same rows, and then goes on."""
    rig.more_hits()
    rig.load.pause()
    late = Hold(rig.to_mysql, "up", b"INSERT INTO tally_ledger")
    link = rig.ask_for_merging()
    late.wait_held()
    rig.more_hits()
    rig.load.pause()
    with rig.front.client() as client:
        client.send(b"CTR.SYNC ALL\r\n")  # is answered when back's batch is merged, too
        newer = rig.redis.client().zcard
        wait_until(lambda: newer("tally:dirty") == 0 and newer("tally:batches") == 1, 30, "front has merged newer hits")
        late.let_go()
        assert isinstance(client.reply(), int)
    link.close()
