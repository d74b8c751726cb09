"""tallyd dev: three private servers in one directory, up with one command, down with Ctrl-C, nothing lost."""
import os
import re
import signal
import subprocess
import urllib.request

import pymysql
import pytest

from harness.daemon import TALLYD
from harness.process import Process
from harness.resp import Resp
from harness.wait import patience, wait_until


class Dev(Process):
    name = "dev"

    def __init__(self, directory, home, *words):
        super().__init__(directory)
        self.home, self.words = home, words

    def argv(self):
        return [TALLYD, "dev", "--dir", self.home, *self.words]

    def spawn(self):
        self.log_from = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        return super().spawn()

    def is_ready(self):
        return "\ntallyd runs" in self.log()[self.log_from:]

    def client(self):
        return Resp(f"{self.home}/tallyd.sock")

    def pids(self):
        """Of everything that runs in its directory."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as command:
                    words = command.read()
            except OSError:
                continue  # ended meanwhile
            if self.home.encode() in words and int(pid) != os.getpid():
                found.add(int(pid))
        return found


@pytest.fixture
def dev(workdir):
    made = Dev(workdir, f"{workdir}/new/home").start()  # its parent is not there, either
    yield made
    made.signal(signal.SIGTERM)
    made.ended()


PASSWORD = "example-password"
OWN = """listen:
  resp: "tls://0.0.0.0:7380"
  tls: { cert: /no/such.pem, key: /no/such.key }
redis: { password_file: /no/such/password }
http: { tokens: /no/such/tokens }
counters:
  searches:
    key: "s<store>:what's searched"
    field: text
    sync: { hits: 9, every: 7s }
    table: searches
    columns: { store: store_id, field: term, count: searches }
  hours:
    key: "all:hours"
    field: hour
    sync: { hits: 9, every: 5s }
    table: hours
    columns: { field: hour, count: hits }
    feeds: { series: "all:hits" }
series: { precisions: [5, 3600] }
users:
  shop: { keys: ["*"], password: "HASH" }
"""


@pytest.fixture
def own(workdir):
    made = subprocess.run([TALLYD, "hash"], input=PASSWORD, capture_output=True, text=True, timeout=patience(60), check=True)
    with open(f"{workdir}/own.yaml", "w", encoding="utf-8") as out:
        out.write(OWN.replace("HASH", made.stdout.strip()))
    made = Dev(workdir, f"{workdir}/home", "-c", f"{workdir}/own.yaml").start()
    yield made
    made.signal(signal.SIGTERM)
    made.ended()


def views(dev):
    link = pymysql.connect(unix_socket=f"{dev.home}/mysql.sock", user="root", database="tally")
    with link, link.cursor() as cursor:
        cursor.execute("SELECT SUM(views) FROM product_views")
        return cursor.fetchone()[0]


def port_of(dev):
    return int(re.findall(r"redis-cli -p (\d+) ", dev.log()[dev.log_from:])[0])


def is_listening(port):
    try:
        Resp(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def count(dev, hits):
    with dev.client() as client:
        assert all(isinstance(reply, int) for reply in client.pipeline([("HINCRBY", "s5:product_views", "7", 1)] * hits))


def synced(dev):
    with dev.client() as client:
        wait_until(lambda: isinstance(client.call("CTR.SYNC", "ALL"), int), 60)


def test_up_and_down_and_up_again(dev):
    count(dev, 100)
    synced(dev)
    assert views(dev) == 100
    panel = re.search(r"http://127\.0\.0\.1:\d+/", dev.log())[0]
    with urllib.request.urlopen(panel, timeout=patience(20)) as page:
        assert b"<title>tallyd</title>" in page.read()
    count(dev, 10)  # may still be pending when Ctrl-C comes
    port = port_of(dev)
    with Resp(("127.0.0.1", port)):  # an app that looks away: its dead link keeps no port
        for _ in range(2):
            dev.signal(signal.SIGINT)
            assert dev.ended() == 0
            assert dev.pids() == set()
            dev.start()
            assert port_of(dev) <= port or is_listening(port)
    synced(dev)
    assert views(dev) == 110
    done = subprocess.run([TALLYD, "verify", "-c", f"{dev.home}/tallyd.yaml"], capture_output=True, text=True,
                          timeout=patience(60), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_killed_leaves_nothing_that_hinders(dev):
    """kill -9 of dev itself: its servers end, and the next dev goes on with what was counted."""
    count(dev, 100)
    dev.kill9()
    dev.start()
    synced(dev)
    assert views(dev) == 100


def test_second_in_one_directory_refuses(dev):
    done = subprocess.run([TALLYD, "dev", "--dir", dev.home], capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 1 and "already" in done.stderr and str(dev.pid) in done.stderr
    count(dev, 1)


def test_ends_when_one_of_its_servers_dies(dev):
    victim = next(pid for pid in dev.pids() if b"redis-server" in open(f"/proc/{pid}/cmdline", "rb").read())
    os.kill(victim, signal.SIGKILL)
    assert dev.ended() == 1
    assert "redis-server" in dev.log()
    assert dev.pids() == set()


def test_takes_a_configuration_of_ones_own(own):
    """Its counters, as the examples that are printed show, each of which works; not where it listens, and its servers."""
    said = own.log()
    assert "own.yaml, except for listen, http, redis, mysql and instance" in said and "after 7 s" in said
    assert "product_views" not in said and "unique_visitors" not in said
    examples = re.findall(r"^    (redis-cli -p .*)", said, re.M)
    assert len(examples) == 3 and all(" --user shop --askpass " in line for line in examples)
    answers = [subprocess.run(line.replace(" --askpass", ""), shell=True, capture_output=True, text=True, timeout=patience(60),
                              check=False, env={**os.environ, "REDISCLI_AUTH": PASSWORD}).stdout.split()
               for line in examples]
    assert answers[:2] == [["1"], ["1"]] and answers[2][1::2] == ["1"], answers
    with Resp(f"{own.home}/control.sock") as client:
        assert client.call("CTR.TOTAL", "s12345:what's searched", "shoes") == [1]


def refused(home, *words):
    done = subprocess.run([TALLYD, "dev", "--dir", home, *words], capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 64, done.stderr
    return done.stderr


def test_cluster(workdir):
    """A master is killed under hits: a replica takes over, what was answered is merged, and the killed one comes back."""
    made = Dev(workdir, f"{workdir}/home", "--cluster", "3").start()
    try:
        count(made, 100)
        with open(f"{made.home}/redis-2.pid", encoding="utf-8") as pid:
            os.kill(int(pid.read()), signal.SIGKILL)
        answered = 100
        with made.client() as client:
            def counts():
                nonlocal answered
                replies = client.pipeline([("HINCRBY", f"s{store}:product_views", "7", 1) for store in range(40)])
                answered += sum(isinstance(reply, int) for reply in replies)
                return all(isinstance(reply, int) for reply in replies)
            wait_until(lambda: "redis-server 2 (port" in made.log(), 30)
            wait_until(counts, 60)
        synced(made)
        assert views(made) == answered
        done = subprocess.run([TALLYD, "verify", "-c", f"{made.home}/tallyd.yaml"], capture_output=True, text=True,
                              timeout=patience(60), check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: os.path.exists(f"{made.home}/redis-2.pid"), 60)
        made.signal(signal.SIGINT)
        assert made.ended() == 0 and made.pids() == set()
        assert "start it with --cluster 3" in refused(made.home) and "--cluster 3" in refused(made.home, "--cluster", "4")
        made.start()
        synced(made)
        assert views(made) == answered
    finally:
        made.signal(signal.SIGTERM)
        made.ended()


def test_cluster_of_two(workdir):
    assert "--cluster takes a number from 3 to 8" in refused(f"{workdir}/home", "--cluster", "2")


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o770])
def test_directory_that_others_may_enter(mode, workdir):
    """The database in it has no password."""
    home = os.path.join(workdir, "shared")
    os.mkdir(home)
    os.chmod(home, mode)
    done = subprocess.run([TALLYD, "dev", "--dir", home], capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 1 and f"chmod 700 {home}" in done.stderr and os.listdir(home) == [], done.stderr


@pytest.mark.parametrize("home,part", [("x" * 120, "--dir"), ("new/" + "x" * 120, "--dir"), ("file/below", "--dir")])
def test_directory_that_cannot_be(home, part, workdir):
    with open(f"{workdir}/file", "w", encoding="utf-8"):
        pass
    done = subprocess.run([TALLYD, "dev", "--dir", f"{workdir}/{home}"], capture_output=True, text=True, timeout=patience(60),
                          check=False)
    assert done.returncode in (1, 64) and (part in done.stderr or "directory" in done.stderr), done.stderr
    assert os.listdir(workdir) == ["file"]


def test_paths_that_a_server_does_not_take(workdir):
    """A socket's path has an end, and mariadb-install-db quotes little; nothing is made."""
    long = f"{workdir}/{'x' * 120}"[:95]
    said = refused(long)
    assert f"{long} is 95 bytes long, but a unix socket's path may have only 107: choose a directory of at most 94 bytes" in said
    assert f"has a byte (the {len(workdir) + 4}th) that mariadb-install-db cannot take" in refused(f"{workdir}/my files")
    assert os.listdir(workdir) == []
