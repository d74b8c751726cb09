"""WAIT and WAITAOF at tallyd's door: a connection's hits so far are on that many replicas, or disks."""
import subprocess
import threading
import time

import pytest
import redis

from harness.daemon import counters
from harness.ports import port as held_port
from harness.redis_server import in_step
from harness.resp import Resp, RespError, encode
from harness.wait import patience, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"
AT_ONCE = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
LONG = 3600_000  # a client that waited that out would give up before
UNBLOCKED = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
ERRORS = [
    ("WAIT",), ("WAIT", "1"), ("WAIT", "1", "1", "1"), ("WAIT", "a", "1"), ("WAIT", "1", "a"), ("WAIT", "1", "-1"),
    ("WAIT", "1.5", "1"), ("WAIT", "99999999999999999999", "1"), ("WAIT", "1", "99999999999999999999"), ("WAIT", "01", "1"),
    ("WAIT", "", "1"), ("WAIT", "a", "-1"),
]
AOF_ERRORS = [
    ("WAITAOF",), ("WAITAOF", "1", "0"), ("WAITAOF", "1", "0", "0", "0"), ("WAITAOF", "2", "0", "0"), ("WAITAOF", "-1", "0", "0"),
    ("WAITAOF", "a", "0", "0"), ("WAITAOF", "0", "a", "0"), ("WAITAOF", "0", "-1", "0"), ("WAITAOF", "0", "0", "a"),
    ("WAITAOF", "0", "0", "-1"), ("WAITAOF", "1", "0", "-5"),
]


class World:
    """A primary with that many replicas, and a tallyd that knows all of them."""

    def __init__(self, make_redis, make_daemon, replicas, appendfsync="everysec", **more):
        self.ports = [held_port() for _ in range(replicas + 1)]
        self.primary, *self.replicas = [make_redis(f"r{at}", appendfsync=appendfsync, in_memory=True,
                                                   extra=["--port", str(port), *AT_ONCE])
                                        for at, port in enumerate(self.ports)]
        for each in self.replicas:
            each.client().replicaof("127.0.0.1", self.ports[0])
        in_step(self.primary, replicas)
        self.url = "redis://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + "/0"
        self.daemon = make_daemon(self.primary, families=FAMILIES, redis_url=self.url,
                                  more={"redis": {"url": self.url, **more}})
        with self.daemon.client() as client:
            client.call("HINCRBY", VIEWS, "1", 1)  # its lock is held from now on, so what comes next is not claimed
        self.daemon.sync_all()

    def has_waitaof(self):
        try:
            return self.primary.client().execute_command("WAITAOF", 0, 0, 0) is not None
        except redis.ResponseError:
            return False


def timed(client, *words):
    began = time.monotonic()
    return client.call(*words), time.monotonic() - began


@pytest.fixture
def one(make_redis, make_daemon, mysql):
    return World(make_redis, make_daemon, 1)


@pytest.fixture
def two(make_redis, make_daemon, mysql):
    world = World(make_redis, make_daemon, 2)
    yield world
    for each in world.replicas:
        each.resume()


def test_a_replica_in_step(one):
    """As many as there are, at once; more than there are, when the time is over."""
    with one.daemon.client() as client:
        for at in range(1, 4):
            assert client.call("HINCRBY", VIEWS, "7", 1) == at
            assert client.call("WAIT", 1, LONG) == 1
            assert one.replicas[0].client().hget(VIEWS, "7") == b"%d" % at
        got, took = timed(client, "WAIT", 2, 1000)
        assert got == 1 and took >= 0.95
        assert client.call("WAIT", 0, 0) >= 0 and client.call("WAIT", -1, 1) >= 0
        assert client.call("WAIT", 1, 0) == 1


def test_a_replica_that_stands_still(two):
    """A client that wants both waits for the time it gave; one that wants one does not wait for them."""
    two.replicas[0].pause()
    with two.daemon.client() as both, two.daemon.client() as single:
        both.call("HINCRBY", VIEWS, "7", 1)
        assert both.call("WAIT", 1, LONG) == 1
        got, took = timed(both, "WAIT", 2, 1500)
        assert got == 1 and took >= 1.4
        both.send(b"WAIT 2 0\r\n")
        for _ in range(5):
            single.call("HINCRBY", VIEWS, "8", 1)
            assert single.call("WAIT", 1, LONG) == 1
        two.replicas[0].resume()
        assert both.reply() == 2


def test_behind_a_pipeline(one):
    """The replies keep their order, and all hits before are on the replica."""
    with one.daemon.client() as client:
        words = [("HINCRBY", VIEWS, "7", 1)] * 10000 + [("WAIT", 1, LONG), ("PING",)]
        answers = client.pipeline(words)
        assert answers[9999] == 10000 and answers[10000:] == [1, "PONG"]
        assert one.replicas[0].client().hget(VIEWS, "7") == b"10000"


def test_many_clients(two):
    """Each hears at its own time."""
    two.replicas[0].pause()
    wrong = []

    def ask(at):
        timeout = 100 + 100 * (at % 10)  # what a single replica has does not wait for it
        with two.daemon.client() as client:
            client.call("HINCRBY", VIEWS, str(at + 1), 1)
            got, took = timed(client, "WAIT", 2, timeout) if at % 2 else (client.call("WAIT", 1, LONG), LONG)
            if got > 1 or took < timeout / 1000 - 0.05:
                wrong.append((at, got, took))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(30))
    assert wrong == []


def test_many_clients_are_asked_for_together(two):
    """Those that come while Redis has not answered yet: a write and some questions for all of them."""
    def asked():
        return two.primary.client().info("commandstats")["cmdstat_eval"]["calls"]

    clients = [two.daemon.client() for _ in range(100)]
    for at, client in enumerate(clients, 1):
        assert client.call("HINCRBY", VIEWS, str(at + 1), 1) == 1
    before = asked()
    two.primary.pause()
    for client in clients:
        client.send(encode("WAIT", 1, LONG))
    two.primary.resume()
    assert {client.reply() for client in clients} <= {1, 2}
    assert asked() - before < 50
    for client in clients:
        client.close()


def test_merging_goes_on(two):
    """A wait that is never over delays no fence."""
    two.replicas[0].pause()
    with two.daemon.client() as client, two.daemon.client() as other:
        client.call("HINCRBY", VIEWS, "7", 1)
        client.send(b"WAIT 2 0\r\n")
        other.call("HINCRBY", VIEWS, "8", 1)
        assert other.call("WAIT", 1, LONG) == 1
        two.daemon.sync_all()
        assert other.call("CTR.TOTAL", VIEWS, "7", "8") == [1, 1]
        two.replicas[0].resume()
        assert client.reply() == 2


def test_merging_beside_waits(one):
    """What WAITs write is not what fences look at: each merge ends with its first fence, while clients wait all the time."""
    over = threading.Event()
    wrong = []

    def wait_on():
        with one.daemon.client() as client:
            while not over.wait(0.3):
                if client.call("WAIT", 1, 1000) != 1:
                    wrong.append("WAIT")

    def merge(hits):
        with one.daemon.client() as client:
            client.call("HINCRBY", VIEWS, "7", hits)
        one.daemon.sync_all()

    for _ in range(3):  # so that WAITs begin with lower numbers than fences
        merge(1)
    thread = threading.Thread(target=wait_on)
    thread.start()
    try:
        for _ in range(3):
            merge(10)
    finally:
        over.set()
        thread.join(30)
    assert wrong == [] and "event=fence_lost" not in one.daemon.log()
    with one.daemon.client() as client:
        assert client.call("CTR.TOTAL", VIEWS, "7") == [33]


def said_when_up(client):
    """What WAIT says; hits are counted before the last link is up."""
    reply = client.call("WAIT", 0, 100)
    return None if isinstance(reply, str) and reply.startswith(("MASTERDOWN", "READONLY")) else [reply]


@pytest.mark.fault
def test_another_primary(one):
    """What was answered on the old one may not be on the new one: said once, to each connection that was there before."""
    first, second = one.primary, one.replicas[0]
    with one.daemon.client() as waiting, one.daemon.client() as idle:
        waiting.call("HINCRBY", VIEWS, "7", 1)
        idle.call("HINCRBY", VIEWS, "7", 1)
        assert waiting.call("WAIT", 1, LONG) == 1
        waiting.send(b"WAIT 2 0\r\n")
        second.client().replicaof("NO", "ONE")
        first.client().replicaof("127.0.0.1", one.ports[1])
        assert waiting.reply() == UNBLOCKED
        with one.daemon.client() as new:
            wait_until(lambda: isinstance(new.call("HINCRBY", VIEWS, "7", 1), int), 30, "counts again")
            assert wait_until(lambda: said_when_up(idle), 30, "all links are up") == [UNBLOCKED]
            for each in (waiting, idle):
                assert wait_until(lambda: said_when_up(each), 30, "no link is down") != [UNBLOCKED]
            assert isinstance(idle.call("HINCRBY", VIEWS, "7", 1), int)
            wait_until(lambda: idle.call("WAIT", 1, 1000) == 1, 30, "the old one follows")


def test_a_client_that_goes(two):
    """No client waits for it for ever, and a stop waits for no client."""
    two.replicas[0].pause()
    gone, stays = two.daemon.client(), two.daemon.client()
    for each in (gone, stays):
        each.call("HINCRBY", VIEWS, "7", 1)
        each.send(b"WAIT 2 0\r\n")
    with two.daemon.client() as client:
        clients = lambda: client.call("CLIENT", "LIST").decode().count("cmd=wait ")
        wait_until(lambda: clients() == 2, 60, "both wait")
        gone.close()
        wait_until(lambda: clients() == 1, 60, "the one that went is gone")
    assert two.daemon.terminate() == 0 and stays.reply() == 1
    stays.close()


def test_errors_are_those_of_redis(one):
    with one.daemon.client() as client, Resp(one.primary.socket) as real:
        for words in ERRORS + (AOF_ERRORS if one.has_waitaof() else []):
            answer = client.call(*words)
            assert isinstance(answer, RespError) and answer == real.call(*words), words
        if not one.has_waitaof():
            assert client.call("WAITAOF", 1, 0, 0) == real.call("WAITAOF", 1, 0, 0)


def test_clients_of_redis(one):
    """redis-py and redis-cli as they are."""
    client = redis.Redis(unix_socket_path=one.daemon.socket)
    pipe = client.pipeline(transaction=False)
    pipe.hincrby(VIEWS, "7", 1)
    pipe.execute_command("WAIT", 1, LONG)
    assert pipe.execute() == [1, 1]
    said = subprocess.run(["redis-cli", "-s", one.daemon.socket, "WAIT", "1", str(LONG)], capture_output=True, check=True, text=True,
                          timeout=patience(60))
    assert said.stdout == "1\n"


def test_disks(make_redis, make_daemon, mysql):
    world = World(make_redis, make_daemon, 1)
    if not world.has_waitaof():
        pytest.skip("this redis-server has no WAITAOF")
    with world.daemon.client() as client:
        client.call("HINCRBY", VIEWS, "7", 1)
        assert client.call("WAITAOF", 1, 1, LONG) == [1, 1]
        got, took = timed(client, "WAITAOF", 1, 2, 1500)
        assert got[0] == 1 and took >= 1.4
        world.primary.client().config_set("appendonly", "no")
        client.call("HINCRBY", VIEWS, "7", 1)
        with Resp(world.primary.socket) as real:
            assert client.call("WAITAOF", 1, 0, 0) == real.call("WAITAOF", 1, 0, 0)
        assert client.call("WAITAOF", 0, 1, LONG) == [0, 1]

