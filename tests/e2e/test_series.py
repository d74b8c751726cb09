"""Time series: every read equal to a brute-force model over an hour of clock with the cleaner at work, the book's own
writer, reader and cleaner beside tallyd, cut links and kills, bad input."""
import random
import threading
import time
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import book
from harness.daemon import counters
from harness.laned import lane_with
from harness.resp import RespError
from harness.still import pairs
from harness.storm import settled, storm
from harness.wait import patience, wait_until

PRECISIONS, SAMPLES, AHEAD_S = (1, 5, 60, 300), 10, 60
OPTIONS = {"series": {"precisions": list(PRECISIONS), "samples": SAMPLES}}
PASS_S = 60  # the cleaner comes to each precision once in that time, or in the precision when that is longer
HOUR_S = 3600


class Model:
    """Every hit that a precision kept when it came."""

    def __init__(self, precisions=PRECISIONS, samples=SAMPLES):
        self.precisions, self.samples = precisions, samples
        self.counts = defaultdict(Counter)  # (name, precision) -> slot -> hits

    def cutoff(self, precision, now):
        return now - self.samples * precision

    def hit(self, name, n, at, now):
        kept = [p for p in self.precisions if at - at % p > self.cutoff(p, now)]
        for precision in kept:
            self.counts[name, precision][at - at % precision] += n
        return len(kept)

    def live(self, name, precision, now):
        return sorted((slot, n) for slot, n in self.counts[name, precision].items() if slot > self.cutoff(precision, now))

    def check(self, rows, name, precision, now):
        """rows: what was read. Samples past the cutoff may exist until the cleaner has come, and are right till then."""
        assert rows == sorted(rows)
        assert [row for row in rows if row[0] > self.cutoff(precision, now)] == self.live(name, precision, now)
        assert all(self.counts[name, precision][slot] == n for slot, n in rows)


def standing(direct):
    """(name, precision) -> sorted samples, and the members of `known:`, of one moment of Redis."""
    keys = list(direct.scan_iter("count:*", count=1000))
    with direct.pipeline(transaction=True) as pipe:
        pipe.zrange("known:", 0, -1)
        for key in keys:
            pipe.hgetall(key)
        known, *hashes = pipe.execute()
    found = {}
    for key, samples in zip(keys, hashes):
        _, precision, name = key.decode().split(":", 2)
        if samples:
            found[name, int(precision)] = sorted((int(slot), int(n)) for slot, n in samples.items())
    return found, {member.decode() for member in known}


def look(still, model):
    """All of Redis against the model, and the bounds that the cleaner keeps."""
    found, known = standing(still.direct)
    for (name, precision), rows in found.items():
        model.check(rows, name, precision, still.now)
        between_passes = max(PASS_S, precision) + PASS_S  # due, and a pass may be under way
        assert len(rows) <= model.samples + (AHEAD_S + between_passes) // precision + 2
        assert f"{precision}:{name}" in known
    for name, precision in model.counts:
        if model.live(name, precision, still.now):
            assert (name, precision) in found


def cleaned(still, model):
    """Nothing past its cutoff is left, and nothing is known that has no samples."""
    found, known = standing(still.direct)
    return known == {f"{precision}:{name}" for name, precision in found} and all(
        rows[0][0] > model.cutoff(precision, still.now) for (_, precision), rows in found.items())


EDGES = sorted({-SAMPLES * p + d for p in PRECISIONS for d in (-p - 1, -p, -1, 0, 1, p - 1, p, p + 1)})
OFFSETS = st.one_of(st.none(), st.sampled_from(EDGES), st.integers(-SAMPLES * PRECISIONS[-1] - 600, AHEAD_S),
                    st.integers(-12, 3))
STEPS = st.tuples(st.just("step"), st.sampled_from([1, 4, 5, 31, 59, 60, 61, 301]))
OPERATIONS = st.lists(st.one_of(
    st.tuples(st.just("hit"), st.integers(0, 2), st.integers(1, 9), OFFSETS),
    st.tuples(st.just("hit"), st.integers(0, 2), st.integers(1, 9), OFFSETS),
    st.tuples(st.just("get"), st.integers(0, 2), st.sampled_from(PRECISIONS), st.none()
              | st.tuples(st.integers(-3300, 60), st.integers(0, 1500))),
    STEPS), min_size=5, max_size=40)


def hit(still, model, name, n, offset):
    """With an offset: that far from Redis' now; without: now."""
    at = still.now if offset is None else still.now + offset
    words = ("SERIES.INCRBY", name, n) + (() if offset is None else ("AT", at))
    assert still.call(*words) == model.hit(name, n, at, still.now), words


def get(still, model, name, precision, span):
    if span is None:
        model.check(pairs(still.call("SERIES.GET", name, precision)), name, precision, still.now)
        return
    first, last = still.now + span[0], still.now + span[0] + span[1]
    rows = pairs(still.call("SERIES.GET", name, precision, "FROM", first, "TO", last))
    cutoff = model.cutoff(precision, still.now)
    live = [row for row in model.live(name, precision, still.now) if first <= row[0] <= last]
    assert [row for row in rows if row[0] > cutoff] == live
    assert all(first <= slot <= last and model.counts[name, precision][slot] == n for slot, n in rows)


@pytest.fixture
def still(make_still):
    return make_still(OPTIONS)


def test_model_over_an_hour(still):
    """Random hits, late and early, reads, and time that passes: more than an hour of it, the cleaner at work."""
    model, began, examples = Model(), still.now, [0]

    @settings(max_examples=60, deadline=None, database=None, print_blob=True,
              suppress_health_check=list(HealthCheck))
    @given(st.integers(0, PRECISIONS[-1] - 1), OPERATIONS)
    def run(phase, operations):
        examples[0] += 1
        still.begin_at(phase, PRECISIONS[-1])
        for verb, *args in operations:
            if verb == "step":
                still.step(args[0])
                continue
            name = f"m{examples[0]}:{args[0]}"
            (hit if verb == "hit" else get)(still, model, name, *args[1:])
        look(still, model)

    run()
    while still.now < began + HOUR_S:
        still.step(61)
        look(still, model)
    still.pass_until(lambda: cleaned(still, model), 2 * PRECISIONS[-1] + PASS_S, "all that is old is cleaned")
    look(still, model)
    still.step(SAMPLES * PRECISIONS[-1] + AHEAD_S + 1)
    still.pass_until(lambda: not standing(still.direct)[0] and not still.direct.exists("known:"),
                     2 * PRECISIONS[-1] + PASS_S, "an hour later nothing is left")
    assert still.call("SERIES.LIST") == []


def test_defaults_are_the_books(make_still):
    still = make_still()
    assert still.call("SERIES.INCRBY", "hits", 3) == len(book.PRECISION)
    for precision in book.PRECISION:
        assert book.get_counter(still.direct, "hits", precision) == [(still.now - still.now % precision, 3)]
    assert still.direct.zrange("known:", 0, -1, withscores=True) == \
        [(member.encode(), 0.0) for member in sorted(f"{precision}:hits" for precision in book.PRECISION)]
    late = still.now - 120 * 60 + 60  # the minutes just keep it, the seconds do not any more
    assert still.call("SERIES.INCRBY", "late", 1, "AT", late) == 5
    assert still.call("SERIES.INCRBY", "late", 1, "AT", 0) == 0
    assert still.call("SERIES.LIST") == sorted(still.direct.zrange("known:", 0, -1))


def test_book_beside_tallyd(still):
    """The book's writer, reader and cleaner on the same Redis while tallyd writes, reads and cleans: the same answers, no
    live sample lost. Names fall silent long enough to be forgotten, and come back."""
    model, rng, quit_now = Model(), random.Random(5), threading.Event()
    second, failures = still.server.client(), []

    def clean():
        try:
            book.clean_counters(second, quit_now.is_set, lambda: second.time()[0], lambda: None, SAMPLES)
        except Exception as problem:  # told below, in the test's own thread
            failures.append(problem)

    cleaner = threading.Thread(target=clean, daemon=True)
    cleaner.start()
    names = [f"site:{at}" for at in range(6)]
    for turn in range(200):
        awake = [name for at, name in enumerate(names) if (turn // (5 + 7 * at)) % 2 == 0]
        for name in awake:
            n = rng.randrange(1, 5)
            hit(still, model, name, n, rng.choice([None, 0, -rng.randrange(60), -rng.randrange(3000)]))
            if rng.random() < 0.3:
                model.hit(name, n, still.now, still.now)
                book.update_counter(still.direct, name, n, still.now, PRECISIONS)
        for name in names:
            precision = rng.choice(PRECISIONS)
            read = book.get_counter(still.direct, name, precision)
            model.check(read, name, precision, still.now)
            get(still, model, name, precision, None)
        look(still, model)
        still.step(rng.choice([1, 3, 10, 60]))
    quit_now.set()
    cleaner.join(patience(60))
    assert not failures, failures


def test_late_hit_after_the_cleaner(still):
    """A series that the cleaner emptied and forgot is known again with the next hit, also when that is a late one."""
    model = Model()
    hit(still, model, "s", 1, None)
    still.step(SAMPLES * 5 + 61)
    still.pass_until(lambda: not still.direct.exists("count:1:s") and not still.direct.exists("count:5:s"), 130,
                     "seconds are cleaned")
    hit(still, model, "s", 1, -SAMPLES * 5 + 6)
    hit(still, model, "s", 1, None)
    hit(still, model, "s", 1, -3)
    look(still, model)
    get(still, model, "s", 1, None)


def test_known_dropped_by_another(still):
    """Somebody else removes a member of `known:` behind tallyd's back: the next sample brings it back."""
    model = Model()
    hit(still, model, "s", 1, None)
    still.direct.delete("known:", *[f"count:{precision}:s" for precision in PRECISIONS])
    model.counts.clear()
    hit(still, model, "s", 1, None)
    hit(still, model, "s", 1, None)
    wait_until(lambda: still.direct.zcard("known:") == len(PRECISIONS), 60, "known again")
    look(still, model)


@pytest.mark.fault("clock-cleaner")
def test_redis_clock_jumps(make_clock, make_redis, make_daemon):
    """Redis' wall clock is a day ahead for five minutes: no live sample is gone when it is right again."""
    clock = make_clock().flow()
    server = make_redis(appendfsync="always", clock=clock)
    daemon = make_daemon(server, clock=clock, more=OPTIONS)
    clock.stand().align()
    direct, model = server.client(), Model()
    with daemon.client() as client:
        for name in ("a", "b", "c"):
            assert client.call("SERIES.INCRBY", name, 2) == model.hit(name, 2, clock.now, clock.now)
        live = {precision: book.get_counter(direct, "a", precision) for precision in (60, 300)}
        clock.step(0, jump_s=86400)
        for _ in range(300):
            clock.step(1)
            assert client.call("PING") == "PONG"
            time.sleep(0.005)  # the rate of the clock
        clock.step(0, jump_s=-86400)
        for precision, rows in live.items():
            assert book.get_counter(direct, "a", precision) == rows
            assert pairs(client.call("SERIES.GET", "a", precision)) == rows


def test_cleaning_many_is_out_of_the_way(make_still):
    """40,000 series past their cutoff: all cleaned, while thousands of hits are answered."""
    still, many = make_still({"series": {"precisions": [1, 60], "samples": 2}}), 40_000
    pipe = lane_with(still.direct, "known:")[0].pipeline(transaction=False)
    for at in range(many):
        pipe.zadd("known:", {f"1:old{at}": 0})
        pipe.hset(f"count:1:old{at}", still.now - at % 50, 1)
        if at % 5000 == 4999:
            pipe.execute()
    pipe.execute()
    still.step(61)
    still.clock.flow()
    hits, ends_at = 0, time.monotonic() + patience(240)
    while (left := still.direct.zcard("known:")) > 2:
        assert time.monotonic() < ends_at, f"{left} are left"
        assert isinstance(still.call("SERIES.INCRBY", "live", 1), int)
        hits += 1
        if hits % 1000 == 0:
            still.clock.step(5)
    print(f"{hits} hits meanwhile")
    assert hits > 500
    assert not list(still.direct.scan_iter("count:1:old*", count=10000))


def test_storm(make_daemon, make_redis, make_way):
    """Cuts and kills under load: no sample lost or doubled, and every precision has the same sum."""
    redis = make_redis(appendfsync="always", in_memory=True)
    proxy, url = make_way(redis)
    daemon = make_daemon(redis, redis_url=url,
                         more={"series": {"precisions": [60, 3600, 86400], "samples": 1000}})
    moment = redis.client().time()[0]

    def pick(rng):
        return (b"SERIES.INCRBY", b"n%d" % rng.randrange(8), b"%d" % rng.randrange(1, 4), b"AT",
                b"%d" % (moment - rng.randrange(20_000)))

    known = storm(daemon, redis, proxy, pick)
    settled(daemon, redis)
    assert all(reply == 3 for _, reply in known.answered)

    def sums(requests):
        made = Counter()
        for _, name, n, _, at in requests:
            made[name.decode(), int(at) // 60 * 60] += int(n)
        return made

    least, perhaps = sums(known.sure()), sums(known.unknown)
    found, members = standing(redis.client())
    minutes = Counter({(name, slot): n for (name, precision), rows in found.items() if precision == 60
                       for slot, n in rows if name != "settled"})
    assert not {key: n for key, n in minutes.items() if not least[key] <= n <= least[key] + perhaps[key]}
    assert set(least) <= set(minutes)
    for (name, precision), rows in found.items():
        added = Counter()
        for slot, n in found[name, 60]:
            added[slot - slot % precision] += n
        assert rows == sorted(added.items())
        assert f"{precision}:{name}" in members


BAD = [
    (("SERIES.INCRBY", "s"), "ERR wrong number of arguments"),
    (("SERIES.INCRBY", "s", "one"), "ERR value is not an integer or out of range"),
    (("SERIES.INCRBY", "s", "1.5"), "ERR value is not an integer or out of range"),
    (("SERIES.INCRBY", "s", str(2**63)), "ERR value is not an integer or out of range"),
    (("SERIES.INCRBY", "s", str(10**12 + 1)), "ERR "),
    (("SERIES.INCRBY", "s", "1", "AT"), "ERR "),
    (("SERIES.INCRBY", "s", "1", "AT", "soon"), "ERR value is not an integer or out of range"),
    (("SERIES.INCRBY", "s", "1", "AT", "-1"), "ERR "),
    (("SERIES.INCRBY", "s", "1", "AT", "99999999999"), "ERR "),
    (("SERIES.INCRBY", "s", "1", "ON", "5"), "ERR syntax error"),
    (("SERIES.INCRBY", "", "1"), "ERR "),
    (("SERIES.INCRBY", "x" * 513, "1"), "ERR "),
    (("SERIES.INCRBY", "a\nb", "1"), "ERR "),
    (("SERIES.GET", "s"), "ERR wrong number of arguments"),
    (("SERIES.GET", "s", "7"), "ERR precision 7 is not kept; kept are 1, 5, 60, 300"),
    (("SERIES.GET", "s", "0"), "ERR "),
    (("SERIES.GET", "s", "minute"), "ERR value is not an integer or out of range"),
    (("SERIES.GET", "s", "60", "FROM", "five", "TO", "6"), "ERR value is not an integer or out of range"),
    (("SERIES.LIST", "all"), "ERR wrong number of arguments"),
]


def test_bad_input(still):
    """Redis' own wording where Redis has the same error; nothing is counted."""
    for words, error in BAD:
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith(error), f"{words}: {reply!r}"
    assert standing(still.direct) == ({}, set())


def test_horizon_ahead(still):
    model = Model()
    hit(still, model, "s", 1, AHEAD_S)
    assert isinstance(still.call("SERIES.INCRBY", "s", 1, "AT", still.now + AHEAD_S + 2), RespError)
    get(still, model, "s", 1, None)


def test_unknown_name_and_empty_ranges(still):
    assert still.call("SERIES.GET", "nobody", 60) == []
    assert still.call("SERIES.GET", "nobody", 60, "FROM", 10, "TO", 5) == []
    assert still.call("SERIES.LIST") == []


def test_key_of_another_kind(still):
    """Somebody else's string under the name: WRONGTYPE to that client alone."""
    still.direct.set("count:5:taken", "mine")
    replies = still.client.pipeline([("SERIES.INCRBY", "free", 1), ("SERIES.INCRBY", "taken", 1),
                                     ("SERIES.INCRBY", "free", 1)])
    assert replies[0] == replies[2] == len(PRECISIONS)
    assert isinstance(replies[1], RespError) and replies[1].startswith("WRONGTYPE "), replies
    assert still.direct.get("count:5:taken") == b"mine"
    assert pairs(still.call("SERIES.GET", "free", 60)) == [(still.now - still.now % 60, 2)]
    assert isinstance(still.call("SERIES.GET", "taken", 5), RespError)


def test_in_multi(still):
    """Queued, and answered at EXEC, with hits on counters in the same frame."""
    store = next(lane_with(still.direct, "s")[1])
    with still.daemon.client() as client:
        assert client.call("MULTI") == "OK"
        assert client.call("SERIES.INCRBY", "s", 2) == "QUEUED"
        assert client.call("HINCRBY", f"s{store}:product_views", "7", 1) == "QUEUED"
        assert client.call("SERIES.INCRBY", "s", 3) == "QUEUED"
        assert client.call("EXEC") == [len(PRECISIONS), 1, len(PRECISIONS)]
    assert pairs(still.call("SERIES.GET", "s", 1)) == [(still.now, 5)]


def test_two_tallyds(make_clock, make_redis, make_daemon):
    """Both write and clean the same series: their sum, nothing lost, nothing left."""
    clock = make_clock().flow()
    redis = make_redis(appendfsync="always", clock=clock)
    daemons = [make_daemon(redis, clock=clock, instance=name, migrate=at == 0, more=OPTIONS,
                           families=counters(hits=10**9)) for at, name in enumerate(("one", "two"))]
    clock.stand().align()
    model, rng, direct = Model(), random.Random(8), redis.client()
    clients = [daemon.client() for daemon in daemons]
    for _ in range(150):
        for client in clients:
            name, at = f"n{rng.randrange(3)}", clock.now - rng.randrange(100)
            assert client.call("SERIES.INCRBY", name, 1, "AT", at) == model.hit(name, 1, at, clock.now)
        clock.step(rng.choice([1, 7, 61]))
    found, known = standing(direct)
    for (name, precision), rows in found.items():
        model.check(rows, name, precision, clock.now)
        assert f"{precision}:{name}" in known
    for name, precision in list(model.counts):
        assert not model.live(name, precision, clock.now) or (name, precision) in found
    for client in clients:
        client.close()
