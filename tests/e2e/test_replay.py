"""What was answered, and Redis lost: tallyd lives, and sends it again. A primary dies with its replicas behind, and Sentinel
promotes one; a power cut takes what no fsync has put on the disk. 20,000 hits a second, most of them alone in their field."""
import re
import time
from collections import Counter

import pytest

from harness.account import Account
from harness.books import nothing_left
from harness.daemon import counters
from harness.load import Load
from harness.ports import port as held_port
from harness.redis_server import in_step
from harness.sentinels import NAME, Sentinels
from harness.storm import Known, settled
from harness.wait import wait_until

FAMILIES = counters(hits=200, every="60s")
ROUNDS, SOAK_ROUNDS = 3, 20
PER_SECOND = 20_000
FEW = 5_000  # enough where a round takes as long as Sentinel or a replica needs; a soak has more
AT_ONCE = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
ONE_FILE = ["--auto-aof-rewrite-percentage", "0"]  # at 64 MB it would begin another, and a cut in the older one is no tail


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, 201), b"%d" % rng.randrange(1, 101), rng.randrange(1, 4)


def replayed(daemon):
    return [int(hits) for hits in re.findall(r"event=frames_replayed frames=\d+ hits=(\d+)", daemon.log())]


@pytest.fixture
def make_load():
    made = []

    def make(daemon, account, per_second=PER_SECOND):
        made.append(Load(daemon.socket, account.shadow, pick, 8, 100, per_second, on_time=True))
        made[-1].go()
        return made[-1]

    yield make
    for each in made:
        each.stop()


def counts(account, seconds, per_second=PER_SECOND):
    """As many hits more are answered as come in that time."""
    least = account.shadow.answered + seconds * per_second
    wait_until(lambda: account.shadow.answered >= least, 60, "hits are answered")


def counts_so_many(daemon, account, seconds, per_second=PER_SECOND):
    """The same, and says how many came in a second."""
    since, before = time.monotonic(), account.shadow.answered
    counts(account, seconds, per_second)
    rate = (account.shadow.answered - before) / (time.monotonic() - since)
    print(f"{rate:.0f} hits/s, {daemon.figure('replay_bytes')} bytes kept")


def exact(daemon, account, redis):
    account.settle(daemon, redis)
    assert account.merged() >= account.acked and "frames_lost" not in daemon.log()


class Pair:
    """A primary and its replica, which gets the stream through a proxy."""

    def __init__(self, make_redis, make_proxy):
        self.servers = []
        for name in ("first", "second"):
            held = held_port()
            server = make_redis(name, in_memory=True, extra=["--port", str(held), *AT_ONCE])
            server.port = held
            self.servers.append(server)
        self.way = make_proxy(("127.0.0.1", self.servers[0].port), tcp=True)
        self.replica.client().replicaof("127.0.0.1", self.way.port)
        in_step(self.primary)

    primary = property(lambda self: self.servers[0])
    replica = property(lambda self: self.servers[1])
    url = property(lambda self: "redis://" + ",".join(f"127.0.0.1:{each.port}" for each in self.servers) + "/0")

    def fail_over(self, account, per_second):
        """The replica gets nothing more while hits are answered; then the primary dies, and it is promoted."""
        self.way.stall("down")
        counts(account, 1, per_second)
        self.promote()

    def promote(self):
        self.primary.kill9()
        self.way.cut()
        self.way.flow()
        self.replica.client().replicaof("NO", "ONE")
        self.servers.reverse()
        self.way.upstream = ("127.0.0.1", self.primary.port)

    def old_follows(self):
        self.replica.extra = ["--port", str(self.replica.port), *AT_ONCE, "--replicaof", "127.0.0.1", str(self.way.port)]
        self.replica.start()
        in_step(self.primary)


def promotions(rounds, per_second, make_redis, make_proxy, make_daemon, make_load, mysql):
    pair = Pair(make_redis, make_proxy)
    daemon = make_daemon(pair.primary, families=FAMILIES, more={"redis": {"url": pair.url, "replicas": 1}})
    account = Account(pair.primary, mysql, FAMILIES)
    load = make_load(daemon, account, per_second)
    for at in range(rounds):
        counts(account, 1, per_second)
        pair.fail_over(account, per_second)
        wait_until(lambda at=at: len(replayed(daemon)) > at, 30, "the promoted one gets what it lacks")
        counts(account, 0.5, per_second)
        pair.old_follows()
    load.pause()
    exact(daemon, account, pair.primary)
    print(f"\npromoted {rounds} times, replayed hits {replayed(daemon)}, unknown {account.unknown}")


def cut_off(primary):
    """Its replicas are not served any more, and so lack what it is sent from now on."""
    link = primary.client()
    link.execute_command("ACL", "SETUSER", "default", "-psync", "-sync")
    link.client_kill_filter(_type="slave")


def elections(rounds, per_second, workdir, make_daemon, make_load, mysql):
    cluster = Sentinels(workdir)
    try:
        cluster.start()
        daemon = make_daemon(None, families=FAMILIES,
                             redis_url={"url": f"redis://{NAME}/0", "sentinels": cluster.urls(), "replicas": 1})
        account = Account(None, mysql, FAMILIES)
        load = make_load(daemon, account, per_second)
        for at in range(rounds):
            counts(account, 1, per_second)
            old = cluster.primary()
            cut_off(old)
            counts_so_many(daemon, account, 1, per_second)
            old.kill9()
            cluster.wait_moved(old)
            wait_until(lambda at=at: len(replayed(daemon)) > at, 30, "the promoted one gets what it lacks")
            counts(account, 0.5, per_second)
            old.start()
            cluster.wait_settled()
        load.pause()
        exact(daemon, account, cluster.primary())
    finally:
        cluster.close()
    print(f"\nelected {rounds} times, replayed hits {replayed(daemon)}, answered {account.shadow.answered}, unknown {account.unknown}")


def power_cuts(rounds, make_redis, make_daemon, make_load, mysql):
    server = make_redis(in_memory=True, disk=True, extra=ONE_FILE)
    daemon = make_daemon(server, families=FAMILIES)
    account = Account(server, mysql, FAMILIES)
    load = make_load(daemon, account)
    for at in range(rounds):
        counts_so_many(daemon, account, 2)
        assert server.disk.power_cut(server, 1 << 20) > 0
        server.start()
        wait_until(lambda at=at: len(replayed(daemon)) > at, 30, "it gets what it lacks")
    counts(account, 0.5)
    load.pause()
    exact(daemon, account, server)
    print(f"\n{rounds} power cuts, replayed hits {replayed(daemon)}, unknown {account.unknown}")


@pytest.mark.fault("replay-promoted")
def test_promoted_behind(make_redis, make_proxy, make_daemon, make_load, mysql):
    promotions(ROUNDS, FEW, make_redis, make_proxy, make_daemon, make_load, mysql)


@pytest.mark.fault("replay-elected")
def test_elected_behind(workdir, make_daemon, make_load, mysql):
    elections(ROUNDS, FEW, workdir, make_daemon, make_load, mysql)


@pytest.mark.fault("replay-power-cut")
def test_power_cut(make_redis, make_daemon, make_load, mysql):
    power_cuts(ROUNDS, make_redis, make_daemon, make_load, mysql)


OTHER_WAYS = {"series": {"precisions": [3600], "samples": 1000}, "boxes": {"width": "3600s", "keep": 1000}}


def pick_op(rng):
    """Names that come again and again, so that most go by way of a journal, or have a number of a lease."""
    name, n = b"n%d" % rng.randrange(30), b"%d" % rng.randrange(1, 9)
    what = rng.randrange(3)
    if what == 2:
        return (b"EVENT.ADD", name, b"seen") + ((b"ID", b"own%x" % rng.getrandbits(64)) if n == b"1" else ())
    return (b"BOX.INCRBY" if what else b"SERIES.INCRBY", name, n)


def sums_asked(requests):
    """(command, name) -> what was added; of events how many."""
    asked = Counter()
    for command, name, n, *_ in requests:
        asked[command, name] += 1 if command == b"EVENT.ADD" else int(n)
    return asked


def sums_in_redis(direct):
    found = Counter()
    for at in range(30):
        name = b"n%d" % at
        found[b"SERIES.INCRBY", name] = sum(map(int, direct.hvals(b"count:3600:" + name)))
        found[b"BOX.INCRBY", name] = sum(int(hits) for _, hits in direct.zrange(b"pv." + name, 0, -1, withscores=True))
        found[b"EVENT.ADD", name] = direct.zcard(name + b":seen")
    return found


@pytest.mark.fault("replay-other-ways")
def test_other_ways_to_count(make_redis, make_proxy, make_daemon):
    """Series, timeboxes and events that were answered are in what is promoted, an event under the id it was
    answered with."""
    pair, known = Pair(make_redis, make_proxy), Known()
    daemon = make_daemon(pair.primary, families=FAMILIES, more={"redis": {"url": pair.url, "replicas": 1}, **OTHER_WAYS})
    load = Load(daemon.socket, known, pick_op, clients=8, depth=100, per_second=8000, command=())

    def answered(more):
        least = len(known.answered) + more
        wait_until(lambda: len(known.answered) >= least, 30, "hits are answered")

    try:
        for at in range(ROUNDS):
            load.go()
            answered(8000)
            pair.way.stall("down")
            answered(4000)
            pair.promote()
            wait_until(lambda at=at: len(replayed(daemon)) > at, 30, "the promoted one gets what it lacks")
            answered(4000)
            pair.old_follows()
        load.pause()
    finally:
        load.stop()
    settled(daemon, pair.primary)
    assert "frames_lost" not in daemon.log() and "replay_failed" not in daemon.log()
    least, most, found = sums_asked(known.sure()), sums_asked(known.sure() + known.unknown), sums_in_redis(pair.primary.client())
    assert all(least[each] <= found[each] <= most[each] for each in found), (least - found, found - most)
    stand = {at: set(pair.primary.client().zrange(b"n%d:seen" % at, 0, -1)) for at in range(30)}
    lost = [(request, reply) for request, reply in known.answered
            if request[0] == b"EVENT.ADD" and reply not in stand[int(request[1][1:])]]
    renumbered = sum(map(int, re.findall(r"event=events_renumbered seq=\d+ events=(\d+)", daemon.log())))
    print(f"\n{len(known.answered)} answered, replayed {replayed(daemon)}, renumbered {renumbered}, unknown {len(known.unknown)}")
    assert len(lost) <= renumbered, lost[:5]


def test_promoted_and_refusing(make_redis, make_proxy, make_daemon):
    """The promoted one takes no writes without a replica, so it does not take what it lacks. Who comes meanwhile hears that in
    time, and counts afterwards; the log says why."""
    pair = Pair(make_redis, make_proxy)
    daemon = make_daemon(pair.primary, families=FAMILIES,
                         more={"redis": {"url": pair.url, "replicas": 1}, "limits": {"busy_timeout": "1s"}})
    with daemon.client() as client:
        hit = ("HINCRBY", "s1:product_views", 5, 1)
        pair.way.stall("down")
        assert client.call(*hit) == 1
        pair.replica.client().config_set("min-replicas-to-write", 1)
        pair.promote()
        wait_until(lambda: "BUSY" in str(client.call(*hit)), 30, "a hit is refused in time")
        assert re.search(r'event=replay_refused seq=\d+ error="NOREPLICAS ', daemon.log())
        pair.primary.client().config_set("min-replicas-to-write", 0)
        wait_until(lambda: client.call(*hit) == 2, 30, "hits count, after those that were lost")
    assert replayed(daemon) == [1]


def test_over_the_limit(make_redis, make_daemon, make_load, mysql):
    """What does not fit goes, the oldest first, and is named; the rest is sent again."""
    server = make_redis(in_memory=True, disk=True, extra=ONE_FILE)
    daemon = make_daemon(server, families=FAMILIES, more={"limits": {"memory": "8MiB"}})
    account = Account(server, mysql, FAMILIES)
    load = make_load(daemon, account)
    until = time.monotonic() + 3
    with daemon.client() as client:
        def kept():
            found = int(re.search(r"replay_bytes:(\d+)", client.call("INFO").decode())[1])
            assert found <= 1 << 20
            return found

        wait_until(lambda: time.monotonic() > until and kept() > 512 << 10, 30, "as much is kept as may be")
    assert server.disk.power_cut(server, 4 << 20) > 0  # more is lost than is kept
    server.start()
    wait_until(lambda: replayed(daemon), 30, "it gets what is left")
    load.pause()
    daemon.sync_all()
    wait_until(lambda: nothing_left(server.client()), 30, "nothing is left in Redis")
    lost = int(re.search(r"event=frames_lost .*?lost=(\d+)", daemon.log())[1])
    missing = account.acked - account.merged()
    print(f"\nframes lost {lost}, hits replayed {replayed(daemon)}, missing {missing}")
    assert lost > 0 and missing > 0 and replayed(daemon)[0] > 0


@pytest.mark.soak
def test_promoted_behind_again_and_again(make_redis, make_proxy, make_daemon, make_load, mysql):
    promotions(SOAK_ROUNDS, PER_SECOND, make_redis, make_proxy, make_daemon, make_load, mysql)


@pytest.mark.soak
def test_elected_behind_again_and_again(workdir, make_daemon, make_load, mysql):
    elections(SOAK_ROUNDS, PER_SECOND, workdir, make_daemon, make_load, mysql)


@pytest.mark.soak
def test_power_cut_again_and_again(make_redis, make_daemon, make_load, mysql):
    power_cuts(SOAK_ROUNDS, make_redis, make_daemon, make_load, mysql)
