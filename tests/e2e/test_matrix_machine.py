"""The fault matrix' rows of the machine: no space, no descriptors, no memory, a wrong clock, an old Redis behind a pruned
ledger, and what an older tallyd left."""
import fcntl
import json
import os
import resource
import shutil
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
from harness.resp import Closed, Resp, RespError
from harness.shadow import Shadow
from harness.still import pairs
from harness.shop import FAMILIES, VIEWS, Shop
from harness.wait import stays, wait_until


@pytest.fixture
def closed(make_redis, make_daemon, make_proxy, mysql):
    return Shop(make_redis, make_daemon, make_proxy, mysql)


@pytest.fixture
def shop(closed):
    return closed.open().start()


@pytest.fixture
def small_disk():
    """A directory of 64 MiB."""
    made = tempfile.mkdtemp(prefix="tly-disk-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", made], capture_output=True,
                      check=False).returncode != 0:
        os.rmdir(made)
        pytest.skip("no right to mount a small tmpfs")
    yield made
    subprocess.run(["umount", "-l", made], check=True)
    os.rmdir(made)


@pytest.mark.fault("enospc-mysql")
@pytest.mark.parametrize("room_kib,codes", [(256, ("1114", "1030")), (0, ("1021",))], ids=["a little", "none"])
def test_no_space_for_mysql(room_kib, codes, closed, make_proxy, small_disk, template):
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
        wait_until(lambda: not mysql.alive() or any(code in shop.daemon.log() for code in codes), 30, "no space")
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
    """Nothing can be written to stderr, or nobody reads it: lines are lost, never hits or merges."""
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
    began = time.monotonic()
    shop.hits()
    assert time.monotonic() - began < 5
    shop.exact()
    assert shop.daemon.terminate() == 0
    if reader is not None:
        os.close(writer)
        os.close(reader)


@pytest.mark.fault("ledger-purged")
def test_ledger_pruned_then_an_old_redis(closed):
    """Redis is put back to where a batch stands that was merged since, and the ledger knows nothing of it any more: the
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
        assert isinstance(reply, RespError) and "merging is held back" in reply
    assert read_mysql(shop.mysql, FAMILIES)[0] == shop.acked
    assert shop.redis.client().zcard("tally:batches") == 1  # held, for an operator to decide


def cpu_s(daemon):
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.fault("emfile")
def test_no_descriptors_left(shop):
    """accept() says EMFILE: who is connected is served, the loop does not spin, and when there are descriptors again
    there are connections."""
    shop.hits()
    was = resource.prlimit(shop.daemon.pid, resource.RLIMIT_NOFILE)
    waiting = []
    with shop.daemon.client() as old:
        top = max(int(fd) for fd in os.listdir(f"/proc/{shop.daemon.pid}/fd"))
        resource.prlimit(shop.daemon.pid, resource.RLIMIT_NOFILE, (top + 4, was[1]))
        for _ in range(50):
            link = Resp(shop.daemon.socket, 30)
            link.send(b"PING\r\n")
            waiting.append(link)
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


@pytest.mark.fault("client-flood")
def test_flood_of_clients(closed):
    """Thousands connect, many more than allowed, and hang up again: a client from before is served as ever, memory is
    bounded, and afterwards there is room."""
    shop = closed.open(more={"limits": {"clients": 300}}).start()
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
            if len(mine) > 150:
                mine.pop(0).close()
        for link in mine:
            link.close()

    waits = []
    with shop.daemon.client() as old:
        threads = [threading.Thread(target=flood, args=(at,), daemon=True) for at in range(4)]
        for thread in threads:
            thread.start()
        while sum(made) < 4000 or len(waits) < 200:
            began = time.monotonic()
            assert isinstance(old.call("HINCRBY", VIEWS, "3", 1), int)
            shop.acked[VIEWS.encode(), b"3"] += 1
            waits.append(time.monotonic() - began)
        ending.set()
        for thread in threads:
            thread.join(30)
    assert sorted(waits)[len(waits) * 99 // 100] < 0.25, sorted(waits)[-5:]
    assert shop.daemon.rss_kib() - before < 32 * 1024
    wait_until(shop.daemon.is_ready, 30, "room again")
    shop.exact()


def grows(rng):
    """Always new names: what tallyd knows of them takes memory."""
    return b"s%d:searches" % rng.randrange(10**9), b"%d" % rng.randrange(10**9), 1


@pytest.mark.fault("malloc-fails")
def test_no_memory_left(closed):
    """The running process may not have a page more, again and again: it says so and ends, or goes on; what was answered is
    there. That every single allocation of the core may fail is shown in tests/unit."""
    shop = closed.open().start()
    with open(f"/proc/{shop.daemon.pid}/status", encoding="ascii") as status:
        if any(line.startswith("VmSize:") and int(line.split()[1]) > 1 << 30 for line in status):
            pytest.skip("a sanitizer holds terabytes of addresses")
    shadow = Shadow()
    load = Load(shop.daemon.socket, shadow, grows, clients=3, depth=100, per_second=20_000)
    ends = Counter()
    try:
        for spare_kib in (0, 256, 2048):
            load.go()
            wait_until(lambda: sum(shadow.acked.values()) > 1000, 30, "hits")
            with open(f"/proc/{shop.daemon.pid}/statm", encoding="ascii") as statm:
                pages = int(statm.read().split()[0])
            most = pages * resource.getpagesize() + spare_kib * 1024
            resource.prlimit(shop.daemon.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            assert shop.daemon.process.wait(60) == -signal.SIGABRT, shop.daemon.log_tail()
            ends["event=out_of_memory" in shop.daemon.log_tail(3)] += 1
            load.pause()
            shadow.check(counted(shop.redis.client(), shop.mysql, FAMILIES))
            shop.daemon.start()
        load.go()
        wanted = sum(shadow.acked.values()) + 500
        wait_until(lambda: sum(shadow.acked.values()) > wanted, 30, "hits go on")
        load.pause()
    finally:
        load.stop()
    shop.daemon.sync_all()
    shadow.check(read_mysql(shop.mysql, FAMILIES)[0])
    shop.daemon.verify()
    print(ends)


@pytest.mark.fault("clock-lock", "clock-ticks", "clock-timebox")
def test_clock_leaps(make_still, mysql):
    """A day ahead, back again, and an hour back: a lock may expire early or stand for an hour longer, hits are answered,
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
    boxes = {start: count for start, count in pairs(still.call("BOX.RECENT", "home", 0, 60))}
    assert boxes == boxed
    still.daemon.verify()
