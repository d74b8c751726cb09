"""`tallyd move`: from one Redis to a cluster of three masters, while clients count; killed on its way and run again."""
import os
import re
import secrets
import signal
import subprocess
import threading
import time

import pytest
from redis import Redis

from harness.account import Account
from harness.books import counted, nothing_left, read_redis
from harness.certificates import Authority
from harness.cluster import Cluster
from harness.daemon import TALLYD, counters
from harness.load import Load
from harness.ports import port
from harness.redis_server import SLOT
from harness.resp import Resp, RespError
from harness.slots import tag_of_lane
from harness.wait import patience, wait_until

FED = {"feeds": {"series": "s<store>:views", "box": "s<store>:views", "event": "s<store>:view"}}
FAMILIES = counters(hits=200, every="60s", product_views=FED)
MORE = {"uniques": {"days": 0, "name": "s<store>:people", "feeds": {"counter": "unique_visitors"}}, "tokens": {"keep": "24h"}}
STORES = 200
LANES = 16
DAYS = (20250101, 20250102)


def pick(rng):
    return b"s%d:product_views" % rng.randrange(1, STORES + 1), b"%d" % rng.randrange(1, 40), rng.randrange(1, 4)


@pytest.fixture
def cluster(workdir):
    made = Cluster(workdir, replicas=0, lanes=LANES)
    yield made.start()
    made.close()


HELD_BY = {b"hash": Redis.hgetall, b"set": Redis.smembers, b"string": Redis.get,
           b"zset": lambda many, key: many.zrange(key, 0, -1, withscores=True)}


def many_at_once(client, ask, keys):
    many = client.pipeline(transaction=False)
    for key in keys:
        ask(many, key)
    return many.execute()


def each_kept(client):
    """Of each key that a move copies: its name without the tag, and what it holds, in a form that does not depend on how Redis packs it."""
    keys = [(key, key.partition(b"}")[2] if key.startswith(b"{") else key) for key in client.scan_iter(count=1000)]
    keys = [(key, bare) for key, bare in keys if not bare.startswith(STAYS) and not bare.endswith(b":sync")]
    for first in range(0, len(keys), 1000):
        some = keys[first:first + 1000]
        kinds = many_at_once(client, Redis.type, [key for key, _ in some])
        some = [(key, bare, kind) for (key, bare), kind in zip(some, kinds) if kind != b"none"]  # its time was over meanwhile
        held = many_at_once(client, lambda many, of: HELD_BY[of[2]](many, of[0]), some)
        yield from zip((bare for _, bare, _ in some), held)


STAYS = (b"tally:mark:", b"tally:seq:", b"tally:fence:", b"tally:wait", b"tally:instance:", b"tally:gen", b"tally:accepted", b"tally:realm", b"tally:move",
         b"tally:lanes", b"tally:dirty", b"tally:held", b"tally:batch", b"tally:events:gone", b"tally:journals:taken")
BY_MEMBER = (b"known:", b"tally:events", b"tally:leased", b"statcache:")


def all_of(clients):
    """Bare key -> what it holds; sets and hashes of all lanes are put together. No key is in two lanes, and no member."""
    found = {}
    for client in clients:
        for bare, value in each_kept(client):
            if bare == b"tally:tokens":
                value = sum(map(int, value.values())) + found.get(bare, 0)
            elif bare.startswith(BY_MEMBER) and bare in found:
                assert not set(found[bare]) & set(value), bare
                value = {**found[bare], **value} if isinstance(value, dict) else sorted(found[bare] + value)
            assert bare not in found or bare.startswith(BY_MEMBER) or bare == b"tally:tokens", bare
            found[bare] = sorted(value) if isinstance(value, list) else value
    return found


def before_and_after(redis, cluster):
    """known: is made anew, and has the names of all series with samples; the old one may have others. It is in neither."""
    before, after = all_of([redis]), all_of([node.client() for node in cluster.living()])
    old, new = ({member for member, _ in found.pop(b"known:")} for found in (before, after))
    assert new == {key.partition(b":")[2] for key in after if key.startswith(b"count:")} and new <= old
    return before, after


class Pause:
    """The longest time for which no hit was answered, from its begin to its end."""

    def __init__(self, shadow):
        self.shadow, self.longest_s, self.ending = shadow, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        answered, since = self.shadow.answered, time.monotonic()
        while not self.ending.wait(0.002):
            if self.shadow.answered > answered:
                answered, since = self.shadow.answered, time.monotonic()
            self.longest_s = max(self.longest_s, time.monotonic() - since)

    def end(self):
        self.ending.set()
        self.thread.join()
        return self.longest_s


class Mover:
    def __init__(self, old, new):
        self.words = [TALLYD, "move", "--from", old.config_path, "-c", new.config_path]

    def start(self):
        return subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def stopped_at(self, text, lines=1):
        """SIGSTOP when it has said this so often."""
        mover = self.start()
        said = []
        for line in mover.stdout:
            said.append(line)
            if sum(text in each for each in said) == lines:
                os.kill(mover.pid, signal.SIGSTOP)
                return mover
        raise AssertionError(said)

    def killed_at(self, text, lines=1):
        mover = self.stopped_at(text, lines)
        os.kill(mover.pid, signal.SIGKILL)
        mover.stdout.close()
        assert mover.wait(patience(60)) == -signal.SIGKILL

    def to_end(self):
        mover = self.start()
        said = mover.communicate(timeout=patience(180))[0]
        return mover.returncode, said


def moved(old, new):
    code, said = Mover(old, new).to_end()
    assert code == 0 and ("the cluster takes hits" in said) != ("moved to this cluster before" in said) and "done: all that waited" in said, said
    return said


@pytest.fixture
def shops(make_redis, make_daemon, mysql, cluster):
    """The old tallyd, running, and the one of the cluster, not started."""
    server = make_redis(appendfsync="always", in_memory=True)
    old = make_daemon(server, instance="old", families=FAMILIES, more=MORE)
    new = make_daemon(cluster, start=False, instance="new", families=FAMILIES, more=MORE, redis_url={"url": cluster.url, "lanes": LANES})
    done = new.verb("migrate", "--another-redis")
    assert done.returncode == 0, done.stdout + done.stderr
    return old, new


@pytest.fixture
def other(make_redis, make_daemon, shops):
    """A second old Redis, with its tallyd running; the same MySQL has both."""
    made = make_daemon(make_redis("other", appendfsync="always", in_memory=True), start=False, instance="other", families=FAMILIES, more=MORE)
    done = made.verb("migrate", "--another-redis")
    assert done.returncode == 0, done.stdout + done.stderr
    made.start()
    with made.client() as client:
        client.pipeline([("SERIES.INCRBY", "other", 5), ("EVENT.ADD", "web", "other"), ("HINCRBY", "s9:searches", "other", 1)])
    return made


def tokens(daemon):
    with daemon.client() as client:
        return client.pipeline([("CTR.INCRBY", f"s{store}:searches", "hat", 1, "TOKEN", f"t-{store}") for store in range(1, STORES + 1)])


def people(daemon):
    with daemon.client() as client:
        return client.pipeline([("UNIQ.ADD", f"s{store}:people", day, visitor) for store in range(1, 20) for day in DAYS
                                for visitor in ("7", "somebody")])


READS = [("SERIES.GET", "clicks", 3600), ("BOX.RECENT", "clicks", 0, 9), ("EVENT.RANGE", "web", "login", 0, 9999999999),
         ("UNIQ.COUNT", "s3:people", *DAYS), ("UNIQ.COUNT", "visitors", *DAYS)]


def begin(old):
    """Something of all kinds, and names enough that copying takes a while."""
    with old.client() as client:
        client.pipeline([("SERIES.INCRBY", f"name{i}", 1) for i in range(3000)])
        client.pipeline([("SERIES.INCRBY", "clicks", 3), ("BOX.INCRBY", "clicks", 3), ("EVENT.ADD", "web", "login"), ("EVENT.ADD", "web", "login"),
                         ("UNIQ.ADD", "visitors", DAYS[0], "7")])
        return tokens(old), people(old)


def reads(daemon):
    with daemon.client() as client:
        return client.pipeline(READS)


def killed_three_times(old, new):
    """While tallyds count, when they do not any more, and in the copy of the rest."""
    mover, redis = Mover(old, new), old.redis.client()
    mover.killed_at("copying keys", 6)
    with old.client() as client:
        assert client.call("SERIES.INCRBY", "late", 1) == 7, "it counts on"
    copied = [name for name in redis.scan_iter("count:*:name*", count=1000)][:500]
    assert redis.delete(*copied) == len(copied), "as a series that is cleaned away"
    waits(new)
    mover.killed_at("takes no more hits")
    mover.killed_at("copying the rest")
    waits(new)


def waits(new):
    """One that is started meanwhile, and stopped."""
    so_far = new.log().count("event=waiting")
    new.spawn()
    wait_until(lambda: new.log().count("event=waiting") > so_far, 30, "it waits")
    assert new.terminate() == 0, new.log_tail()


@pytest.mark.parametrize("on_the_way", [lambda *_: None, killed_three_times], ids=["at once", "killed three times"])
def test_under_load(shops, cluster, mysql, on_the_way):
    old, new = shops
    server, account = old.redis, Account(None, mysql, FAMILIES)
    said = begin(old)
    read = reads(old)
    load = Load(old.socket, account.shadow, pick, 8, 20, 4000)
    try:
        load.go()
        wait_until(lambda: account.shadow.answered > 4000, 60, "hits are answered")
        on_the_way(old, new)
        moved(old, new)
        wait_until(lambda: sum(account.shadow.refused.values()) > 100, 60, "hits are refused")
    finally:
        load.stop()
    assert read_redis(server.client()) == ({}, {}), "all that waited is merged"
    before, after = before_and_after(server.client(), cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") == STORES
    assert before == after
    assert tokens_in(server.client()) == STORES
    old.verify()
    old.terminate()
    new.start()
    assert reads(new) == read and not [reply for reply in read if isinstance(reply, RespError)]
    assert (tokens(new), people(new)) == (said[0], [0] * len(said[1])), "counted before"
    load = Load(new.socket, account.shadow, pick, 8, 20, 4000, seed=2)
    try:
        so_far = account.shadow.answered
        load.go()
        wait_until(lambda: account.shadow.answered > so_far + 4000, 60, "hits are answered")
    finally:
        load.stop()
    settle(new, cluster)
    all_of([node.client() for node in cluster.living()])  # names are where tallyd looks for them
    seen = counted(cluster.client(), mysql, FAMILIES)
    views = {name: n for name, n in seen.items() if name[0].endswith(b":product_views")}
    account.shadow.check(views)
    assert sum(n for (key, _), n in seen.items() if key.endswith(b":searches")) == STORES
    assert sum(n for (key, _), n in seen.items() if b":unique_visitors" in key) == sum(said[1])
    new.verify()


def test_changes_meanwhile(shops, cluster):
    """What the mover has copied already, or not yet: counted again, made anew, removed, expired."""
    old, new = shops
    redis = old.redis.client()
    begin(old)
    mover = Mover(old, new).stopped_at("copying keys", 5)
    with old.client() as client:
        client.pipeline([("SERIES.INCRBY", f"name{i}", 1) for i in range(0, 6000, 2)])
        client.pipeline([("EVENT.ADD", f"web{i}", "login") for i in range(300)])
        client.pipeline([("UNIQ.ADD", f"visitors{i}", DAYS[0], "7") for i in range(300)])
        client.pipeline([("CTR.INCRBY", f"s{i}:searches", "hat", 1, "TOKEN", f"late-{i}") for i in range(100)])
    gone = [name for name in redis.scan_iter("count:*:name*1", count=1000)]
    assert len(gone) > 1000 and redis.delete(*gone) == len(gone)
    soon = [name for name in redis.scan_iter("count:*:name*3", count=1000)]
    for name in soon:
        redis.pexpire(name, 1)
    os.kill(mover.pid, signal.SIGCONT)
    said = mover.communicate(timeout=patience(180))[0]
    assert mover.returncode == 0, said
    before, after = before_and_after(redis, cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") <= STORES + 2 * 100
    assert not set(gone + soon) & set(before) and before == after


def test_logs_whose_names_look_like_days(shops, cluster):
    """s7:sale_2025_11_28 is a log of s7, or has visitors of s7:sale: only its type tells. It may change while keys are copied."""
    old, new = shops
    redis, logs = old.redis.client(), [("s7", "sale_2025_11_28"), ("web_2025_11_28", "hll"), ("s7", "spent_2025_11_28"), ("s7", "gone_2025_11_28")]
    with old.client() as client:
        client.pipeline([("SERIES.INCRBY", "clicks", 1), *(("EVENT.ADD", *log) for log in logs)])
        client.pipeline([("UNIQ.ADD", f"s7:{name}", 20251128, who) for name in ("shoes", "hats") for who in ("7", "somebody")])
        wait_until(lambda: redis.exists(*map(":".join, logs)) == len(logs) and redis.hlen("tally:journals") == 0, 30, "all is in its keys")
    mover = Mover(old, new).stopped_at("keys were copied")
    assert redis.delete("s7:spent_2025_11_28", "s7:gone_2025_11_28", "s7:hats_2025_11_28") == 3
    redis.setbit("s7:spent_2025_11_28", 7, 1)
    redis.zadd("s7:hats_2025_11_28", {"1": 1})
    redis.zadd("tally:events", {"s7:hats_2025_11_28": 0})
    os.kill(mover.pid, signal.SIGCONT)
    said = mover.communicate(timeout=patience(180))[0]
    assert mover.returncode == 0, said
    before, after = before_and_after(redis, cluster)
    assert {b"s7:sale_2025_11_28", b"web_2025_11_28:hll"} < set(after) and before == after
    old.terminate()
    new.start()
    with new.client() as client:
        kept = client.pipeline([("EVENT.RANGE", *log, 0, 9999999999) for log in (*logs[:2], ("s7", "hats_2025_11_28"))])
        assert list(map(len, kept)) == [2, 2, 2], kept
        assert client.pipeline([("UNIQ.COUNT", f"s7:{name}", 20251128) for name in ("shoes", "spent")]) == [[2, b"estimated"], [1, b"exact"]]


def test_keys_of_others_stay(shops, cluster):
    """What has a name of ours, and a type that ours never have."""
    old, new = shops
    redis, others = old.redis.client(), {b"statcache:a", b"statcache:z", b"tb.other", b"count:5:other", b"other_2025_11_28", b"other:log"}
    with old.client() as client:
        client.pipeline([("SERIES.INCRBY", "clicks", 1), ("EVENT.ADD", "web", "login")])
    redis.hset("statcache:login", f"web:{int(time.time()) // 5 * 5}:5", 1)  # an old one is the cleaner's, who comes once a minute
    for other in others:
        redis.sadd(other, "member")
    moved(old, new)
    before, after = before_and_after(redis, cluster)
    assert others < set(before) and b"statcache:login" in after and {key: before[key] for key in set(before) - others} == after


def test_clients_go_over(shops, cluster, mysql):
    """The tallyd of the cluster waits for the end of the move, then counts. What clients felt is printed."""
    old, new = shops
    account = Account(None, mysql, FAMILIES)
    begin(old)
    Mover(old, new).killed_at("copying keys")
    new.spawn()
    new.log_contains("event=waiting")
    loads = [Load(daemon.socket, account.shadow, pick, 4, 20, 4000, seed=seed) for seed, daemon in enumerate((old, new))]
    try:
        for load in loads:
            load.go()
        wait_until(lambda: account.shadow.answered > 4000, 60, "hits are answered")
        pause = Pause(account.shadow)
        said = moved(old, new)
        so_far = account.shadow.answered
        wait_until(lambda: account.shadow.answered > so_far + 4000, 60, "hits are answered")
        print(re.search("the cluster takes hits, after .* s:", said).group(0), f"no hit was answered for {pause.end():.2f} s")
    finally:
        for load in loads:
            load.stop()
    settle(new, cluster)
    account.shadow.check({name: n for name, n in counted(cluster.client(), mysql, FAMILIES).items() if name[0].endswith(b":product_views")})
    old.verify()
    new.verify()


def tokens_in(client):
    return len(list(client.scan_iter("tally:token:*")))


def settle(daemon, cluster):
    daemon.sync_all()
    wait_until(lambda: read_redis(cluster.client()) == ({}, {}), 30, "nothing is left in Redis")


def test_journals_come_along(shops, cluster):
    """What a tallyd that died had not brought to its keys."""
    old, new = shops
    names, rounds = [f"name{i}" for i in range(2000)], 0
    with old.client() as client:
        while old.redis.client().hlen("tally:journals") == 0 or rounds < 3:
            assert len(client.pipeline([("SERIES.INCRBY", name, 1) for name in names])) == len(names)
            rounds += 1
    old.kill9()
    assert old.redis.client().hlen("tally:journals") > 0
    moved(old, new)
    assert old.redis.client().hlen("tally:journals") == 0
    new.start()
    with new.client() as client:
        seen = client.pipeline([("SERIES.GET", name, 86400) for name in names])
    assert [sum(map(int, each[1::2])) for each in seen] == [rounds] * len(names)


def test_a_batch_that_nobody_can_merge(shops, cluster):
    """Its counter is not configured any more. What else waits is merged, and the move says what stands."""
    old, new = shops
    redis, batch = old.redis.client(), secrets.token_hex(16)
    with old.client() as client:
        assert client.call("HINCRBY", "s1:searches", "hat", 2) == 2
    gen = redis.incr("tally:gen")
    redis.hset("tally:gens", gen, batch)
    redis.hset(f"gone_{batch}", "1", 5)
    redis.hset(f"tally:batch:{batch}", mapping={"format": 1, "counter": "gone", "gen": gen, "lowest_ms": 1, "owner": "dead:1", "=gone": 1})
    redis.zadd("tally:batches", {batch: 1})
    code, said = Mover(old, new).to_end()
    assert code == 1 and "1 batches of the old Redis cannot be merged" in said and "tallyd recover" in said, said
    assert not redis.exists("s1:searches") and redis.zcard("tally:batches") == 1
    done = old.verb("recover", "--reject-unknown")
    assert done.returncode == 0, done
    assert "was moved to this cluster before" in moved(old, new)


def test_done_is_done(shops, cluster):
    """Run again behind its end it changes nothing; the old tallyd stays refused, also when it is started anew."""
    old, new = shops
    with old.client() as client:
        assert client.call("HINCRBY", "s1:searches", "hat", 2) == 2
    moved(old, new)
    old.terminate()
    done = old.verb("run")
    assert done.returncode == 78 and "move to a cluster" in done.stderr, done.stderr
    new.start()
    with new.client() as client:
        wait_until(lambda: client.call("CTR.TOTAL", "s1:searches", "hat") == [2], 60, "the new one has compared Redis with MySQL")
        assert client.call("HINCRBY", "s1:searches", "hat", 1) == 1
        assert client.call("SERIES.INCRBY", "clicks", 1) == 7
        before = client.call("SERIES.GET", "clicks", 3600)
        code, said = Mover(old, new).to_end()
        assert code == 0 and "was moved to this cluster before" in said, said
        assert client.call("SERIES.GET", "clicks", 3600) == before
        assert client.call("CTR.TOTAL", "s1:searches", "hat") == [3]
    home = next(node for node in cluster.living() if cluster.has(node, SLOT))
    assert home.client().set(tag_of_lane(0, 1) + b"tally:move", "done")  # as older versions ended it
    assert "was moved to this cluster before" in moved(old, new)


def in_cluster(cluster):
    return all_of([node.client() for node in cluster.living()])


def empty(cluster):
    for node in cluster.living():
        node.client().flushall()


def refused(old, new, cluster, why):
    before = in_cluster(cluster), all_of([old.redis.client()])
    code, said = Mover(old, new).to_end()
    assert code == 78 and why in said and "move it into an empty cluster" in said, said
    assert before == (in_cluster(cluster), all_of([old.redis.client()]))


def test_two_old_redis_into_one_cluster(shops, other, cluster):
    """The mover of the second was killed, and the first came between. The second is told that it is not in the cluster."""
    old, new = shops
    begin(old)
    Mover(other, new).killed_at("takes no more hits")
    moved(old, new)
    refused(other, new, cluster, "filled by another move")
    assert "was moved to this cluster before" in moved(old, new)
    assert other.redis.client().delete("tally:move") == 1
    refused(other, new, cluster, "has no mark of it")
    with other.client() as client:
        wait_until(lambda: client.call("SERIES.INCRBY", "other", 1) == 7, 30, "it counts")


def test_another_move_into_an_emptied_cluster(shops, other, cluster):
    """What was moved before is not there any more: only in the old Redis, from where it can be moved again."""
    old, new = shops
    begin(old)
    moved(old, new)
    empty(cluster)
    moved(other, new)
    refused(old, new, cluster, "filled by another move")
    empty(cluster)
    assert "began before, but the cluster is empty" in moved(old, new)
    before, after = all_of([old.redis.client()]), in_cluster(cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") and before == after
    assert "was moved to this cluster before" in moved(old, new)
    refused(other, new, cluster, "filled by another move")


def test_a_cluster_in_use_is_refused(shops, cluster):
    """Then nothing has happened: the old tallyd counts on."""
    old, new = shops
    new.start()
    for mark in (False, True):  # as a move has left it that was killed before it closed the cluster
        if mark:
            old.redis.client().set("tally:move", 1)
        code, said = Mover(old, new).to_end()
        assert code == 78 and "move into an empty one" in said, said
    assert old.redis.client().delete("tally:move") == 1
    with old.client() as client:
        assert client.call("HINCRBY", "s1:searches", "hat", 1) == 1


def test_given_up(shops, cluster):
    """The cluster emptied, the mark deleted: the old Redis has all that it had, and counts. The next move begins again."""
    old, new = shops
    begin(old)
    Mover(old, new).killed_at("copying the rest")
    empty(cluster)
    with old.client() as client:
        assert isinstance(client.call("HINCRBY", "s1:searches", "hat", 1), RespError)
        assert old.redis.client().delete("tally:move") == 1
        wait_until(lambda: client.call("HINCRBY", "s1:searches", "hat", 1) == 1, 30, "it counts again")
    gone = [name for name in old.redis.client().scan_iter("count:*", count=1000)][:100]
    assert old.redis.client().delete(*gone) == len(gone) == 100
    moved(old, new)
    before, after = before_and_after(old.redis.client(), cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") and before == after


def test_a_mark_of_another_mover(shops, cluster):
    """Then a tallyd may have found none in between."""
    old, new = shops
    begin(old)
    mover = Mover(old, new).stopped_at("takes no more hits")
    old.redis.client().set("tally:move", "another")
    os.kill(mover.pid, signal.SIGCONT)
    said = mover.communicate(timeout=patience(180))[0]
    assert mover.returncode == 1 and "written by another mover" in said, said
    moved(old, new)


def test_the_old_redis_is_full_as_journals_come_home(shops, cluster):
    """The mover does not wait for room without end, and says what Redis says."""
    old, new = shops
    begin(old)
    with old.client() as client:
        while old.redis.client().hlen("tally:journals") == 0:
            client.pipeline([("SERIES.INCRBY", f"name{i}", 1) for i in range(2000)])
    old.kill9()
    mover = Mover(old, new).stopped_at("takes no more hits")
    try:
        old.redis.client().config_set("maxmemory", 1)
        os.kill(mover.pid, signal.SIGCONT)
        said = mover.communicate(timeout=patience(90))[0]
    finally:
        mover.kill()
    assert mover.returncode == 1 and "OOM command not allowed" in said and "run `tallyd move` again" in said, said
    old.redis.client().config_set("maxmemory", 0)
    moved(old, new)
    before, after = before_and_after(old.redis.client(), cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") and before == after


def test_the_old_redis_dies_as_journals_come_home(shops, cluster):
    """The mover does not wait for it without end. A tallyd that has a link keeps a journal from coming home until then."""
    old, new = shops
    begin(old)
    mover, life = Mover(old, new).stopped_at("takes no more hits"), secrets.token_hex(8)
    try:
        link = Resp(old.redis.socket)
        assert link.call("CLIENT", "SETNAME", f"tallyd:late:{life}:frame") == "OK"
        assert old.redis.client().hset("tally:journals", "kept", f"late:{life}") == 1
        os.kill(mover.pid, signal.SIGCONT)
        for line in mover.stdout:
            if "event=ready" in line:
                break
        old.redis.kill9()
        said = mover.communicate(timeout=patience(90))[0]
    finally:
        mover.kill()
    assert mover.returncode == 69 and "nothing is lost" in said, said
    assert "until then neither the old Redis nor the cluster takes hits" in said, said
    old.redis.start()
    assert old.redis.client().hdel("tally:journals", "kept") == 1
    moved(old, new)
    before, after = all_of([old.redis.client()]), in_cluster(cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") and before == after


def test_replicas_must_have_the_mark(shops, cluster):
    """Else the one that is promoted would count again."""
    old, new = shops
    old.config["redis"] = {"url": old.redis.url, "replicas": 1}
    old.write_config()
    code, said = Mover(old, new).to_end()
    assert code == 69 and "1 replicas must have the mark" in said, said
    old.config["redis"] = old.redis.url
    old.write_config()
    moved(old, new)


def test_what_is_no_move(shops, cluster):
    old, new = shops
    assert old.verb("move").returncode == 64
    for mover in (Mover(new, new), Mover(old, old)):
        code, said = mover.to_end()
        assert code == 78 and "to a cluster" in said, said


def home_of(cluster):
    """Where the state of the move is, and the tag of its keys."""
    return next(node for node in cluster.living() if cluster.has(node, SLOT)).client(), tag_of_lane(0, 1)


def test_the_end_is_lost_in_a_failover(shops, cluster):
    """As a replica of the home slot may have it, while the tallyd of the cluster counts: nothing that it counted is swept."""
    old, new = shops
    begin(old)
    moved(old, new)
    old.terminate()
    new.start()
    home, tag = home_of(cluster)
    lanes, state, life = tag + b"tally:lanes", tag + b"tally:move", old.redis.client().get("tally:move")
    done = [b"%d" % LANES, b"done " + life]
    assert home.mget(lanes, state) == done
    with new.client() as client:
        assert client.call("SERIES.INCRBY", "counted", 1) == 7
        home.mset({lanes: -LANES, state: b"copied " + life})
        assert "was moved to this cluster before" in moved(old, new)
        assert home.mget(lanes, state) == done
        for had in ([b"%d" % -LANES, life], [None, None]):  # where nothing is waited for
            home.delete(lanes, state)
            for key, value in zip((lanes, state), had):
                assert value is None or home.set(key, value)
            code, said = Mover(old, new).to_end()
            assert code == 78 and "a tallyd has counted in this cluster" in said and home.mget(lanes, state) == had, said
        assert home.execute_command(*re.search("`(MSET .*?)`", said).group(1).split())
        assert "was moved to this cluster before" in moved(old, new)
        assert client.call("SERIES.INCRBY", "counted", 1) == 7
        assert sum(map(int, client.call("SERIES.GET", "counted", 86400)[1::2])) == 2


def test_replicas_of_the_cluster_must_have_it(shops, workdir):
    """All of them, before counting ends: else it would end for nothing. A replica that is promoted knows that the move is done."""
    old, new = shops
    os.mkdir(os.path.join(workdir, "kept"))
    made = Cluster(os.path.join(workdir, "kept"), lanes=LANES)
    try:
        kept_by_replicas(old, new, made.start())
    finally:
        made.close()


def kept_by_replicas(old, new, cluster):
    new.config["redis"] = {"url": cluster.url, "lanes": LANES, "replicas": 1}
    new.write_config()
    begin(old)
    for master in sorted(cluster.nodes[:cluster.masters], key=lambda node: not cluster.has(node, SLOT))[:2]:
        replica = cluster.replica_of(master)
        replica.pause()
        code, said = Mover(old, new).to_end()
        replica.resume()
        assert code == 69 and "redis.replicas" in said and "takes no more hits" not in said, said
        assert not old.redis.client().exists("tally:move")
        cluster.wait_well()
    moved(old, new)
    cluster.slot = SLOT
    cluster.failover()
    assert cluster.owner.client().get(tag_of_lane(0, 1) + b"tally:move") == b"done " + old.redis.client().get("tally:move")
    assert "was moved to this cluster before" in moved(old, new)


def behind_tls(make_redis, workdir):
    """A redis-server, and the `redis` section of a user who may do what the page says."""
    authority, at = Authority(workdir), port()
    pair = authority.issue("old")
    server = make_redis(appendfsync="always", in_memory=True, extra=[
        "--tls-port", str(at), "--tls-cert-file", pair.cert, "--tls-key-file", pair.key, "--tls-ca-cert-file", authority.cert,
        "--tls-auth-clients", "no", "--user", "tally", "on", ">hush", "~*", "&*", "+@all", "-@dangerous", "+info", "+role", "+client",
        "+config|get"])
    return server, {"url": f"rediss://tally:hush@localhost:{at}/0", "tls": {"ca": authority.cert}}


def a_right_is_missing(old, new, command, clients, user):
    for client in clients:
        client.execute_command("ACL", "SETUSER", user, f"-{command}")
    code, text = Mover(old, new).to_end()
    assert code == 69 and f"'{command}' command" in text and "run `tallyd move` again" in text, text
    for client in clients:
        client.execute_command("ACL", "SETUSER", user, f"+{command}")


def test_tls_and_a_user_into_one_lane(make_redis, make_daemon, workdir, cluster):
    server, section = behind_tls(make_redis, workdir)
    old = make_daemon(server, instance="old", families=FAMILIES, more=MORE, redis_url=section)
    new = make_daemon(cluster, start=False, instance="new", families=FAMILIES, more=MORE, redis_url={"url": cluster.url, "lanes": 1})
    done = new.verb("migrate", "--another-redis")
    assert done.returncode == 0, done.stdout + done.stderr
    said = begin(old)
    read = reads(old)
    a_right_is_missing(old, new, "dump", [server.client()], "tally")
    a_right_is_missing(old, new, "subscribe", [server.client()], "tally")
    a_right_is_missing(old, new, "restore", [node.client() for node in cluster.living()], "default")
    assert not server.client().exists("tally:move"), "the old Redis still counts"
    moved(old, new)
    before, after = before_and_after(server.client(), cluster)
    assert before.pop(b"tally:tokens") <= after.pop(b"tally:tokens") == STORES
    assert before == after
    old.terminate()
    new.start()
    assert reads(new) == read and not [reply for reply in read if isinstance(reply, RespError)]
    assert (tokens(new), people(new)) == (said[0], [0] * len(said[1])), "counted before"
    settle(new, cluster)
    new.verify()
