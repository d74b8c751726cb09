"""Split brain: a replica is promoted while the old primary lives on, and each has a tallyd that claims and merges. MySQL
takes the merges of one side only; the other one is held, says so, and follows once its server is demoted."""
import re
import threading
from collections import Counter

import pytest

from harness.books import field_bytes, nothing_left, read_mysql
from harness.daemon import counters
from harness.moment import COMMIT, Hold
from harness.ports import port as held_port
from harness.redis_server import in_step
from harness.resp import encode
from harness.wait import patience, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
AT_ONCE = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
PENDING, LATE = 41, 5
WHY_HELD = ("its tallyd lives", "another batch of gen", "rolled back")
ORDERS = ("the promoted one first", "the old one first", "both at once")
fault = pytest.mark.fault


class Side:
    """A redis-server, with a replica of its own if merges wait for one, and the tallyd that a split leaves with it."""

    def __init__(self, name, make_redis, make_proxy, replicas, mysql):
        self.name = name
        self.port = held_port()
        self.server = make_redis(name, appendfsync="always", in_memory=True, extra=["--port", str(self.port), *AT_ONCE])
        self.copies = [make_redis(f"{name}-copy", appendfsync="always", in_memory=True, extra=AT_ONCE)] * replicas
        for copy in self.copies:
            copy.client().replicaof("127.0.0.1", self.port)
        self.place = make_proxy(("127.0.0.1", self.port), tcp=True)
        self.sql = make_proxy(mysql.socket)
        self.daemon = None

    def open(self, make_daemon, replicas):
        url = f"redis://127.0.0.1:{self.place.port}/0"
        self.daemon = make_daemon(self.server, families=FAMILIES, instance=self.name, redis_url=url,
                                  mysql_url=f"mysql://root@localhost/shop?socket={self.sql.path}",
                                  more={"redis": {"url": url, "replicas": replicas}})

    def goes_to(self, side):
        self.place.upstream = ("127.0.0.1", side.port)

    def is_primary(self):
        return self.server.client().info("replication")["role"] == "master"

    def follows(self, side):
        self.server.client().replicaof("127.0.0.1", side.port)

    def in_step(self):
        links = [self.server.client().info("replication")] + [copy.client().info("replication") for copy in self.copies]
        return all(link["master_link_status"] == "up" for link in links if link["role"] == "slave")

    def events(self, name):
        return [line for line in self.daemon.log().splitlines() if f"event={name} " in line]

    def frames_lost(self):
        """As its log names them: the last one answered, the last one that Redis has."""
        told = [re.search(r"answered=(\d+) found=(\d+)", line) for line in self.events("frames_lost")]
        return [(int(one[1]), int(one[2])) for one in told]

    def frames(self, side):
        """How many of this tallyd's the side's server has."""
        direct = side.server.client()
        return max([int(direct.get(key)) for key in direct.scan_iter(f"tally:seq:{self.name}:*", count=1000)], default=0)

    def info(self):
        with self.daemon.operator() as client:
            return client.call("INFO").decode()

    def counts(self):
        with self.daemon.client() as client:
            return isinstance(client.call("HINCRBY", "s2:product_views", "1", "0"), int)

    def try_to_merge(self):
        """What becomes of its claims: "merged" or "held"."""
        def told():
            with self.daemon.client() as client:
                if isinstance(client.call("CTR.SYNC", "ALL"), int):
                    return "merged"
            return "held" if "merges_held:" in self.info() else None

        return wait_until(told, 60, f"{self.name} merges, or is held", 0.05)


class Split:
    """`primary` and `replica`, as they are before the next split; both tallyds are on the primary."""

    def __init__(self, make_redis, make_daemon, make_proxy, mysql, replicas):
        self.mysql, self.number = mysql, 0
        self.sides = [Side(name, make_redis, make_proxy, replicas, mysql) for name in ("near", "far")]
        self.primary, self.replica = self.sides
        self.replica.follows(self.primary)
        self.replica.goes_to(self.primary)
        for side in self.sides:
            side.open(make_daemon, replicas)
        self.answered = Counter()  # what MySQL must have in the end; hits of a side that lost are not in it

    def hits(self, side, fields):
        with side.daemon.client() as client:
            replies = client.pipeline([("HINCRBY", VIEWS, str(field), 1) for field in fields])
        assert all(isinstance(reply, int) for reply in replies), replies[:3]
        return Counter({(VIEWS.encode(), field_bytes(field)): 1 for field in fields})

    def new_fields(self, count):
        self.number += count
        return range(self.number - count + 1, self.number + 1)

    def wait_in_step(self):
        wait_until(lambda: all(side.in_step() for side in self.sides), 30, "all replicas are linked")
        in_step(self.primary.server, 1 + len(self.primary.copies))

    def pending(self):
        """Hits that both sides will have, behind a merge that set the locks."""
        self.answered += self.hits(self.primary, self.new_fields(1))
        for side in self.sides:
            side.daemon.sync_all()
        for side, fields in zip(self.sides, (self.new_fields(PENDING - 20), self.new_fields(20))):
            self.answered += self.hits(side, fields)
        self.wait_in_step()

    def split(self, moves=True):
        """The replica is promoted, and one tallyd finds it; the old primary takes hits of the other one."""
        self.replica.server.client().replicaof("NO", "ONE")
        if moves:
            self.find_promoted()

    def find_promoted(self):
        moved = len(self.replica.events("redis_moved"))
        self.replica.goes_to(self.replica)
        self.replica.place.cut()
        wait_until(lambda: len(self.replica.events("redis_moved")) > moved and self.replica.counts(), 30,
                   "it is on the promoted server")

    def both_merge(self, order):
        """The side whose merges MySQL took, the other one, and what became of both."""
        first, second = (self.replica, self.primary) if order == ORDERS[0] else (self.primary, self.replica)
        told = {}
        threads = [threading.Thread(target=lambda side=side: told.update({side: side.try_to_merge()}))
                   for side in (first, second)]
        for thread in threads:
            thread.start()
            if order != ORDERS[2]:
                thread.join(patience(120))
        for thread in threads:
            thread.join(patience(120))
        winner, loser = (second, first) if told.get(second) == "merged" else (first, second)
        return winner, loser, told

    def merged(self):
        return read_mysql(self.mysql, FAMILIES)[0]

    def not_doubled(self):
        twice = [name for name, count in self.merged().items() if count > 1]
        assert not twice, f"{len(twice)} hits are twice in MySQL, of {PENDING} that were pending"

    def reunite(self, winner, loser, late):
        """The loser's server is demoted, and its tallyd follows. The hits that it had answered since the split are sent
        again, or the frames that had them are named."""
        told = len(loser.frames_lost())
        answered, found = loser.frames(loser), loser.frames(winner)
        assert answered > found
        loser.follows(winner)
        loser.goes_to(winner)
        self.primary, self.replica = winner, loser
        wait_until(lambda: loser.server.client().info("replication")["master_link_status"] == "up", 30, "it is demoted")
        wait_until(lambda: loser.counts(), 30, "its tallyd counts on the winner's")
        for side in self.sides:
            side.daemon.sync_all()
        saved = Counter({name: count for name, count in self.merged().items() if name in late})
        assert (saved, loser.frames_lost()[told:]) in ((Counter(), [(answered, found)]), (late, []))
        print(f"{len(saved)} of {len(late)} hits sent again, {answered - found} frames")
        self.answered += saved

    def settle(self):
        """Both tallyds merge; MySQL has what was answered, and the books balance."""
        for side in self.sides:
            self.answered += self.hits(side, self.new_fields(3))
        for side in self.sides:
            side.daemon.sync_all()
        wait_until(lambda: nothing_left(self.primary.server.client()), 30, "nothing is left in Redis")
        assert +self.merged() == self.answered
        for side in self.sides:
            side.daemon.verify()

    def is_held(self, loser):
        """It says so, and nothing of it is in MySQL's books."""
        done = loser.daemon.verb("status")
        said = done.stdout + done.stderr
        assert done.returncode == 1 and any(why in said for why in WHY_HELD), said
        standing = {name.decode() for name in loser.server.client().zrange("tally:batches", 0, -1)}
        ledger = read_mysql(self.mysql, FAMILIES)[1]
        assert not standing & set(ledger)
        booked = self.mysql.query("SELECT SUM(merged) FROM tally_counters WHERE counter = 'product_views'")[0][0]
        assert booked == sum(self.merged().values())

    def one_round(self, order):
        self.pending()
        held, over, lost = ({side: len(side.events(name)) for side in self.sides}
                            for name in ("merges_held", "epoch_lost", "frames_lost"))
        taken = len(self.replica.events("epoch_taken"))
        self.split()
        if order == ORDERS[1]:
            wait_until(lambda: len(self.replica.events("epoch_taken")) > taken, 30, "the promoted side has an epoch to lose")
        late = {side: self.hits(side, self.new_fields(LATE)) for side in self.sides}
        winner, loser, told = self.both_merge(order)
        self.not_doubled()
        assert sorted(told.values()) == ["held", "merged"], told
        self.answered += late[winner]
        assert +self.merged() == self.answered
        self.is_held(loser)
        assert len(loser.events("merges_held")) > held[loser]
        if order != ORDERS[2]:  # at once: it may be held before it has an epoch that it could lose
            assert len(loser.events("epoch_lost")) > over[loser]
        winner.daemon.verify()
        self.reunite(winner, loser, late[loser])
        assert len(winner.events("frames_lost")) == lost[winner]
        self.settle()


@pytest.fixture
def make_split(make_redis, make_daemon, make_proxy, mysql):
    return lambda replicas: Split(make_redis, make_daemon, make_proxy, mysql, replicas)


@fault("split-brain")
@pytest.mark.parametrize("replicas", [0, 1])
def test_split_brain(replicas, make_split):
    """Also where each side has as many replicas as merges wait for."""
    split = make_split(replicas)
    for order in ORDERS:
        split.one_round(order)


@pytest.mark.soak
@pytest.mark.parametrize("replicas", [0, 1])
def test_split_brain_20_times(replicas, make_split):
    split = make_split(replicas)
    for at in range(20):
        split.one_round(ORDERS[at % 3])


def takes_an_epoch(mysql):
    """A tallyd waits for a row of the books that another one's transaction has."""
    return any("tally_counters SET epoch" in (row[0] or "") for row in mysql.query("SELECT info FROM information_schema.processlist"))


@fault("split-commit")
def test_promoted_while_a_chunk_is_committed(make_split, mysql):
    """The old primary's tallyd is about to send COMMIT when the other one takes the epoch. Its chunk stays in MySQL, and the
    promoted server, which does not know that batch, is the one that is held."""
    split = make_split(0)
    split.pending()
    near, far = split.sides
    split.split(moves=False)
    late = split.hits(near, split.new_fields(LATE))
    commit = Hold(near.sql, "up", COMMIT)
    with near.daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        commit.wait_held()
        split.find_promoted()
        wait_until(lambda: takes_an_epoch(mysql), 30, "the other one waits for the row")
        commit.let_go()
        assert isinstance(client.reply(), int)
    lost = split.hits(far, split.new_fields(LATE))
    assert far.try_to_merge() == "held"
    split.not_doubled()
    split.answered += late
    assert +split.merged() == split.answered
    split.is_held(far)
    near.daemon.verify()
    split.reunite(near, far, lost)
    split.settle()


@fault("split-commit")
def test_the_same_batch_on_both_sides(make_split):
    """Claimed before the split, so both have it, and the promoted server's tallyd merges it: the ledger has it once."""
    split = make_split(0)
    split.pending()
    near, far = split.sides
    commit = Hold(near.sql, "up", COMMIT)
    with near.daemon.client() as client:
        client.send(encode("CTR.SYNC", "ALL"))
        commit.wait_held()
        split.wait_in_step()
        near.daemon.pause()
        split.split()
        batch, = far.server.client().zrange("tally:batches", 0, -1)
        far.server.client().zadd("tally:batches", {batch: 0})  # its owner seems dead for long
        near.sql.cut()  # MySQL rolls its transaction back
        commit.let_go()
        with far.daemon.client() as other:
            wait_until(lambda: isinstance(other.call("CTR.RECOVER"), list), 30, "CTR.RECOVER")
        wait_until(lambda: +split.merged() == split.answered, 30, "it is adopted")
        near.daemon.resume()
        wait_until(lambda: near.server.client().zcard("tally:batches") == 0, 60, "the old side finds it in the ledger")
        late = split.hits(near, split.new_fields(LATE))
    assert +split.merged() == split.answered
    split.reunite(far, near, late)
    split.settle()
