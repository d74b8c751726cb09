"""The fault matrix: a Redis that fails over by Sentinel. Three redis-servers, three sentinels, at 8,000 hits/s."""
import contextlib
import json
import re
import socket
import threading
import time

import pytest
import redis as redis_client

from harness.account import Account
from harness.books import counted, nothing_left
from harness.certificates import Authority
from harness.daemon import counters
from harness.load import Load
from harness.ports import port as held_port
from harness.programs import MYSQLD
from harness.resp import Closed, Resp, encode
from harness.sentinels import HOSTS, NAME, Sentinels
from harness.wait import patience, stays, wait_until
from harness.web import Web

FAMILIES = counters(hits=200, every="60s")
CLIENTS, DEPTH = 8, 20
fault = pytest.mark.fault


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, 6), b"%d" % rng.randrange(1, 40), rng.randrange(1, 4)


def sentinels_told(daemon, web):
    """(known, up, majority) as status, the panel and /metrics have it, and what each says; the problems that name sentinels."""
    seen, panel, metrics = json.loads(daemon.verb("status", "--json").stdout), web.get("/api/status"), web.metrics()
    told = seen["service"]["sentinels"]
    counts = {tuple(at["sentinels"][name] for name in ("known", "up")) for at in (seen["service"], panel["service"])}
    counts.add((metrics["tallyd_redis_sentinels"], metrics["tallyd_redis_sentinels_up"]))
    problems = [{one["what"] for one in at["problems"] if "sentinel" in one["what"]} for at in (seen, panel)]
    return counts, told["majority"], {one["at"]: (one["state"], one["heard"]) for one in told["each"]}, problems


class Steady(threading.Thread):
    """One client that does `once` again and again, and the moments in which it was answered."""

    def __init__(self, once):
        super().__init__(daemon=True)
        self.once, self.times, self.ending = once, [time.monotonic()], False
        self.start()

    def run(self):
        while not self.ending:
            with contextlib.suppress(OSError, Closed, redis_client.RedisError):
                if self.once():
                    self.times.append(time.monotonic())
            time.sleep(0.002)

    def gap(self, since):
        """The longest time without an answer that ended or goes on behind that moment."""
        times = [*self.times, time.monotonic()]
        return max(b - a for a, b in zip(times, times[1:]) if b > since)

    def stop(self):
        self.ending = True
        self.join(patience(30))


class Bare:
    """A client without tallyd that asks the sentinels before each write, as Redis' documentation has it."""

    def __init__(self, sentinels):
        self.sentinels, self.links = sentinels, {}

    def once(self):
        for each in list(self.sentinels):
            try:
                host, port = self.link(each, 0.5).execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
                break
            except redis_client.RedisError:
                continue
        else:
            return False
        return self.link(f"{host}:{port}", 0.5).incr("bare")

    def link(self, at, timeout_s):
        if at not in self.links:
            host, port = at.rsplit(":", 1)
            self.links[at] = redis_client.Redis(host=host, port=int(port), socket_timeout=timeout_s, decode_responses=True)
        return self.links[at]


class Rig:
    def __init__(self, cluster, make_daemon, mysql, more=None, families=FAMILIES, **options):
        self.cluster, self.mysql, self.families = cluster, mysql, families
        self.daemon = make_daemon(None, families=families, redis_url={
            "url": f"redis://{NAME}/0", "sentinels": cluster.urls(), "replicas": 1, "timeout": "60s", **(more or {})},
            more={"limits": {"busy_timeout": "60s"}}, **options)  # longer than a failover takes on a busy machine
        self.account = Account(None, mysql, families)
        self.load = Load(self.daemon.socket, self.account.shadow, pick, CLIENTS, DEPTH, 8000)
        self.tallyd = self.bare = None

    def go(self, bare=True):
        link = []

        def hit():
            try:
                if not link:
                    link.append(self.daemon.client())
                reply = link[0].call("HINCRBY", "s9:product_views", 1, 1)
                self.account.shadow.settle([(b"s9:product_views", b"1", 1)], [reply])
                return isinstance(reply, int)
            except (OSError, Closed):
                link.clear()
                self.account.shadow.settle([(b"s9:product_views", b"1", 1)], [])
                raise

        self.load.go()
        self.tallyd = Steady(hit)
        self.bare = Steady(Bare(self.cluster.urls()).once) if bare else None
        wait_until(lambda: len(self.tallyd.times) > 50, 30, "hits are answered")
        return self

    def moved(self, to, deadline_s=60):
        """Its last move was to that one."""
        wait_until(lambda: re.findall(r"event=redis_moved .*?to=(\S+)", self.daemon.log())[-1:] == [f"{to.host}:{to.seen}"],
                   deadline_s, f"tallyd is on {to.name}")

    def hits_go_on(self):
        """And no link has left a primary because it waited for redis.timeout in vain. A sentinel may be late: it has one second."""
        answered = len(self.tallyd.times)
        wait_until(lambda: len(self.tallyd.times) > answered + 50, 60, "hits are answered")
        assert not re.search("event=redis_down .*no answer for ", self.daemon.log())

    def named_lost(self):
        """Frames that tallyd says Redis lost."""
        return sum(map(int, re.findall(r"event=frames_lost .*?lost=(\d+)", self.daemon.log())))

    def stop(self):
        for each in (self.tallyd, self.bare):
            if each:
                each.stop()
        self.load.pause()

    def exact(self):
        """All is merged, and MySQL has what was answered: nothing twice, and nothing less but for frames that were named."""
        self.stop()
        primary = self.cluster.wait_settled(2, len([each for each in self.cluster.sentinels if each.alive()]))
        self.daemon.sync_all()
        wait_until(lambda: nothing_left(primary.client()), 30, "nothing is left in Redis")
        there, shadow = counted(primary.client(), self.mysql, self.families), self.account.shadow
        double = {name: (there[name], shadow.acked[name], shadow.unknown[name]) for name in there
                  if there[name] > shadow.acked[name] + shadow.unknown[name]}
        assert not double, f"more than was answered: {double}"
        missing = sum(max(0, shadow.acked[name] - there[name]) for name in shadow.acked)
        assert missing <= self.named_lost() * 3 * (CLIENTS * DEPTH + 1), (missing, self.named_lost())
        if self.named_lost() == 0:
            self.daemon.verify()
        return missing


@pytest.fixture
def make_cluster(workdir):
    made = []

    def make(**options):
        made.append(Sentinels(workdir, **options))
        return made[-1].start()

    yield make
    for each in made:
        each.close()


@pytest.fixture
def make_rig(make_cluster, make_daemon, mysql):
    made = []

    def make(cluster=None, **options):
        made.append(Rig(cluster or make_cluster(), make_daemon, options.pop("mysql", mysql), **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        each.load.stop()


def show(what, rig, since):
    print(f"\n{what}: hits again after {rig.tallyd.gap(since):.3f} s, a bare client after {rig.bare.gap(since):.3f} s, "
          f"frames lost {rig.named_lost()}")


@fault("sentinel-killed", "sentinel-old-primary")
def test_killed(make_rig):
    """Hits are taken again as a bare client's are; the old primary comes back as the master that it was."""
    rig = make_rig().go()
    old, since = rig.cluster.primary(), time.monotonic()
    old.kill9()
    new = rig.cluster.wait_moved(old)
    rig.moved(new)
    wait_until(lambda: rig.tallyd.times[-1] > rig.bare.times[-1] - 0.5 and rig.bare.times[-1] > since + 1, 30, "both go on")
    show("killed", rig, since)
    rig.hits_go_on()
    old.start()
    assert old.role() == "master"
    rig.cluster.wait_settled()
    rig.hits_go_on()
    assert f"to={old.host}:{old.seen} " not in rig.daemon.log()
    rig.exact()


@fault("sentinel-stopped")
def test_stopped(make_rig):
    rig = make_rig().go()
    old, since = rig.cluster.primary(), time.monotonic()
    old.pause()
    new = wait_until(lambda: {each.primary() for each in rig.cluster.sentinels} != {(old.host, old.seen)} and
                     [each for each in rig.cluster.nodes if each is not old and rig.cluster.says_master(each)], 30, "another")[0]
    rig.moved(new)
    wait_until(lambda: rig.bare.times[-1] > since + 1, 30, "the bare client goes on")
    show("stopped", rig, since)
    rig.hits_go_on()
    old.resume()
    rig.exact()


@fault("sentinel-planned")
def test_planned(make_rig):
    """The old primary lives and takes writes: hits wait for the promotion, and go where it was."""
    rig = make_rig().go()
    old, since = rig.cluster.primary(), time.monotonic()
    rig.cluster.failover()
    rig.moved(rig.cluster.wait_moved(old))
    rig.cluster.wait_settled()
    show("planned", rig, since)
    rig.hits_go_on()
    assert rig.named_lost() <= 1
    assert not rig.account.shadow.refused
    rig.exact()


class Island:
    """The first primary behind a proxy that everybody else comes through; cut() leaves tallyd alone with it."""

    def __init__(self, proxy):
        self.proxy, self.whole = proxy, threading.Event()
        self.whole.set()
        self.on_request = None  # (bytes that tallyd sends there, what to do first)
        proxy.filter = self.filter

    def filter(self, link, way, data):
        if way == "up" and b"tally" in data:
            link.ours = True
        if way == "up" and getattr(link, "ours", False) and self.on_request and self.on_request[0] in data:
            do, self.on_request = self.on_request[1], None
            do()
        if not getattr(link, "ours", False):
            self.whole.wait()
        return data

    def cut(self):
        self.whole.clear()

    def heal(self):
        self.whole.set()
        self.proxy.cut()


@pytest.fixture
def island(make_cluster, make_proxy, workdir):
    """(cluster, island)"""
    proxy = make_proxy(("127.0.0.1", 1), tcp=True)
    cluster = Sentinels(workdir, seen=proxy.port)
    proxy.upstream = (cluster.nodes[0].host, cluster.nodes[0].port)
    made = Island(proxy)
    try:
        yield cluster.start(), made
    finally:
        made.whole.set()
        cluster.close()


@fault("sentinel-partition")
def test_partition(island, make_rig):
    """What was answered by the primary that was alone with us, as much as came until the promotion, the new one gets again."""
    cluster, partition = island
    rig = make_rig(cluster).go(bare=False)
    old = cluster.nodes[0]
    partition.cut()
    new = wait_until(lambda: [each for each in cluster.nodes[1:] if cluster.says_master(each)], 30, "another is promoted")[0]
    rig.moved(new)
    rig.hits_go_on()
    rig.daemon.log_contains("event=frames_replayed", 30)
    assert rig.named_lost() == 0
    partition.heal()
    wait_until(lambda: old.role() == "slave", 60, "the old one follows")
    rig.exact()


@fault("sentinel-lost-discard")
def test_discarded_and_not_replicated(island, make_rig, mysql):
    """The promoted replica has a batch that was merged and discarded: no tallyd waits a minute until it is stale."""
    cluster, partition = island
    rig = make_rig(cluster)
    with rig.daemon.client() as client:
        # A first hit is due at once, and its lock stays for a minute: what follows is claimed together. That is more than are packed,
        # so the batch has a hash of its own.
        assert client.call("HINCRBY", "s1:product_views", 0, 1) == 1
        wait_until(lambda: mysql.query("SELECT views FROM product_views") == ((1,),), 30, "the first is merged")
        wait_until(lambda: cluster.nodes[0].client().zcard("tally:batches") == 0, 30, "and discarded")
        assert client.pipeline([("HINCRBY", "s1:product_views", field, 3) for field in range(1, 10)]) == [3] * 9
        partition.on_request = (b"unpack(KEYS", partition.cut)
        client.send(encode("CTR.SYNC", "ALL"))
        wait_until(lambda: mysql.query("SELECT views FROM product_views WHERE product_id > 0") == ((3,),) * 9, 30, "merged")
        wait_until(lambda: not partition.whole.is_set(), 30, "discarded where nobody hears of it")
    new = wait_until(lambda: [each for each in cluster.nodes[1:] if cluster.says_master(each)], 30, "another is promoted")[0]
    assert new.client().zcard("tally:batches") == 1
    rig.moved(new)
    began = time.monotonic()
    wait_until(lambda: new.client().zcard("tally:batches") == 0, 30, "adopted")
    print(f"\nadopted {time.monotonic() - began:.2f} s after the switch")
    assert mysql.query("SELECT views FROM product_views WHERE product_id > 0") == ((3,),) * 9
    partition.heal()
    wait_until(lambda: cluster.nodes[0].role() == "slave", 60, "the old one follows")


class Liar:
    """A sentinel that names a replica and a port of its own, as the primary, and knows of a failover ten times a second."""

    def __init__(self, port, cluster):
        self.cluster, self.trap = cluster, socket.create_server(("127.0.0.1", 0))
        self.trap.settimeout(0.1)
        self.asked = self.trapped = 0
        self.ending = False
        self.server = socket.create_server((HOSTS[0], port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        link = Resp.__new__(Resp)
        link.socket, link.buffer, link.at = near, b"", 0
        with contextlib.suppress(OSError, Closed):
            while True:
                words = [word.decode() for word in link.reply()]
                if words[0] == "PSUBSCRIBE":
                    self.preach(near)
                near.sendall(self.answer(words))

    def answer(self, words):
        replica, trap = self.cluster.nodes[1], self.trap.getsockname()
        self.asked += words[-1] == NAME
        if words[0] == "PING":
            return b"+PONG\r\n"
        if words[1] == "MYID":
            return encode("f" * 40).partition(b"\r\n")[2]
        if words[1] == "SENTINELS":
            friends = [encode("runid", "%040d" % i, "ip", trap[0], "port", str(trap[1])) for i in range(5)]
            return b"*5\r\n" + b"".join(friends)
        host, port = (replica.host, replica.seen) if self.asked % 2 else trap
        return encode(host, str(port))

    def preach(self, near):
        old, replica = self.cluster.nodes[0], self.cluster.nodes[1]
        of = f"slave {replica.host}:{replica.seen} {replica.host} {replica.seen} @ {NAME} {old.host} {old.seen}"
        while not self.ending:
            for channel, text in (("+failover-state-select-slave", f"master {NAME} {old.host} {old.seen}"), ("+selected-slave", of),
                                  ("+promoted-slave", of),
                                  ("+switch-master", f"{NAME} {old.host} {old.seen} {replica.host} {replica.seen}")):
                near.sendall(encode("pmessage", "*", channel, text))
            with contextlib.suppress(TimeoutError):
                self.trap.accept()
                self.trapped += 1

    def close(self):
        self.ending = True
        for each in (self.server, self.trap):
            each.close()


@fault("sentinel-liar")
def test_liar(make_cluster, make_rig):
    cluster = make_cluster()
    liar = Liar(held_port(), cluster)
    try:
        at = f"{HOSTS[0]}:{liar.server.getsockname()[1]}"
        rig = make_rig(cluster, more={"sentinels": [*cluster.urls()[:2], at]}).go(bare=False)
        rig.daemon.log_contains("event=hold ")
        rig.daemon.log_contains("event=hold_over ")
        rig.hits_go_on()
        stays(lambda: "event=redis_moved" not in rig.daemon.log(), 8)
        rig.hits_go_on()
        assert rig.daemon.log().count("event=hold ") == 1 and liar.trapped == 0 and liar.asked > 3
        said = rig.daemon.verb("check")
        assert said.returncode == 0 and at in said.stdout
    finally:
        liar.close()
    rig.exact()


@fault("sentinel-majority-dead")
def test_two_of_three_are_dead(make_rig, workdir):
    """The third is believed at a start; of a failover that it does alone, the servers themselves are the proof."""
    rig = make_rig()
    daemon, at, well = rig.daemon, rig.cluster.urls(), ("answers", True)
    web = Web(f"{workdir}/http.sock")
    daemon.config["listen"]["http"] = f"unix://{web.at}"
    daemon.write_config()
    daemon.restart()
    wait_until(lambda: sentinels_told(daemon, web) == ({(3, 3)}, 2, dict.fromkeys(at, well), [set(), set()]), 60, "all three answer")
    for each in rig.cluster.sentinels[1:]:
        each.kill9()
    rig.daemon.restart()
    what = {"1 of the 3 sentinels answers, and a majority is 2: they cannot fail Redis over"}
    dead = ({(3, 1)}, 2, {at[0]: well, **dict.fromkeys(at[1:], ("silent", False))}, [what, what])
    wait_until(lambda: sentinels_told(daemon, web) == dead, 60, "one of three answers")
    screen = daemon.verb("status")
    assert screen.returncode == 1 and "1 of 3 sentinels answer, a majority is 2" in screen.stdout, screen.stdout
    assert ", role master, " in screen.stdout, screen.stdout
    rig.go()
    old = rig.cluster.primary()
    rig.cluster.failover()
    rig.moved(rig.cluster.wait_moved(old))
    rig.hits_go_on()
    assert rig.named_lost() <= 1
    rig.cluster.sentinels[1].start()
    wait_until(lambda: sentinels_told(daemon, web)[::3] == ({(3, 2)}, [set(), set()]), 60, "two of three are no problem")
    rig.cluster.sentinels[2].start()
    wait_until(lambda: sentinels_told(daemon, web)[::3] == ({(3, 3)}, [set(), set()]), 60, "all three answer again")
    rig.exact()


def test_password_and_tls(make_cluster, make_rig, make_daemon, workdir, tmp_path):
    authority = Authority(workdir)
    pair = authority.issue("sentinel", names=",".join(f"IP:{host}" for host in HOSTS))
    tls_port = held_port()
    cluster = make_cluster(password="sesam", sentinel=(
        f"tls-port {tls_port}", f"tls-cert-file {pair.cert}", f"tls-key-file {pair.key}", f"tls-ca-cert-file {authority.cert}",
        "tls-auth-clients no"))
    secret = tmp_path / "sentinel.password"
    secret.write_text("sesam\n")
    secret.chmod(0o600)
    more = {"sentinels": [f"{host}:{tls_port}" for host in HOSTS],
            "sentinel": {"password_file": str(secret), "tls": {"use": "on", "ca": authority.cert}}}
    rig = make_rig(cluster, more=more).go(bare=False)
    old = cluster.primary()
    cluster.failover()
    rig.moved(cluster.wait_moved(old))
    rig.hits_go_on()
    for verb in ("check", "status", "verify"):
        done = rig.daemon.verb(verb)
        assert done.returncode == 0, done.stdout + done.stderr
    rig.exact()

    def refused(section, *texts):
        rig.daemon.config["redis"] = {"url": f"redis://{NAME}/0", **section}
        rig.daemon.write_config()
        done = rig.daemon.verb("check")
        assert done.returncode != 0 and all(text in done.stderr for text in texts), done.stderr

    secret.write_text("wrong\n")
    refused(more, "WRONGPASS", "redis.sentinel.password_file")
    secret.write_text("sesam\n")
    refused({**more, "url": "redis://nobody/0"}, "knows no primary named 'nobody'", "sentinel monitor")
    refused({**more, "sentinel": {"password_file": str(secret)}}, "none of the 3 sentinels answers")
    refused({**more, "sentinel": {**more["sentinel"], "tls": {"use": "on"}}}, "certificate")


def rows_of(server):
    return server.query("SELECT COUNT(*) FROM tally_ledger")[0][0]


@fault("both-at-once")
@pytest.mark.parametrize("redis_way,mysql_way", [("planned", "switched"), ("killed", "switched"), pytest.param(
    "killed", "killed", marks=pytest.mark.skipif(MYSQLD is not None, reason="MySQL's semi-synchronous replication is a plugin"))])
def test_mysql_moves_too(redis_way, mysql_way, make_rig, pair):
    """Nobody takes a merge when Redis' primary goes: batches that were claimed there are merged elsewhere, once."""
    rig = make_rig(mysql=pair.old, mysql_url=pair.url, families=counters(hits=10, every="1s")).go(bare=False)
    if mysql_way == "killed":
        pair.wait_for_replica()
    wait_until(lambda: rows_of(pair.old) > 5, 30, "batches are merged")
    old, since = rig.cluster.primary(), time.monotonic()
    (pair.old.kill9 if mysql_way == "killed" else pair.old.refuse_writes)()
    (old.kill9 if redis_way == "killed" else rig.cluster.failover)()
    (pair.apply_all if mysql_way == "killed" else pair.catch_up)()
    pair.promote()
    rows = rows_of(pair.new)
    rig.moved(rig.cluster.wait_moved(old))
    wait_until(lambda: rows_of(pair.new) > rows, 30, "rows in the new MySQL", every_s=0.01)
    print(f"\nRedis {redis_way}, MySQL {mysql_way}: rows after {time.monotonic() - since:.2f} s, a gap of hits of "
          f"{rig.tallyd.gap(since):.3f} s, frames lost {rig.named_lost()}")
    old.start()
    rig.mysql = pair.new
    rig.exact()
    assert rig.daemon.log().count("event=mysql_moved") == 1 and "event=batch_held" not in rig.daemon.log()


def again(make_rig, times):
    rig = make_rig().go(bare=False)
    for turn in range(times):
        old, since = rig.cluster.primary(), time.monotonic()
        way = ("planned", "killed", "stopped")[turn % 3]
        if way == "planned":
            rig.cluster.sentinels[turn % len(HOSTS)].client().execute_command("SENTINEL", "FAILOVER", NAME)
        elif way == "killed":
            old.kill9()
        else:
            old.pause()
        new = wait_until(lambda: [each for each in rig.cluster.nodes if each is not old and rig.cluster.says_master(each)], 30)[0]
        rig.moved(new)
        if way == "killed":
            old.start()
        old.resume()
        rig.cluster.wait_settled()
        print(f"{way}: gap {rig.tallyd.gap(since):.3f} s, frames lost so far {rig.named_lost()}")
    print(f"{times} failovers: answered {rig.account.acked}, missing {rig.exact()}, frames lost {rig.named_lost()}")


@fault("sentinel-again")
def test_three_in_a_row(make_rig):
    again(make_rig, 3)


@pytest.mark.soak
def test_twenty_in_a_row(make_rig):
    again(make_rig, 20)
