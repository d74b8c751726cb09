"""One node of a Redis Cluster in trouble: it comes back with older data, stands still, or a slot is on its way. Its lanes are held,
or get again what they lack. The lanes of the other nodes count and merge all the while."""
import json
import time

import pytest

from harness.account import Account
from harness.books import nothing_left
from harness.cluster import Cluster
from harness.daemon import counters
from harness.disk import Disk
from harness.load import Load
from harness.resp import RespError, encode
from harness.slots import slot_of_lane, tag_of_lane
from harness.wait import wait_until
from test_matrix_history import Snapshot
from test_replay import ONE_FILE, replayed

LANES = 16
STORES = range(1, 65)  # some in each lane
FAMILIES = counters(hits=100, every="60s", product_views={"sync": {"hits": 10**9, "every": "3600s"}})  # searches are due at once
TROUBLE_S, HITS = 4, 500  # so long, and for so many hits of other lanes, a trouble lasts at least
STUCK = {"limits": {"busy_timeout": "10m"}}  # for which lanes in trouble wait: a client of another that waited, too, would give up


def searches(store):
    return f"s{store}:searches"


def views(store):
    return f"s{store}:product_views"


class Rig:
    def __init__(self, cluster, daemon, mysql):
        self.cluster, self.daemon, self.mysql, self.loads = cluster, daemon, mysql, []
        self.account = Account(cluster, mysql, FAMILIES)
        self.shadow = self.account.shadow
        assert all(isinstance(reply, int) for reply in self.hit(searches, STORES))
        self.lane = self.lanes_of_stores()
        assert set(self.lane.values()) == set(range(LANES))

    def hit(self, name, stores, timeout_s=60):
        return self.account.hit(self.daemon, [(name(store), 1, 1) for store in stores], timeout_s)

    def lanes_of_stores(self):
        """By the tags of the locks: pending hashes may be claimed already."""
        whole, lanes = self.cluster.client(), {tag_of_lane(lane, LANES): lane for lane in range(LANES)}
        locks = {store: f"{searches(store)}:sync".encode() for store in STORES}
        assert set(locks.values()) <= set(whole.scan_iter())
        return {store: lanes[whole.seen[lock][1].removesuffix(lock)] for store, lock in locks.items()}

    def parted(self, lanes):
        """The stores in these lanes, and the others."""
        theirs = [store for store in STORES if self.lane[store] in lanes]
        return theirs, [store for store in STORES if store not in theirs]

    def lanes_at(self, node):
        return {lane for lane in range(LANES) if self.cluster.has(node, slot_of_lane(lane, LANES))}

    def load(self, stores):
        def pick(rng):
            return searches(rng.choice(stores)).encode(), b"w%d" % rng.randrange(40), rng.randrange(1, 4)

        self.loads.append(Load(self.daemon.socket, self.shadow, pick, 4, 10, 1000))
        self.loads[-1].go()
        self.answered()

    def answered(self, more=500):
        before = self.shadow.answered
        wait_until(lambda: self.shadow.answered >= before + more, 60, "hits are answered")

    def searches_merged(self):
        return int(self.mysql.query("SELECT COALESCE(SUM(searches), 0) FROM searches")[0][0])

    def go_on(self, stores):
        """Hits on these stores are answered, one at a time and those of the load, and merged."""
        before, ends, had, at = self.searches_merged(), time.monotonic() + TROUBLE_S, self.shadow.answered, 0
        with self.daemon.client() as client:
            while time.monotonic() < ends or at < HITS:
                request = (views(stores[at % len(stores)]).encode(), b"1", 1)
                self.shadow.settle([request], [client.call("HINCRBY", *request)])
                at += 1
                time.sleep(0.005)  # the pace of a visitor, not a synchronisation
        wait_until(lambda: self.shadow.answered >= had + at + HITS, 60, "the load beside them goes on")
        wait_until(lambda: self.searches_merged() > before, 60, "the other lanes merge")

    def merge_all(self):
        for load in self.loads:
            load.pause()
        self.cluster.wait_well()
        self.daemon.sync_all()
        wait_until(lambda: nothing_left(self.cluster.client()), 30, "nothing is left in Redis")

    def exact(self):
        self.merge_all()
        self.account.check()
        self.daemon.verify()
        assert "event=frames_lost" not in self.daemon.log()

    def stop(self):
        for load in self.loads:
            load.stop()


@pytest.fixture
def make_rig(make_daemon, mysql, workdir):
    made = []

    def make(replicas=0, extra=(), more=None, disk_of=(), **redis):
        cluster = Cluster(workdir, replicas=replicas, lanes=LANES, extra=["--cluster-require-full-coverage", "no", *extra])
        made.append(cluster.close)
        for at in disk_of:
            cluster.nodes[at].disk = Disk(cluster.nodes[at].data, cluster.nodes[at].data)
        cluster.start()
        daemon = make_daemon(cluster, families=FAMILIES, redis_url={"url": cluster.url, "lanes": LANES, **redis}, more=more)
        rig = Rig(cluster, daemon, mysql)
        made.append(rig.stop)
        return rig

    yield make
    for close in reversed(made):
        close()


def held(daemon):
    """The lanes that are, as status says."""
    seen = json.loads(daemon.verb("status", "--json").stdout)
    return {at for at, lane in enumerate(seen["redis"]["lane"]) if lane["held"]}


@pytest.mark.fault("lane-old-copy")
def test_an_old_copy_of_a_node(make_rig):
    """Its hits were merged and are there again: its lanes are held, and counted for, until the operator's word merges them."""
    rig = make_rig()
    daemon, account, node = rig.daemon, rig.account, rig.cluster.nodes[1]
    lanes = rig.lanes_at(node)
    theirs, others = rig.parted(lanes)
    again = [(views(store), field, 1 + field) for store in theirs for field in range(3)]
    account.pending(daemon, again)
    old = Snapshot(node)
    daemon.sync_all()
    assert account.merged() == account.acked
    rig.load(others)
    old.restore()
    rig.cluster.wait_well()
    wait_until(lambda: held(daemon) == lanes, 60, "its lanes are held")
    rig.go_on(others)
    assert all(isinstance(reply, int) for reply in rig.hit(views, theirs))
    with daemon.client() as client:
        assert isinstance(client.call("CTR.SYNC", views(others[0])), int)
        for words in (("CTR.SYNC", views(theirs[0])), ("CTR.SYNC", "ALL"), ("CTR.RECOVER",)):
            reply = client.call(*words)
            assert isinstance(reply, RespError), (words, reply)
    assert not rig.shadow.refused and not rig.shadow.unknown
    done = daemon.verb("recover", "--accept-rollback")
    assert done.returncode == 0, done.stdout + done.stderr
    rig.merge_all()
    assert account.merged() == account.acked + sum(delta for _, _, delta in again)
    assert held(daemon) == set()


@pytest.mark.fault("lane-lost-tail")
def test_a_node_loses_its_tail(make_rig):
    """What its clients were answered, and no fsync put on its disk, is sent again."""
    rig = make_rig(extra=["--appendfsync", "everysec", *ONE_FILE], disk_of=[1])
    node = rig.cluster.nodes[1]
    theirs, others = rig.parted(rig.lanes_at(node))
    rig.load(others)
    rig.load(theirs)
    rig.go_on(STORES)
    assert node.disk.power_cut(node) > 0
    rig.go_on(others)
    node.start()
    wait_until(lambda: replayed(rig.daemon), 60, "it gets what it lacks")
    rig.go_on(STORES)
    assert {key.partition(b":")[0] for key, _ in rig.shadow.refused} <= {b"s%d" % store for store in theirs}
    rig.exact()


@pytest.mark.fault("lane-stopped")
def test_a_master_stands_still(make_rig):
    """SIGSTOP. Its lanes' clients wait until its replica is promoted."""
    rig = make_rig(replicas=1, more=STUCK)
    node = rig.cluster.nodes[1]
    theirs, others = rig.parted(rig.lanes_at(node))
    rig.load(others)
    rig.go_on(others)
    node.pause()
    with rig.daemon.client(timeout_s=60) as stuck:
        request = (views(theirs[0]).encode(), b"1", 1)
        stuck.send(encode("HINCRBY", *request))
        rig.go_on(others)
        rig.shadow.settle([request], [stuck.reply()])
    node.resume()
    assert not rig.shadow.refused.total() - rig.shadow.refused[request[:2]]
    wait_until(lambda: all(isinstance(reply, int) for reply in rig.hit(views, theirs)), 60, "its lanes count again")
    rig.exact()


@pytest.mark.fault("lane-slot-moves")
def test_a_slot_on_its_way(make_rig):
    rig = make_rig(more=STUCK)
    cluster = rig.cluster
    theirs, others = rig.parted({LANES // 2})
    assert isinstance(rig.hit(views, theirs)[0], int)
    rig.load(others)
    rig.go_on(others)
    to = next(node for node in cluster.living() if node is not cluster.owner)
    old = cluster.migrate_begin(to)
    cluster.migrate_keys(old, to, 5)
    with rig.daemon.client(timeout_s=60) as stuck:
        request = (views(theirs[0]).encode(), b"1", 1)
        stuck.send(encode("HINCRBY", *request))
        rig.go_on(others)
        cluster.migrate_end(old, to)
        rig.shadow.settle([request], [stuck.reply()])
    assert not rig.shadow.unknown and set(rig.shadow.refused) <= {request[:2]}
    rig.exact()
