"""How much one store's attack delays another's hits: the quiet user's p99 alone and beside each attack of e2e/test_attacks.py, and
the most memory that tallyd and Redis have meanwhile. A p99 is the median of those of many short windows: where a host takes the
processors away for milliseconds, few of these have that, and each longer one would. The attacker's own process has the lowest
priority: it would be another machine. So have two more that only keep the processors awake, in all windows: an attack does that too.

    attacks.py --build DIR [--rounds 3] [--windows 6] [--only NAMES]      exit status 1: a ratio is above 2"""
import argparse
import datetime
import multiprocessing
import os
import select
import socket
import statistics
import sys
import threading
import time

import redis

from servers import HOST, OneTallyd, free_port, resp, started
from tenants import Tenants, quiet_p99

LIMIT = 2.0

CONFIGURATION = """\
instance: attacks
listen: {{ resp: [ "tcp://{host}:{port}" ], control: "unix://{directory}/control", http: "tcp://{host}:{http}" }}
redis: "redis://{host}:{redis}/0"
mysql: "mysql://root@{host}:{mysql}/attacks"
limits: {{ memory: 256MiB }}
http: {{ tokens: "{directory}/tokens" }}
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: {{ hits: 50, every: 60s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
  product_views:
    key: "s<store>:product_views"
    field: integer
    sync: {{ hits: 50, every: 60s }}
    table: product_views
    columns: {{ store: store_id, field: product_id, count: views }}
  searches:
    key: "s<store>:searches"
    field: text
    sync: {{ hits: 1000000, every: 3600s }}
    table: searches
    columns: {{ store: store_id, field: query, count: searches }}
users:
  quiet: {{ password: "{quiet}", keys: [ "s1:*" ], connections: 50 }}
  flood: {{ password: "{flood}", keys: [ "s2???:*" ], rate: 5000, connections: 1000 }}
"""


class Shops(OneTallyd):
    """The quiet user's store is 1, the attacker's 2001."""

    def __init__(self, directory, program, behind, mysql):
        self.http, self.behind = free_port(), behind
        as_another_machine(mysql.process.pid)
        super().__init__(directory, program, behind, mysql, "attacks", CONFIGURATION, http=self.http,
                         **{name: Tenants.user(program, name) for name in ("quiet", "flood")})
        with open(self.first("quiet"), "wb") as file:
            file.write(resp(b"AUTH", b"quiet", b"the password of quiet"))
        with open(os.path.join(self.directory, "tokens"), "w", encoding="ascii") as file:
            file.write(f"flood {'f' * 40} 2001\n")
        os.chmod(file.name, 0o600)

    def first(self, name):
        return os.path.join(self.directory, f"{name}.auth")


def words(*each):
    return resp(*(str(word).encode() for word in each))


def link(shops, receive=None):
    one = socket.socket()
    if receive:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    one.connect((HOST, shops.port))
    one.sendall(words("AUTH", "flood", "the password of flood"))
    assert one.recv(5) == b"+OK\r\n"
    return one


def again_and_again(shops, n, make, pause_s=0.0):
    """n connections, each of which sends make(i) whenever it is taken from it, and reads what comes."""
    left, i = {link(shops): b"" for _ in range(n)}, 0
    for one in left:
        one.setblocking(False)
    while True:
        readable, writable, _ = select.select(left, left, [])
        for one in readable:
            assert one.recv(1 << 20), "tallyd closed it"
        for one in writable:
            if not left[one]:
                left[one], i = make(i), i + 1
            left[one] = left[one][one.send(left[one]):]
        time.sleep(pause_s or 0.002)


def days():
    return [(datetime.date.today() - datetime.timedelta(back)).strftime("%Y%m%d") for back in range(300)]


def waits(shops):
    again_and_again(shops, 20, lambda i: words("WAIT", 1, 100), 0.1)


def pendings(shops):
    again_and_again(shops, 60, lambda i: words("CTR.PENDING", "s2001:searches"), 0.05)


def visitors(shops):
    again_and_again(shops, 4, lambda i: b"".join(words("UNIQ.ADD", f"s2001:v{i}", day, 16777215) for day in days()), 0.1)


def totals(shops):
    again_and_again(shops, 100, lambda i: words("CTR.TOTAL", "s2001:product_views", *range(1000)), 0.05)


def tokens(shops):
    again_and_again(shops, 4, lambda i: b"".join(
        words("CTR.INCRBY", "s2001:product_views", n, 1, "TOKEN", f"{time.monotonic_ns()}-{n}") for n in range(200)))


def windows(shops):
    again_and_again(shops, 8, lambda i: words("EVENT.COUNT", "s2001:big", "view", 20000 * (26 + i % 5), 26 + i % 5), 0.02)


def flood(shops):
    again_and_again(shops, 8, lambda i: b"".join(words("HINCRBY", f"s2{i % 1000:03}:product_views", n, 1) for n in range(200)))


def unread(shops):
    """150 answers of 5 MB that nobody takes."""
    links = []
    for _ in range(150):
        links.append(link(shops, 4096))
        links[-1].sendall(words("EVENT.RANGE", "s2001:big", "view", 0, 1 << 33))
    time.sleep(3600)


def halves(shops):
    """Requests of 1 MB without an end; those that are closed come again."""
    links = []
    while True:
        if len(links) < 400:
            links.append(link(shops))
            try:
                links[-1].sendall(b"*1024\r\n" + (b"$900\r\n%s\r\n" % (b"x" * 900)) * 1000)
            except OSError:
                pass
        for one in select.select(links, [], [], 0.005)[0]:
            links.remove(one)
            one.close()


def heads(shops):
    links = [socket.create_connection((HOST, shops.http)) for _ in range(1000)]
    while True:
        for one in links:
            try:
                one.send(b"G")
            except OSError:
                pass
        time.sleep(1)


def tops(shops):
    request = f"GET /api/stores/2001/counters/searches?top=10 HTTP/1.1\r\nHost: l\r\nAuthorization: Bearer {'f' * 40}\r\n\r\n".encode()
    links = [socket.create_connection((HOST, shops.http)) for _ in range(40)]
    while True:
        for one in links:
            one.sendall(request)
        for one in links:
            one.recv(1 << 20)


ATTACKS = [flood, waits, pendings, visitors, totals, tokens, windows, unread, halves, heads, tops]


def furnish(shops):
    """What the attacks ask for: 20,000 long searches, and 20,000 events with long ids."""
    one = link(shops)
    for make in (lambda n: words("HINCRBY", "s2001:searches", f"{n:0240}", 1),
                 lambda n: words("EVENT.ADD", "s2001:big", "view", "ID", f"{n:0250}")):
        for at in range(0, 20000, 500):
            one.sendall(b"".join(make(n) for n in range(at, at + 500)))
            got = 0
            while got < 500:
                got += one.recv(1 << 16).count(b"\n")
    one.close()


class Memory(threading.Thread):
    """The most that tallyd has resident, and Redis in use, while it runs; MiB."""

    def __init__(self, shops):
        super().__init__(daemon=True)
        self.shops, self.ended, self.most = shops, threading.Event(), [0, 0]

    def run(self):
        direct = redis.Redis(HOST, self.shops.behind.port)
        while not self.ended.wait(0.1):
            with open(f"/proc/{self.shops.process.pid}/statm", encoding="ascii") as file:
                mine = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            now = [mine >> 20, direct.info("memory")["used_memory"] >> 20]
            self.most = [max(pair) for pair in zip(self.most, now)]


def as_another_machine(pid):
    """What it takes from the processors is what the others leave of them."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))


def attacker(attack, shops):
    as_another_machine(os.getpid())
    attack(shops)


def awake():
    as_another_machine(os.getpid())
    while True:
        pass


def measured(program, shops, attack, rounds, windows):
    alone, beside, memory = [], [], Memory(shops)
    memory.start()
    for _ in range(rounds):
        alone += [quiet_p99(program, shops, 1) for _ in range(windows)]
        other = multiprocessing.Process(target=attacker, args=(attack, shops), daemon=True)
        other.start()
        time.sleep(1)
        beside += [quiet_p99(program, shops, 1) for _ in range(windows)]
        assert other.is_alive(), f"{attack.__name__} ended"
        other.kill()
        other.join()
        time.sleep(3)  # what it asked for is answered
    memory.ended.set()
    memory.join()
    return alone, beside, memory.most


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--build", required=True)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--windows", type=int, default=6, help="of a second, in a round alone and again beside the attack")
    asked.add_argument("--only", nargs="*", help="of: " + " ".join(attack.__name__ for attack in ATTACKS))
    asked = asked.parse_args()
    worst = 0.0
    with started("attacks", asked.build, Shops) as shops:
        furnish(shops)
        for _ in range(os.cpu_count()):
            multiprocessing.Process(target=awake, daemon=True).start()
        print("| attack | alone, p99 us | beside it | ratio | best quarter | tallyd, MiB | Redis, MiB |\n|---|---:|---:|---:|---:|---:|---:|")
        for attack in ATTACKS:
            if asked.only and attack.__name__ not in asked.only:
                continue
            alone, beside, most = measured(os.path.join(asked.build, "tests/bench/load"), shops, attack, asked.rounds, asked.windows)
            ratio, best = (at(beside) / at(alone) for at in (statistics.median, lambda all: statistics.quantiles(all)[0]))
            worst = max(worst, ratio)
            print(f"| {attack.__name__} | {statistics.median(alone):.0f} | {statistics.median(beside):.0f} | {ratio:.2f} | {best:.2f} | "
                  f"{most[0]} | {most[1]} |", flush=True)
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
