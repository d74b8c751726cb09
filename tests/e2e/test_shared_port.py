"""Several tallyds on one port (?reuseport=1): one is restarted, and the shop's pages notice nothing; or killed, and the other goes on."""
import os
import random
import socket
import threading
import uuid
from collections import Counter

import pytest
import yaml

from harness.daemon import counters
from harness.resp import Closed, Resp
from harness.tools import page_block
from harness.wait import patience, wait_until

FAMILIES = counters(hits=50, every="1s")
KEY = "s1:product_views"


class Pages(threading.Thread):
    """Pages of a shop, one after the other: each connects, hits and goes, and does so until it has its answer."""

    def __init__(self, at, seed, tokens=False):
        super().__init__(daemon=True)
        self.at, self.rng, self.tokens = at, random.Random(seed), tokens
        self.counted, self.failed = Counter(), []
        self.stopped = threading.Event()

    def hit(self, *words):
        try:
            with Resp(self.at) as link:
                return link.call(*words)
        except (Closed, OSError) as lost:
            return lost

    def run(self):
        while not self.stopped.is_set():
            field, token = self.rng.randrange(9), ["TOKEN", str(uuid.uuid4())] if self.tokens else []
            while True:
                reply = self.hit("CTR.INCRBY" if self.tokens else "HINCRBY", KEY, field, 1, *token)
                if isinstance(reply, int):
                    break
                self.failed.append(reply)
            self.counted[field] += 1


class Shop:
    def __init__(self, daemons, at, mysql):
        self.daemons, self.at, self.mysql, self.pages = daemons, at, mysql, []

    def open(self, tokens=False):
        self.pages = [Pages(self.at, seed, tokens) for seed in range(4)]
        for pages in self.pages:
            pages.start()
        return self

    def traffic(self, more=200):
        wanted = self.hits() + more
        wait_until(lambda: self.hits() >= wanted, 60, f"{more} pages more")

    def hits(self):
        return sum(sum(pages.counted.values()) for pages in self.pages)

    def failed(self):
        return [failure for pages in self.pages for failure in pages.failed]

    def close(self):
        for pages in self.pages:
            pages.stopped.set()
        for pages in self.pages:
            pages.join(patience(60))
            assert not pages.is_alive()

    def exact(self):
        wanted = sum((pages.counted for pages in self.pages), Counter())

        def merged():
            self.daemons[0].sync_all()
            return Counter({int(field): int(views) for field, views in
                            self.mysql.query("SELECT product_id, views FROM product_views WHERE store_id = 1")})

        wait_until(lambda: merged() == wanted, 60, f"{wanted} is merged")
        for daemon in self.daemons:
            daemon.verify()


@pytest.fixture
def make_shop(make_daemon, mysql, free_port):
    made = []

    def make(redis, clock=None):
        daemons = [make_daemon(redis, start=False, families=FAMILIES, instance=name, clock=clock) for name in ("a", "b")]
        for daemon in daemons:
            daemon.config["listen"]["resp"].append(f"tcp://127.0.0.1:{free_port}?reuseport=1")
            daemon.write_config()
        daemons[0].migrate()
        made.append(Shop([daemon.start() for daemon in daemons], ("127.0.0.1", free_port), mysql))
        return made[-1]

    yield make
    for shop in made:
        shop.close()


def served(daemon):
    return daemon.figure("total_connections_received")


def test_one_after_the_other(make_shop, redis):
    """Each page connects anew, and none is refused or left without its answer. The kernel may reset a handshake that the end of
    a listener meets (config/README.md): such a hit is not counted. A connection that stays is closed between two of its requests."""
    shop = make_shop(redis).open()
    for daemon in shop.daemons * 3:
        shop.traffic()
        wait_until(lambda: served(daemon) > 20, 60, "it has its part of the pages")
        stays = Resp(shop.at)
        assert stays.call("PING") == "PONG"
        assert daemon.terminate() == 0
        shop.traffic()
        daemon.start()
        stays.close()
    shop.close()
    resets = shop.failed()
    assert all(isinstance(lost, (ConnectionResetError, BrokenPipeError)) for lost in resets) and len(resets) <= 6, resets
    shop.exact()


def test_one_is_killed(make_shop, make_redis, make_clock):
    """Pages whose link is gone send again. What the dead one had claimed is merged by the other one."""
    clock = make_clock().flow()
    shop = make_shop(make_redis(appendfsync="always", clock=clock), clock=clock)
    dead, other = shop.daemons
    dead.kill9()
    dead.crash = "merge_before_commit"
    dead.start()
    shop.open(tokens=True)
    wait_until(lambda: not dead.alive(), 60, "killed with a claim")
    shop.traffic(20)
    shop.close()
    assert other.figure("total_connections_received") > 0
    shop.daemons = [other]
    for _ in range(70):  # until the dead one's sign of life is stale
        clock.step(1)
    shop.exact()
    other.log_contains("event=adopted")


def test_one_configuration_for_all(make_daemon, redis, free_port, workdir):
    """<instance> in an address is the name that the environment gives; two of one name do not run."""
    written = yaml.safe_load(page_block("yaml", "reuseport"))["listen"]
    assert written.pop("http").startswith("tcp://127.0.0.1:738<") and set(written) == {"resp", "control"}
    daemon = make_daemon(redis, start=False)
    del daemon.config["instance"]
    daemon.config["listen"] = {
        "resp": written["resp"].replace("0.0.0.0:7370", f"127.0.0.1:{free_port}"),
        "control": written["control"].replace("/run/tallyd-<instance>/control", f"{workdir}/<instance>"), "http": f"unix://{workdir}/<instance>.http"}
    daemon.write_config()
    named = {"TALLYD_INSTANCE": "a"}
    done = daemon.verb("check")
    assert done.returncode == 78 and "TALLYD_INSTANCE" in done.stderr, done.stderr
    daemon.environment = lambda: {**os.environ, **named}
    daemon.control = f"{workdir}/a.sock"
    assert daemon.verb("migrate", "--tables", environment=named).returncode == 0
    daemon.start()
    assert "instance=a" in daemon.log() and os.path.exists(f"{workdir}/a.http")
    done = daemon.verb("check", environment=named)
    assert done.returncode == 0 and "a tallyd runs here as 'a'" in done.stdout, done.stdout + done.stderr
    done = daemon.verb("run", environment=named)
    assert done.returncode == 78 and "under the instance name 'a'" in done.stderr, done.stderr
    done = daemon.verb("check", environment={"TALLYD_INSTANCE": "b"})
    assert done.returncode == 0 and "runs here as" not in done.stdout, done.stdout + done.stderr
    done = daemon.verb("status", environment={"TALLYD_INSTANCE": "b"})
    assert done.returncode != 0
    done = daemon.verb("check", environment={"TALLYD_INSTANCE": "a/b"})
    assert done.returncode == 78 and "TALLYD_INSTANCE" in done.stderr, done.stderr


def test_what_is_no_shared_port(make_daemon, redis, free_port):
    daemon = make_daemon(redis, start=False)
    shared = f"tcp://127.0.0.1:{free_port}?reuseport=1"
    for place, address, why in [("resp", shared.replace("=1", "=2"), "reuseport=1"), ("http", shared, "reuseport="),
                                ("resp", "unix:///s?reuseport=1", "mode= and group=")]:
        daemon.config["listen"] = {"resp": f"unix://{daemon.socket}", place: address}
        daemon.write_config()
        done = daemon.verb("check")
        assert done.returncode == 78 and why in done.stderr, (address, done.stderr)
    daemon.config["listen"] = {"resp": shared}
    daemon.write_config()
    daemon.migrate()
    done = daemon.verb("check")
    assert done.returncode == 0 and "unix:///run/tallyd-<instance>/control.sock" in done.stdout, done.stdout + done.stderr
    with Listener(free_port):
        done = daemon.verb("run")
        assert done.returncode == 78 and "must run as the same user, with ?reuseport=1 as well" in done.stderr, done.stderr


class Listener:
    """Somebody else's, without SO_REUSEPORT."""

    def __init__(self, at):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", at))
        self.socket.listen()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
