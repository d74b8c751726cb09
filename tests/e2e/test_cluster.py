"""A Redis Cluster of three masters and three replicas: tallyd's keys in one slot or in sixteen, which fail over and move under load."""
import json
import re
import secrets

import pytest

from harness.account import Account
from harness.books import counted, nothing_left
from harness.certificates import Authority
from harness.cluster import Cluster
from harness.daemon import counters
from harness.load import Load
from harness.redis_server import TAG
from harness.slots import slot_of_lane, tag_of_lane
from harness.resp import RespError, encode
from harness.wait import wait_until
from test_panel import Shop, browser, chromium  # noqa: F401

FAMILIES = counters(hits=200, every="60s")
CLIENTS, DEPTH = 8, 20


LANES = 16
STORES = 64  # some in each of sixteen lanes


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, STORES + 1), b"%d" % rng.randrange(1, 40), rng.randrange(1, 4)


@pytest.fixture(params=[1], ids=["one lane"])
def cluster(workdir, request):
    made = Cluster(workdir, lanes=request.param)
    yield made.start()
    made.close()


over_lanes = pytest.mark.parametrize("cluster", [1, LANES], ids=["one lane", "sixteen"], indirect=True)
with_lanes = pytest.mark.parametrize("cluster", [LANES], ids=["sixteen"], indirect=True)


def where(cluster, **more):
    return {"url": cluster.url, "lanes": cluster.lanes, **more}


def tags(cluster):
    return {tag_of_lane(lane, cluster.lanes) for lane in range(cluster.lanes)}


def tags_seen(cluster):
    """Those of all keys but the one that says how many lanes there are."""
    keys = {key for node in cluster.living() for key in node.client().keys("*")}
    return {key.partition(b"}")[0] + b"}" for key in keys - {TAG.encode() + b"tally:lanes"}}


class Rig:
    def __init__(self, cluster, daemon, mysql):
        self.cluster, self.daemon, self.mysql = cluster, daemon, mysql
        self.account = Account(None, mysql, FAMILIES)
        self.load = Load(daemon.socket, self.account.shadow, pick, CLIENTS, DEPTH, 4000)

    def answered(self, more=2000, deadline_s=60):
        before = self.account.shadow.answered
        wait_until(lambda: self.account.shadow.answered > before + more, deadline_s, "hits are answered")

    def go(self):
        self.load.go()
        self.answered()
        return self

    def lost(self):
        return sum(map(int, re.findall(r"event=frames_lost .*?lost=(\d+)", self.daemon.log())))

    def exact(self):
        """Answered is what MySQL and Redis have; of hits without an answer, some."""
        self.answered()
        self.load.pause()
        self.cluster.wait_well()
        self.daemon.sync_all()
        wait_until(lambda: nothing_left(self.cluster.client()), 30, "nothing is left in Redis")
        assert self.lost() == 0
        self.account.shadow.check(counted(self.cluster.client(), self.mysql, FAMILIES))
        self.own_realms()
        self.daemon.verify()
        self.only_tagged()

    def own_realms(self):
        """Each lane has one, though those of a server begin at once and have its history."""
        lanes = self.cluster.lanes
        realms = {node.client().get(tag_of_lane(lane, lanes) + b"tally:realm") for lane in range(lanes)
                  for node in self.cluster.living() if self.cluster.has(node, slot_of_lane(lane, lanes))}
        assert len(realms) == lanes and None not in realms
        assert self.mysql.query("SELECT COUNT(*), SUM(history = '') FROM tally_realms") == ((lanes, 0),)

    def only_tagged(self):
        assert tags_seen(self.cluster) == tags(self.cluster)


@pytest.fixture
def make_rig(cluster, make_daemon, mysql):
    made = []

    def make(**limits):
        daemon = make_daemon(cluster, families=FAMILIES, redis_url=where(cluster, replicas=1),
                             more={"limits": limits} if limits else None)
        made.append(Rig(cluster, daemon, mysql))
        return made[-1].go()

    yield make
    for each in made:
        each.load.stop()


@over_lanes
def test_all_that_tallyd_counts(cluster, make_daemon, mysql):
    daemon = make_daemon(cluster, families=counters(hits=10**9, every="3600s"), redis_url=where(cluster))
    with daemon.client() as client:
        assert client.pipeline([("HINCRBY", "s1:product_views", "7", 5), ("HINCRBY", "s1:searches", "hat", 1)]) == [5, 1]
        daemon.sync_all()  # sets the locks: what follows is not due
        assert client.pipeline([("MULTI",), ("HINCRBY", "s1:product_views", "7", 1), ("HINCRBY", "s1:searches", "hat", 2), ("EXEC",)])[-1] == [1, 2]
        assert client.call("CTR.INCRBY", "s1:product_views", "7", 1, "TOKEN", "t-1") == 2
        assert client.call("CTR.INCRBY", "s1:product_views", "7", 1, "TOKEN", "t-1") == 2
        assert client.call("SERIES.INCRBY", "s1:clicks", 3) == 7
        assert client.call("CTR.TOTAL", "s1:product_views", "7") == [7]
        assert client.call("CTR.SYNC", "ALL") >= 0
        assert client.call("CTR.TOTAL", "s1:product_views", "7") == [7]
    assert mysql.query("SELECT store_id, product_id, views FROM product_views") == ((1, 7, 7),)
    daemon.verify()
    seen = json.loads(daemon.verb("status", "--json").stdout)
    assert seen["redis"]["up"] and seen["redis"]["at"] in {f"127.0.0.1:{node.port}" for node in cluster.living() if node.is_master()}
    assert tags_seen(cluster) == tags(cluster)
    checked = daemon.verb("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_plain_url_is_refused_and_names_the_other(cluster, make_daemon):
    daemon = make_daemon(cluster, start=False, migrate=False, redis_url=f"redis://127.0.0.1:{cluster.owner.port}/0")
    for verb in ("check", "run"):
        done = daemon.verb(verb)
        assert done.returncode == 78 and "redis+cluster://host:port,host:port/" in done.stdout + done.stderr


def refusals(client):
    """Of one hit on each store."""
    return [reply for reply in client.pipeline([("HINCRBY", f"s{store}:product_views", "1", 1) for store in range(1, STORES + 1)])
            if not isinstance(reply, int)]


def test_status_of_the_lanes_that_are_left(make_daemon, workdir):
    """Also when the first one is away. A client that has hits in all lanes waits for none of the others' replicas."""
    cluster = Cluster(workdir, replicas=0, extra=["--cluster-require-full-coverage", "no"], lanes=LANES)
    try:
        cluster.start()
        daemon = make_daemon(cluster, families=FAMILIES, redis_url=where(cluster))
        first = cluster.nodes[0]
        theirs = [cluster.has(first, slot_of_lane(lane, LANES)) for lane in range(LANES)]
        assert theirs[0]
        with daemon.client(timeout_s=30) as client:
            assert not refusals(client)
            first.kill9()
            wait_until(lambda: refusals(client), 30, "the lanes that are away refuse")
            assert client.call("WAIT", 1, 0).startswith("MASTERDOWN ")
        done = daemon.verb("status", "--json")
        seen = json.loads(done.stdout)["redis"]
        assert done.returncode != 0 and not seen["up"] and [not lane["up"] for lane in seen["lane"]] == theirs
        assert all(lane["error"] for lane in seen["lane"] if not lane["up"])
        first.start()
        cluster.wait_well()
        wait_until(lambda: json.loads(daemon.verb("status", "--json").stdout)["redis"]["up"], 60, "all lanes are there")
    finally:
        cluster.close()


@with_lanes
def test_check_looks_at_each_server(cluster, make_daemon):
    daemon = make_daemon(cluster, start=False, redis_url=where(cluster))
    last = cluster.nodes[cluster.masters - 1]
    last.client().config_set("maxmemory-policy", "allkeys-lru")
    done = daemon.verb("check")
    assert done.returncode == 78 and done.stdout.count(" is fit.") == cluster.masters - 1, done.stdout + done.stderr
    assert re.search(rf"^Redis at 127.0.0.1:{last.port}: .*noeviction", done.stderr, re.MULTILINE), done.stderr


def test_a_redis_of_its_own_is_no_cluster(make_daemon, make_redis):
    server = make_redis()
    daemon = make_daemon(server, start=False, migrate=False, redis_url="redis+cluster://127.0.0.1:1/3")
    done = daemon.verb("check")
    assert done.returncode == 78 and "a Redis Cluster has only 0" in done.stdout + done.stderr


@over_lanes
def test_cluster_failover(make_rig, cluster):
    """Planned: the old master lives, says MOVED, and everybody follows. A client that was there before hears of it."""
    rig, said = make_rig(), []
    with rig.daemon.client() as idle:
        idle.call("PING")
        for _ in range(3):
            cluster.failover()
            rig.answered()
            cluster.wait_well()
        wait_until(lambda: said.append(idle.call("WAIT", 0, 100)) or isinstance(said[-1], int), 30, "no lane is away")
    assert [reply for reply in said[:-1] if reply.startswith("UNBLOCKED ")]
    assert rig.account.shadow.unknown.total() == 0
    rig.exact()


@over_lanes
def test_master_killed(make_rig, cluster):
    rig = make_rig()
    old = cluster.owner
    old.kill9()
    wait_until(lambda: cluster.owner is not old, 60, "the replica is promoted")
    rig.answered()
    old.start()
    rig.exact()


def migrate(rig, cluster, to, pause):
    """The slot goes to another master key by key; pause() is called when half of them are away."""
    old = cluster.migrate_begin(to)
    cluster.migrate_keys(old, to, 20)
    pause()
    cluster.migrate_end(old, to)
    cluster.wait_well()


def other_master(cluster):
    return next(node for node in cluster.living() if node.is_master() and node is not cluster.owner)


@over_lanes
def test_slot_migrates(make_rig, cluster):
    """To and fro: hits wait meanwhile, nobody is refused, no client hears of another node."""
    rig = make_rig(busy_timeout="10m")
    for _ in range(3):
        migrate(rig, cluster, other_master(cluster), lambda: None)
        rig.answered()
    assert not rig.account.shadow.unknown.total() and not rig.account.shadow.refused.total(), rig.account.shadow.refusals
    rig.exact()


@over_lanes
def test_slots_migrate_by_one_command(make_rig, cluster):
    """To and fro, beside other slots of that master: nobody is refused, and no client hears of another node."""
    rig = make_rig(busy_timeout="10m")
    for _ in range(3):
        if not cluster.migrate_whole(other_master(cluster), cluster.slot - 100, cluster.slot + 100):
            pytest.skip("this server moves slots key by key only")
        rig.answered()
    assert not rig.account.shadow.unknown.total() and not rig.account.shadow.refused.total(), rig.account.shadow.refusals
    rig.exact()


def slots_of(cluster, node):
    return sum(last - first + 1 for first, last, port in cluster.map_of(node) if port == node.port)


@pytest.mark.parametrize("lanes", [1, LANES], ids=["one lane", "sixteen"])
def test_a_node_comes_and_one_goes(make_daemon, mysql, workdir, lanes):
    """Under load. The one that goes is named first in tallyd's URL, and it had lanes."""
    cluster = Cluster(workdir, replicas=0, lanes=lanes)
    try:
        cluster.start()
        patient = {"limits": {"busy_timeout": "10m"}}  # a slot may be on its way for longer than clients wait
        rig = Rig(cluster, make_daemon(cluster, families=FAMILIES, redis_url=where(cluster), more=patient), mysql).go()
        old, new = cluster.nodes[0] if lanes > 1 else cluster.owner, cluster.add()
        cluster.reshard(old, new, slots_of(cluster, old))
        assert cluster.owner is not old and slots_of(cluster, old) == 0
        rig.answered()
        cluster.remove(old)
        rig.answered()
        # A node may believe for a moment that a slot has no owner: clients hear it as Redis says it.
        assert not rig.account.shadow.unknown.total() and set(rig.account.shadow.refusals) <= {"CLUSTERDOWN The cluster is down"}
        rig.exact()
        rig.daemon.restart()
        rig.load.go()
        rig.exact()
    finally:
        if "rig" in locals():
            rig.load.stop()
        cluster.close()


def test_hits_wait_while_links_move(cluster, make_daemon):
    """A third node alone says where the slot is now; the old owner and the new one say nothing yet."""
    daemon = make_daemon(cluster, families=FAMILIES, redis_url=where(cluster, replicas=1))
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "5", 1) == 1
        daemon.sync_all()
        old, to = cluster.owner, other_master(cluster)
        so_far = daemon.log().count("event=cluster_says")
        daemon.pause()
        cluster.migrate_begin(to)
        cluster.migrate_end(old, to)
        cluster.wait_well()
        old.pause(), to.pause()
        daemon.resume()
        wait_until(lambda: daemon.log().count("event=cluster_says") > so_far, 30, "it goes to the new owner")
        client.send(encode("HINCRBY", "s1:product_views", "5", 2))
        old.resume(), to.resume()
        assert client.reply() in (2, 3)


def test_slot_stands_on_its_way(make_rig, cluster):
    """Longer than limits.busy_timeout: clients hear that nothing was counted; then all goes on."""
    rig = make_rig(busy_timeout="1s")
    refused = rig.account.shadow.refusals
    migrate(rig, cluster, other_master(cluster), lambda: wait_until(lambda: refused.total() > 20, 30, "hits are refused"))
    rig.exact()
    # The number may go first, just as a frame runs that watches it: then this frame is in doubt (C48).
    assert not rig.account.shadow.unknown.total() or "took over another server's data" in rig.daemon.log()
    assert not [text for text in refused if text.startswith(("MOVED", "ASK"))], refused


def test_reads_do_not_see_half(make_rig, cluster):
    """While a part of the keys is away, a total is right or an error."""
    rig = make_rig()
    rig.load.pause()
    with rig.daemon.client() as client:
        total = client.call("CTR.TOTAL", "s1:product_views", "7")

        def half():
            for _ in range(20):
                got = client.call("CTR.TOTAL", "s1:product_views", "7")
                assert got == total or isinstance(got, RespError), got
        migrate(rig, cluster, other_master(cluster), half)
        wait_until(lambda: client.call("CTR.TOTAL", "s1:product_views", "7") == total, 30, "the total is there again")
    rig.load.go()
    rig.exact()


def test_the_number_of_lanes_stays(make_daemon, workdir):
    """Fixed by the first tallyd; what one left that knew a single lane counts, too."""
    cluster = Cluster(workdir, masters=1, replicas=0)
    try:
        cluster.start()
        home = cluster.client()
        daemon = make_daemon(cluster, start=False, redis_url={"url": cluster.url})
        home.set("tally:gen", 5)
        for verb in ("check", "run", "verify"):
            done = daemon.verb(verb)
            assert done.returncode == 78 and "redis.lanes: 1" in done.stdout + done.stderr, (verb, done)
        home.delete("tally:gen")
        assert "redis.lanes" not in daemon.verb("check").stderr and not home.exists("tally:lanes")
        daemon.migrate().start()
        assert home.get("tally:lanes") == b"16"
        daemon.terminate()
        daemon.config["redis"] = {"url": cluster.url, "lanes": 4}
        daemon.write_config()
        done = daemon.verb("run")
        assert done.returncode == 78 and "redis.lanes: 16" in done.stderr
    finally:
        cluster.close()


@pytest.fixture
def four(workdir):
    """A single node, and lanes that are not the default."""
    made = Cluster(workdir, masters=1, replicas=0, lanes=4)
    yield made.start()
    made.close()


def with_number(daemon, lanes):
    daemon.config["redis"]["lanes"] = lanes
    daemon.write_config()


def lanes_kept(mysql):
    return mysql.query("SELECT lanes, COUNT(*) FROM tally_realms GROUP BY lanes ORDER BY lanes")


def counts_again(daemon, counted):
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "7", 5) == 5
        daemon.sync_all()
        assert client.call("CTR.TOTAL", "s1:product_views", "7") == [counted]


def test_mysql_keeps_the_number_too(four, make_daemon, mysql):
    """A cluster that lost everything does not begin with another one; one more cluster may."""
    daemon = make_daemon(four, families=FAMILIES, redis_url=where(four))
    counts_again(daemon, 5)
    daemon.terminate()
    assert lanes_kept(mysql) == ((4, 4),)
    bare = four.nodes[0].client()
    bare.flushall()
    with_number(daemon, 16)
    for verb in ("check", "run"):
        done = daemon.verb(verb)
        assert done.returncode == 78 and "redis.lanes: 4" in done.stdout + done.stderr, (verb, done)
        assert not bare.exists(TAG + "tally:lanes")
    assert daemon.verb("migrate").returncode == 0 and lanes_kept(mysql) == ((4, 4),)
    assert daemon.verb("migrate", "--another-redis").returncode == 0 and lanes_kept(mysql) == ((4, 4), (16, 16))
    daemon.start()
    counts_again(daemon, 10)
    daemon.verify()


def test_mysql_that_was_away_refuses_later(four, make_daemon, mysql):
    """It cannot be asked at the start: hits are counted, and none is merged."""
    daemon = make_daemon(four, families=FAMILIES, redis_url=where(four))
    counts_again(daemon, 5)
    daemon.terminate()
    four.nodes[0].client().flushall()
    mysql.terminate()
    with_number(daemon, 16)
    daemon.start()
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == 1
    mysql.start()
    wait_until(lambda: re.search(r"event=schema_refused .*redis.lanes: 4", daemon.log()), 60, "the reason is told")
    assert mysql.query("SELECT SUM(views) FROM product_views") == ((5,),)


def test_a_dropped_ledger(four, make_daemon, mysql):
    """`migrate` names the batches of all lanes."""
    daemon = make_daemon(four, start=False, families=FAMILIES, redis_url=where(four)).migrate()
    bare, batches = four.nodes[0].client(), [secrets.token_hex(16) for _ in range(4)]
    for lane, batch in enumerate(batches):
        tag = tag_of_lane(lane, 4)
        bare.hset(tag + b"tally:batch:" + batch.encode(), mapping={"format": 1, "counter": "product_views", "gen": 1, "owner": "dead:1"})
        bare.zadd(tag + b"tally:batches", {batch: 1})
    mysql.query("DROP TABLE tally_ledger")
    done = daemon.verb("migrate")
    assert done.returncode == 78 and sorted(re.findall(r"  (\w{32}) of product_views", done.stdout)) == sorted(batches), done.stdout


def test_realms_of_an_older_tallyd(four, make_daemon, mysql):
    """They have no number until a tallyd merges for them; from then on they have that one."""
    daemon = make_daemon(four, families=FAMILIES, redis_url=where(four))
    counts_again(daemon, 5)
    daemon.terminate()
    mysql.query("UPDATE tally_realms SET lanes = 0")
    daemon.start()
    wait_until(lambda: lanes_kept(mysql) == ((4, 4),), 30, "the realms have their number")
    daemon.terminate()
    mysql.query("UPDATE tally_realms SET lanes = 8")
    assert daemon.verb("migrate", "--another-redis").returncode == 0
    daemon.start()
    wait_until(lambda: re.search(r"counts for this Redis with 8 lanes.*redis.lanes: 8", daemon.log()), 30, "the reason is told")


def test_what_needs_one_lane(make_daemon, make_redis):
    """A feed without a store moves in frames of other slots; a Redis of its own has one lane."""
    families = counters()
    families["product_views"]["feeds"] = {"series": "all:views"}
    server = make_redis()
    daemon = make_daemon(server, start=False, migrate=False, families=families, redis_url={"url": "redis+cluster://127.0.0.1:1/"})
    done = daemon.verb("check")
    assert done.returncode == 78 and "holds no <store>, and the counter's stores" in done.stdout + done.stderr
    families["product_views"]["feeds"] = {"series": "s1<store>"}
    families["unique_visitors"]["feeds"] = {"series": "s<store>"}  # of store 12 what the other feeds for store 2
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 78 and "can have a name that counter" in done.stdout + done.stderr
    daemon.config["redis"] = {"url": server.url, "lanes": 2}
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 78 and "a Redis of its own has one lane" in done.stdout + done.stderr


def lane_of(cluster, daemon, store):
    """By the tag of a lock: the pending hash may be claimed already."""
    key = f"s{store}:searches"
    with daemon.client() as client:
        assert isinstance(client.call("HINCRBY", key, "where", 1), int)
    bare = cluster.client()
    lock = f"{key}:sync".encode()
    assert lock in set(bare.scan_iter())
    return next(lane for lane in range(LANES) if bare.seen[lock][1].startswith(tag_of_lane(lane, LANES)))


@with_lanes
def test_other_lanes_go_on(make_rig, cluster):
    """While a lane's slot is on its way, its clients wait, for longer than those of the others, which do not."""
    rig = make_rig(busy_timeout="10m")
    rig.load.pause()
    families = {lane_of(cluster, rig.daemon, store): store for store in range(1, STORES + 1)}
    cluster.slot = slot_of_lane(3, LANES)
    assert {3, 4} <= set(families)
    old, to = cluster.owner, other_master(cluster)
    cluster.migrate_begin(to)
    cluster.migrate_keys(old, to, 20)
    with rig.daemon.client() as stuck, rig.daemon.client() as free:
        stuck.send(encode("HINCRBY", f"s{families[3]}:product_views", "7", 1))
        for _ in range(200):
            assert isinstance(free.call("HINCRBY", f"s{families[4]}:product_views", "7", 1), int)
        cluster.migrate_end(old, to)
        assert isinstance(stuck.reply(), int)


@with_lanes
def test_a_held_lane_holds_no_other(cluster, make_daemon, mysql):
    """What is asked of all lanes is done in the others; the error names the lane, and says what they merged."""
    daemon = make_daemon(cluster, families=FAMILIES, redis_url=where(cluster))
    families = {lane_of(cluster, daemon, store): store for store in range(1, STORES + 1)}
    daemon.sync_all()
    daemon.terminate()
    tag = tag_of_lane(3, LANES)
    owner = next(node for node in cluster.living() if cluster.has(node, slot_of_lane(3, LANES)))
    owner.client().set(tag + b"tally:realm", "7" * 32)  # another MySQL's
    daemon.start()
    with daemon.client() as client:
        assert client.pipeline([("HINCRBY", f"s{families[lane]}:product_views", "7", 5) for lane in (3, 4)]) == [5, 5]
        said = client.call("CTR.SYNC", "ALL")
        assert isinstance(said, RespError) and re.search(r"^ERR merging is held .*\(lane 3 of 16; the other lanes: [0-9]+ rows merged\)$", str(said)), said
        assert mysql.query("SELECT store_id FROM product_views") == ((families[4],),)
        said = client.call("CTR.RECOVER")
        assert isinstance(said, RespError) and re.search(r"\(lane 3 of 16; the other lanes: [0-9]+ batches taken over", str(said)), said


def test_tls_and_a_user(make_daemon, mysql, workdir):
    """As a managed cluster is: TLS alone, and a user that may touch what begins with a tag."""
    authority = Authority(workdir)
    rights = ["--user", "tally", "on", ">hush", "~{*", "&*", "+@all", "-@dangerous", "+info", "+role", "+client", "+config|get",
              "+cluster|slots", "+cluster|nodes"]
    cluster = Cluster(workdir, replicas=0, extra=rights, lanes=4, secure=(authority, authority.issue("node", usage="serverAuth,clientAuth")))
    try:
        cluster.start()
        url = cluster.url.replace("redis+cluster://", "rediss+cluster://tally:hush@")
        daemon = make_daemon(cluster, families=FAMILIES, redis_url={"url": url, "lanes": 4, "tls": {"ca": authority.cert}})
        with daemon.client() as client:
            for store in range(1, 17):
                assert client.call("HINCRBY", f"s{store}:product_views", "7", store) == store
            assert client.call("CTR.SYNC", "ALL") >= 0
        assert mysql.query("SELECT SUM(views) FROM product_views") == ((136,),)
        daemon.verify()
        assert tags_seen(cluster) == tags(cluster)
        assert daemon.verb("check").returncode == 0
    finally:
        cluster.close()


def test_clusterdown_is_told(make_daemon, workdir):
    """A node that says so is believed: nothing was counted; and hits of the other nodes' lanes go on."""
    cluster = Cluster(workdir, replicas=0, extra=["--cluster-require-full-coverage", "no"], lanes=LANES)
    try:
        cluster.start()
        daemon = make_daemon(cluster, families=FAMILIES, redis_url=where(cluster))
        lanes = {lane_of(cluster, daemon, store): store for store in range(1, STORES + 1)}
        key = {end: f"s{lanes[lane]}:product_views" for end, lane in (("gone", LANES // 2), ("here", 0))}
        cluster.slot = slot_of_lane(LANES // 2, LANES)
        owner = cluster.owner
        for node in cluster.living():
            node.cluster("DELSLOTS", cluster.slot)
        with daemon.client(timeout_s=30) as client:
            refused = client.call("HINCRBY", key["gone"], "7", 1)
            if str(refused).startswith("ERR outcome unknown"):  # another link was told first, and this one left in the middle of a frame
                refused = client.call("HINCRBY", key["gone"], "7", 1)
            assert isinstance(refused, RespError) and str(refused).startswith(("CLUSTERDOWN", "TRYAGAIN")), refused
            assert isinstance(client.call("HINCRBY", key["here"], "7", 1), int)
            owner.cluster("ADDSLOTS", cluster.slot)
            cluster.wait_well()
            wait_until(lambda: client.call("HINCRBY", key["gone"], "7", 1) == 1, 60, "the lane is back, and nothing was counted")
    finally:
        cluster.close()


def other_cluster_at(cluster, node):
    """The node is forgotten, and its address is that of a new cluster of one node, whose epoch is higher."""
    left = node.id
    node.close()
    cluster.nodes.remove(node)
    for each in cluster.nodes:
        each.cluster("FORGET", left)
    other = Cluster(cluster.directory, masters=1, replicas=0)
    other.nodes[0].port, other.nodes[0].bus = node.port, node.bus
    other.nodes[0].start()
    other.nodes[0].cluster("SET-CONFIG-EPOCH", 1000)
    other.nodes[0].cluster("ADDSLOTSRANGE", 0, 16383)
    other.wait_well()
    return other


@pytest.fixture
def left(make_daemon, mysql, workdir, request):
    """A rig under load, and the cluster to which a node went that was named in redis.url, or found."""
    cluster = Cluster(workdir, masters=1).start()
    urls = {"named": cluster.url, "found": f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}/"}
    rig = Rig(cluster, make_daemon(cluster, families=FAMILIES, redis_url={"url": urls[request.param], "lanes": 1}), mysql)
    try:
        rig.go()
        there = cluster.nodes[1]
        there.hang_up()
        wait_until(lambda: any(each["cmd"].startswith("cluster") for each in there.client().client_list()), 60, "tallyd asks the node")
        other = other_cluster_at(cluster, cluster.nodes[1])
        at = f"127.0.0.1:{other.nodes[0].port}"
        wait_until(lambda: f"event=cluster_node at={at} state=other_cluster " in rig.daemon.log(), 60, "it is seen")
        rig.answered()
        yield rig, other
    finally:
        rig.load.stop()
        cluster.close()
        if "other" in locals():
            other.close()


def is_left_alone(rig, other):
    return other.nodes[0].client().dbsize() == 0 and "event=redis_moved" not in rig.daemon.log()


@pytest.mark.fault("node-left")
@pytest.mark.parametrize("left", ["named"], indirect=True)
def test_a_node_went_to_another_cluster(left):
    """Nothing is counted there; a start that finds two clusters in redis.url is refused."""
    rig, other = left
    rig.load.pause()
    assert is_left_alone(rig, other)
    assert rig.daemon.terminate() == 0
    for verb in ("check", "run"):
        done = rig.daemon.verb(verb)
        assert done.returncode == 78 and "belong to different clusters" in done.stderr, done.stderr
    other.close()
    rig.daemon.start()
    rig.load.go()
    rig.exact()


@pytest.mark.fault("node-left")
@pytest.mark.parametrize("left", ["found"], indirect=True)
def test_a_found_node_is_forgotten(left):
    rig, other = left
    there = other.nodes[0].client()
    other.nodes[0].hang_up()
    wait_until(lambda: len(there.client_list()) == 1, 60, "tallyd asks it no more", 0.2)
    assert is_left_alone(rig, other)
    rig.exact()


@pytest.fixture
def shop(cluster, make_daemon, free_port):
    made = Shop(make_daemon(cluster, start=False, families=FAMILIES, redis_url=where(cluster)), free_port)
    yield made
    made.client.close()


@with_lanes
def test_the_operator_sees_nodes_and_lanes(cluster, shop, browser):  # noqa: F811
    def nodes():
        return sorted(re.findall(r"Node\s+\S+:(\d+), (\d+) lanes(.*)", browser.text("[data-part=service]")))

    for _ in range(2):
        shop.daemon.sync_all()
        shop.client.call("HINCRBY", "s1:product_views", "7", "1")  # the second one is not due
    browser.open(shop.operator)
    wait_until(lambda: any("oldest hit" in node[2] for node in nodes()), 40, "the hit is seen")
    assert sorted(int(node[1]) for node in nodes()) == [5, 5, 6] and not any("away" in node[2] for node in nodes())
    assert {int(node[0]) for node in nodes()} <= {node.port for node in cluster.nodes}
    assert browser.complaints() == []
