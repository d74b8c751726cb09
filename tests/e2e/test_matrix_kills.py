"""The fault matrix: tallyd killed, ended and stopped at each step of a hit's way; another goes on, or the next start."""
import re

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.load import Load
from harness.moment import Hold, Moment
from harness.resp import encode
from harness.wait import stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
fault = pytest.mark.fault


def chunks(mysql):
    return mysql.query("SELECT COUNT(*) FROM tally_ledger")[0][0]


def standing(redis):
    return redis.client().zcard("tally:batches")


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


def ask_to_sync(daemon):
    """The connection, on which CTR.SYNC ALL is under way."""
    client = daemon.client()
    client.send(encode("CTR.SYNC", "ALL"))
    return client


def told_of_merge(daemon):
    """rows and already of the last merge in the log."""
    return [tuple(map(int, pair)) for pair in re.findall(r"event=merged .*rows=(\d+) already=(\d+)", daemon.log())][-1]


@pytest.mark.parametrize("point,least,most", [
    pytest.param("frame_before_send", 0, 0, marks=fault("killed-before-tick")),
    pytest.param("frame_after_send", 0, 1, marks=fault("killed-frame-sent")),
    pytest.param("frame_applied", 1, 1, marks=fault("killed-frame-applied")),
])
def test_killed_with_a_frame(point, least, most, make_daemon, redis, mysql):
    """No client was answered: all hits of the frame count, or none, and earlier ones stay."""
    daemon, account = make_daemon(redis, families=FAMILIES), Account(redis, mysql, FAMILIES)
    account.pending(daemon, fields(20))
    assert daemon.terminate() == 0
    daemon.crash = point
    daemon.spawn()
    wait_until(daemon.is_ready, 30)
    assert account.hit(daemon, fields(5)) == []
    assert daemon.ended() == -9
    daemon.crash = None
    daemon.start()
    account.settle(daemon)
    assert account.unknown == sum(delta for _, _, delta in fields(5))
    assert least <= (account.merged() - account.acked) / account.unknown <= most
    assert account.merged() in (account.acked, account.acked + account.unknown)


@pytest.mark.parametrize("point,count,stand,in_ledger,already", [
    pytest.param("claim_before_send", 20, 0, 0, 0, marks=fault("killed-before-claim")),
    pytest.param("claim_after_send", 20, 1, 0, 0, marks=fault("killed-after-claim")),
    pytest.param("claim_done", 20, 1, 0, 0, marks=fault("killed-after-claim")),
    pytest.param("scan_mid", 2500, 1, 0, 0, marks=fault("killed-mid-scan")),
    pytest.param("fence_mid", 20, 1, 0, 0),
    pytest.param("merge_after_ledger", 20, 1, 0, 0, marks=fault("killed-in-transaction")),
    pytest.param("merge_before_commit", 20, 1, 0, 0, marks=fault("killed-in-transaction")),
    pytest.param("merge_after_commit", 20, 1, 1, 20, marks=fault("killed-before-unlink")),
    pytest.param("merge_between_chunks", 2500, 1, 1, 1000, marks=fault("killed-between-chunks")),
    pytest.param("discard_before_send", 20, 1, 1, 20, marks=fault("killed-before-unlink")),
    pytest.param("discard_after_send", 20, 0, 1, None, marks=fault("killed-before-unlink")),
])
def test_killed_in_a_run(point, count, stand, in_ledger, already, make_daemon, redis, mysql):
    """What is then in Redis and in the ledger is what the moment says; the next start merges what is missing."""
    daemon = make_daemon(redis, families=FAMILIES, more={"mysql": {"url": mysql.url, "writers": 1}})
    account = Account(redis, mysql, FAMILIES)
    account.pending(daemon, fields(count))
    before, merged = chunks(mysql), account.merged()
    assert daemon.terminate() == 0
    daemon.crash = point
    daemon.start()
    ask_to_sync(daemon).close()
    assert daemon.ended() == -9
    wait_until(lambda: (standing(redis), chunks(mysql) - before) == (stand, in_ledger), 60, "what the moment leaves")
    assert (account.merged() > merged) == (in_ledger > 0)
    account.check()
    daemon.crash = None
    daemon.start()
    account.settle(daemon)
    assert account.unknown == 0 and account.merged() == account.acked
    whole = -(-count // 1000)
    assert chunks(mysql) - before == whole, "cut as before: a chunk has 1,000 rows"
    if already is not None:
        assert told_of_merge(daemon) == (count - already, already)


@fault("killed-in-commit")
def test_killed_while_commit_is_unanswered(make_daemon, make_proxy, redis, mysql):
    proxy = make_proxy(mysql.socket)
    daemon = make_daemon(redis, families=FAMILIES, mysql_url=f"mysql://root@localhost/shop?socket={proxy.path}")
    account = Account(redis, mysql, FAMILIES)
    account.pending(daemon, fields(20))
    before = chunks(mysql)

    def answer_lost(link, data):
        link.swallow = True

    commit = Moment(proxy, "up", b"COMMIT", answer_lost)
    client = ask_to_sync(daemon)
    commit.wait()
    wait_until(lambda: chunks(mysql) == before + 1, 60, "it is committed")
    daemon.kill9()
    client.close()
    assert standing(redis) == 1
    account.check()
    daemon.start()
    account.settle(daemon)
    assert account.merged() == account.acked and chunks(mysql) == before + 1
    assert told_of_merge(daemon) == (0, 20)


@fault("sigterm")
def test_ended_under_load(make_daemon, redis, mysql):
    """Merges and frames under way; four ends: exit status 0 in time, and no answered hit is missing or double."""
    families = counters(hits=50, every="1s")
    daemon, account = make_daemon(redis, families=families), Account(redis, mysql, families)

    def pick(rng):
        return b"s%d:product_views" % rng.randrange(1, 20), b"%d" % rng.randrange(300), rng.choice((1, 7))

    load = Load(daemon.socket, account.shadow, pick, clients=6, depth=20, per_second=5000, seed=3)
    try:
        for _ in range(4):
            load.go()
            wanted = account.acked + 3000
            wait_until(lambda: account.acked > wanted, 60, "hits are answered")
            assert daemon.terminate(30) == 0
            load.pause()
            account.check()
            daemon.start()
    finally:
        load.stop()
    account.settle(daemon)


@fault("sigstop-lock")
def test_stopped_with_the_lock(make_daemon, make_proxy, redis, mysql):
    """Its claim is on the way when it is stopped; its lock expires, another gets it and merges. The claim comes late, finds
    nothing, and leaves the other's lock alone."""
    proxy = make_proxy(redis.socket)
    short = counters(hits=10**9, every="1s")
    first = make_daemon(redis, families=short, instance="one", redis_url=f"unix://{proxy.path}?db=0")
    second = make_daemon(redis, families=FAMILIES, instance="two", migrate=False)
    account, direct, lock = Account(redis, mysql, FAMILIES), redis.client(), VIEWS + ":sync"
    claim = Hold(proxy, "up", b"RENAMENX")
    assert account.hit(first, fields(5)) == [delta for _, _, delta in fields(5)]
    claim.wait_held()
    first.pause()  # when its clients have their answers, which go out behind the claim
    assert direct.get(lock) == b"one"
    wait_until(lambda: not direct.exists(lock), 30, "its lock has expired")
    assert len(account.hit(second, fields(5))) == 5
    wait_until(lambda: account.merged() == account.acked, 30, "the other has the lock and merges")
    assert direct.get(lock) == b"two"
    first.resume()
    claim.let_go()
    with first.client() as client:
        assert client.call("PING") == "PONG"
    account.settle(first)
    assert direct.get(lock) == b"two" and direct.ttl(lock) > 3000
    account.settle(second)
    assert account.unknown == 0 and account.merged() == account.acked


def make_stale(redis):
    """As if the owner had given no sign of life for more than a minute."""
    direct = redis.client()
    for batch in direct.zrange("tally:batches", 0, -1):
        direct.zincrby("tally:batches", -120_000, batch)


def recovered(daemon):
    with daemon.client() as client:
        return isinstance(client.call("CTR.RECOVER"), list)


@fault("sigstop-transaction")
def test_stopped_in_the_transaction(make_daemon, make_proxy, redis, mysql):
    """Stopped behind its ledger row; another takes the batch over once MySQL has ended that session (wait_timeout in real
    life, KILL here); the first, going on, finds the ledger row of the other."""
    proxy = make_proxy(mysql.socket)
    first = make_daemon(redis, families=FAMILIES, instance="one",
                        mysql_url=f"mysql://root@localhost/shop?socket={proxy.path}")
    second = make_daemon(redis, families=FAMILIES, instance="two", migrate=False)
    account = Account(redis, mysql, FAMILIES)
    account.pending(first, fields(20))
    before, merged = chunks(mysql), account.merged()
    upsert = Hold(proxy, "up", b"INSERT INTO `product_views`", lambda link, data: first.pause())
    client = ask_to_sync(first)
    upsert.wait_held()
    assert standing(redis) == 1 and chunks(mysql) == before
    of_first = wait_until(lambda: mysql.query("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx"
                                              " WHERE trx_rows_modified > 0 AND trx_mysql_thread_id > 0"), 10,
                          "its ledger row stands, not committed")
    mysql.query(f"KILL {of_first[0][0]}")
    make_stale(redis)
    wait_until(lambda: recovered(second), 30, "the other takes over")
    wait_until(lambda: standing(redis) == 0, 30, "the other has merged it")
    assert account.merged() == account.acked > merged
    first.resume()
    upsert.let_go()
    assert isinstance(client.reply(), int)
    client.close()
    wait_until(lambda: told_of_merge(first) == (0, 20), 30, "it finds the ledger row of the other")
    account.settle(first)
    account.settle(second)
    assert account.merged() == account.acked and chunks(mysql) == before + 1
    assert "event=batch_held" not in first.log() + second.log()


@fault("adopter-discarded", "two-adopters")
@pytest.mark.parametrize("pattern", [b"HSCAN", b"INSERT INTO tally_ledger"], ids=["in the scan", "before the ledger row"])
def test_one_discards_under_the_other(pattern, make_daemon, make_proxy, redis, mysql):
    """Two have the same batch: one is stopped in the scan, or before its ledger row, while the other merges and discards."""
    to_redis, to_mysql = make_proxy(redis.socket), make_proxy(mysql.socket)
    first = make_daemon(redis, families=FAMILIES, instance="one", redis_url=f"unix://{to_redis.path}?db=0",
                        mysql_url=f"mysql://root@localhost/shop?socket={to_mysql.path}")
    second = make_daemon(redis, families=FAMILIES, instance="two", migrate=False)
    account = Account(redis, mysql, FAMILIES)
    account.pending(first, fields(2500))
    hold = Hold(to_redis if pattern == b"HSCAN" else to_mysql, "up", pattern)
    client = ask_to_sync(first)
    hold.wait_held()
    assert standing(redis) == 1
    make_stale(redis)
    wait_until(lambda: recovered(second), 30, "the other takes over")
    wait_until(lambda: standing(redis) == 0, 30, "the other has merged and discarded it")
    assert account.merged() == account.acked
    hold.let_go()
    assert isinstance(client.reply(), int)
    client.close()
    stays(lambda: account.merged() == account.acked, 0.5, "merged once")
    account.settle(first)
    account.settle(second)
    assert account.merged() == account.acked
    assert "event=batch_held" not in first.log() + second.log()
