"""`redis.durability`: what holds a claim before it is merged. A Redis as managed services have it: no AOF, no CONFIG, replicas."""
import json
import re

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.ports import port
from harness.redis_server import in_step
from harness.resp import RespError, encode
from harness.wait import stays, wait_until
from harness.web import Web

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
MANAGED = ["--rename-command", "CONFIG", "", "--repl-diskless-sync-delay", "0", "--bind", "127.0.0.1"]
CONFIG_REFUSED = 78


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


@pytest.fixture
def make_managed(make_redis):
    """make(name) -> a redis-server that keeps nothing on disk; .port is its port."""
    def make(name, clock=None):
        held = port()
        server = make_redis(name, appendonly="no", clock=clock, extra=["--port", str(held), *MANAGED])
        server.port = held
        return server

    return make


def follow(replica, primary):
    replica.client().replicaof("127.0.0.1", primary.port)
    in_step(primary)


def keeps_on(server, what, **more):
    return {"redis": {"url": server.url, "durability": what, **more}}


def test_replicas_hold_the_claims(make_managed, make_daemon, mysql):
    """Killed between COMMIT and discard, and the primary with it: the promoted replica has the claim, so nothing counts twice."""
    primary, replica = make_managed("primary"), make_managed("replica")
    follow(replica, primary)
    daemon = make_daemon(primary, families=FAMILIES, more=keeps_on(primary, "replicas", replicas=1))
    said = daemon.verb("check")
    assert said.returncode == 0 and "redis.durability: replicas" in said.stdout, said.stdout + said.stderr
    account = Account(primary, mysql, FAMILIES)
    account.pending(daemon, fields(200))
    assert daemon.terminate() == 0
    daemon.crash = "merge_after_commit"
    daemon.start()
    with daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        assert daemon.ended() == -9
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


def test_promoted_while_it_runs(make_managed, make_daemon, mysql):
    """A URL of two hosts, one replica of two: merged and pending hits are in the promoted one, and tallyd goes there by itself."""
    primary, second, third = (make_managed(name) for name in ("primary", "second", "third"))
    follow(second, primary)
    follow(third, primary)
    url = f"redis://127.0.0.1:{primary.port},127.0.0.1:{second.port}/0"
    daemon = make_daemon(primary, families=FAMILIES, more={"redis": {"url": url, "durability": "replicas", "replicas": 1}})
    account = Account(primary, mysql, FAMILIES)
    account.pending(daemon, fields(200))
    daemon.sync_all()
    account.hit(daemon, fields(50))
    in_step(primary, 2)
    assert look(daemon)["service"]["redis_server"].endswith(f":{primary.port}")
    primary.kill9()
    second.client().replicaof("NO", "ONE")
    follow(third, second)
    wait_until(lambda: isinstance(account.hit(daemon, [(VIEWS, 1, 1)])[0], int), 30, "counts on the promoted one")
    account.settle(daemon, second)
    assert account.unknown == 0 and account.merged() == account.acked
    service = look(daemon)["service"]
    assert service["redis_server"].endswith(f":{second.port}") and service["redis_moved_s"] < 60
    assert service["redis_run_id"] == second.client().info("server")["run_id"]
    assert f":{second.port}" in daemon.verb("status").stdout and " ago\n" in daemon.verb("status").stdout


def test_no_replica_no_merge(make_clock, make_managed, make_daemon, make_proxy, mysql, workdir):
    """One that is away is waited for, and what waits is said."""
    clock = make_clock().flow()
    primary, replica = make_managed("primary", clock), make_managed("replica", clock)
    way = make_proxy(primary.socket, tcp=True)
    replica.client().replicaof("127.0.0.1", way.port)
    in_step(primary)
    web = f"{workdir}/http.sock"
    daemon = make_daemon(primary, families=counters(hits=1, every="1s"), clock=clock,
                         more={**keeps_on(primary, "replicas", replicas=1),
                               "listen": {"resp": [f"unix://{workdir}/tallyd-one.sock"], "http": f"unix://{web}"}})
    account = Account(primary, mysql, FAMILIES)
    seen = look(daemon)
    assert (seen["redis"]["durability"], seen["redis"]["replicas_wanted"], seen["redis"]["replicas"]) == ("replicas", 1, 1)
    one = seen["redis"]["replica"][0]
    assert one["at"].endswith(f":{replica.port}") and one["online"] and one["lag_s"] <= 1 and one["behind_bytes"] >= 0
    metrics = Web(web).metrics()
    assert metrics["tallyd_redis_replicas"] == 1 and metrics["tallyd_redis_replica_behind_bytes"] >= 0
    assert "tallyd_redis_moved_seconds" not in metrics
    account.hit(daemon, fields(3))
    wait_until(lambda: account.merged() == account.acked, 30, "it merges")
    way.refuse()
    way.cut()
    wait_until(lambda: primary.client().info("replication")["connected_slaves"] == 0, 30, "the replica is away")
    before = account.merged()
    account.hit(daemon, fields(3))
    stays(lambda: account.merged() == before, 3, "nothing is merged that no replica has")
    wait_until(lambda: "fewer replicas than redis.replicas answer" in daemon.log(), 30, "the log says why")
    assert "0 of the 1 replicas" in problems(look(daemon, 1))
    clock.step(31)
    stalled_and_back(daemon, Web(web), "batch_stands", lambda: way.refuse(False))
    wait_until(lambda: account.merged() == account.acked, 60, "it merges again")
    account.settle(daemon)


def test_table_that_is_locked(make_clock, make_redis, make_daemon, mysql, workdir):
    """MySQL answers everything but this: nothing else of `status` is wrong."""
    clock = make_clock().flow()
    redis = make_redis(appendfsync="always", clock=clock)
    web = f"{workdir}/http.sock"
    daemon = make_daemon(redis, families=counters(hits=1, every="1s"), clock=clock,
                         more={"listen": {"resp": [f"unix://{workdir}/tallyd-one.sock"], "http": f"unix://{web}"}})
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, fields(3))
    account.settle(daemon)
    assert look(daemon)["well"] and Web(web).metrics()["tallyd_merging_stalled_seconds"] == 0
    with mysql.connect() as other, other.cursor() as cursor:
        other.begin()
        cursor.execute("SELECT * FROM product_views FOR UPDATE")
        account.hit(daemon, fields(3))
        daemon.log_contains("event=chunk_retry")
        clock.step(31)
        stalled_and_back(daemon, Web(web), "batch_stands", other.rollback)
    account.settle(daemon)


def stalled_and_back(daemon, web, why, mend):
    """After `every` and 30 s it is a problem of `status`, a metric and a line of the log; mended, the problem is gone."""
    wait_until(lambda: "event=merging_stalled" in daemon.log(), 60, "it is logged")
    for_s = int(re.search(rf'event=merging_stalled counter=product_views for_s=(\d+) why={why}', daemon.log())[1])
    assert for_s >= 31
    seen = look(daemon, 1)
    assert "merging does not go on: product_views is due" in problems(seen)
    assert {one["name"]: one["stalled"] for one in seen["counters"]} == \
           {"product_views": why, "searches": None, "unique_visitors": None}
    assert web.metrics()["tallyd_merging_stalled_seconds"] >= 31
    mend()
    wait_until(lambda: "event=merging_goes_on counter=product_views" in daemon.log(), 60, "it goes on")
    wait_until(lambda: web.metrics()["tallyd_merging_stalled_seconds"] == 0, 30, "the metric is 0 again")
    assert daemon.log().count("event=merging_stalled") == 1
    wait_until(lambda: daemon.verb("status").returncode == 0, 30, "all is well")


def look(daemon, status=0):
    done = daemon.verb("status", "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def problems(seen):
    return "\n".join(problem["what"] for problem in seen["problems"])


@pytest.mark.parametrize("options,keeps,parts", [
    ({}, {"durability": "replicas"}, ("redis.replicas is 0",)),
    ({"appendonly": "no"}, {}, ("AOF is off", "redis.durability: replicas")),
    ({"extra": ["--rename-command", "CLIENT", ""]}, {}, ("Redis refuses CLIENT (ERR unknown command",)),
], ids=["no replicas", "AOF off", "no CLIENT"])
def test_refused(options, keeps, parts, make_redis, make_daemon):
    redis = make_redis(**options)
    daemon = make_daemon(redis, start=False, more={"redis": {"url": redis.url, **keeps}})
    for verb in ("check", "run"):
        done = daemon.verb(verb, timeout_s=60)
        text = done.stdout + done.stderr
        assert done.returncode == CONFIG_REFUSED, f"{verb}: {done.returncode}\n{text}"
        assert all(part in text for part in parts), text


def test_config_cannot_be_asked(make_redis, make_daemon):
    """With a WAITAOF to be believed its own word for appendfsync is not needed; else it is."""
    redis = make_redis(extra=["--rename-command", "CONFIG", ""])
    version = [int(part) for part in redis.client().info("server")["redis_version"].split(".")]
    daemon = make_daemon(redis, start=False).migrate()
    done = daemon.verb("check")
    text = done.stdout + done.stderr
    assert "tallyd cannot read appendfsync" in text
    assert done.returncode == (0 if version >= [8, 0] else CONFIG_REFUSED), text


def test_nothing_is_said(make_managed, make_daemon, mysql):
    redis = make_managed("alone")
    daemon = make_daemon(redis, families=FAMILIES, more=keeps_on(redis, "none"))
    assert "redis.durability: none" in daemon.verb("check").stdout
    assert "event=redis_durability_none" in daemon.log()
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, fields(20))
    account.settle(daemon)


def test_the_aof_is_turned_off(make_redis, make_daemon, mysql):
    """While it runs: nothing is merged that no disk has, and the log says why."""
    redis = make_redis(appendfsync="everysec")
    daemon = make_daemon(redis, families=counters(hits=1, every="1s"))
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, fields(3))
    account.settle(daemon)
    redis.client().config_set("appendonly", "no")
    before = account.merged()
    account.hit(daemon, fields(3))
    daemon.log_contains("CONFIG SET appendonly yes")
    assert account.merged() == before and "look at its disk" not in daemon.log()
    redis.client().config_set("appendonly", "yes")
    account.settle(daemon)
    assert account.merged() == account.acked


def test_redis_comes_up_without_its_aof(make_daemon, make_redis, mysql):
    """It was switched on by CONFIG SET alone. What is said brings the hits back that only the AOF has; CONFIG SET would lose them."""
    redis = make_redis()
    daemon = make_daemon(redis, families=FAMILIES)
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, [(VIEWS, 1, 5)])
    redis.client().bgrewriteaof()
    redis.kill9()
    redis.appendonly = "no"
    redis.start()
    told = "stop it, set appendonly yes in redis.conf, start it (CONFIG SET would replace that AOF)"
    wait_until(lambda: told in daemon.verb("status").stdout, 60, "status says what to do")
    assert told in daemon.verb("check").stderr and told in daemon.log()
    redis.terminate()
    redis.appendonly = "yes"
    redis.start()
    account.settle(daemon)
    assert account.merged() == account.acked
    daemon.verify()


@pytest.mark.parametrize("option,bad,good,why", [
    ("maxmemory-policy", "allkeys-lru", "noeviction", "maxmemory-policy is allkeys-lru"),
    ("appendfsync", "no", "everysec", "appendfsync is no"),
    ("appendonly", "no", "yes", "AOF is off"),
])
def test_redis_is_set_up_anew_while_it_runs(make_daemon, redis, mysql, option, bad, good, why):
    """From reports: counts were evicted, or merged while nothing was on disk, and only `check` would have said so."""
    daemon = make_daemon(redis, families=FAMILIES)
    direct = redis.client()
    account = Account(redis, mysql, FAMILIES)
    account.hit(daemon, [(VIEWS, 1, 5)])
    daemon.sync_all()
    direct.config_set(option, bad)
    daemon.log_contains("event=merges_held", 30)
    done = daemon.verb("status")
    assert done.returncode == 1 and why in done.stdout and f"CONFIG SET {option}" in done.stdout, done.stdout
    account.hit(daemon, [(VIEWS, 1, 7)])  # it counts
    with daemon.client() as client:
        assert isinstance(client.call("CTR.SYNC", "ALL"), RespError)
    assert account.merged() == 5
    direct.config_set(option, good)
    daemon.log_contains("event=merges_go_on", 60)
    daemon.sync_all()
    assert account.merged() == 12 == account.acked
    daemon.verify()
