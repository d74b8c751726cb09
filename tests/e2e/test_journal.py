"""Series and feeds on their way through journals: whichever process dies, is paused or is refused, each hit is in its keys once,
and a client that reads through tallyd sees it at once."""
import random
from collections import Counter

import pytest

import book
from harness.books import counted
from harness.daemon import counters
from harness.load import Load
from harness.resp import RespError
from harness.still import pairs
from harness.storm import Known, settled
from harness.wait import wait_until

PRECISIONS = (3600, 86400)
OPTIONS = {"series": {"precisions": list(PRECISIONS), "samples": 1000}, "boxes": {"width": "3600s", "keep": 1000}}
FED = {"product_views": {"feeds": {"series": "s<store>:views", "box": "s<store>:views", "event": "s<store>:view"}}}
FAMILIES = counters(hits=10**9, every="3600s", **FED)
NAMES = [f"n{at}" for at in range(400)]
STORES = range(1, 41)
TAKEN_OVER_S = 60  # a tallyd looks every ten seconds, and one that died is gone from Redis at once


def journals(direct):
    return direct.hgetall("tally:journals")


def all_home(direct):
    return not direct.exists("tally:journals") and not list(direct.scan_iter("tally:journal:*", count=1000))


def sums(direct, precision):
    """Name -> hits, as read from the keys alone."""
    keys, pipe = list(direct.scan_iter(f"count:{precision}:*", count=1000)), direct.pipeline(transaction=False)
    for key in keys:
        pipe.hvals(key)
    return Counter({key.decode().split(":", 2)[2]: sum(map(int, hits)) for key, hits in zip(keys, pipe.execute())})


def exact(direct, right):
    for precision in PRECISIONS:
        assert sums(direct, precision) == right


class Series:
    """A client that hits many names in pipelines, and what it was told."""

    def __init__(self, daemon, seed):
        self.client, self.rng, self.right = daemon.client(), random.Random(seed), Counter()

    def hit(self, count=300):
        hits = [(self.rng.choice(NAMES), self.rng.randrange(1, 9)) for _ in range(count)]
        replies = self.client.pipeline([("SERIES.INCRBY", name, n) for name, n in hits])
        for (name, n), reply in zip(hits, replies):
            if reply == len(PRECISIONS):
                self.right[name] += n
        return [reply for reply in replies if reply != len(PRECISIONS)]

    def known(self):
        """The first of each name goes straight; from here on they are journaled."""
        replies = self.client.pipeline([("SERIES.INCRBY", name, 1) for name in NAMES])
        assert replies == [len(PRECISIONS)] * len(NAMES)
        self.right.update(NAMES)
        return self


def is_stopped(daemon):
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def stopped_in_the_middle(daemon, direct, hit):
    """The daemon is paused, and a journal of its own is in Redis with something in it."""
    for _ in range(100):
        hit()
        daemon.pause()
        wait_until(lambda: is_stopped(daemon), 60, "it stands still")
        direct.ping()  # what it had sent is done by now
        if any(direct.strlen(b"tally:journal:" + name) for name in journals(direct)):
            return
        daemon.resume()
    raise AssertionError("no journal was seen")


@pytest.fixture
def redis(make_redis):
    return make_redis(appendfsync="always", in_memory=True)


def test_killed(make_daemon, redis):
    """kill -9 while there is a journal: the next start applies it, again and again."""
    daemon, direct, right = make_daemon(redis, more=OPTIONS), redis.client(), Counter()
    for seed in range(6):
        series = Series(daemon, seed).known()
        stopped_in_the_middle(daemon, direct, series.hit)
        right += series.right
        daemon.kill9()
        assert journals(direct) and sums(direct, 3600) != right
        daemon.start()
        wait_until(lambda: all_home(direct), 30, "its journal is home")
        exact(direct, right)
    assert daemon.log().count("event=journal_adopted") >= 6


def test_killed_while_it_brings_home(make_daemon, redis):
    """A journal that takes many frames to come home, and a kill between two of them."""
    daemon, direct, right = make_daemon(redis, more=OPTIONS), redis.client(), Counter()
    names = [f"many{at}" for at in range(20_000)]
    between = 0
    for _ in range(4):
        with daemon.client() as client:
            for _ in range(2):
                for at in range(0, len(names), 2000):
                    part = names[at:at + 2000]
                    assert client.pipeline([("SERIES.INCRBY", name, 1) for name in part]) == [2] * len(part)
                right.update(names)
        wait_until(lambda: sum(map(int, direct.hvals("count:86400:many0"))) == right["many0"], 30, "it comes home",
                   every_s=0.001)
        daemon.kill9()
        home = sum(n == right[name] for name, n in sums(direct, 86400).items())
        between += bool(journals(direct)) and 0 < home < len(names)
        daemon.start()
        wait_until(lambda: all_home(direct), 60, "its journal is home")
        exact(direct, right)
    assert between > 0, "no kill came between two frames"


def test_another_brings_home(make_daemon, redis):
    """What a dead one left, another instance on the same Redis brings home within a minute."""
    first = make_daemon(redis, instance="one", more=OPTIONS)
    second = make_daemon(redis, instance="two", migrate=False, more=OPTIONS)
    direct, here, there = redis.client(), Series(first, 1).known(), Series(second, 2).known()
    stopped_in_the_middle(first, direct, here.hit)
    first.kill9()
    left = [name for name, owner in journals(direct).items() if owner.startswith(b"one:")]
    assert left
    assert there.hit() == []
    wait_until(lambda: all_home(direct), TAKEN_OVER_S, "brought home by the other")
    exact(direct, here.right + there.right)
    assert "event=journal_adopted" in second.log()
    first.start()
    assert there.hit() == []
    wait_until(lambda: all_home(direct), 30, "all is home")
    exact(direct, here.right + there.right)
    assert first.log().count("event=journal_adopted") == 0


def links_killed(direct, instance):
    for client in direct.client_list():
        if client["name"].startswith(f"tallyd:{instance}:"):
            direct.client_kill_filter(_id=client["id"])


def test_stands_still_while_taken_over(make_daemon, redis):
    """SIGSTOP, its links end, another one takes its journal; when it goes on it counts, and nothing twice."""
    first = make_daemon(redis, instance="one", more=OPTIONS)
    second = make_daemon(redis, instance="two", migrate=False, more=OPTIONS)
    direct, here, there = redis.client(), Series(first, 3).known(), Series(second, 4).known()
    for _ in range(2):
        assert there.hit() == []
        stopped_in_the_middle(first, direct, here.hit)
        links_killed(direct, "one")
        adopted = second.log().count("event=journal_adopted")
        wait_until(lambda: second.log().count("event=journal_adopted") > adopted, TAKEN_OVER_S, "taken over")
        wait_until(lambda: all_home(direct), TAKEN_OVER_S, "brought home by the other")
        exact(direct, here.right + there.right)
        first.resume()
        wait_until(lambda: not here.hit(), 30, "counts again")
        assert here.hit() == [] and there.hit() == []
        wait_until(lambda: all_home(direct), 30, "all is home")
        exact(direct, here.right + there.right)
    assert "event=journals_given_up" in first.log()


def test_stopped_gently(make_daemon, redis):
    """SIGTERM right behind an answer: all of it is home when the process has ended."""
    daemon, direct = make_daemon(redis, more=OPTIONS), redis.client()
    series = Series(daemon, 5).known()
    for _ in range(3):
        assert series.hit(2000) == []
        assert daemon.terminate() == 0
        assert all_home(direct)
        exact(direct, series.right)
        daemon.start()
        series.client = daemon.client()
        assert "event=journal_adopted" not in daemon.log()


def read_or_refused(client, name, right):
    """A read is right or an error, never old."""
    reply = client.call("SERIES.GET", name, 86400)
    assert isinstance(reply, RespError) or sum(n for _, n in pairs(reply)) == right[name], (name, reply)
    return isinstance(reply, RespError)


def test_full_redis(make_daemon, redis):
    """Frames are refused, also those that would bring home: nothing of them is counted, and all is right when there is room."""
    daemon, direct = make_daemon(redis, more=OPTIONS), redis.client()
    series = Series(daemon, 6).known()
    for _ in range(3):
        stopped_in_the_middle(daemon, direct, series.hit)
        direct.config_set("maxmemory", "1mb")
        daemon.resume()
        refusals = series.hit(500)
        assert len(refusals) == 500 and all(reply.startswith("OOM ") for reply in refusals), refusals[:3]
        assert journals(direct)
        assert any(read_or_refused(series.client, name, series.right) for name in NAMES)
        direct.config_set("maxmemory", 0)
        wait_until(lambda: all_home(direct), 30, "it comes home when there is room")
        exact(direct, series.right)
        wait_until(lambda: not series.hit(), 30, "counts again")
    wait_until(lambda: all_home(direct), 30, "all is home")
    exact(direct, series.right)


def test_reads_see_what_was_answered(make_daemon, redis):
    """Right after the answers, while there are journals: any client's reads through tallyd have all of it; the book's reader,
    which knows the keys alone, has it within seconds."""
    daemon, direct, rng = make_daemon(redis, more=OPTIONS, families=FAMILIES), redis.client(), random.Random(7)
    series, views, hits = Series(daemon, 7).known(), Counter(), Counter()
    stood = 0
    with daemon.client() as reader:
        for _ in range(40):
            assert series.hit() == []
            batch = [(rng.choice(STORES), rng.randrange(1, 9)) for _ in range(100)]
            assert all(isinstance(reply, int) for reply in series.client.pipeline(
                [("HINCRBY", f"s{store}:product_views", "7", n) for store, n in batch]))
            for store, n in batch:
                views[store] += n
                hits[store] += 1
            stood += bool(journals(direct))
            for name in rng.sample(NAMES, 3):
                for precision in PRECISIONS:
                    assert sum(n for _, n in pairs(reader.call("SERIES.GET", name, precision))) == series.right[name]
            store = rng.choice(STORES)
            assert sum(n for _, n in pairs(reader.call("SERIES.GET", f"s{store}:views", 3600))) == views[store]
            assert sum(n for _, n in pairs(reader.call("BOX.RECENT", f"s{store}:views", 0, 9))) == views[store]
            assert sum(n for _, n in pairs(reader.call("BOX.TOP", f"s{store}:views", 9))) == views[store]
            assert sum(reader.call("EVENT.COUNT", f"s{store}", "view", 7200, 3600)) == hits[store]
        assert stood > 20, "there were no journals"
        late = [f"late{at}" for at in range(50)]
        assert series.client.pipeline([("SERIES.INCRBY", name, 1) for name in late]) == [2] * 50
        listed = set(reader.call("SERIES.LIST"))
        stores = [f"s{store}:views" for store in views]
        assert listed == {f"{precision}:{name}".encode() for precision in PRECISIONS for name in [*NAMES, *late, *stores]}
    series.right.update(late)

    def book_sees():
        return all(sum(n for _, n in book.get_counter(direct, name, precision)) == right
                   for precision in PRECISIONS for name, right in series.right.items())

    wait_until(book_sees, 60, "the book's reader sees all")


def test_list_sees_names_that_only_a_journal_has(make_daemon, redis):
    """A store whose very first hits were answered a moment ago is listed, though no key has its series yet."""
    daemon, direct, unseen = make_daemon(redis, more=OPTIONS, families=FAMILIES), redis.client(), 0
    with daemon.client() as client:
        for turn in range(10):
            stores = range(100 * turn, 100 * turn + 50)
            assert client.pipeline([("HINCRBY", f"s{store}:product_views", "7", 1) for store in stores]) == [1] * 50
            unseen += not direct.exists(f"count:3600:s{stores[0]}:views")
            assert {f"3600:s{store}:views".encode() for store in stores} <= set(client.call("SERIES.LIST"))
    assert unseen > 0, "they were in their keys at once"


def test_feeds_killed(make_daemon, redis, mysql):
    """Hits that feed series, boxes and events, and kill -9 in the middle: nothing lost that was answered, and counter, series,
    timebox and log never differ."""
    daemon, direct, known = make_daemon(redis, more=OPTIONS, families=FAMILIES), redis.client(), Known()
    stood = 0

    def pick(rng):
        return (b"HINCRBY", b"s%d:product_views" % rng.choice(STORES), b"%d" % rng.randrange(9),
                b"%d" % rng.randrange(1, 4))

    load = Load(daemon.socket, known, pick, clients=6, depth=50, per_second=12000, seed=9, command=())
    try:
        load.go()
        for _ in range(6):
            answered = len(known.answered)
            wait_until(lambda: len(known.answered) > answered + 3000, 60, "answers")
            daemon.kill9()
            stood += bool(journals(direct))
            daemon.start()
        load.pause()
    finally:
        load.stop()
    assert stood > 0 and known.unknown
    settled(daemon, redis)
    assert daemon.terminate() == 0
    least, most = Counter(), Counter()
    for _, key, _, n in known.sure():
        least[key] += int(n)
    for _, key, _, n in known.unknown:
        most[key] += int(n)
    views = Counter()
    for (key, _), n in counted(direct, mysql, FAMILIES).items():
        views[key] += n
    requests = Counter(request[1] for request in known.sure())
    perhaps = Counter(request[1] for request in known.unknown)
    for store in STORES:
        key = b"s%d:product_views" % store
        assert least[key] <= views[key] <= least[key] + most[key]
        for precision in PRECISIONS:
            assert sum(map(int, direct.hvals(f"count:{precision}:s{store}:views"))) == views[key]
        assert sum(n for _, n in direct.zrange(f"pv.s{store}:views", 0, -1, withscores=True)) == views[key]
        assert requests[key] <= direct.zcard(f"s{store}:view") <= requests[key] + perhaps[key]


def test_two_instances_under_load(make_daemon, redis):
    """Both write the same names, each is killed in turn and recovered by the first to come: exact within what was
    unanswered."""
    daemons = [make_daemon(redis, instance=name, migrate=at == 0, more=OPTIONS) for at, name in
               enumerate(("one", "two"))]
    direct, known = redis.client(), Known()

    def pick(rng):
        return b"SERIES.INCRBY", rng.choice(NAMES).encode(), b"%d" % rng.randrange(1, 4)

    loads = [Load(daemon.socket, known, pick, clients=3, depth=100, per_second=6000, seed=at, command=())
             for at, daemon in enumerate(daemons)]
    try:
        for load in loads:
            load.go()
        for daemon in daemons * 2:
            answered = len(known.answered)
            wait_until(lambda: len(known.answered) > answered + 3000, 60, "answers")
            daemon.restart()
        for load in loads:
            load.pause()
    finally:
        for load in loads:
            load.stop()
    wait_until(lambda: all_home(direct), TAKEN_OVER_S, "all is home")
    least, perhaps = Counter(), Counter()
    for _, name, n in known.sure():
        least[name.decode()] += int(n)
    for _, name, n in known.unknown:
        perhaps[name.decode()] += int(n)
    found = sums(direct, 3600)
    assert found == sums(direct, 86400)
    assert not {name: n for name, n in found.items() if not least[name] <= n <= least[name] + perhaps[name]}
    assert set(least) <= set(found)
