"""What dead daemons and other programs left: claimed hashes with a registry, leftovers without; each merged once."""
import itertools
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing

import pytest

from harness.books import counted, nothing_left
from harness.daemon import TALLYD, counters
from harness.laned import each_lane
from harness.resp import RespError
from harness.wait import patience, wait_until

FAMILIES = counters(hits=10**9, every="3600s")
TEN_MINUTES_MS = 600_000


def seed_batches(redis, sizes, rng):
    """Batches as a daemon leaves them that dies after the claim (src/redis/registry.h): returns what they hold."""
    now_ms = int(time.time() * 1000)
    held, lanes = Counter(), each_lane(redis)
    for gen, size in enumerate(sizes, 1):
        lane, stores = lanes[gen % len(lanes)]
        batch = rng.randbytes(16).hex()
        registry = {"format": 1, "counter": "product_views", "gen": gen, "lowest_ms": now_ms - TEN_MINUTES_MS,
                    "owner": f"dead{gen % 3}:{rng.randbytes(8).hex()}"}
        pipe = lane.pipeline(transaction=True)
        total = 0
        for store in itertools.islice(stores, size):
            key = f"s{store}:product_views"
            fields = {str(rng.randrange(10**6)): rng.randrange(1, 1000) for _ in range(rng.randrange(1, 4))}
            pipe.hset(f"{key}_{batch}", mapping=fields)
            registry[f"={key}"] = len(fields)
            for field, count in fields.items():
                held[key.encode(), field.encode()] += count
                total += count
        pipe.hset(f"tally:batch:{batch}", mapping=registry)
        pipe.zadd("tally:batches", {batch: now_ms - TEN_MINUTES_MS})
        pipe.set("tally:gen", gen)
        pipe.hincrby("tally:accepted", "product_views", total)
        pipe.execute()
    return held


def seed_leftovers(redis, count, rng):
    """Hashes as the app of the seed leaves them: <pending hash>_<random>, in no registry, of two counters."""
    held = Counter()
    pipe = redis.pipeline(transaction=False)
    for store in range(1, count + 1):
        key, field = ((f"s{store}:product_views", str(rng.randrange(10**6))) if store % 2
                      else (f"s{store}:unique_visitors:daily", f"201409{rng.randrange(1, 31):02}"))
        hits = rng.randrange(1, 1000)
        ending = rng.choice([str(rng.randrange(10**9)), f"{rng.randrange(16**8):08x}", f"0.{rng.randrange(10**12)}"])
        pipe.hset(f"{key}_{ending}", field, hits)
        held[key.encode(), field.encode()] += hits
        if store % 500 == 0:
            pipe.execute()
    pipe.execute()
    return held


def merged(mysql):
    """What MySQL alone has."""
    found = Counter()
    for key, table, field, count in (("s{}:product_views", "product_views", "product_id", "views"),
                                     ("s{}:unique_visitors:daily", "daily_visitors", "day+0", "visitors")):
        for store, name, hits in mysql.query(f"SELECT store_id, {field}, {count} FROM {table}"):
            found[key.format(store).encode(), str(int(name)).encode()] += hits
    return found


@pytest.mark.fault("two-adopters")
def test_ten_thousand_claimed_hashes_two_services(make_redis, make_daemon, mysql, workdir):
    redis = make_redis()
    sizes = [1000] * 4 + [100] * 40 + [10] * 150 + [1] * 500
    assert sum(sizes) == 10_000
    first = make_daemon(redis, start=False, families=FAMILIES, instance="one").migrate()
    second = make_daemon(redis, start=False, families=FAMILIES, instance="two")
    held = seed_batches(redis.client(), sizes, random.Random(1))
    first.spawn()
    second.spawn()
    first.wait_ready()
    second.wait_ready()
    wait_until(lambda: redis.client().zcard("tally:batches") == 0, 180, "no batch stands any more")
    assert merged(mysql) == held
    assert nothing_left(redis.client())
    assert mysql.query("SELECT COUNT(DISTINCT batch) FROM tally_ledger") == ((len(sizes),),)
    first.verify()
    assert first.terminate() == 0 and second.terminate() == 0


@pytest.mark.fault("killed-after-claim")
def test_claims_of_a_killed_daemon(make_redis, make_daemon, mysql):
    """Real claims: a daemon is killed right behind its claims, another instance takes over what it left."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=FAMILIES, instance="one", start=False).migrate()
    daemon.crash = "claim_done:2"
    daemon.start()
    with daemon.client() as client:
        try:
            client.pipeline([("HINCRBY", f"s{store}:product_views", "7", store) for store in range(1, 1501)])
        except Exception:  # the daemon dies while we talk to it: that is the point
            pass
    assert daemon.ended() == -9
    assert redis.client().zcard("tally:batches") > 0
    before = counted(redis.client(), mysql, FAMILIES)
    other = make_daemon(redis, families=FAMILIES, instance="two", migrate=False)
    with other.client() as client:  # just started, it may still be looking at MySQL
        wait_until(lambda: isinstance(client.call("CTR.RECOVER"), list), 30, "CTR.RECOVER")
    other.sync_all()
    assert merged(mysql) == before
    assert nothing_left(redis.client())
    other.verify()


@pytest.mark.parametrize("running", [True, False], ids=["service running", "service stopped"])
def test_ten_thousand_leftovers(running, make_redis, make_daemon, mysql):
    redis = make_redis()
    daemon = make_daemon(redis, start=running, families=FAMILIES)
    if not running:
        daemon.migrate()
    held = seed_leftovers(redis.client(), 10_000, random.Random(2))
    names = {key.decode() for key in redis.client().scan_iter(count=1000) if key.startswith(b"s")}
    assert len(names) == 10_000

    dry = daemon.verb("recover", "--dry-run", timeout_s=300)
    assert dry.returncode == 0, dry.stderr
    assert {word for word in dry.stdout.split() if word in names} == names
    assert names == {key.decode() for key in redis.client().scan_iter(count=1000) if key.startswith(b"s")}
    assert merged(mysql) == Counter()

    done = daemon.verb("recover", timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr  # plain lines where there is no terminal
    assert merged(mysql) == held
    assert nothing_left(redis.client())

    again = daemon.verb("recover", timeout_s=300)
    assert again.returncode == 0, again.stderr
    assert merged(mysql) == held
    daemon.verify()


def test_stopped_on_its_way(make_redis, make_daemon, mysql):
    """While a merge waits for a lock. It says that it was stopped, and the next one goes on."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, start=False, families=FAMILIES).migrate()
    redis.client().hset("s1:product_views_777", "1", 5)
    with closing(mysql.connect()) as holder:
        holder.begin()
        holder.cursor().execute("SELECT * FROM product_views FOR UPDATE")
        recovery = subprocess.Popen([TALLYD, "recover", "-c", daemon.config_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_until(lambda: redis.client().zcard("tally:batches") == 1, 60, "the leftover is a batch")
            recovery.send_signal(signal.SIGTERM)
            said = recovery.communicate(timeout=patience(60))[0]
        finally:
            recovery.kill()
    assert recovery.returncode == 1 and "stopped; nothing is lost, run it again" in said, said
    assert merged(mysql) == Counter()
    done = daemon.verb("recover", timeout_s=120)
    assert done.returncode == 0, done
    assert merged(mysql) == {(b"s1:product_views", b"1"): 5}
    assert nothing_left(redis.client())


def test_leftover_that_the_ledger_knows_is_held(make_redis, make_daemon, mysql):
    """32 hex digits that the ledger has merged: another copy of what is in MySQL; held and named, never merged."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=FAMILIES)
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 5)
    daemon.sync_all()
    batch = mysql.query("SELECT LOWER(HEX(batch)) FROM tally_ledger")[0][0]
    name = f"s1:product_views_{batch}"
    redis.client().hset(name, "1", 5)
    done = daemon.verb("recover", timeout_s=120)
    assert name in done.stdout + done.stderr
    assert redis.client().hgetall(name) == {b"1": b"5"}
    assert merged(mysql) == {(b"s1:product_views", b"1"): 5}


def test_batch_of_an_unknown_counter_stands(make_redis, make_daemon, mysql):
    """Its counter was taken out of the configuration: it stays until the counter is back or goes to tally_rejects by order."""
    redis = make_redis(appendfsync="always")
    rng = random.Random(3)
    held = seed_batches(redis.client(), [3], rng)
    without = {name: family for name, family in FAMILIES.items() if name != "product_views"}
    daemon = make_daemon(redis, families=without)
    done = daemon.verb("recover", timeout_s=120)
    assert "product_views" in done.stdout + done.stderr
    assert redis.client().zcard("tally:batches") == 1
    done = daemon.verb("recover", "--reject-unknown", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert redis.client().zcard("tally:batches") == 0
    rows = mysql.query("SELECT pending_hash, field, delta FROM tally_rejects")
    assert Counter({(pending, field): int(delta) for pending, field, delta in rows}) == held


def test_start_adopts_its_own(make_redis, make_daemon, mysql):
    """The same instance again: its batches at once, not after the 60 s that others wait."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=FAMILIES, start=False).migrate()
    daemon.crash = "claim_done"
    daemon.start()
    with daemon.client() as client:
        client.send(b"HINCRBY s1:product_views 1 5\r\n")
        client.until_closed()
    assert daemon.ended() == -9
    assert redis.client().zcard("tally:batches") == 1
    daemon.crash = None
    daemon.start()
    wait_until(lambda: merged(mysql) == {(b"s1:product_views", b"1"): 5}, 60, "its own batch")
    wait_until(lambda: nothing_left(redis.client()), 60)
    daemon.verify()


def test_recover_command(make_redis, make_daemon, mysql):
    """CTR.RECOVER DRYRUN changes nothing; CTR.RECOVER merges what dead daemons left, without waiting for 60 s."""
    redis = make_redis(appendfsync="always")
    daemon = make_daemon(redis, families=FAMILIES)
    held = seed_batches(redis.client(), [5, 1, 20], random.Random(4))
    with daemon.client() as client:
        dry = client.call("CTR.RECOVER", "DRYRUN")
        assert not isinstance(dry, RespError) and len([name for name in dry if name.startswith(b"batch ")]) == 3, dry
        assert merged(mysql) == Counter() or merged(mysql) == held  # its own timer may have been first
        done = client.call("CTR.RECOVER")
        assert not isinstance(done, RespError), done
    wait_until(lambda: merged(mysql) == held, 30, "all merged")
    wait_until(lambda: nothing_left(redis.client()), 30)
    daemon.verify()
