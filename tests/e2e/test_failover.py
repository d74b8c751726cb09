"""Redis' primary moves: demoted without a kill, killed, frozen, or another server behind its name. All links of a tallyd
follow together, merging goes on, and what was answered is counted once."""
import threading
import time

import pytest

from harness.account import Account
from harness.daemon import counters
from harness.ports import port as held_port
from harness.redis_server import in_step
from harness.resp import RespError, encode
from harness.wait import patience, stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
AT_ONCE = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
fault = pytest.mark.fault


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


class Pair:
    """Two redis-servers on ports, the second a replica of the first, and tallyds that know both, or one name."""

    def __init__(self, make_redis, make_daemon, make_proxy, mysql):
        self.make_daemon = make_daemon
        self.ports = [held_port(), held_port()]
        self.first, self.second = [make_redis(f"r{at}", appendfsync="always", in_memory=True,
                                              extra=["--port", str(port), *AT_ONCE])
                                   for at, port in enumerate(self.ports)]
        self.second.client().replicaof("127.0.0.1", self.ports[0])
        in_step(self.first)
        self.name = make_proxy(("127.0.0.1", self.ports[0]), tcp=True)
        self.account = Account(self.first, mysql, FAMILIES)

    def url(self, way):
        if way == "name":
            return f"redis://127.0.0.1:{self.name.port}/0"
        return "redis://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + "/0"

    def daemon(self, way, instance="one", **redis):
        return self.make_daemon(self.first, families=FAMILIES, instance=instance, redis_url=self.url(way),
                                more={"redis": {"url": self.url(way), "timeout": "60s", **redis}})

    def promote(self):
        in_step(self.first)
        self.second.client().replicaof("NO", "ONE")
        self.name.upstream = ("127.0.0.1", self.ports[1])

    def settles(self, daemon, deadline_s=60):
        """Merges again, within that time, what is counted from now on; and everything is counted once."""
        began = time.monotonic()
        wait_until(lambda: isinstance(self.account.hit(daemon, fields(3))[0], int), deadline_s, "counts again")
        daemon.sync_all(deadline_s)
        took = time.monotonic() - began
        self.account.settle(daemon, self.second)
        assert self.account.unknown == 0 and self.account.merged() == self.account.acked
        return took


@pytest.fixture
def pair(make_redis, make_daemon, make_proxy, mysql):
    return Pair(make_redis, make_daemon, make_proxy, mysql)


def no_link_waited(daemon):
    """None left a primary because it waited for redis.timeout in vain, which is a minute here."""
    assert "no answer for " not in daemon.log()


class Watch:
    """Hits one field and asks for its total, a hundred times a second each: never below what was answered before."""

    def __init__(self, daemon, hits=True):
        self.daemon, self.acked, self.asked, self.wrong, self.ended = daemon, 0, 0, [], threading.Event()
        self.last_hit = time.monotonic()
        self.longest = 0
        self.threads = [threading.Thread(target=self.run, args=(one,)) for one in ([self.hit] if hits else []) + [self.ask]]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(patience(30))
        assert not self.wrong, self.wrong[:3]

    def run(self, one):
        with self.daemon.client() as client:
            while not self.ended.wait(0.01):
                one(client)

    def hit(self, client):
        if isinstance(client.call("HINCRBY", "s2:product_views", "1", 1), int):
            now = time.monotonic()
            self.acked += 1
            self.longest, self.last_hit = max(self.longest, now - self.last_hit), now

    def ask(self, client):
        least = self.acked
        told = client.call("CTR.TOTAL", "s2:product_views", "1")
        self.asked += 1
        if not isinstance(told, RespError) and told[0] < least:
            self.wrong.append((told, least))


def links_of(redis, daemon):
    """Ids of the instance's connections by their part."""
    found = [client for client in redis.client().client_list() if client["name"].startswith(f"tallyd:{daemon.instance}:")]
    return {client["name"].rpartition(":")[2]: client["id"] for client in found}


def no_error(answer):
    return None if isinstance(answer, RespError) else answer


def demote_to_replica(pair):
    pair.first.client().replicaof("127.0.0.1", pair.ports[1])


def demote_cut_off(pair):
    """Of a primary that is not there: what it tells is old."""
    pair.first.client().replicaof("127.0.0.1", 1)


@fault("failover-demoted")
@pytest.mark.parametrize("way", ["hosts", "name"])
@pytest.mark.parametrize("demote", [demote_to_replica, demote_cut_off], ids=["in step", "cut off"])
def test_demoted_without_a_kill(demote, way, pair):
    """All links leave at once, also those of a second tallyd; none of them is cut again."""
    one, two = pair.daemon(way), pair.daemon(way, instance="two")
    pair.account.pending(one, fields(20))
    pair.account.pending(two, fields(20))
    old = pair.first.client().info("server")["run_id"]
    pair.promote()
    with Watch(one, hits=False) as watch:
        demote(pair)
        took = pair.settles(one)
        wait_until(lambda: watch.asked > 50, 30, "asked meanwhile")
    pair.settles(two)
    print(f"merged again after {took:.2f} s")
    wait_until(lambda: not links_of(pair.first, one) and not links_of(pair.first, two), 60, "nobody is on the old one")
    roles = {"frame", "sync", "fence", "clean"}
    wait_until(lambda: all(roles <= set(links_of(pair.second, daemon)) for daemon in (one, two)), 60, "all links are there")
    ids = links_of(pair.second, one), links_of(pair.second, two)
    for daemon in (one, two):
        moved = [line for line in daemon.log().splitlines() if "event=redis_moved" in line]
        assert len(moved) == 1 and "to=127.0.0.1:" in moved[0] and old[:8] not in moved[0], moved
    stays(lambda: (links_of(pair.second, one), links_of(pair.second, two)) == ids, 4, "nobody's links are cut", 0.5)
    no_link_waited(one), no_link_waited(two)


@fault("failover-demoted")
@pytest.mark.parametrize("way", ["hosts", "name"])
def test_failover_under_hits(way, pair):
    """FAILOVER waits until the replica has everything: no hit is lost, and no total is ever below what was answered."""
    daemon = pair.daemon(way)
    with Watch(daemon) as watch:
        wait_until(lambda: watch.acked > 50, 30, "hits")
        if way == "name":
            pair.name.upstream = ("127.0.0.1", pair.ports[1])
        pair.first.client().execute_command("FAILOVER", "TO", "127.0.0.1", pair.ports[1])
        wait_until(lambda: pair.second.client().info("replication")["role"] == "master", 30, "promoted")
        at = watch.acked
        wait_until(lambda: watch.acked > at + 100, 30, "hits go on")
    print(f"longest gap {watch.longest:.2f} s")
    no_link_waited(daemon)
    daemon.sync_all()
    with daemon.client() as client:
        told = client.call("CTR.TOTAL", "s2:product_views", "1")[0]
    assert told == watch.acked and "frames_lost" not in daemon.log()
    daemon.verify()


@fault("failover-killed")
@pytest.mark.parametrize("end", ["kill9", "pause"], ids=["kill -9", "SIGSTOP"])
def test_primary_ends_and_the_replica_is_promoted(end, pair):
    """It is found as soon as it is promoted; the old primary, back as one, is not believed."""
    daemon = pair.daemon("hosts")
    pair.account.pending(daemon, fields(20))
    in_step(pair.first)
    getattr(pair.first, end)()
    pair.second.client().replicaof("NO", "ONE")
    began = time.monotonic()
    wait_until(lambda: isinstance(pair.account.hit(daemon, fields(1))[0], int), 60, "counts again", 0.005)
    took = time.monotonic() - began
    print(f"counts again after {took:.2f} s")
    if end == "kill9":
        pair.first.start()
    else:
        pair.first.resume()
    assert pair.first.client().info("replication")["role"] == "master"
    pair.second.client().client_kill_filter(_id=links_of(pair.second, daemon)["frame"])
    pair.settles(daemon)
    wait_until(lambda: set(links_of(pair.second, daemon)) >= {"frame", "sync", "fence"}, 60, "all are on the new one")
    assert not links_of(pair.first, daemon)
    no_link_waited(daemon)


@fault("failover-killed")
def test_a_silent_primary_is_not_left_for_an_old_one(pair):
    """The primary of before is back as one and is found while ours is silent: it did not follow ours, so no tallyd goes there."""
    daemon = pair.daemon("hosts", timeout="30s")
    pair.account.pending(daemon, fields(20))
    in_step(pair.first)
    pair.first.kill9()
    pair.second.client().replicaof("NO", "ONE")
    pair.settles(daemon)
    pair.first.start()
    direct = pair.first.client()
    before = direct.info("stats")["total_connections_received"]
    with daemon.client() as client:
        pair.second.pause()
        client.send(encode("HINCRBY", VIEWS, "1", "1"))

        def scouts():
            return direct.info("stats")["total_connections_received"] - before

        wait_until(lambda: scouts() > 2, 60, "it was asked", 0.1)
        pair.second.resume()
        assert isinstance(client.reply(), int)
    assert not links_of(pair.first, daemon) and daemon.log().count("event=redis_moved") == 1
    daemon.sync_all()


def fences_of(server):
    link = server.client()
    return sum(int(link.get(key)) for key in link.scan_iter(match="tally:fence:*"))


def takes_over(pair, daemon):
    """The first is demoted, takes over the second one's data and is promoted again, while tallyd is paused. The second one's stream is
    the longer one, so that a WAIT for the lost writes would be answered."""
    first, second = pair.first.client(), pair.second.client()
    second.set("filler", "x" * 100000)
    ids = links_of(pair.first, daemon)
    daemon.pause()
    first.replicaof("127.0.0.1", pair.ports[1])
    wait_until(lambda: first.info("replication")["master_link_status"] == "up", 60, "taken over", 0.01)
    first.replicaof("NO", "ONE")
    assert not first.hexists(VIEWS, "20")
    second.replicaof("127.0.0.1", pair.ports[0])
    wait_until(lambda: first.info("replication")["connected_slaves"] == 1, 60, "a replica again", 0.01)
    left = links_of(pair.first, daemon)
    assert left == {role: ids[role] for role in ids if role in left or role != "fence"}  # Redis ends a link that is in a WAIT
    daemon.resume()


@fault("failover-back")
@pytest.mark.parametrize("then", ["hit", "total", "nothing", "fence"])
def test_a_primary_comes_back_without_what_it_answered(then, pair):
    """No link to it ends meanwhile. The frame, the total, the look or the fence under way finds what is missing."""
    daemon = pair.daemon("hosts", replicas=1)
    pair.account.pending(daemon, fields(5))
    in_step(pair.first)
    pair.second.client().replicaof("NO", "ONE")
    begun = fences_of(pair.first)
    assert all(isinstance(told, int) for told in pair.account.hit(daemon, fields(20)))
    if then == "fence":
        wait_until(lambda: fences_of(pair.first) > begun, 60, "the fence of the kept hits waits for a replica")
    takes_over(pair, daemon)
    if then == "hit":
        wait_until(lambda: isinstance(pair.account.hit(daemon, fields(20)[-1:])[0], int), 60, "counts")
    elif then == "total":
        with daemon.client() as client:
            told = wait_until(lambda: no_error(client.call("CTR.TOTAL", VIEWS, "20")), 60, "a total")
            assert told[0] == 1 + 20 % 3
    wait_until(lambda: "event=frames_replayed" in daemon.log(), 60, "sent again")
    assert daemon.log().count("took over") >= 1
    daemon.sync_all(20)
    pair.account.settle(daemon, pair.first)
    assert pair.account.unknown == 0 and pair.account.merged() == pair.account.acked
    assert "frames_lost" not in daemon.log()


@fault("failover-lagging")
def test_a_realm_that_the_replica_lacks(pair, mysql):
    """The first tallyd gives Redis its realm. MySQL takes no epoch of it before a failover would keep it; the one that is
    promoted without it is given the same."""
    pair.second.client().replicaof("NO", "ONE")
    daemon = pair.daemon("hosts", replicas=1)
    realm = wait_until(lambda: pair.first.client().get("tally:realm"), 60, "Redis is told")
    pair.account.hit(daemon, fields(20))

    def epochs():
        return mysql.query("SELECT LOWER(HEX(realm)), epoch <> REPEAT(x'00', 16) FROM tally_realms")

    stays(lambda: epochs() == ((realm.decode(), 0),), 2, "it has no epoch")
    assert pair.second.client().get("tally:realm") is None
    pair.first.client().replicaof("127.0.0.1", pair.ports[1])
    pair.settles(daemon)
    assert pair.second.client().get("tally:realm") == realm and epochs() == ((realm.decode(), 1),)


@fault("failover-name")
def test_a_name_that_moves_between_primaries(pair):
    """Both are primaries, and one link after the other finds the new one: they are never up on two, and soon all there."""
    daemon = pair.daemon("name")
    pair.account.pending(daemon, fields(20))
    pair.promote()
    pair.first.client().client_kill_filter(_id=links_of(pair.first, daemon)["frame"])
    pair.settles(daemon)
    assert not links_of(pair.first, daemon)


def test_redis_does_not_tell_its_role(pair):
    """A user without the right to ROLE: INFO tells the demotion."""
    pair.first.client().execute_command("ACL", "SETUSER", "default", "-role")
    pair.second.client().execute_command("ACL", "SETUSER", "default", "-role")
    daemon = pair.daemon("hosts")
    pair.account.pending(daemon, fields(20))
    pair.promote()
    demote_cut_off(pair)
    wait_until(lambda: not links_of(pair.first, daemon), 60, "links that nobody uses leave, too")
    pair.settles(daemon)
