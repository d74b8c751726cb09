"""The fault matrix: Redis killed, stopped, out of reach, full of errors, and answering what it never would."""
import contextlib
import os
import re
import socket
import struct
import threading

import pytest
from redis import ResponseError

from harness.account import Account
from harness.daemon import counters
from harness.load import Load
from harness.moment import Hold, Moment, Reply
from harness.proxy import Blackhole
from harness.resp import RespError, encode
from harness.wait import patience, stays, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
fault = pytest.mark.fault
REQUESTS = {"frame": b"HINCRBY", "claim": b"RENAMENX", "scan": b"HSCAN", "barrier": b"tally:fence:", "discard": b"unpack(KEYS"}


def fields(count):
    return [(VIEWS, field, 1 + field % 3) for field in range(1, count + 1)]


class Rig:
    """tallyd behind a proxy to Redis, with limits of a second: what takes 10 s in life takes 3 here."""

    def __init__(self, make_daemon, make_proxy, redis, mysql, tcp=False):
        self.redis, self.mysql, self.direct = redis, mysql, redis.client()
        self.proxy = make_proxy(redis.socket, tcp)
        url = f"redis://127.0.0.1:{self.proxy.port}/0" if tcp else f"unix://{self.proxy.path}?db=0"
        self.daemon = make_daemon(redis, families=FAMILIES, redis_url=url, more={"redis": {"url": url, "timeout": "1s"}})
        self.account = Account(redis, mysql, FAMILIES)

    def ask_to_sync(self):
        with self.daemon.client() as client:
            client.send(encode("CTR.SYNC", "ALL"))

    def begin(self, step):
        """What makes tallyd send that request."""
        if step == "frame":
            thread = threading.Thread(target=self.account.hit, args=(self.daemon, fields(5)), daemon=True)
            thread.start()
            return thread
        self.ask_to_sync()
        return None

    def accepted(self):
        return int(self.direct.hget("tally:accepted", "product_views"))

    def counts_again(self):
        wait_until(lambda: isinstance(self.account.hit(self.daemon, fields(1))[0], int), 30, "counts again")

    def exact(self):
        self.account.settle(self.daemon)
        assert self.account.unknown == 0 and self.account.merged() == self.account.acked


@pytest.fixture
def rig(make_daemon, make_proxy, redis, mysql):
    return Rig(make_daemon, make_proxy, redis, mysql)


@pytest.fixture
def tcp_rig(make_daemon, make_proxy, redis, mysql):
    return Rig(make_daemon, make_proxy, redis, mysql, tcp=True)


class Slammed:
    """A port where each caller is taken and let go of at once."""

    linger = struct.pack("ii", 0, 0)

    def __init__(self, port):
        self.tries = 0
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        with contextlib.suppress(OSError):
            while True:
                caller = self.listener.accept()[0]
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, self.linger)
                caller.close()
                self.tries += 1

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Reset(Slammed):
    linger = struct.pack("ii", 1, 0)


@pytest.mark.parametrize("step", [pytest.param(step, marks=fault(f"redis-killed-{step}"))
                                  for step in REQUESTS])
def test_redis_killed(step, rig):
    """In front of a request, and behind what it does but in front of its answer."""
    for kind in (lambda act: Moment(rig.proxy, "up", REQUESTS[step], act), lambda act: Reply(rig.proxy, REQUESTS[step], act)):
        rig.account.pending(rig.daemon, fields(20))

        def kill(link, data):
            rig.redis.kill9()
            return b""

        moment = kind(kill)
        waiting = rig.begin(step)
        moment.wait()
        rig.redis.start()
        if waiting:
            waiting.join(patience(30))
        rig.exact()


@fault("redis-stopped-idle")
def test_redis_stopped_while_idle(rig):
    rig.account.pending(rig.daemon, fields(20))
    rig.redis.pause()
    with rig.daemon.client() as client:
        stays(lambda: client.call("PING") == "PONG", 2, "the loop lives")
    rig.redis.resume()
    rig.counts_again()
    rig.exact()


@fault("redis-stopped-frame")
def test_redis_stopped_under_load(rig):
    """Hits wait, then are refused, at once and definitely; nothing grows; what was in flight counts once or not at all."""
    def pick(rng):
        return VIEWS.encode(), b"%d" % rng.randrange(300), rng.choice((1, 7))

    account = rig.account
    load = Load(rig.daemon.socket, account.shadow, pick, clients=8, depth=50, per_second=20_000, seed=5)
    try:
        load.go()
        wait_until(lambda: account.acked > 20_000, 60, "hits are answered")
        before = rig.daemon.rss_kib()
        rig.redis.pause()
        wait_until(lambda: sum(account.shadow.refused.values()) > 1000, 30, "hits are refused")
        with rig.daemon.client() as client:
            assert [client.call("PING") for _ in range(100)] == ["PONG"] * 100, "the loop lives"
        assert rig.daemon.rss_kib() - before < 32 * 1024
        rig.redis.resume()
        wanted = account.acked + 5000
        wait_until(lambda: account.acked > wanted, 60, "counts again")
        load.pause()
    finally:
        load.stop()
    account.settle(rig.daemon)
    assert account.unknown < account.acked / 5


@fault("redis-stopped-scan")
def test_redis_stopped_in_the_scan(rig):
    rig.account.pending(rig.daemon, fields(2500))
    merged = rig.account.merged()
    scan = Moment(rig.proxy, "up", b"HSCAN", lambda link, data: rig.redis.pause())
    rig.ask_to_sync()
    scan.wait()
    wait_until(lambda: re.search("redis_down role=sync .*no answer for 1000 ms", rig.daemon.log()), 30, "its own limit")
    assert rig.account.merged() == merged
    rig.redis.resume()
    rig.counts_again()
    rig.exact()


@pytest.mark.parametrize("end", [pytest.param("reset", marks=fault("redis-rst")), pytest.param("cut", marks=fault("redis-fin"))])
def test_link_ends_with_a_frame_under_way(end, tcp_rig):
    """The request is lost, or its answer; in both cases the clients get their values, and each hit counts once."""
    rig = tcp_rig
    rig.account.pending(rig.daemon, fields(20))
    for applied, lose in ((False, lambda link: b""), (True, lambda link: setattr(link, "swallow", True))):
        accepted, sent = rig.accepted(), sum(delta for _, _, delta in fields(5))
        lost = Moment(rig.proxy, "up", b"HINCRBY", lambda link, data, lose=lose: lose(link))
        waiting = rig.begin("frame")
        lost.wait()
        if applied:
            wait_until(lambda: rig.accepted() == accepted + sent, 60, "it is applied")
        getattr(rig.proxy, end)()
        waiting.join(patience(30))
        assert rig.accepted() == accepted + sent and not rig.account.shadow.refused
    assert ("connection reset by peer" in rig.daemon.log()) == (end == "reset")
    rig.exact()


@fault("redis-refuses")
@pytest.mark.parametrize("door", [None, Slammed, Reset], ids=["refused", "FIN", "RST"])
def test_connect_fails(door, tcp_rig, make_proxy):
    """Nothing listens there, or the listener hangs up at once: clients get an error at once, and tallyd does not flood it."""
    rig = tcp_rig
    rig.account.pending(rig.daemon, fields(20))
    port = rig.proxy.port
    rig.proxy.close()
    opened = door and door(port)
    wait_until(lambda: rig.account.hit(rig.daemon, fields(1))[0].startswith("MASTERDOWN "), 30, "refused")
    with rig.daemon.client() as client:
        stays(lambda: client.call("PING") == "PONG", 1, "the loop lives")
    if opened:
        opened.close()
        assert 4 <= opened.tries < 60, "four links, each with a growing pause"
    make_proxy(rig.redis.socket, tcp=True, port=port)
    rig.counts_again()
    rig.exact()


@fault("redis-blackhole")
def test_syn_gets_no_answer(tcp_rig, make_proxy):
    """The network is gone without a word: clients hear so at once, tallyd goes on trying with its own limit."""
    rig = tcp_rig
    rig.account.pending(rig.daemon, fields(20))
    port = rig.proxy.port
    rig.proxy.close()
    hole = Blackhole(port)
    try:
        wait_until(lambda: rig.account.hit(rig.daemon, fields(1))[0].startswith("MASTERDOWN "), 30, "refused")
        with rig.daemon.client() as client:
            stays(lambda: client.call("PING") == "PONG", 2.5, "the loop lives")
        rig.daemon.log_contains("connecting took too long")
    finally:
        hole.close()
    make_proxy(rig.redis.socket, tcp=True, port=port)
    rig.counts_again()
    rig.exact()


# --- errors, made for real ---

@contextlib.contextmanager
def loading(redis):
    direct = redis.client()
    pipe = direct.pipeline()
    for at in range(1000):
        pipe.set(f"other:{at}", at)
    pipe.execute()
    direct.bgrewriteaof()
    wait_until(lambda: direct.info("persistence")["aof_rewrite_in_progress"] == 0, 30)
    redis.kill9()
    redis.extra = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"]
    redis.spawn()
    yield
    redis.wait_ready()


def is_busy(direct):
    try:
        return not direct.ping()
    except ResponseError as error:
        return "BUSY" in str(error)


@contextlib.contextmanager
def busy(redis):
    """A script without an end."""
    def run():
        with contextlib.suppress(Exception):
            redis.client(timeout_s=60).eval("while true do end", 0)

    direct = redis.client()
    direct.config_set("busy-reply-threshold", 50)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: is_busy(direct), 30, "Redis says BUSY")
    yield
    direct.script_kill()
    thread.join(patience(30))


@contextlib.contextmanager
def misconf(redis):
    """The last BGSAVE failed, since its target is a directory."""
    direct = redis.client()
    os.mkdir(f"{redis.data}/dump.rdb")
    direct.config_set("save", "3600 1")
    direct.bgsave()
    wait_until(lambda: direct.info("persistence")["rdb_last_bgsave_status"] == "err", 30)
    yield
    os.rmdir(f"{redis.data}/dump.rdb")
    direct.bgsave()


@contextlib.contextmanager
def replica(redis):
    """Of a master that is not there."""
    direct = redis.client()
    direct.replicaof("127.0.0.1", 1)
    yield
    direct.replicaof("NO", "ONE")


@contextlib.contextmanager
def stale_replica(redis):
    """One that does not tell what it has, either; of writes it says READONLY all the same."""
    redis.client().config_set("replica-serve-stale-data", "no")
    with replica(redis):
        yield


@contextlib.contextmanager
def lonely(redis):
    redis.client().config_set("min-replicas-to-write", 1)
    yield
    redis.client().config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize("prefixes,state", [
    pytest.param(("LOADING ",), loading, marks=fault("redis-loading"), id="LOADING"),
    pytest.param(("BUSY ",), busy, marks=fault("redis-busy"), id="BUSY"),
    pytest.param(("MISCONF ",), misconf, marks=fault("redis-misconf"), id="MISCONF"),
    pytest.param(("MASTERDOWN ", "READONLY "), stale_replica, marks=fault("redis-masterdown"), id="MASTERDOWN"),
    pytest.param(("NOREPLICAS ",), lonely, marks=fault("redis-noreplicas"), id="NOREPLICAS"),
    pytest.param(("READONLY ",), replica, marks=fault("redis-readonly"), id="READONLY"),
])
def test_redis_answers_errors(prefixes, state, rig):
    """From the middle of a scan on, and of the fence beside it: hits are refused with Redis' own word, in frames and between, and not
    one of them is counted; the batch waits."""
    account, answers = rig.account, set()
    account.pending(rig.daemon, fields(20))
    merged = account.merged()
    scan, fence = Hold(rig.proxy, "up", REQUESTS["scan"]), Hold(rig.proxy, "up", REQUESTS["barrier"])
    rig.ask_to_sync()
    scan.wait_held()
    fence.wait_held()
    with state(rig.redis):
        rig.proxy.filter = lambda link, way, data: (answers.update(re.findall(rb"-([A-Z]+) ", data)), data)[1]
        scan.let_go()
        fence.let_go()

        def refused():
            replies = account.hit(rig.daemon, fields(3), timeout_s=15)
            return all(isinstance(reply, RespError) for reply in replies) and replies[0].startswith(prefixes)

        wait_until(refused, 30, f"refused with {prefixes}")
        assert refused(), "and again"
        stays(lambda: account.merged() == merged, 0.3, "nothing is merged")
    assert prefixes[0].strip().encode() in answers or prefixes[0] == "LOADING ", answers
    rig.counts_again()
    account.settle(rig.daemon)
    assert account.acked <= account.merged() <= account.acked + account.unknown


# --- a cluster ---

@fault("cluster-moved")
def test_redis_is_a_cluster(make_redis, make_daemon, rig):
    """Refused at the start; and when it becomes one later, clients get an error, and nothing is lost when it ceases to be."""
    cluster = make_redis("cluster", appendfsync="always", extra=["--cluster-enabled", "yes"])
    idle = make_daemon(cluster, start=False, instance="two")
    for verb in ("check", "run"):
        done = idle.verb(verb)
        assert done.returncode == 78 and "cluster mode" in done.stderr, done.stderr
    rig.account.pending(rig.daemon, fields(20))
    rig.proxy.upstream = cluster.socket
    rig.proxy.cut()
    wait_until(lambda: "cluster mode" in str(rig.account.hit(rig.daemon, fields(1))), 30, "refused, with the reason")
    assert not list(cluster.client().scan_iter())
    rig.proxy.upstream = rig.redis.socket
    rig.proxy.cut()
    rig.counts_again()
    rig.exact()


def commands(data):
    return len(re.findall(rb"(?:^|\r\n)\*\d+\r\n", data))


@pytest.mark.parametrize("error", [
    pytest.param("MOVED 3999 127.0.0.1:6381", marks=fault("cluster-moved")),
    pytest.param("ASK 3999 127.0.0.1:6381", marks=fault("cluster-ask")),
    pytest.param("TRYAGAIN Multiple keys request during rehashing of slot", marks=fault("cluster-tryagain")),
], ids=lambda error: error.split()[0])
def test_redirections(error, rig):
    """Of a cluster that hides behind a proxy and says so at a command alone. A frame that meets them ends in EXECABORT, as
    Redis does it: its clients are refused and nothing counts; a claim waits. MOVED and ASK say that another server is the
    one to ask: all links leave."""
    account, line = rig.account, f"-{error}\r\n".encode()
    account.pending(rig.daemon, fields(20))

    def abort(link, data):
        assert data.startswith(b"*1\r\n$5\r\nMULTI\r\n") and b"\r\nEXEC\r\n*2\r\n$5\r\nWATCH\r\n" in data
        link.say(b"+OK\r\n" + line * (commands(data) - 3)
                 + b"-EXECABORT Transaction discarded because of previous errors.\r\n+OK\r\n")
        return b""

    frame = Moment(rig.proxy, "up", b"HINCRBY", abort)
    replies = account.hit(rig.daemon, fields(5))
    frame.wait()
    assert len(replies) == 5 and all(isinstance(reply, RespError) for reply in replies), replies
    assert error.split()[0] in replies[0], replies
    word = error.split()[0]
    if word != "TRYAGAIN":
        wait_until(lambda: rig.daemon.log().count(f'why="{word} ') >= 3, 30, "all links leave")
    rig.counts_again()
    assert word != "TRYAGAIN" or "event=redis_down" not in rig.daemon.log()
    rig.exact()  # merges again
    account.pending(rig.daemon, fields(20))

    def refuse(link, data):
        link.say(line)
        return b""

    claim = Moment(rig.proxy, "up", b"RENAMENX", refuse)
    rig.ask_to_sync()
    claim.wait()
    rig.exact()


# --- answers that Redis would never give ---

@pytest.mark.parametrize("lie", [
    pytest.param(b":7\r\n", marks=fault("redis-unsolicited")),
    pytest.param(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", marks=fault("redis-garbage")),
    pytest.param(b"*1\r\n" * 9 + b":1\r\n", marks=fault("redis-deep")),
], ids=["unsolicited", "garbage", "too deep"])
def test_redis_answers_nonsense(lie, rig):
    """Without a request, and instead of each answer there is: that link ends, what was asked on it is in doubt and
    resolved, and the process lives."""
    rig.account.pending(rig.daemon, fields(20))
    for link in rig.proxy.all_links():
        with contextlib.suppress(OSError):  # one that ended with another
            link.say(lie)
    wait_until(lambda: rig.daemon.log().count("event=redis_down") >= 3, 30, "the links end")
    rig.counts_again()
    pid = rig.daemon.pid
    for step, request in REQUESTS.items():
        rig.account.pending(rig.daemon, fields(20))
        downs = rig.daemon.log().count("event=redis_down")
        odd = Reply(rig.proxy, request, lambda link, data: data + lie if lie.startswith(b":") else lie)
        waiting = rig.begin(step)
        odd.wait()
        wait_until(lambda downs=downs: rig.daemon.log().count("event=redis_down") > downs, 30, f"that link ends: {step}")
        if waiting:
            waiting.join(patience(30))
        rig.exact()
    assert rig.daemon.alive() and rig.daemon.pid == pid
