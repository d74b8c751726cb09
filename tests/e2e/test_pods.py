"""Several Redis, each with a tallyd, and one MySQL: they merge into the same tables, and each has books of its own."""
import os
import re
import shutil
import time

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.mariadb import MariaDB
from harness.resp import RespError
from harness.wait import stays, wait_until
from test_matrix_history import Snapshot

FAMILIES = counters(hits=10**9, every="3600s")
fault = pytest.mark.fault


class Pods:
    """Two Redis, a tallyd each; the stores are spread over them, as an app's hash would."""

    def __init__(self, make_redis, make_daemon, mysql):
        self.mysql = mysql
        self.redis = [make_redis(f"r{at}", appendfsync="always") for at in range(2)]
        self.daemons = [make_daemon(redis, families=FAMILIES, instance=f"pod{at}", start=False)
                        for at, redis in enumerate(self.redis)]
        self.account = Account(self.redis[0], mysql, FAMILIES)
        self.daemons[0].migrate().start()
        self.account.hit(self.daemons[0], self.fields(0))
        self.daemons[0].sync_all()

    def fields(self, pod, count=20, store=None):
        key = f"s{store or 10 + pod}:product_views"
        return [(key, field, 1 + field % 3) for field in range(1, count + 1)]

    def hit(self, pod, count=20, store=None):
        replies = self.account.hit(self.daemons[pod], self.fields(pod, count, store))
        assert len(replies) == count and all(isinstance(reply, int) for reply in replies), replies[:3]

    def both(self):
        self.daemons[1].start()
        self.wait_held(1)
        self.another()
        return self

    def another(self):
        done = self.daemons[1].verb("migrate", "--another-redis")
        assert done.returncode == 0, done.stdout + done.stderr
        self.daemons[1].sync_all()

    def wait_held(self, pod):
        wait_until(lambda: held(self.daemons[pod]), 30, f"pod {pod} is held")

    def exact(self):
        """Both merge into the same rows, too; each one's books balance."""
        for pod, daemon in enumerate(self.daemons):
            self.hit(pod)
            self.hit(pod, store=7)
            daemon.sync_all()
        assert self.account.merged() == self.account.acked and self.account.unknown == 0
        for daemon in self.daemons:
            daemon.verify()


@pytest.fixture
def pods(make_redis, make_daemon, mysql):
    return Pods(make_redis, make_daemon, mysql)


def held(daemon):
    """What INFO says of it; None: it merges."""
    with daemon.client() as client:
        told = re.search(r"merges_held:(.*)", client.call("INFO").decode())
    return told and told[1]


def refused(daemon):
    with daemon.client() as client:
        return isinstance(client.call("CTR.SYNC", "ALL"), RespError)


def realms(mysql):
    return [row[0] for row in mysql.query("SELECT LOWER(HEX(realm)) FROM tally_realms ORDER BY 1")]


@fault("pods-new")
def test_another_redis_waits_for_the_operator(pods, mysql):
    """It may be one more, or one that lost everything: only the operator knows. Its hits are counted meanwhile."""
    pods.daemons[1].start()
    pods.wait_held(1)
    assert "tallyd migrate --another-redis" in held(pods.daemons[1])
    assert "tallyd recover --accept-rollback" in held(pods.daemons[1])
    merged = pods.account.merged()
    pods.hit(1)
    assert refused(pods.daemons[1])
    stays(lambda: pods.account.merged() == merged, 1, "nothing of it is merged")
    done = pods.daemons[1].verb("status")
    assert done.returncode == 1 and "tallyd migrate --another-redis" in done.stdout, done.stdout
    assert "rolled back" not in done.stdout, done.stdout
    pods.hit(0)
    pods.daemons[0].sync_all()
    assert len(realms(mysql)) == 1
    pods.another()
    assert held(pods.daemons[1]) is None
    own = [redis.client().get("tally:realm").decode() for redis in pods.redis]
    assert sorted(own) == realms(mysql)
    pods.exact()


def test_one_row_of_books_a_realm(pods, mysql):
    """The tables have the sum; the books say what came from where, and the view adds them up."""
    pods.both().exact()
    assert pods.daemons[0].verb("migrate", "--views").returncode == 0
    books = mysql.query("SELECT merged FROM tally_counters WHERE counter = 'product_views'")
    assert len(books) == 2 and all(row[0] > 0 for row in books)
    total, = mysql.query("SELECT merged, rejected FROM tally_progress WHERE counter = 'product_views'")
    assert total == (pods.account.merged(), 0) == (sum(row[0] for row in books), 0)


@fault("pods-rolled-back")
def test_one_is_rolled_back(pods):
    """An old copy of its data: it alone is held, and merges again when the operator says so. The other never stops."""
    pods.both().exact()
    pods.hit(1)
    old = Snapshot(pods.redis[1])
    pods.daemons[1].sync_all()
    old.restore()
    pods.daemons[1].log_contains("rolled back", 30)
    pods.wait_held(1)
    merged = pods.account.merged()
    wait_until(lambda: isinstance(pods.account.hit(pods.daemons[1], pods.fields(1, 1))[0], int), 30, "counts again")
    assert refused(pods.daemons[1])
    pods.hit(0)
    pods.daemons[0].sync_all()
    assert pods.account.merged() == merged + sum(delta for _, _, delta in pods.fields(0))
    assert held(pods.daemons[0]) is None and pods.daemons[0].verb("status").returncode == 0
    pods.daemons[0].verify()
    assert pods.daemons[1].verb("status").returncode == 1
    twice = sum(delta for _, _, delta in pods.fields(1))  # they were merged, and came back with the copy
    done = pods.daemons[1].verb("recover", "--accept-rollback")
    assert done.returncode == 0, done.stdout + done.stderr
    pods.hit(1)
    pods.daemons[1].sync_all()
    assert pods.account.merged() == pods.account.acked + twice
    assert held(pods.daemons[0]) is None
    pods.daemons[0].verify()


# --- a copy of a Redis, with a tallyd, at the same MySQL ---

def copied(pods):
    """The second Redis becomes a copy of the first, as it is while that counts, with hits that are not merged yet."""
    pods.hit(0)
    first, second = pods.redis
    second.kill9()
    shutil.rmtree(f"{second.data}/appendonlydir")
    shutil.copytree(f"{first.data}/appendonlydir", f"{second.data}/appendonlydir")
    second.start()
    pods.daemons[1].start()


@fault("copy-beside")
def test_a_copy_is_no_heir(pods, mysql):
    """From a report: a copy of the AOF for staging, its tallyd at the same MySQL. It waits and says why, and production goes on."""
    copied(pods)
    first, copy = pods.daemons
    epoch = mysql.query("SELECT epoch FROM tally_realms")
    pods.wait_held(1)
    assert "tallyd recover --take-over" in held(copy)
    assert "a copy of a Redis that is still used" in copy.verb("check").stdout
    assert "a copy of a Redis" not in first.verb("check").stdout
    with copy.client() as client:  # it counts meanwhile
        assert client.call("HINCRBY", "s7:product_views", "1", "1") == 1
    assert refused(copy)
    done = copy.verb("status")
    assert done.returncode == 1 and "--take-over" in done.stdout and "--accept-rollback" not in done.stdout, done.stdout
    done = copy.verb("recover", "--reject-unknown")  # it merges, so it asks as well
    assert done.returncode == 1 and "--take-over" in done.stderr, done.stderr
    for _ in range(3):
        assert held(first) is None
        pods.hit(0)
        first.sync_all()
        assert pods.account.merged() == pods.account.acked
    assert mysql.query("SELECT epoch FROM tally_realms") == epoch and "epoch_taken" not in copy.log()
    first.verify()
    assert copy.terminate() == 0  # as the page says, it becomes one more
    pods.redis[1].client().flushdb()
    assert copy.verb("migrate", "--another-redis").returncode == 0
    copy.start()
    pods.exact()
    assert held(first) is None


def test_an_operator_takes_over_and_back(pods):
    """The word of an operator counts more than who lives; the other one is held, and goes on when nobody answers any more."""
    copied(pods)
    first, copy = pods.daemons
    pods.wait_held(1)
    done = copy.verb("recover", "--take-over")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: held(copy) is None, 30, "the copy merges")
    assert refused(first)
    pods.wait_held(0)
    assert "its tallyd lives (recover-" in held(first)
    assert copy.terminate() == 0
    wait_until(lambda: held(first) is None, 30, "the first one takes the epoch again")
    first.sync_all()
    assert pods.account.merged() == pods.account.acked
    first.verify()


def gens(mysql):
    """Of the ledger's rows, by realm."""
    found = {}
    for realm, gen in mysql.query("SELECT LOWER(HEX(realm)), gen FROM tally_ledger ORDER BY gen"):
        found.setdefault(realm, []).append(gen)
    return found


def test_each_prunes_its_own(pods, mysql):
    """A realm's highest gen stays, however far the others are; a batch in another Redis keeps its rows."""
    pods.both()
    for _ in range(5):
        pods.hit(0)
        pods.daemons[0].sync_all()
    for _ in range(2):
        pods.hit(1)
        pods.daemons[1].sync_all()
    pods.daemons[1].kill9()
    pods.daemons[1].crash = "merge_after_commit"  # merged, and still in Redis
    pods.daemons[1].start()
    pods.hit(1)
    with pods.daemons[1].client() as client:
        client.send(b"CTR.SYNC ALL\r\n")
        wait_until(lambda: not pods.daemons[1].alive(), 30, "killed behind its COMMIT")
    mine, other = (redis.client().get("tally:realm").decode() for redis in pods.redis)
    before = gens(mysql)
    assert before[mine][-1] > before[other][-1] > before[other][0]
    mysql.query("UPDATE tally_ledger SET merged_at = merged_at - INTERVAL 30 DAY")
    pods.daemons[0].restart()
    wait_until(lambda: len(gens(mysql)[mine]) < len(before[mine]), 30, "the first one prunes")
    assert gens(mysql) == {mine: before[mine][-1:], other: before[other]}
    pods.daemons[1].crash = None
    pods.daemons[1].restart()
    wait_until(lambda: gens(mysql)[other] == before[other][-1:], 30, "the second one prunes")
    assert gens(mysql)[mine] == before[mine][-1:]
    pods.exact()


def until(mysql, table):
    """Seconds since 1970 of product_views, one for each row; None: it is not known."""
    return [row[0] and float(row[0]) for row in
            mysql.query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', complete_until) / 1e6"
                        f" FROM {table} WHERE counter = 'product_views' ORDER BY 1")]


def test_complete_until_is_the_earliest(make_clock, make_redis, make_daemon, mysql):
    """As long as one Redis has hits pending, no tallyd may say that all of that time are in MySQL."""
    clock = make_clock().flow()
    redis = [make_redis(f"r{at}", appendfsync="always", clock=clock) for at in range(2)]
    first = make_daemon(redis[0], families=FAMILIES, clock=clock)
    assert first.verb("migrate", "--views").returncode == 0
    second = make_daemon(redis[1], families=FAMILIES, instance="two", clock=clock, migrate=False)
    wait_until(lambda: held(second), 30, "held")
    assert second.verb("migrate", "--another-redis").returncode == 0

    def steps(seconds):
        for _ in range(seconds):
            clock.step(1)
            time.sleep(0.05)

    steps(6)
    second.sync_all()
    steps(12)
    wait_until(lambda: None not in until(mysql, "tally_counters") and len(until(mysql, "tally_counters")) == 2, 30,
               "both have written it")
    with second.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == 1
        client.call("CTR.SYNC", "ALL")
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == 1
    pending_at = redis[1].client().zscore("tally:dirty", "s1:product_views") / 1000
    steps(60)
    wait_until(lambda: until(mysql, "tally_counters")[1] > pending_at + 30, 30, "the first one's goes on")
    least, most = until(mysql, "tally_counters")
    assert least <= pending_at < most
    assert until(mysql, "tally_progress") == [least]
    assert mysql.query("SELECT behind_seconds FROM tally_progress WHERE counter = 'product_views'")[0][0] >= 0
    second.sync_all()
    steps(12)
    wait_until(lambda: until(mysql, "tally_progress")[0] > pending_at, 30, "it is merged")
    mysql.query("UPDATE tally_counters SET complete_until = NULL WHERE counter = 'product_views' LIMIT 1")
    assert until(mysql, "tally_progress") == [None], "of one nothing is known"


def test_two_tallyds_of_one_redis(make_redis, make_daemon, mysql):
    """They share its epoch: neither one's start ends what the other merges."""
    redis = make_redis(appendfsync="always")
    one = make_daemon(redis, families=FAMILIES)
    two = make_daemon(redis, families=FAMILIES, instance="two", migrate=False)
    account = Account(redis, mysql, FAMILIES)
    for _ in range(3):
        for daemon in (one, two):
            account.hit(daemon, [("s1:product_views", field, 1) for field in range(1, 9)])
            daemon.sync_all()
        two.restart()
    account.settle(one)
    assert account.merged() == account.acked
    log = one.log() + two.log()
    assert log.count("event=epoch_taken") == 1 and "event=epoch_lost" not in log
    redis.restart()  # another process: its history is another one
    wait_until(lambda: isinstance(account.hit(one, [("s1:product_views", 1, 1)])[0], int), 30, "counts again")
    for daemon in (one, two):
        daemon.sync_all()
    account.settle(two)
    assert account.merged() == account.acked
    assert (one.log() + two.log()).count("event=epoch_taken") == 2


@fault("pods-lost")
def test_a_redis_that_lost_everything(pods, mysql):
    """It has no realm any more, so it may be another one: held. The operator says that it is the same."""
    pods.both().exact()
    realm = pods.redis[1].client().get("tally:realm")
    pods.daemons[1].kill9()
    pods.redis[1].client().flushall()
    pods.redis[1].restart()
    pods.daemons[1].start()
    pods.wait_held(1)
    pods.hit(1)
    assert refused(pods.daemons[1])
    assert pods.redis[1].client().get("tally:realm") is None
    done = pods.daemons[1].verb("recover", "--accept-rollback")  # of several realms none is the right one
    assert done.returncode != 0 and "SET tally:realm" in done.stdout + done.stderr, done.stdout
    pods.redis[1].client().set("tally:realm", realm)
    done = pods.daemons[1].verb("recover", "--accept-rollback")
    assert done.returncode == 0, done.stdout + done.stderr
    pods.daemons[1].sync_all()
    assert pods.account.merged() == pods.account.acked and len(realms(mysql)) == 2


@fault("pods-lost")
def test_a_redis_of_another_mysql(pods, make_daemon, workdir, template):
    """Its hits belong to another MySQL's books: held, and named."""
    pods.both().exact()
    os.mkdir(f"{workdir}/other")
    other = MariaDB(f"{workdir}/other", template).start()
    try:
        other.fresh_database()
        daemon = make_daemon(pods.redis[1], families=FAMILIES, instance="wrong", mysql=other)
        wait_until(lambda: held(daemon), 30, "held")
        assert pods.redis[1].client().get("tally:realm").decode() in held(daemon)
        assert other.query("SELECT COUNT(*) FROM tally_ledger")[0][0] == 0
        daemon.kill9()
    finally:
        other.close()
    pods.exact()


def test_all_books(pods):
    """`verify` proves one Redis' part; with --all each realm has its line, from MySQL alone."""
    pods.both().exact()
    done = pods.daemons[0].verb("verify", "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(done.stdout.count(redis.client().get("tally:realm").decode()[:8]) == 1 for redis in pods.redis), done.stdout
