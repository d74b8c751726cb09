"""Each option of `limits` that other files do not move: with it tallyd does otherwise than without."""
import itertools
import os
import resource
import select
import socket
import subprocess
import threading
import time

import pytest

from harness.daemon import TALLYD, counters
from harness.resp import RespError, encode
from harness.wait import patience, wait_until
from harness.web import Web

FAMILIES = counters(hits=10**9, every="3600s")


@pytest.fixture
def limited(make_daemon, redis, workdir):
    """A daemon with these limits, and HTTP."""
    numbers = itertools.count()

    def make(users=None, clock=None, **limits):
        number = next(numbers)
        more = {"limits": limits, **({"users": users} if users else {})}
        daemon = make_daemon(redis, start=False, families=FAMILIES, instance=f"limited{number}", more=more, clock=clock)
        daemon.web = Web(os.path.join(workdir, f"web{number}.sock"))
        daemon.config["listen"]["http"] = f"unix://{daemon.web.at}"
        daemon.write_config()
        daemon.migrate()
        daemon.start()
        return daemon
    return make


def said(client, name):
    info = dict(line.split(":", 1) for line in client.call("INFO").decode().splitlines() if ":" in line)
    return int(info[name])


@pytest.mark.parametrize("n,fits", [(1000, False), (999, True)])
def test_frame(limited, n, fits):
    """A MULTI takes a cell for each field and one for itself, and a frame has 1,000."""
    daemon = limited()
    with daemon.client() as client:
        replies = client.pipeline([("MULTI",), *[("HINCRBY", "s1:product_views", at, 1) for at in range(n)], ("EXEC",)])
        if fits:
            assert replies[-1] == [1] * n
        else:
            assert str(replies[-1]).startswith("EXECABORT") and daemon.web.metrics()["tallyd_hits_total"] == 0


def test_answers(limited, redis):
    """400,000 hits on one field while Redis is paused: 65,536 answers wait for one frame, and no more."""
    daemon = limited()
    with daemon.client() as client:
        before = said(client, "frames")
        redis.pause()
        sender = threading.Thread(target=client.send, args=(encode("HINCRBY", "s1:product_views", 7, 1) * 400000,))
        sender.start()
        sender.join(0.5)  # what is not taken by now finds no room
        redis.resume()
        assert all(isinstance(client.reply(), int) for _ in range(400000))
        sender.join()
        assert said(client, "frames") - before >= 400000 // 65536


@pytest.mark.parametrize("memory,again_least", [("8MiB", 20000), ("512MiB", 0)])
def test_hashes(limited, redis, memory, again_least):
    """8MiB remember 16,131 hashes. Of a hash that is forgotten the lock is asked for again."""
    daemon = limited(memory=memory)
    hits = [("HINCRBY", f"s{store}:product_views", 7, 1) for store in range(1, 40001)]

    def locks():
        with redis.client() as inside:
            return inside.info("commandstats")["cmdstat_set"]["calls"]

    with daemon.client() as client:
        client.pipeline(hits)
        daemon.sync_all()
        client.pipeline(hits)
        before = locks()
        client.pipeline(hits)
        took = locks() - before
    assert took >= again_least and (again_least or took < 500), took


@pytest.mark.parametrize("memory,more_mib", [("16GiB", True), ("8MiB", False)])
def test_names(limited, memory, more_mib):
    """Tables for as many names as the budget allows, taken when the first name comes."""
    daemon = limited(memory=memory)

    def size_mib():
        with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE") >> 20

    before = size_mib()
    with daemon.client() as client:
        client.call("SERIES.INCRBY", "visits", 1)
    assert (size_mib() - before > 200) == more_mib, size_mib() - before


def let_pass(clock, daemon, seconds, meanwhile=("PING",)):
    """In steps that tallyd does not take for a loop that was blocked; after each one it answers."""
    with daemon.client() as client:
        for _ in range(10 * seconds):
            clock.step(0.1)
            said = client.call(*meanwhile)
            assert not isinstance(said, RespError), said


def has_reply(client):
    return bool(select.select([client.socket], [], [], 0.1)[0])


def test_busy(limited, make_clock, redis):
    """Redis is paused: tallyd waits that long for its answer, by its clock."""
    clock = make_clock().flow()
    daemon = limited(clock=clock, busy_timeout="20s")
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", 7, 1)
        clock.stand()
        redis.pause()
        try:
            client.send(encode("HINCRBY", "s1:product_views", 7, 1))
            let_pass(clock, daemon, 15)
            assert not has_reply(client)
            let_pass(clock, daemon, 15)
            assert "outcome unknown" in client.reply()
        finally:
            redis.resume()


@pytest.fixture
def many_files():
    """Room for as many sockets as a constant bound takes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def held(daemon, path, n):
    """n connections that were answered and stay open."""
    made = []
    for _ in range(n):
        made.append(socket.socket(socket.AF_UNIX))
        made[-1].settimeout(patience(20))
        made[-1].connect(daemon.web.at)
        made[-1].sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert made[-1].recv(12) == b"HTTP/1.1 200"
    return made


def is_closed(link):
    link.setblocking(False)
    try:
        while link.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    return True


def test_http_connections(limited, many_files):
    """Beyond half of them those that ask for nothing are closed, the oldest first: one more finds room."""
    daemon = limited()
    others = held(daemon, b"/healthz", 1024)
    assert daemon.web.ask("/healthz").status == 200
    wait_until(lambda: any(map(is_closed, others)), 60, "some are closed")
    for one in others:
        one.close()
    assert daemon.web.ask("/healthz").status == 200


def test_reads(limited):
    """The bounds of one answer; up to the bound it is answered. 32MiB allow 1 MiB of ids."""
    daemon = limited(memory="32MiB")
    with daemon.client() as client:
        refused = client.call("EVENT.COUNT", "blob", "submit", 100001, 1)
        assert refused == "ERR span / window is 100001 windows; at most 100000 are counted at once"
        assert len(client.call("EVENT.COUNT", "blob", "submit", 100000, 1)) == 100000
        assert "at most 100000 events come at once" in client.call("EVENT.RANGE", "a", "b", 0, 1, "LIMIT", 0, 100001)
        assert "at most 366 are united at once" in client.call("UNIQ.COUNT", "who", 20130101, 20140102)
        assert client.call("UNIQ.COUNT", "who", 20130101, 20140101) == [0, b"exact"]
        added = client.pipeline([("EVENT.ADD", "blob", "submit", "ID", f"{n:0512}") for n in range(2100)])
        assert not any(isinstance(one, RespError) for one in added), added[0]
        assert "(limits.memory)" in client.call("EVENT.RANGE", "blob", "submit", 0, 2**40)
        assert len(client.call("EVENT.RANGE", "blob", "submit", 0, 2**40, "LIMIT", 0, 2000)) == 4000


def test_bytes_of_transactions(limited):
    daemon = limited()
    with daemon.client() as client:
        replies = client.pipeline([("MULTI",), *[("PING", "x" * 60000)] * 18, ("EXEC",)])
        assert replies[17:19] == ["QUEUED", "ERR transaction is too large: at most 1048576 bytes; send more than one transaction"]
        replies = client.pipeline([("MULTI",), *[("PING",)] * 10001, ("EXEC",)])
        assert replies[-2] == "ERR transaction is too large: at most 10000 commands; send more than one transaction"


def test_length_of_requests(limited):
    """The 1,025th word, and the byte after a mebibyte."""
    daemon = limited()
    for words, told in ((["PING", *["x"] * 1024], "invalid multibulk length"), (["PING", *["x" * 60000] * 18], "too big request")):
        with daemon.client() as client:
            client.send(encode(*words))
            assert told in client.reply()
            assert client.socket.recv(1) == b""


def users_of(*names):
    done = subprocess.run([TALLYD, "hash"], input="secret\n", stdout=subprocess.PIPE, check=True, text=True)
    return {name: {"password": done.stdout.strip(), "keys": ["*"]} for name in names}


def guesses(client, user, most=20):
    """How many wrong passwords are looked at before one is refused unproved."""
    for at in range(most):
        said = client.call("AUTH", user, f"guess {at}")
        if not said.startswith("WRONGPASS"):
            assert said == "ERR too many wrong passwords from this address; wait some seconds (limits.failed_logins)"
            return at
    return most


CHEAP = "$y$j75$ssssssssssssssss$bT6nc7UP5Eh93GCDzzuWJdoP1nYjWQoptoBYsjBWmf1"


def test_failed_logins(limited, make_clock):
    """One for each user, and five for all: a first guess is looked at for each of five, then the address has to wait. The clock
    stands, so that nothing is forgiven, and goes on by what takes a millisecond to forgive."""
    names, clock = [f"user{n}" for n in range(60)], make_clock().flow()
    daemon = limited(users={name: {"password": CHEAP, "keys": ["*"]} for name in names}, failed_logins=1, clock=clock)
    clock.stand()
    with daemon.client() as client:
        looked_at = [guesses(client, name, most=2) for name in names]
        clock.step(0.01)
        assert guesses(client, names[0], most=2) == 0
    assert looked_at == [1] * 5 + [0] * 55


def test_unauthenticated_rate(limited):
    """60,000 requests of unauthenticated clients: 2,000 at once, the others at 20,000 a second."""
    daemon = limited(users=users_of("ann"))
    with daemon.client() as client:
        began = time.monotonic()
        for _ in range(60):  # an unauthenticated client may leave little unread
            assert client.pipeline([("RESET",)] * 1000) == ["RESET"] * 1000
        assert time.monotonic() - began >= 2.5


def test_passwords_that_wait(limited, many_files):
    """1,500 different passwords at once: some are verified meanwhile, 1,024 wait, others are refused."""
    daemon = limited(users=users_of("ann"), failed_logins=100000)
    clients = []

    def connected():
        try:
            clients.append(daemon.client())
            return True
        except BlockingIOError:  # as many wait already as may
            return False

    for at in range(1500):
        wait_until(connected, 60, "room in the kernel's queue")
        clients[-1].send(encode("AUTH", "ann", f"guess {at}"))
    assert clients[-1].reply() == "ERR too many clients authenticate at once; try again"
    for client in clients:
        client.close()


def http_says(daemon, request):
    """All that comes until the connection is closed."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(patience(20))
        client.connect(daemon.web.at)
        client.sendall(request)
        said = b""
        while True:
            try:
                more = client.recv(65536)
            except ConnectionResetError:
                return said
            if not more:
                return said
            said += more


def test_http_of_one_connection(limited):
    """10 s without a byte, 16 KiB of head and 64 KiB of body."""
    daemon = limited()
    assert b"200 OK" in http_says(daemon, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def sent(head, body, method=b"GET"):
        return http_says(daemon, method + b" /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * head +
                         b"\r\nContent-Length: %d\r\n\r\n" % body + b"b" * body)

    assert b" 200 OK" in sent(8000, 65536)
    assert b" 431 " in sent(17000, 0)
    assert sent(100, 65537) == b""


def test_busy_total(limited, make_clock, mysql):
    """A CTR.TOTAL that meets a later merge in each read gives up after that long, by tallyd's clock."""
    clock = make_clock().flow()
    daemon = limited(clock=clock, busy_timeout="20s")
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", 7, 1)
        daemon.sync_all()
        mysql.query("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged,"
                    " total, merged_at) VALUES ((SELECT MIN(realm) FROM tally_realms), REPEAT('x', 16), 0, 1, 'product_views', 1000000, '', '', REPEAT('x', 16), 0, 0,"
                    " NOW(3))")
        clock.stand()
        client.send(encode("CTR.TOTAL", "s1:product_views", 7))
        hit = ("HINCRBY", "s2:product_views", 7, 1)  # Redis has answered, too: tallyd must not take it for dead by a clock that hurries
        let_pass(clock, daemon, 15, hit)
        assert not has_reply(client), client.reply()
        clock.flow()
        let_pass(clock, daemon, 15, hit)
        assert client.reply().startswith("TRYAGAIN")


LEAST = {"clients": 100, "memory": "8MiB", "send_timeout": "1s", "auth_timeout": "1s", "failed_logins": 1,
         "busy_timeout": "1s"}
MOST = {"clients": 1000000, "memory": "16GiB", "send_timeout": "1d", "auth_timeout": "1h", "failed_logins": 100000,
        "busy_timeout": "10m"}


@pytest.mark.parametrize("limits", [LEAST, MOST], ids=["least", "most"])
def test_at_both_ends(limited, limits):
    """A value at an end of an option's range is no fault of the configuration, and all goes on."""
    daemon = limited(users=users_of("ann"), **limits)
    with daemon.client() as client:
        assert client.call("AUTH", "ann", "secret") == "OK"
        hits = [("HINCRBY", "s1:product_views", n, 1) for n in range(50)]
        assert client.pipeline([("MULTI",), *hits, ("EXEC",)])[-1] == [1] * 50
        long = ["x" * 505 + str(n) for n in range(500)]
        assert not any(isinstance(one, RespError) for one in client.pipeline([("SERIES.INCRBY", name, 1) for name in long]))
        client.call("EVENT.ADD", "blob", "submit")
        assert len(client.call("EVENT.RANGE", "blob", "submit", 0, 2**40)) == 2
        assert len(client.call("EVENT.COUNT", "blob", "submit", 10000, 1)) == 10000
    assert len(daemon.web.ask("/").text) > 1000
    assert daemon.web.metrics()["tallyd_hits_total"] == daemon.web.get("/api/pulse")["hits"] == 50 + 500 + 1
    daemon.verify()
