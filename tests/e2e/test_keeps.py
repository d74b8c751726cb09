"""`redis.keeps`: what holds a claim before it is merged. A Redis as managed services have it: no AOF, no CONFIG, replicas."""
import re

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.ports import port
from harness.resp import encode
from harness.wait import stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
MANAGED = ["--rename-command", "CONFIG", "", "--repl-diskless-sync-delay", "0", "--bind", "127.0.0.1"]
CONFIG_REFUSED = 78


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


@pytest.fixture
def make_managed(make_redis):
    """make(name) -> a redis-server that keeps nothing on disk; .port is its port."""
    def make(name):
        held = port()
        server = make_redis(name, appendonly="no", extra=["--port", str(held), *MANAGED])
        server.port = held
        return server

    return make


def follow(replica, primary):
    replica.client().replicaof("127.0.0.1", primary.port)
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", 30, "the replica is in step")


def keeps_on(server, what, **more):
    return {"redis": {"url": server.url, "keeps": what, **more}}


def test_replicas_hold_the_claims(make_managed, make_daemon, mysql):
    """Killed between COMMIT and discard, and the primary with it: the promoted replica has the claim, so nothing counts twice."""
    primary, replica = make_managed("primary"), make_managed("replica")
    follow(replica, primary)
    daemon = make_daemon(primary, families=FAMILIES, more=keeps_on(primary, "replicas", replicas=1))
    said = daemon.verb("check")
    assert said.returncode == 0 and "redis.keeps: replicas" in said.stdout, said.stdout + said.stderr
    account = Account(primary, mysql, FAMILIES)
    account.pending(daemon, fields(200))
    assert daemon.terminate() == 0
    daemon.crash = "merge_after_commit"
    daemon.start()
    with daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        assert daemon.process.wait(30) == -9
    primary.kill9()
    replica.client().replicaof("NO", "ONE")
    assert replica.client().zcard("tally:batches") == 1
    third = make_managed("third")
    follow(third, replica)
    daemon.crash = None
    daemon.config.update(keeps_on(replica, "replicas", replicas=1))
    daemon.write_config()
    daemon.start()
    account.hit(daemon, fields(50))
    account.settle(daemon, replica)
    assert account.unknown == 0 and account.merged() == account.acked
    assert re.search(r"event=merged .* already=200 ", daemon.log()) and "rolled back" not in daemon.log()


def test_no_replica_no_merge(make_managed, make_daemon, make_proxy, mysql):
    """One that is away is waited for, and what waits is said."""
    primary, replica = make_managed("primary"), make_managed("replica")
    way = make_proxy(primary.socket, tcp=True)
    replica.client().replicaof("127.0.0.1", way.port)
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", 30, "the replica is in step")
    daemon = make_daemon(primary, families=counters(hits=1, every="1s"), more=keeps_on(primary, "replicas", replicas=1))
    account = Account(primary, mysql, FAMILIES)
    account.hit(daemon, fields(3))
    wait_until(lambda: account.merged() == account.acked, 30, "it merges")
    way.refuse()
    way.cut()
    wait_until(lambda: primary.client().info("replication")["connected_slaves"] == 0, 30, "the replica is away")
    before = account.merged()
    account.hit(daemon, fields(3))
    stays(lambda: account.merged() == before, 3, "nothing is merged that no replica has")
    wait_until(lambda: "fewer replicas than redis.replicas answer" in daemon.log(), 30, "the log says why")
    way.refuse(False)
    wait_until(lambda: account.merged() == account.acked, 60, "it merges again")
    account.settle(daemon)


@pytest.mark.parametrize("options,keeps,parts", [
    ({}, {"keeps": "replicas"}, ("redis.replicas is 0",)),
    ({}, {"volatile": "accept"}, ("redis.volatile is no option any more", "redis.keeps: nothing")),
    ({"appendonly": "no"}, {}, ("AOF is off", "redis.keeps: replicas")),
    ({"extra": ["--rename-command", "CLIENT", ""]}, {}, ("Redis refuses CLIENT (ERR unknown command",)),
], ids=["no replicas", "volatile", "AOF off", "no CLIENT"])
def test_refused(options, keeps, parts, make_redis, make_daemon):
    redis = make_redis(**options)
    daemon = make_daemon(redis, start=False, more={"redis": {"url": redis.url, **keeps}})
    for verb in ("check", "run"):
        done = daemon.verb(verb, timeout_s=60)
        text = done.stdout + done.stderr
        assert done.returncode == CONFIG_REFUSED, f"{verb}: {done.returncode}\n{text}"
        assert all(part in text for part in parts), text


def test_config_cannot_be_asked(make_redis, make_daemon):
    """With WAITAOF its own word for appendfsync is not needed; before, it is."""
    redis = make_redis(extra=["--rename-command", "CONFIG", ""])
    version = [int(part) for part in redis.client().info("server")["redis_version"].split(".")]
    daemon = make_daemon(redis, start=False).migrate()
    done = daemon.verb("check")
    text = done.stdout + done.stderr
    assert "appendfsync cannot be read" in text
    assert done.returncode == (0 if version >= [7, 2] else CONFIG_REFUSED), text


def test_nothing_is_said(make_managed, make_daemon, mysql):
    redis = make_managed("alone")
    daemon = make_daemon(redis, families=FAMILIES, more=keeps_on(redis, "nothing"))
    assert "redis.keeps: nothing" in daemon.verb("check").stdout
    assert "event=redis_keeps_nothing" in daemon.log()
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, fields(20))
    account.settle(daemon)
