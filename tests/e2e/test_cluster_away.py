"""One master of a Redis Cluster is away as tallyd starts, or as it recovers. The lanes of the others go on; its own begin when it
comes, and nothing of an earlier life runs there any more."""
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from harness.redis_server import SLOT
from harness.resp import Closed, Resp, RespError, encode
from harness.slots import slot_of_lane, tag_of_lane
from harness.wait import wait_until
from test_cluster_lanes import LANES, STORES, make_rig, searches, views  # noqa: F401
from test_matrix_history import Snapshot


class Away:
    """A rig, and its master with the first lanes. Another one has the slot of the number of lanes."""

    def __init__(self, rig):
        self.rig, self.daemon, self.cluster = rig, rig.daemon, rig.cluster
        self.node, self.home = self.owner(0), next(node for node in self.cluster.nodes if self.cluster.has(node, SLOT))
        assert self.home is not self.node
        self.lanes = rig.lanes_at(self.node)
        self.theirs, self.others = rig.parted(self.lanes)

    def owner(self, lane):
        return next(node for node in self.cluster.nodes if self.cluster.has(node, slot_of_lane(lane, LANES)))

    def start(self):
        """Without the node: the other lanes count, and its own say why they do not."""
        had = len(self.daemon.log())
        self.daemon.start()
        listed, log = ",".join(map(str, sorted(self.lanes))), self.daemon.log()[had:]
        assert log.count(f"event=lanes_away lanes={listed} of={LANES} ") == 1, log
        with self.daemon.client() as client:
            info = client.call("INFO").decode()
        assert len(re.findall(r"^lane\d+:.*,up=0,.*,why=MASTERDOWN ", info, re.MULTILINE)) == len(self.lanes), info
        self.refused()
        assert all(isinstance(reply, int) for reply in self.rig.hit(views, self.others))

    def refused(self, said="Redis"):
        for reply in self.rig.hit(views, self.theirs):
            assert isinstance(reply, RespError) and reply.startswith(("MASTERDOWN ", "CLUSTERDOWN ")), reply
            assert said in reply and reply.endswith("nothing was counted"), reply

    def counts(self):
        began = time.monotonic()
        wait_until(lambda: all(isinstance(reply, int) for reply in self.rig.hit(views, self.theirs)), 60, "its lanes count again", 0.2)
        print(f"its lanes count {time.monotonic() - began:.1f} s later")


@pytest.fixture
def away(make_rig):  # noqa: F811
    return Away(make_rig())


def link_of(node, life):
    """One that a tallyd of this name has there."""
    link = Resp(node.socket)
    assert link.call("CLIENT", "SETNAME", f"tallyd:one:{life}:frame") == "OK"
    return link


@pytest.mark.fault("lane-away-at-start")
def test_a_master_is_away_at_the_start(away):
    rig = away.rig
    assert away.daemon.terminate() == 0
    away.node.kill9()
    away.start()
    assert away.daemon.terminate() == 0  # no lane has to come for that
    away.start()
    rig.load(away.others)
    rig.go_on(away.others)
    away.node.start()
    away.counts()
    rig.go_on(STORES)
    rig.exact()


@pytest.mark.fault("lane-unread-at-start")
def test_what_a_dead_life_left_there(away):
    """The node stands still with frames of a killed tallyd unread. A link of such a life that goes on longer is ended first."""
    rig, store = away.rig, away.theirs[0]
    key = tag_of_lane(rig.lane[store], LANES) + views(store).encode()
    old = link_of(away.node, secrets.token_hex(8))
    assert old.call("MULTI") == "OK" and old.call("HINCRBY", key, 1, 1000) == "QUEUED"
    away.node.pause()
    requests = [(views(store).encode(), b"1", 1) for store in away.theirs]
    with away.daemon.client() as client:
        client.send(b"".join(encode("HINCRBY", *request) for request in requests))
        rig.hit(views, away.others)  # answered, so what came before is sent
        away.daemon.kill9()
    rig.shadow.settle(requests, [])
    away.start()
    away.node.resume()
    away.counts()
    with pytest.raises((Closed, OSError)):
        old.call("EXEC")
    log = away.daemon.log()
    begun = log.index("event=redis_up role=frame slot=%d " % slot_of_lane(rig.lane[store], LANES), log.rindex("event=lanes_away"))
    assert "event=killed_links" in log[log.rindex("event=lanes_away"):begun]
    rig.exact()


def test_another_tallyd_has_the_name_there(away):
    """It is seen when the node comes. Its links stay, and the lanes wait until it has ended."""
    key = tag_of_lane(0, LANES) + b"tally:instance:one"
    here = wait_until(lambda: away.node.client().get(key), 30, "lane 0 has its name").partition(b"|")[2]
    assert away.daemon.terminate() == 0
    life = secrets.token_hex(8)
    for lane in away.lanes:
        away.node.client().set(tag_of_lane(lane, LANES) + b"tally:instance:one", life.encode() + b"|" + here)
    other = link_of(away.node, life)
    away.node.pause()
    away.start()
    away.node.resume()
    away.daemon.log_contains("another tallyd with the instance name 'one'")
    wait_until(lambda: len(re.findall('event=name_refused error="another', away.daemon.log())) == len(away.lanes), 30, "each lane says so")
    away.refused("another tallyd with the instance name 'one'")
    with away.daemon.client() as client:
        said = client.call("CTR.RECOVER")
        assert isinstance(said, RespError) and "another tallyd" in said, said
    assert other.call("PING") == "PONG"
    other.close()
    away.counts()
    away.rig.exact()


def test_no_start_without_the_number_of_lanes(away):
    """It is in one slot, whose master is away."""
    assert away.daemon.terminate() == 0
    away.home.kill9()
    done = away.daemon.verb("run")
    assert done.returncode == 69 and "cannot be reached" in done.stderr, done
    away.home.start()
    away.cluster.wait_well()
    away.daemon.start()
    away.rig.exact()


def store_in(away, lane):
    return next(store for store in STORES if away.rig.lane[store] == lane)


def leave(away):
    """A hash of another program in each lane; returns the sums in the node's lanes, and in the others."""
    sums = [0, 0]
    for lane in range(LANES):
        store = store_in(away, lane)
        away.owner(lane).client().hset(tag_of_lane(lane, LANES) + f"{views(store)}_777".encode(), 1, 100 + lane)
        sums[lane not in away.lanes] += 100 + lane
    return sums


def recover(away, status, why):
    """Without a running service: the other lanes go on."""
    done = away.daemon.verb("recover")
    listed = ",".join(map(str, sorted(away.lanes)))
    assert done.returncode == status and why in done.stderr, done
    assert f"(lanes {listed} of {LANES}; the other lanes: " in done.stderr, done.stderr


def test_recover_goes_past_lanes_that_are_rolled_back(away):
    rig = away.rig
    rig.account.pending(away.daemon, [(views(store), 1, 1) for store in away.theirs])
    old = Snapshot(away.node)
    away.daemon.sync_all()
    assert away.daemon.terminate() == 0
    _, in_others = leave(away)
    before = rig.account.merged()
    old.restore()
    away.cluster.wait_well()
    recover(away, 1, "Redis was rolled back")
    assert rig.account.merged() == before + in_others


def test_recover_goes_past_a_master_that_is_away(away):
    rig = away.rig
    away.daemon.sync_all()
    assert away.daemon.terminate() == 0
    in_theirs, in_others = leave(away)
    before = rig.account.merged()
    away.node.kill9()
    recover(away, 69, f":{away.node.port}")
    assert rig.account.merged() == before + in_others
    away.node.start()
    away.cluster.wait_well()
    done = away.daemon.verb("recover")
    assert done.returncode == 0, done
    assert rig.account.merged() == before + in_others + in_theirs


def test_recover_takes_all_lanes_at_once(away, mysql):
    """While the first lane's merge waits for a lock, all others are merged."""
    rig, in_first = away.rig, 100
    assert all(isinstance(reply, int) for reply in rig.hit(views, STORES))
    away.daemon.sync_all()
    assert away.daemon.terminate() == 0
    left = sum(leave(away))
    before = rig.account.merged()
    with ThreadPoolExecutor(1) as beside, closing(mysql.connect()) as holder:
        holder.begin()
        row = "SELECT * FROM product_views WHERE store_id = %s AND product_id = 1 FOR UPDATE"
        assert holder.cursor().execute(row, store_in(away, 0)) == 1
        recovery = beside.submit(away.daemon.verb, "recover")
        wait_until(lambda: rig.account.merged() == before + left - in_first, 60, "all but the first lane are merged")
        assert not recovery.done()
        holder.rollback()
        done = recovery.result()
    assert done.returncode == 0 and f"recovering: {LANES} of {LANES}\n" in done.stdout, done
    assert f"{LANES} leftover hashes became batches" in done.stdout, done
    assert rig.account.merged() == before + left
