"""What systemd is told (sd_notify): by a supervisor of the test's own, a datagram socket. And what the journal gets."""
import ctypes
import os
import signal
import socket
import time

import pytest

from harness.cluster import Cluster
from harness.slots import tag_of_lane
from harness.wait import stays, wait_until

WATCHDOG_S = 30
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
ALL_THREADS = 0x40000000  # __WALL


class Supervisor:
    """What it is told, a dict a datagram, each with the time of its arrival."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1))
        self.socket.setblocking(False)
        self.told = []

    def look(self):
        while True:
            try:
                text = self.socket.recv(65536).decode()
            except BlockingIOError:
                return self.told
            message = dict(line.split("=", 1) for line in text.splitlines())
            self.told.append((time.monotonic(), message))

    def has(self, name, value=None, after=0):
        return [message for _, message in self.look()[after:]
                if name in message and value in (None, message[name])]

    def wait(self, name, value=None, after=0, deadline_s=60):
        return wait_until(lambda: self.has(name, value, after), deadline_s, f"{name}={value}")[0]

    def status(self, text, deadline_s=60):
        """The newest STATUS has the text."""
        wait_until(lambda: text in (self.has("STATUS") or [{"STATUS": ""}])[-1]["STATUS"], deadline_s, text)

    def close(self):
        self.socket.close()


@pytest.fixture
def make_supervisor(workdir):
    made = []

    def make(abstract=False):
        address = f"@tallyd-test-{os.path.basename(workdir)}" if abstract else f"{workdir}/notify"
        made.append(Supervisor(address))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()


def supervised(daemon, supervisor, watchdog=False):
    """The daemon's environment as of a unit with Type=notify."""
    plain = daemon.environment

    def environment():
        more = {"NOTIFY_SOCKET": supervisor.address}
        if watchdog:  # WATCHDOG_PID is left out: setpriv is in between
            more["WATCHDOG_USEC"] = str(int(WATCHDOG_S * 10**6))
        return {**plain(), **more}

    daemon.environment = environment
    return daemon


def test_life(make_redis, make_daemon, mysql, make_supervisor):
    """READY when it serves, not before; STATUS says the worst; RELOADING and READY around a reload; STOPPING."""
    server, supervisor = make_redis(appendfsync="always"), make_supervisor()
    daemon = supervised(make_daemon(server, start=False).migrate(), supervisor)
    server.pause()
    daemon.spawn()
    supervisor.status("starting")
    stays(lambda: not supervisor.has("READY"), 0.5, "not ready before it serves")
    server.resume()
    supervisor.wait("READY", "1")
    assert daemon.is_ready()  # at once: no waiting here
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 5)
    supervisor.status("counts and merges; ")
    assert not supervisor.has("WATCHDOG")

    before_us = time.monotonic_ns() // 1000
    seen = len(supervisor.look())
    daemon.signal(signal.SIGHUP)
    reloading = supervisor.wait("RELOADING", "1", after=seen)
    assert before_us <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    supervisor.wait("READY", "1", after=seen)
    daemon.config["log"] = {"level": "no such level"}
    daemon.write_config()
    seen = len(supervisor.look())
    daemon.signal(signal.SIGHUP)
    supervisor.wait("READY", "1", after=seen)  # a reload that was refused ends, too

    mysql.kill9()
    supervisor.status("counts; MySQL is away")
    server.kill9()
    supervisor.status("Redis is away: hits are refused")
    server.start()
    mysql.start()
    supervisor.status("counts and merges; ", 60)
    assert daemon.terminate() == 0
    assert list(supervisor.look()[-1][1]) in (["STOPPING"], ["STATUS"]) and supervisor.has("STOPPING", "1")
    assert not supervisor.has("READY", after=supervisor.told.index(
        next(told for told in supervisor.told if "STOPPING" in told[1])))


def test_a_start_that_waits_for_a_move(make_daemon, make_supervisor, workdir):
    """It takes longer than systemd gives it, and says so again and again."""
    cluster, supervisor = Cluster(workdir, replicas=0, lanes=16), make_supervisor()
    try:
        client = cluster.start().owner.client()
        lanes = tag_of_lane(0, 1) + b"tally:lanes"
        client.set(lanes, -16)
        daemon = make_daemon(cluster, start=False, redis_url={"url": cluster.url, "lanes": 16})
        done = daemon.verb("migrate", "--tables")
        assert done.returncode == 0, done.stdout + done.stderr
        supervised(daemon, supervisor).spawn()
        supervisor.status("waits for the end of `tallyd move`")
        supervisor.wait("EXTEND_TIMEOUT_USEC")
        supervisor.wait("EXTEND_TIMEOUT_USEC", after=len(supervisor.look()))
        assert not supervisor.has("READY")
        client.set(lanes, 16)
        supervisor.wait("READY", "1")
        assert daemon.terminate() == 0
    finally:
        cluster.close()


def test_watchdog(make_redis, make_daemon, make_supervisor, make_clock):
    """Signs of life come from the loop, two in the time of its clock after which it is taken as dead: while only its thread is
    blocked, there are none, and it would be ended."""
    supervisor, clock = make_supervisor(abstract=True), make_clock().flow()
    server = make_redis(appendfsync="always", clock=clock)
    daemon = supervised(make_daemon(server, start=False, clock=clock).migrate(), supervisor, watchdog=True)
    daemon.start()
    clock.stand()
    for _ in range(4):
        seen = len(supervisor.look())
        clock.step(WATCHDOG_S / 2)
        supervisor.wait("WATCHDOG", "1", after=seen)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    loop = daemon.pid  # the first thread
    assert libc.ptrace(PTRACE_SEIZE, loop, None, None) == 0, os.strerror(ctypes.get_errno())
    assert libc.ptrace(PTRACE_INTERRUPT, loop, None, None) == 0
    os.waitpid(loop, ALL_THREADS)
    seen = len(supervisor.look())
    clock.step(WATCHDOG_S)
    stays(lambda: not supervisor.has("WATCHDOG", after=seen), 0.5, "a loop that stands gives no sign of life")
    assert libc.ptrace(PTRACE_DETACH, loop, None, None) == 0
    supervisor.wait("WATCHDOG", "1", after=seen)


def test_supervisor_that_does_not_listen(make_redis, make_daemon, make_supervisor, workdir):
    """Nobody reads, or there is no socket at all: the service does not mind."""
    class Deaf:
        address = f"{workdir}/nobody"

    daemon = supervised(make_daemon(make_redis(appendfsync="always"), start=False).migrate(), Deaf, watchdog=True)
    daemon.start()
    assert daemon.terminate() == 0
    Deaf.address = "not an address"
    daemon.start()
    assert "event=notify" in daemon.log() and daemon.terminate() == 0
    full = make_supervisor()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"X=1", full.address)
    Deaf.address = full.address
    daemon.start()
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "1", 1) == 1
    full.wait("READY", "1")  # once there is room
    assert daemon.terminate() == 0


def test_journal(make_redis, make_daemon, mysql):
    """Priorities before each line when stderr is the journal, also before what a start dies of."""
    daemon = make_daemon(make_redis(appendfsync="always"), start=False).migrate()
    plain = daemon.environment

    def environment():
        with open(daemon.log_path, "ab") as log:
            is_ = os.fstat(log.fileno())
        return {**plain(), "JOURNAL_STREAM": f"{is_.st_dev}:{is_.st_ino}"}

    daemon.environment = environment
    daemon.start()
    mysql.kill9()
    daemon.log_contains("event=mysql_down")
    assert daemon.terminate() == 0
    mysql.start()
    lines = daemon.log().splitlines()
    assert all(line.startswith(("<6>ts=", "<4>ts=", "<3>ts=")) for line in lines), lines
    assert any(line.startswith("<4>") and "event=mysql_down" in line for line in lines)
    daemon.config["listen"]["resp"] = ["nowhere"]
    daemon.write_config()
    daemon.spawn()
    assert daemon.ended() == 78
    assert daemon.log().splitlines()[-1].startswith("<3>tallyd: ")
