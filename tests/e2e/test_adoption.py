"""config/README.md, "Beside an existing scheme": a shop that counts as the seed of this idea does, taken over step by step, under
traffic, by pasting the page's commands; nothing is lost and nothing counts twice."""
import os
import random
import re
import subprocess
import threading
from collections import Counter

from harness.daemon import TALLYD
from harness.wait import patience, wait_until

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../config/README.md")
FAMILIES = {"unique_visitors": {
    "key": "s<store>:unique_visitors:daily", "lock": "s<store>:unique_visitors:sync", "field": "date",
    "sync": {"hits": 50, "every": "60s"}, "table": "daily_visitors",
    "columns": {"store": "store_id", "field": "day", "count": "visitors"}}}
OLD_TABLE = """CREATE TABLE daily_visitors (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    store_id INT UNSIGNED NOT NULL, day DATE NOT NULL, visitors INT UNSIGNED NOT NULL DEFAULT 0,
    UNIQUE KEY store_day (store_id, day))"""
HITS, SECONDS = 50, 60


class OldApp(threading.Thread):
    """Visits as the seed counts them: HINCRBY, SETNX, SETEX, RENAME, HSCAN, INSERT, DEL, straight on Redis and MySQL."""

    def __init__(self, redis, mysql, seed, stores):
        super().__init__()
        self.redis, self.mysql = redis.client(), mysql
        self.rng, self.stores = random.Random(seed), stores
        self.sent, self.leftovers, self.dies_next = Counter(), 0, False
        self.stopped = threading.Event()
        self.problem = None

    def visit(self, store, day):
        key, lock = f"s{store}:unique_visitors:daily", f"s{store}:unique_visitors:sync"
        hits = self.redis.hincrby(key, day, 1)
        self.sent[store, day] += 1
        first = self.redis.setnx(lock, 1)
        if first or hits >= HITS:
            self.redis.setex(lock, SECONDS, 1)
            self.sync(store, key)

    def sync(self, store, key):
        mine = f"{key}_{self.rng.randrange(10**9)}"
        try:
            self.redis.rename(key, mine)
        except Exception as gone:  # another process took it
            assert "no such key" in str(gone)
            return
        if self.dies_next:
            self.dies_next = False
            self.leftovers += 1
            return
        for day, count in dict(self.redis.hscan_iter(mine)).items():
            self.mysql.query(f"INSERT INTO shop.daily_visitors (store_id, day, visitors) VALUES ({store},"
                             f" {day.decode()}, {int(count)}) ON DUPLICATE KEY UPDATE visitors = visitors + {int(count)}")
        self.redis.delete(mine)

    def run(self):
        try:
            while not self.stopped.is_set():
                self.visit(self.rng.choice(self.stores), f"201409{self.rng.randrange(19, 22)}")
        except Exception as problem:
            self.problem = problem

    def end(self):
        self.stopped.set()
        self.join(patience(60))
        assert not self.is_alive() and self.problem is None, self.problem


class NewApp(OldApp):
    """The same app once it is switched: it counts through tallyd, and that is all it does."""

    def __init__(self, daemon, seed, stores):
        threading.Thread.__init__(self)
        self.client = daemon.client()
        self.rng, self.stores = random.Random(seed), stores
        self.sent, self.stopped, self.problem = Counter(), threading.Event(), None

    def visit(self, store, day):
        assert isinstance(self.client.call("HINCRBY", f"s{store}:unique_visitors:daily", day, 1), int)
        self.sent[store, day] += 1


def rows(mysql):
    return Counter({(store, str(day)): int(visitors) for store, day, visitors in
                    mysql.query("SELECT store_id, DATE_FORMAT(day, '%Y%m%d'), visitors FROM shop.daily_visitors")})


def pasted():
    """The commands of the section, without their comments."""
    with open(PAGE, encoding="utf-8") as file:
        section = re.search(r"^## Beside an existing scheme\n(.*?)^##", file.read(), re.M | re.S)[1]
    return [line.split("#")[0].strip() for line in re.findall(r"^       (\S.*)$", section, re.M)]


def shell(command, daemon, redis):
    command = command.replace("tallyd ", f"{TALLYD} ", 1).replace("tallyd.yaml", daemon.config_path)
    command = command.replace("redis-cli", f"redis-cli -s {redis.socket}")
    return subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(120),
                          check=False)


def execute(mysql, sql):
    link = mysql.connect()
    with link.cursor() as cursor:
        cursor.execute(sql)
    link.close()


def traffic(apps, more, what):
    """Each of the apps has that many hits more."""
    wanted = [sum(app.sent.values()) + more for app in apps]
    wait_until(lambda: all(sum(app.sent.values()) >= least for app, least in zip(apps, wanted)), 60, what)


def test_taken_over_under_traffic(make_redis, make_daemon, mysql):
    redis = make_redis(appendfsync="always")
    execute(mysql, OLD_TABLE)
    daemon = make_daemon(redis, start=False, families=FAMILIES)
    migrate, check, dry_run, recover, verify, balance, verify_again = pasted()
    assert verify == verify_again

    old = [OldApp(redis, mysql, seed, [1, 2, 3]) for seed in range(2)]
    for app in old:
        app.start()
    traffic(old, 200, "the old apps count")
    for app in old:
        app.dies_next = True
    wait_until(lambda: all(app.leftovers == 1 for app in old), 60, "each old app died in a sync, once")

    done = shell(migrate, daemon, redis)  # 1
    assert done.returncode == 0, done.stderr
    done = shell(check, daemon, redis)
    assert done.returncode == 0, done.stderr
    daemon.start()  # 2
    traffic(old, 100, "the old apps count beside tallyd")
    new = [NewApp(daemon, seed, [1, 2, 3]) for seed in range(2)]
    for old_app, new_app in zip(old, new):  # 3, one after the other
        new_app.start()
        traffic([new_app, old[1]], 100, "both count")
        old_app.end()

    done = shell(dry_run, daemon, redis)  # 4
    assert done.returncode == 0 and done.stdout.count("leftover s") == 2, done.stdout + done.stderr
    done = shell(recover, daemon, redis)
    assert done.returncode == 0, done.stderr
    traffic(new, 100, "the new apps count")

    done = shell(verify, daemon, redis)  # 5
    assert done.returncode == 1, done.stdout
    difference = int(re.search(r"^unique_visitors .* (-?\d+)$", done.stdout, re.M)[1])
    done = shell(re.sub(r"\d+$", str(-difference), balance), daemon, redis)
    assert done.returncode == 0, done.stderr
    done = shell(verify, daemon, redis)
    assert done.returncode == 0 and "The books balance." in done.stdout, done.stdout

    for app in new:
        app.end()
    daemon.sync_all()
    assert rows(mysql) == sum((app.sent for app in old + new), Counter())
    assert shell(verify, daemon, redis).returncode == 0
    assert not list(redis.client().scan_iter("s*:unique_visitors:daily*"))
