"""A cluster whose servers move under load, and how long the hits of other servers' lanes take meanwhile."""
import contextlib
import re
import time

from harness.cluster import Cluster
from harness.load import Load
from harness.shadow import Shadow

LANES, STORES = 16, 64  # some stores in each lane
RATE = 4_000  # hits a second on all lanes, and as many on one that is spared


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, STORES + 1), b"%d" % rng.randrange(1, 40), 1


@contextlib.contextmanager
def three_masters(directory):
    """With a replica each. Two go on while the third is away."""
    cluster = Cluster(directory, lanes=LANES, extra=["--cluster-require-full-coverage", "no"])
    try:
        yield cluster.start()
    finally:
        cluster.close()


@contextlib.contextmanager
def loaded(tallyd):
    """Hits on all lanes; its clients bear errors."""
    load = Load(("127.0.0.1", tallyd.port), Shadow(), pick, 8, 20, RATE)
    load.go()
    try:
        yield load.shadow
    finally:
        load.stop()


def masters(cluster):
    """The owner of the slot that moves comes first."""
    owner = cluster.owner
    return [owner, *(node for node in cluster.living() if node.is_master() and node is not owner)]


def store_on(node):
    """The number of a store whose lane is there."""
    names = (re.fullmatch(rb"{[a-z0-9]+}s(\d+):product_views", key) for key in node.client().scan_iter(count=1000))
    return int(next(name for name in names if name)[1])


def failover(cluster):
    """Planned."""
    cluster.failover()


def master_killed(cluster):
    old = cluster.owner
    old.kill9()
    while cluster.owner is old:
        time.sleep(0.02)
    old.start()
    cluster.wait_well()


def slot_migrates(cluster):
    """Key by key, to and fro."""
    here, there = masters(cluster)[:2]
    for old, new in ((here, there), (there, here)):
        assert cluster.migrate_begin(new) is old
        cluster.migrate_keys(old, new, 20)
        cluster.migrate_end(old, new)
        cluster.wait_well()


def node_comes_and_goes(cluster):
    """It takes all slots of a master but one, and gives them back. A master without any becomes a replica."""
    old = cluster.owner
    slots = sum(last - first + 1 for first, last, port in cluster.map_of(old) if port == old.port) - 1
    new = cluster.add()
    cluster.reshard(old, new, slots)
    cluster.reshard(new, old, slots)
    cluster.remove(new)


MOVES = [(failover, "CLUSTER FAILOVER of another shard"), (master_killed, "another shard's master is killed, and comes back as its replica"),
         (slot_migrates, "a slot goes from one of the other masters to the next, and back"),
         (node_comes_and_goes, "a node comes, takes the slots of another master, gives them back, and goes")]
