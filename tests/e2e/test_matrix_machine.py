"""The fault matrix' rows of the machine: no space, no descriptors, no memory, a wrong clock, an old Redis behind a pruned
ledger, and what an older tallyd left."""
import contextlib
import fcntl
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter

import pytest

from harness.books import counted, read_mysql
from harness.daemon import counters
from harness.load import Load
from harness.mariadb import MariaDB
from harness.programs import MALLOC_SHIM, SANITIZED
from harness.resp import Closed, Resp, RespError
from harness.shadow import Shadow
from harness.still import pairs
from harness.shop import FAMILIES, VIEWS, Shop
from harness.wait import patience, stays, wait_until



@pytest.fixture
def closed(make_redis, make_daemon, make_proxy, mysql):
    return Shop(make_redis, make_daemon, make_proxy, mysql)


@pytest.fixture
def shop(closed):
    return closed.open().start()


@pytest.fixture
def small_disk(template):
    """A directory with room for an empty MySQL, and 96 MiB."""
    empty = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(template) for name in names)
    made = tempfile.mkdtemp(prefix="tly-disk-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={empty + (96 << 20)}", "tmpfs", made], capture_output=True,
                      check=False).returncode != 0:
        os.rmdir(made)
        pytest.skip("no right to mount a small tmpfs")
    yield made
    subprocess.run(["umount", "-l", made], check=True)
    os.rmdir(made)


# Of a table, of a file of MySQL's own, of InnoDB.
NO_SPACE = ("; make room on MySQL's disk", "MySQL error 1030: ")


@pytest.mark.fault("enospc-mysql")
@pytest.mark.parametrize("room_kib", [256, 0], ids=["a little", "none"])
def test_no_space_for_mysql(room_kib, closed, make_proxy, small_disk, template):
    """The disk under MariaDB is full: tables cannot grow. Hits go on, merges wait, and go on when there is room."""
    mysql = MariaDB(small_disk, template).start()
    try:
        mysql.fresh_database()
        shop = closed
        shop.mysql, shop.proxy = mysql, make_proxy(mysql.socket)
        shop.open().start()
        shop.hits()
        shop.daemon.sync_all()
        filler = f"{small_disk}/filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True, check=False)
        os.truncate(filler, os.path.getsize(filler) - room_kib * 1024)
        shop.hits(key="s1:searches", fields=[b"%05d" % at + b"x" * 240 for at in range(6000)])
        link = shop.ask_for_merging()
        wait_until(lambda: not mysql.alive() or any(text in shop.daemon.log() for text in NO_SPACE), 30, "no space")
        shop.hits()
        os.unlink(filler)
        if not mysql.alive():  # InnoDB ends itself where a page that it has room for cannot be written
            mysql.start()
        link.close()
        shop.exact()
        shop.daemon.close()
    finally:
        mysql.close()


@pytest.mark.fault("enospc-log")
@pytest.mark.parametrize("where", ["full disk", "full pipe"])
def test_no_space_for_the_log(where, closed, workdir):
    """Nothing can be written to stderr, or stderr is not read: lines are lost, never hits or merges."""
    shop, reader = closed.open(), None
    log = "/dev/full"
    shop.daemon.migrate()
    if where == "full pipe":
        log = f"{workdir}/log"
        os.mkfifo(log)
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(log, os.O_WRONLY | os.O_NONBLOCK)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        assert os.write(writer, b"x" * 4096) == 4096
    shop.daemon.log_path = log
    shop.daemon.start()
    for _ in range(3):
        shop.hits()
        shop.daemon.sync_all()
    shop.proxy.cut()  # something to log
    shop.mysql.restart()
    shop.hits()
    shop.exact()
    assert shop.daemon.terminate() == 0
    if reader is not None:
        os.close(writer)
        os.close(reader)


@pytest.mark.fault("ledger-purged")
def test_ledger_pruned_then_an_old_redis(closed):
    """Redis is restored to when it had a batch that was merged since, and the ledger knows nothing of it any more: the
    highest gen is never pruned, and says that this Redis is old."""
    shop = closed.open()
    shop.daemon.migrate()
    shop.daemon.crash = "claim_done"
    shop.daemon.spawn()
    wait_until(shop.daemon.is_ready, 30)
    with shop.daemon.client() as client:
        client.send(b"HINCRBY s1:product_views 7 3\r\n")
        wait_until(lambda: not shop.daemon.alive(), 30, "killed behind its claim")
    shop.acked[b"s1:product_views", b"7"] += 3
    direct = shop.redis.client()
    assert direct.zcard("tally:batches") == 1
    old = {key: direct.dump(key) for key in direct.scan_iter(count=1000)}
    shop.daemon.crash = None
    shop.daemon.start()
    for _ in range(3):
        shop.hits()
        shop.daemon.sync_all()
    shop.mysql.query("UPDATE tally_ledger SET merged_at = merged_at - INTERVAL 30 DAY")
    shop.daemon.restart()
    wait_until(lambda: shop.ledger_rows() == 1, 30, "pruned")
    shop.daemon.kill9()
    direct.flushall()
    for key, value in old.items():
        direct.restore(key, 0, value)
    shop.redis.restart()
    shop.daemon.start()
    shop.daemon.log_contains("rolled back")
    with shop.daemon.client() as client:
        assert isinstance(client.call("HINCRBY", VIEWS, "7", 1), int)  # counting goes on
        reply = client.call("CTR.SYNC", "ALL")
        assert isinstance(reply, RespError) and "merging is held until an operator has looked" in reply
    assert read_mysql(shop.mysql, FAMILIES)[0] == shop.acked
    assert shop.redis.client().zcard("tally:batches") == 1  # held, for an operator to decide


def cpu_s(daemon):
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.fault("emfile")
def test_no_descriptors_left(shop):
    """accept() says EMFILE: connected clients are served, the loop does not spin, and when there are descriptors again
    there are connections."""
    shop.hits()
    was = resource.prlimit(shop.daemon.pid, resource.RLIMIT_NOFILE)
    waiting = []
    with shop.daemon.client() as old:
        top = max(int(fd) for fd in os.listdir(f"/proc/{shop.daemon.pid}/fd"))
        resource.prlimit(shop.daemon.pid, resource.RLIMIT_NOFILE, (top + 4, was[1]))
        for _ in range(50):
            waiting.append(Resp(shop.daemon.socket, 30))
        began = cpu_s(shop.daemon)

        def served():
            value = old.call("HINCRBY", VIEWS, "3", 1)
            shop.acked[VIEWS.encode(), b"3"] += isinstance(value, int)
            return isinstance(value, int)

        stays(served, 1.5, "who is connected is served", every_s=0.02)
        assert cpu_s(shop.daemon) - began < 0.5
        resource.prlimit(shop.daemon.pid, resource.RLIMIT_NOFILE, was)
        for link in waiting:
            link.close()
        wait_until(shop.daemon.is_ready, 30, "a new connection")
        assert served()
    shop.exact()


def info_of(client, name):
    lines = client.call("INFO").decode().splitlines()
    return int(next(line.split(":")[1] for line in lines if line.startswith(f"{name}:")))


@pytest.mark.fault("client-flood")
def test_flood_of_clients(closed):
    """Hundreds connect, many more than allowed, and hang up again: a client from before is served all the while, those
    over the limit are told, memory is bounded, and afterwards there is room."""
    shop = closed.open(more={"limits": {"clients": 100}}).start()
    shop.hits()
    before = shop.daemon.rss_kib()
    ending, made = threading.Event(), [0] * 4

    def flood(at):
        mine = []
        while not ending.is_set():
            try:
                link = Resp(shop.daemon.socket, 5)
                link.send(b"PING\r\n*3\r\n$7\r\nHINC")
                mine.append(link)
                made[at] += 1
            except OSError:  # the queue of the socket is full
                pass
            if len(mine) > 60:
                mine.pop(0).close()
        for link in mine:
            link.close()

    with shop.daemon.client(timeout_s=10) as old:
        threads = [threading.Thread(target=flood, args=(at,), daemon=True) for at in range(4)]
        for thread in threads:
            thread.start()
        until, refused = time.monotonic() + patience(60), 0
        while sum(made) < 600 or shop.acked[VIEWS.encode(), b"3"] < 200 or refused <= 100:
            assert isinstance(old.call("HINCRBY", VIEWS, "3", 1), int)
            shop.acked[VIEWS.encode(), b"3"] += 1
            if shop.acked[VIEWS.encode(), b"3"] % 20 == 0:
                assert info_of(old, "connected_clients") <= 100
                refused = info_of(old, "connections_refused")
                assert time.monotonic() < until, refused
        ending.set()
        for thread in threads:
            thread.join(patience(30))
    assert shop.daemon.rss_kib() - before < 32 * 1024 or SANITIZED
    wait_until(shop.daemon.is_ready, 30, "room again")
    shop.exact()


class Allocations:
    """The allocations of a tallyd that is started with `environment`, its libraries' too: the nth from now fails."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.left = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": MALLOC_SHIM, "MALLOC_SHIM": path}

    def fail(self, nth):
        self.left[:] = struct.pack("=q", nth)

    def failed(self):
        return struct.unpack("=q", self.left[:])[0] <= 0


def grows(rng):
    """Mostly new names: what tallyd knows of them takes memory."""
    return b"s%d:searches" % rng.randrange(500), b"%d" % rng.randrange(1000), 1


def allocations_fail(nths, shop, allocations):
    """One after the other, under load and in merges; how many ended tallyd."""
    shadow, ended = Shadow(), 0
    load = Load(shop.daemon.socket, shadow, grows, clients=3, depth=50, per_second=10_000)
    try:
        for nth in nths:
            load.go()
            answered = sum(shadow.acked.values())
            wait_until(lambda: sum(shadow.acked.values()) > answered + 200, 30, "hits")
            with contextlib.suppress(Closed, OSError), shop.daemon.client() as link:
                allocations.fail(nth)
                link.send(b"CTR.SYNC ALL\r\n")
            wait_until(lambda: allocations.failed() or not shop.daemon.alive(), 30, f"allocation {nth} fails")
            load.pause()
            allocations.fail(0)
            if not ends(shop.daemon):
                continue
            ended += 1
            said = shop.daemon.log_tail(5)
            assert shop.daemon.process.returncode == -signal.SIGABRT and "event=out_of_memory" in said, f"{nth}: {said}"
            shadow.check(counted(shop.redis.client(), shop.mysql, FAMILIES))
            shop.daemon.start()
    finally:
        load.stop()
    shop.daemon.sync_all()
    shadow.check(read_mysql(shop.mysql, FAMILIES)[0])
    shop.daemon.verify()
    return ended


def ends(daemon):
    """abort() takes a moment."""
    try:
        daemon.process.wait(patience(0.5))
        return True
    except subprocess.TimeoutExpired:
        return False


@pytest.fixture
def allocations(workdir, monkeypatch):
    if SANITIZED:
        pytest.skip("a sanitizer has an allocator of its own")
    made = Allocations(f"{workdir}/allocations")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.fault("malloc-fails")
def test_nth_allocation_fails(closed, allocations):
    """tallyd says so and ends by abort(), or the client gets an error; what was answered is there, and the next start
    merges it. That every allocation of the core may fail is shown in tests/unit."""
    assert allocations_fail((1, 2, 5, 12, 30, 75, 200, 500), closed.open().start(), allocations) > 0


@pytest.mark.soak
def test_many_allocations_fail(closed, allocations):
    rng = random.Random(7)
    assert allocations_fail([rng.randrange(1, 600) for _ in range(100)], closed.open().start(), allocations) > 0


@pytest.mark.fault("clock-lock", "clock-ticks", "clock-timebox")
def test_clock_leaps(make_still, mysql):
    """A day ahead, back again, and an hour back: a lock may expire early or stay an hour longer, hits are answered,
    are merged once, and soon after `every` (60 s): a minute until tallyd asks for the time; no live bucket goes."""
    still = make_still({"boxes": {"width": "60s", "keep": 60}}, families=counters(hits=50, every="60s"))
    acked, boxed = Counter(), Counter()

    def hits(n):
        for at in range(n):
            assert isinstance(still.call("HINCRBY", f"s{at % 3}:product_views", "7", 1), int)
        acked["views"] += n

    def merged():
        return mysql.query("SELECT SUM(views) FROM product_views") == ((acked["views"],),)

    hits(30)
    still.pass_until(merged, 70, "the first hits")
    for jump_s in (86_400, -86_400, -3600, 3600):
        assert isinstance(still.call("BOX.INCRBY", "home", 1), int)
        boxed[still.now - still.now % 60] += 1
        hits(9)
        still.clock.step(0, jump_s=jump_s)
        hits(9)
        still.pass_until(merged, 150, f"merged after a leap of {jump_s} s")
        still.step(61)  # what was merged at once was before tallyd asked
    boxes = {start: count for start, count in pairs(still.call("BOX.RECENT", "home", 0, 60))}
    assert boxes == boxed
    still.daemon.verify()


# What tallyd of commit dfff682 (0.1.0, a day older than this test) left when it was killed behind its first chunk: claimed
# fields `term 0` to `term 1499` of store 7, with at % 9 + 1 hits each; their registry, and the ledger's rows.
ORPHAN = "b852d80751239b049861092e44a53ca2"
ORPHAN_REGISTRY = {"format": "1", "counter": "searches", "gen": "2", "owner": "one:51966536896ff14a",
                   "lowest_ms": "1795316937435", "=s7:searches": "1500"}
ORPHAN_FIELDS = {b"term %d" % at: at % 9 + 1 for at in range(1500)}
ORPHAN_CHUNKS = (  # chunk, first key, last key, digest, rows, total; the second is what it would have written
    (0, "000b73373a736561726368657300067465726d2030", "000b73373a736561726368657300087465726d20393939",
     "b07ae14f67c4f9ffbefaf8cd5723fe30", 1000, 4996),
    (1, "000b73373a736561726368657300097465726d2031303030", "000b73373a736561726368657300097465726d2031343939",
     "a266bfefe2706d1176355631ad84e539", 500, 2495))


def orphan_of_an_older_tallyd(shop):
    direct, store = shop.redis.client(), shop.mysql.query
    direct.hset(f"s7:searches_{ORPHAN}", mapping=ORPHAN_FIELDS)
    direct.hset(f"tally:batch:{ORPHAN}", mapping=ORPHAN_REGISTRY)
    direct.zadd("tally:batches", {ORPHAN: 1795300000000})
    direct.set("tally:gen", 2)
    direct.hset("tally:accepted", "searches", sum(ORPHAN_FIELDS.values()))
    chunk, first, last, digest, rows, total = ORPHAN_CHUNKS[0]
    store("INSERT INTO tally_ledger (realm, batch, chunk, chunks, counter, gen, first_key, last_key, digest, rows_merged, total,"
          " merged_at) VALUES ((SELECT MIN(realm) FROM tally_realms), UNHEX(%s), %s, 2, 'searches', 2, UNHEX(%s), UNHEX(%s), UNHEX(%s), %s, %s, UTC_TIMESTAMP(3))",
          (ORPHAN, chunk, first, last, digest, rows, total))
    store("INSERT INTO tally_counters (counter, realm, epoch, merged) SELECT 'searches', realm, epoch, %s FROM tally_realms",
          (total,))
    for at in range(1000):
        shop.acked[b"s7:searches", b"term %d" % at] = at % 9 + 1
    values = ",".join(f"(7, 'term {at}', {at % 9 + 1})" for at in range(1000))
    store("INSERT INTO searches (store_id, term, searches) VALUES " + values)
    shop.acked.update({(b"s7:searches", b"term %d" % at): at % 9 + 1 for at in range(1000, 1500)})


@pytest.mark.fault("upgrade-orphan")
def test_orphan_of_an_older_version(closed):
    """The chunk that is in the ledger is known by its digest, the other one is merged, cut as the old one would have; and
    a batch of a format that is not known yet (a downgrade) stays, named, until a tallyd knows it."""
    shop = closed.open()
    shop.daemon.migrate()
    orphan_of_an_older_tallyd(shop)
    newer = "f" * 32
    direct = shop.redis.client()
    direct.hset(f"s8:product_views_{newer}", "1", 5)
    direct.hset(f"tally:batch:{newer}", mapping={"format": "3", "counter": "product_views", "gen": "3", "owner": "two:1",
                                                 "lowest_ms": "1795316937435", "=s8:product_views": "1"})
    direct.zadd("tally:batches", {newer: 1795300000000})
    direct.set("tally:gen", 3)
    direct.hincrby("tally:accepted", "product_views", 5)
    shop.daemon.start()
    wait_until(lambda: direct.zrange("tally:batches", 0, -1) == [newer.encode()], 30, "the orphan is merged")
    rows = shop.mysql.query("SELECT chunk, LOWER(HEX(first_key)), LOWER(HEX(last_key)), LOWER(HEX(digest)), rows_merged, total"
                            " FROM tally_ledger WHERE batch = UNHEX(%s) ORDER BY chunk", (ORPHAN,))
    assert rows == ORPHAN_CHUNKS
    assert read_mysql(shop.mysql, FAMILIES)[0] == shop.acked
    shop.hits()
    shop.daemon.verify()
    for words in (("status",), ("recover", "--dry-run")):
        said = shop.daemon.verb(*words).stdout
        assert newer in said and "of format 3" in said, said
    assert shop.daemon.verb("recover", "--reject-unknown").returncode == 0
    assert direct.hgetall(f"s8:product_views_{newer}") == {b"1": b"5"}
    direct.hset(f"tally:batch:{newer}", "format", "1")  # a tallyd that knows it has come
    shop.daemon.restart()
    assert shop.daemon.verb("recover").returncode == 0  # at once, not after its minute
    shop.acked[b"s8:product_views", b"1"] = 5
    shop.exact()
    assert not direct.exists("tally:batches")
