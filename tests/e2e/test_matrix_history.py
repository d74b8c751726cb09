"""The fault matrix: a Redis whose history is another than it was. What MySQL has already must not come again unseen."""
import os
import re
import shutil

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.redis_server import in_step
from harness.resp import RespError, encode
from harness.wait import stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
AT_ONCE = ["--repl-diskless-sync-delay", "0"]
fault = pytest.mark.fault


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


class Snapshot:
    """A copy of an AOF that writes always, taken while nothing is under way."""

    def __init__(self, redis):
        self.redis, self.live = redis, f"{redis.data}/appendonlydir"
        shutil.copytree(self.live, self.live + ".copy")

    def restore(self):
        self.redis.kill9()
        shutil.rmtree(self.live)
        os.rename(self.live + ".copy", self.live)
        self.redis.start()


class Dump:
    """Redis' own RDB file, of a server that keeps nothing else."""

    def __init__(self, redis):
        self.redis = redis
        redis.client().save()

    def restore(self):
        self.redis.restart()


class Swap:
    """A copy in another database of the same server, whose links live."""

    def __init__(self, redis):
        self.client = redis.client()
        for key in self.client.keys():
            self.client.copy(key, key, 1)

    def restore(self):
        self.client.swapdb(0, 1)


@pytest.mark.parametrize("copy,options", [
    pytest.param(Swap, {"appendfsync": "always"}, marks=fault("snapshot-swapped"), id="swapped"),
    pytest.param(Dump, {"appendonly": "no"}, marks=fault("redis-killed-rdb"), id="RDB only"),
    pytest.param(Snapshot, {"appendfsync": "always"}, marks=fault("snapshot-pending"), id="old snapshot"),
])
def test_hits_that_are_merged_come_back(copy, options, make_redis, make_daemon, mysql):
    """Held, loudly, and counting goes on; only the operator's word merges them a second time."""
    redis = make_redis(**options)
    daemon = make_daemon(redis, families=FAMILIES, more={"redis": {"url": redis.url, "durability": "none"}})
    account = Account(redis, mysql, FAMILIES)
    account.pending(daemon, fields(20))
    old = copy(redis)
    account.hit(daemon, fields(1))
    daemon.sync_all()
    merged = account.merged()
    assert merged == account.acked
    old.restore()
    wait_until(lambda: isinstance(account.hit(daemon, fields(5))[0], int), 30, "counts again")
    daemon.log_contains("rolled back", 30)
    with daemon.client() as client:
        assert isinstance(client.call("CTR.SYNC", "ALL"), RespError)
    stays(lambda: account.merged() == merged, 1, "nothing is merged")
    done = daemon.verb("status")
    assert done.returncode != 0 and "rolled back" in done.stdout + done.stderr, done.stdout
    if copy is Dump:
        return
    done = daemon.verb("recover", "--accept-rollback")
    assert done.returncode == 0, done.stdout + done.stderr
    daemon.sync_all()
    assert account.merged() == account.acked + sum(delta for _, _, delta in fields(20))


@fault("snapshot-batch")
def test_batch_that_is_merged_comes_back(make_daemon, redis, mysql):
    """The copy is from the moment after a claim: it contains the batch, and the ledger has it."""
    daemon, account = make_daemon(redis, families=FAMILIES), Account(redis, mysql, FAMILIES)
    account.pending(daemon, fields(20))
    assert daemon.terminate() == 0
    daemon.crash = "claim_done"
    daemon.start()
    with daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        assert daemon.ended() == -9
    old = Snapshot(redis)
    daemon.crash = None
    daemon.start()
    account.settle(daemon)
    assert account.merged() == account.acked
    old.restore()
    direct = redis.client()
    assert direct.zcard("tally:batches") == 1

    def recovered():
        with daemon.client() as client:
            return isinstance(client.call("CTR.RECOVER"), list)

    wait_until(recovered, 30, "CTR.RECOVER")
    wait_until(lambda: direct.zcard("tally:batches") == 0, 30, "it is discarded")
    assert re.search(r"event=merged .* rows=0 already=20 ", daemon.log())
    account.settle(daemon)
    assert account.merged() == account.acked
    assert "rolled back" not in daemon.log()


@fault("failover-lagging")
def test_failover_to_a_replica_that_lags(make_redis, make_daemon, make_proxy, mysql, free_port):
    """The claim never gets to the replica, so it is not merged; the replica, promoted, has its hits pending: merged once.
    Without the barrier they would be in MySQL already, and count twice."""
    primary = make_redis("primary", appendfsync="always", extra=AT_ONCE)
    to_primary = make_proxy(primary.socket, tcp=True)  # the replica's link
    replica = make_redis("replica", appendfsync="always", extra=["--port", str(free_port), *AT_ONCE])
    replica.client().replicaof("127.0.0.1", to_primary.port)
    third = make_redis("third", appendfsync="always", extra=AT_ONCE)  # once the replica is promoted
    third.client().replicaof("127.0.0.1", free_port)
    wait_until(lambda: third.client().info("replication")["master_link_status"] == "up", 30, "all three are in step")
    proxy = make_proxy(primary.socket)
    url = f"unix://{proxy.path}?db=0"
    daemon = make_daemon(primary, families=FAMILIES, redis_url=url, more={"redis": {"url": url, "replicas": 1}})
    account = Account(primary, mysql, FAMILIES)
    account.pending(daemon, fields(20))
    merged = account.merged()
    in_step(primary)  # a WAIT of a link that wrote nothing says nothing
    to_primary.stall()
    with daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        wait_until(lambda: primary.client().zcard("tally:batches") == 1, 30, "it is claimed")
    stays(lambda: account.merged() == merged and primary.client().zcard("tally:batches") == 1, 1.5,
          "nothing is merged that the replica does not have")
    primary.kill9()
    to_primary.refuse()
    to_primary.flow()
    replica.client().replicaof("NO", "ONE")
    proxy.upstream = replica.socket
    proxy.cut()
    direct = replica.client()
    assert direct.zcard("tally:batches") == 0 and direct.hlen(VIEWS) == 20
    wait_until(lambda: isinstance(account.hit(daemon, fields(1))[0], int), 30, "counts again")
    account.settle(daemon, replica)
    assert account.unknown == 0 and account.merged() == account.acked
