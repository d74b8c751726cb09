"""MySQL moves: a primary that is demoted while it lives, or dies, with a replica promoted; a Galera node that leaves its
cluster. tallyd follows, without waiting for mysql.timeout, and each hit is counted once. The times are printed."""
import json
import re
import threading
import time

import pytest

from harness.books import read_mysql
from harness.daemon import counters
from harness.moment import COMMIT, Moment
from harness.programs import MYSQLD
from harness.replicas import GaleraNode, galera_missing
from harness.shop import Shop
from harness.wait import patience, stays, wait_until
from harness.web import Web

FAMILIES = counters(hits=10, every="1s")
NEEDS_SEMISYNC = pytest.mark.skipif(MYSQLD is not None, reason="MySQL's semi-synchronous replication is a plugin")
NEVER = "300s"  # mysql.timeout where no wait may last for so long


@pytest.fixture
def mysql(request):
    """What conftest's fixtures take for the MySQL: the primary as the test begins."""
    return request.getfixturevalue("pair").old if "pair" in request.fixturenames else request.getfixturevalue("node")


@pytest.fixture
def node(directory, template):
    if galera_missing():
        pytest.skip(galera_missing())
    made = GaleraNode(f"{directory}/node", template).start()
    wait_until(made.ready, 60, "the node is its cluster")
    yield made.prepare()
    made.close()


class Busy(Shop):
    """A tallyd that merges all the time, while clients go on."""

    def begin(self, url, writers=2, keep="0s", timeout=NEVER):
        self.daemon = self.make_daemon(self.redis, start=False, families=FAMILIES, mysql=self.mysql,
                                       mysql_url=self.mysql.url)  # root's, for migrate
        self.daemon.migrate()
        self.daemon.config["mysql"] = {"url": url, "writers": writers, "keep": keep, "timeout": timeout}
        self.web = f"{self.daemon.socket}.http"
        self.daemon.config["listen"]["http"] = f"unix://{self.web}"
        self.daemon.write_config()
        self.daemon.start()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()
        wait_until(lambda: self.ledger_rows() > 5, 30, "batches are merged")
        return self

    def go_on(self):
        while not self.over.wait(0.01):
            self.hits(20)

    def end(self):
        self.over.set()
        self.thread.join(patience(60))
        assert not self.thread.is_alive()

    def rows_come(self, server, since, what):
        """How long after `since` has `server` a new row in its ledger?"""
        self.mysql = server
        rows = self.ledger_rows()
        wait_until(lambda: self.ledger_rows() > rows, 60, f"rows in {server.address} after {what}", every_s=0.01)
        print(f"{what}: rows after {time.monotonic() - since:.2f} s")

    def exact(self):
        """All that was answered is in MySQL, once; no batch was held, and none is missing."""
        self.end()
        self.daemon.sync_all()
        assert read_mysql(self.mysql, FAMILIES)[0] == self.acked
        self.daemon.verify()
        for event in ("batch_held", "mysql_behind", "merges_held"):
            assert f"event={event}" not in self.daemon.log()


@pytest.fixture
def busy(make_redis, make_daemon, make_proxy, mysql):
    made = Busy(make_redis, make_daemon, make_proxy, mysql)
    yield made
    made.over.set()


def moves(daemon):
    return re.findall(r"event=mysql_moved .*", daemon.log())


def switch_over(pair):
    """The old primary refuses writes and keeps its sessions; then the replica has all it has, and takes them."""
    pair.old.refuse_writes()
    pair.catch_up()
    pair.promote()
    return time.monotonic()


@pytest.mark.fault("mysql-demoted")
@pytest.mark.parametrize("writers", [1, 2, 16])
def test_demoted_alive(pair, busy, writers):
    """By a list of hosts. All writers leave the old primary, whose sessions live."""
    busy.begin(pair.url, writers)
    assert pair.old.users() > 0
    busy.rows_come(pair.new, switch_over(pair), f"demoted, {writers} writers")
    wait_until(lambda: pair.old.users() == 0, 60, "no session is left at the old primary")
    busy.exact()
    move, = moves(busy.daemon)
    print(move)
    assert f"from=\"{pair.old.address}" in move and f"to=\"{pair.new.address}" in move


@pytest.mark.fault("mysql-name-moves")
@pytest.mark.parametrize("writers", [1, 16])
def test_name_moves(pair, busy, make_proxy, writers):
    """By one name: existing connections stay with the old primary, new ones go to the new."""
    name = make_proxy(("127.0.0.1", pair.old.port), tcp=True)
    busy.begin(f"mysql://tally@127.0.0.1:{name.port}/shop", writers)
    pair.old.refuse_writes()
    pair.catch_up()
    name.upstream = ("127.0.0.1", pair.new.port)
    pair.promote()
    busy.rows_come(pair.new, time.monotonic(), f"the name moved, {writers} writers")
    wait_until(lambda: pair.old.users() == 0, 60, "no session is left at the old primary")
    busy.exact()
    assert len(moves(busy.daemon)) == 1


@pytest.mark.fault("mysql-demoted-idle")
def test_demoted_while_idle(pair, busy):
    """Nothing is merged: the look at an idle session sees it, too. Meanwhile MySQL counts as down, and hits go on."""
    busy.begin(pair.url, 16)
    busy.end()
    busy.daemon.sync_all()
    pair.old.refuse_writes()
    busy.daemon.log_contains("event=mysql_down")
    busy.hits()
    rows = busy.ledger_rows()
    stays(lambda: busy.ledger_rows() == rows, 1, "the replica does not take rows")
    pair.catch_up()
    pair.promote()
    busy.rows_come(pair.new, time.monotonic(), "demoted while idle")
    wait_until(lambda: pair.old.users() == 0, 60, "no session is left at the old primary")
    busy.exact()


@pytest.mark.fault("mysql-killed-promoted")
@pytest.mark.parametrize("how", ["killed", "stands"])
def test_primary_gone_replica_promoted(pair, busy, how):
    """kill -9 (or SIGSTOP: connections stay open and silent) while nothing is under way, with the replica promoted."""
    busy.begin(pair.url, timeout="5s" if how == "stands" else NEVER)
    busy.end()
    busy.daemon.sync_all()
    pair.catch_up()
    (pair.old.kill9 if how == "killed" else pair.old.pause)()
    busy.hits()
    pair.promote()
    since, busy.mysql = time.monotonic(), pair.new
    wait_until(lambda: read_mysql(pair.new, FAMILIES)[0] == busy.acked, 60, "all is merged in the new primary")
    print(f"{how}: merged after {time.monotonic() - since:.2f} s")
    busy.exact()


@pytest.mark.fault("mysql-killed-semisync")
@NEEDS_SEMISYNC
def test_primary_killed_under_way(pair, busy):
    """kill -9 amid COMMITs, of which the replica has each that was answered, and maybe more: the ledger knows."""
    busy.begin(pair.url, 16)
    pair.wait_for_replica()
    rows = busy.ledger_rows()
    wait_until(lambda: busy.ledger_rows() > rows + 5, 30, "batches are merged")
    pair.old.kill9()
    pair.apply_all()
    pair.promote()
    busy.rows_come(pair.new, time.monotonic(), "killed under way")
    busy.exact()


@pytest.mark.fault("mysql-moved-in-commit")
@NEEDS_SEMISYNC
def test_commit_in_doubt(pair, busy, make_proxy):
    """The COMMIT's answer is lost with the primary, and the replica has it: the new primary's ledger says so."""
    near = make_proxy(("127.0.0.1", pair.old.port), tcp=True)
    busy.begin(f"mysql://tally@127.0.0.1:{near.port},{pair.new.address}/shop")
    busy.end()
    busy.daemon.sync_all()
    pair.wait_for_replica()
    pair.catch_up()
    rows = busy.ledger_rows()
    Moment(near, "up", COMMIT, lambda link, data: setattr(link, "swallow", True))
    busy.hits()
    wait_until(lambda: pair.new.query("SELECT COUNT(*) FROM tally_ledger")[0][0] > rows, 30, "the replica has it")
    pair.old.kill9()
    pair.apply_all()
    pair.promote()
    busy.mysql = pair.new
    busy.daemon.log_contains("already=1", 60)
    busy.exact()


def merged_beside(pair, busy):
    """The hits that are merged while the replica does not follow."""
    busy.end()
    busy.daemon.sync_all()
    pair.catch_up()
    pair.fall_behind()
    before = busy.acked.copy()
    busy.hits()
    busy.daemon.sync_all()
    return busy.acked - before


@pytest.mark.fault("mysql-failover")
def test_replica_that_lags(pair, busy):
    """Demoted alive, with hits all the time: however quick the move is, the new ledger is looked at before it gets a row."""
    busy.begin(pair.url)
    gone = merged_beside(pair, busy)
    pair.old.refuse_writes()
    pair.promote()
    busy.hits()
    busy.mysql = pair.new
    wait_until(lambda: busy.acked - read_mysql(pair.new, FAMILIES)[0] == gone, 30, "the rest is merged")
    assert busy.daemon.log().count("event=mysql_behind") == 1


def promoted_behind(pair, busy, seconds, keep):
    """kill -9 amid merges, with a replica promoted that is that many seconds behind: nothing is lost."""
    busy.begin(pair.url, keep=keep)
    pair.lag(seconds)
    newest = "SELECT MAX(gen) FROM tally_ledger"
    first, = pair.new.query(newest)[0]
    wait_until(lambda: pair.old.query(newest)[0][0] > first + 5, 30, "it lacks batches")
    last, = pair.old.query(newest)[0]
    wait_until(lambda: pair.new.query(newest)[0][0] >= last, 60, "it lags by so much")
    had = busy.ledger_rows()
    pair.old.kill9()
    pair.promote()
    lacks = had - pair.new.query("SELECT COUNT(*) FROM tally_ledger")[0][0]
    busy.rows_come(pair.new, time.monotonic(), f"{seconds} s behind, {lacks} merged batches lost with the old primary")
    assert lacks > 0 and busy.daemon.figure("batches_kept") > 0
    busy.exact()
    assert "event=kept_again" in busy.daemon.log()


@pytest.mark.fault("mysql-lags-kept")
def test_replica_that_lags_less_than_keep(pair, busy):
    promoted_behind(pair, busy, 5, "30s")


@pytest.mark.fault("mysql-name-lags")
@pytest.mark.parametrize("writers", [1, 2])
def test_name_moves_to_a_replica_that_lags(pair, busy, make_proxy, writers):
    """By one name, whose new server takes writes before any connect fails: it is another one all the same, and lacks what is kept."""
    name = make_proxy(("127.0.0.1", pair.old.port), tcp=True)
    busy.begin(f"mysql://tally@127.0.0.1:{name.port}/shop", writers, keep="30s")
    assert merged_beside(pair, busy) and busy.daemon.figure("batches_kept") > 0
    pair.promote()
    name.upstream = ("127.0.0.1", pair.new.port)
    name.cut()
    busy.hits()
    busy.mysql = pair.new
    wait_until(lambda: read_mysql(pair.new, FAMILIES)[0] == busy.acked, 60, "what the new one lacked is merged there")
    busy.exact()
    assert len(moves(busy.daemon)) == 1 and "event=kept_again" in busy.daemon.log()


@pytest.mark.soak
@pytest.mark.parametrize("_round", range(10))
def test_replica_that_lags_less_than_keep_again(pair, busy, _round):
    promoted_behind(pair, busy, 5, "30s")


def test_kept_is_no_problem(pair, busy):
    """Nobody waits for what is kept, nothing calls it late; after a restart the ledger knows it, and it is kept again."""
    busy.begin(pair.url, keep="6m")
    busy.end()
    busy.daemon.sync_all()
    done = busy.daemon.verb("status")
    assert done.returncode == 0 and re.search(r"\d+ on the way to MySQL, \d+ of them merged, and kept", done.stdout), done.stdout
    kept, standing = busy.daemon.figure("batches_kept"), busy.redis.client().zcard("tally:batches")
    assert kept == standing > 5 and busy.daemon.figure("fields_in_flight") == 0
    merged = busy.daemon.figure("rows_merged")
    assert busy.daemon.figure("rows_kept") == merged
    busy.daemon.verify()
    wait_until(lambda: "tallyd_oldest_unmerged_seconds 0.000\n" in Web(busy.web).ask("/metrics").text, 60, "none of it is late")
    busy.daemon.terminate()
    assert busy.redis.client().zcard("tally:batches") == standing
    busy.daemon.start()
    wait_until(lambda: busy.daemon.figure("batches_kept") == kept, 60, "they are kept again")
    assert busy.daemon.figure("rows_merged") == 0
    busy.exact()


@pytest.mark.fault("mysql-lags-more")
def test_replica_that_lags_more_than_keep(pair, busy):
    """What was kept is merged again; what was discarded is lost, and the log and `verify` have the same figure."""
    busy.begin(pair.url, keep="1s")
    busy.end()
    busy.daemon.sync_all()
    pair.catch_up()
    pair.fall_behind()
    before = busy.acked.copy()
    for _ in range(3):
        busy.hits()
        busy.daemon.sync_all()
    gone = busy.acked - before
    wait_until(lambda: busy.daemon.figure("batches_kept") == 0, 30, "what was merged is discarded")
    busy.hits()
    busy.daemon.sync_all()
    assert busy.daemon.figure("batches_kept") == 1
    pair.old.kill9()
    pair.promote()
    busy.mysql = pair.new
    busy.daemon.log_contains("event=kept_again", 60)
    busy.hits()
    wait_until(lambda: busy.acked - read_mysql(pair.new, FAMILIES)[0] == gone, 60, "the rest is merged")
    said_alike(busy, gone)


def said_alike(busy, gone):
    """The log and `verify` have the same figure of what is lost."""
    said, = re.findall(r"event=mysql_behind .* hits=(\d+) ", busy.daemon.log())
    done = busy.daemon.verb("verify", "--json")
    views, = [counter for counter in json.loads(done.stdout)["counters"] if counter["name"] == "product_views"]
    assert int(said) == views["difference"] == sum(gone.values()), done.stdout
    assert done.returncode == 1


@pytest.mark.soak
def test_replica_that_lags_40_s(pair, busy):
    """The same in its real proportion, under hits all the time."""
    busy.begin(pair.url, keep="30s")
    newest = "SELECT MAX(gen) FROM tally_ledger"
    last, = pair.old.query(newest)[0]
    pair.lag(40)
    wait_until(lambda: pair.new.query(newest)[0][0] > last, 90, "it has applied what is 40 s old")
    had, kept = busy.ledger_rows(), busy.daemon.figure("batches_kept")
    pair.old.kill9()
    lacks = had - pair.new.query("SELECT COUNT(*) FROM tally_ledger")[0][0]
    pair.promote()
    busy.rows_come(pair.new, time.monotonic(), f"40 s behind, {lacks} merged batches lost with the old primary, {kept} kept")
    busy.end()
    busy.daemon.sync_all()
    gone = busy.acked - read_mysql(pair.new, FAMILIES)[0]
    print(f"answered {sum(busy.acked.values())}, lost {sum(gone.values())}")
    assert sum(gone.values()) > 0 and lacks > kept > 0
    said_alike(busy, gone)


@pytest.mark.fault("mysql-back-and-forth")
def test_old_primary_comes_back(pair, busy):
    """The old primary comes back as a second one that takes writes: tallyd stays where it is."""
    busy.begin(pair.url)
    busy.rows_come(pair.new, switch_over(pair), "there")
    pair.old.query("SET GLOBAL read_only = OFF")
    rows = pair.old.query("SELECT COUNT(*) FROM tally_ledger")
    busy.rows_come(pair.new, time.monotonic(), "two take writes")
    stays(lambda: pair.old.query("SELECT COUNT(*) FROM tally_ledger") == rows, 2, "nothing goes to the first")
    pair.old.refuse_writes()
    busy.exact()
    assert len(moves(busy.daemon)) == 1


def test_check_names_each_host(pair, make_redis, make_daemon):
    daemon = make_daemon(make_redis(appendfsync="always", in_memory=True), start=False, mysql_url=pair.url)
    daemon.config["mysql"] = pair.old.url
    daemon.write_config()
    daemon.migrate()
    daemon.config["mysql"] = pair.url.replace("/shop", ",127.0.0.1:1/shop")
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"MySQL at {pair.old.address} (" in done.stdout and ") takes writes." in done.stdout
    assert re.search(rf"MySQL at {pair.new.address}\b.* takes no writes: read_only is on", done.stdout)
    assert "MySQL at 127.0.0.1:1: MySQL error 2" in done.stdout
    daemon.config["mysql"] = f"mysql://tally@{pair.new.address}/shop"
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode != 0 and "read_only is on; name the primary in mysql.url" in done.stderr
    assert daemon.verb("verify").returncode == 0  # which only reads


@pytest.mark.fault("mysql-galera-leaves")
def test_galera_node_leaves(node, busy):
    """1047: MySQL is down, no table is at fault; what waits is merged as soon as the node is back."""
    busy.begin(f"mysql://tally@{node.address}/shop")
    node.leave()
    wait_until(lambda: not node.ready(), 60, "the node has left")
    busy.daemon.log_contains("event=mysql_down")
    node.come_back()
    wait_until(node.ready, 60, "the node is back")
    busy.rows_come(node, time.monotonic(), "the Galera node came back")
    busy.exact()
