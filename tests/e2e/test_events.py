"""Events: lossless, unique ids, any window after the fact, the cache equal to the log, late events, preening by tiers,
against a brute-force model; cuts and kills; bad input."""
import random
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.resp import RespError
from harness.storm import settled, storm

KEEP_S, AHEAD_S = 600, 60
TIERS = ((5, 900), (60, 1800))  # cached windows of that size or smaller are kept that long; bigger ones as the last
OPTIONS = {"events": {"keep": f"{KEEP_S}s", "windows": ", ".join(f"{window}s {keep}s" for window, keep in TIERS)}}
HOUR_S = 3600
PREENED_S = 130  # the cleaner comes once a minute


def log_of(direct, name, kind):
    """[(id, second)] as in Redis, by second, then by id."""
    return [(member, int(second)) for member, second in direct.zrange(f"{name}:{kind}", 0, -1, withscores=True)]


def events_of(reply):
    assert len(reply) % 2 == 0, reply
    return [(reply[at], int(reply[at + 1])) for at in range(0, len(reply), 2)]


class Model:
    """Every event that was added, also those that are preened since."""

    def __init__(self):
        self.logs = defaultdict(dict)  # (name, type) -> id -> second
        self.given = defaultdict(set)  # name -> the ticker's ids

    def add(self, name, kind, second, own, reply, stood):
        """own: the id that came with it, or None; stood: whether Redis had that id already."""
        log = self.logs[name, kind]
        if own is None:
            assert isinstance(reply, bytes) and reply not in self.given[name] and reply not in log, reply
            self.given[name].add(reply)
            log[reply] = second
            return
        assert reply == own
        if not stood:
            log[own] = second

    def range(self, name, kind, first, last):
        return sorted(((own, second) for own, second in self.logs[name, kind].items() if first <= second <= last),
                      key=lambda event: (event[1], event[0]))

    def count(self, name, kind, first, window):
        return sum(first <= second < first + window for second in self.logs[name, kind].values())


def windows_of(now, span, window):
    """The starts: aligned to the clock, the last one is still open."""
    return [now - now % window - at * window for at in range(span // window)][::-1]


def check_counts(still, model, name, kind, span, window):
    """Each window that is wholly kept: the model's count; older ones, cached or preened: at most that."""
    counts = still.call("EVENT.COUNT", name, kind, span, window)
    starts = windows_of(still.now, span, window)
    assert isinstance(counts, list) and len(counts) == len(starts), counts
    for start, count in zip(starts, counts):
        right = model.count(name, kind, start, window)
        assert count == right if start > still.now - KEEP_S else 0 <= count <= right, (start, count, right)
    return {start: count for start, count in zip(starts, counts) if start > still.now - KEEP_S}


def check_range(still, model, name, kind, first, last):
    read = events_of(still.call("EVENT.RANGE", name, kind, first, last))
    right = model.range(name, kind, first, last)
    kept = still.now - KEEP_S
    assert [event for event in read if event[1] > kept] == [event for event in right if event[1] > kept]
    assert set(read) <= set(right)


def too_old(still):
    """What is in Redis past its time: events, and cached windows by their tier."""
    found = []
    for key in still.direct.scan_iter(count=1000):
        kind = still.direct.type(key)
        if key.startswith(b"statcache:"):
            for field in still.direct.hkeys(key):
                _, start, window = field.rsplit(b":", 2) if field.count(b":") >= 2 else (None, b"", b"")
                if start.isdigit() and window.isdigit():
                    keep = next((keep for size, keep in TIERS if int(window) <= size), TIERS[-1][1])
                    if int(start) + int(window) <= still.now - keep:
                        found.append((key, field))
        elif kind == b"zset" and not key.startswith(b"tally:"):
            found += [(key, member) for member in still.direct.zrangebyscore(key, "-inf", still.now - KEEP_S - 1)]
    return found


OFFSETS = st.one_of(st.none(), st.integers(-60, AHEAD_S), st.integers(-KEEP_S - 60, 0),
                    st.sampled_from([-KEEP_S - 1, -KEEP_S, -KEEP_S + 1, AHEAD_S, 0, -1]))
WINDOWS = st.sampled_from([1, 5, 7, 60, 120])
CYCLE_S = 840  # so often they all begin together
ADD = st.tuples(st.just("add"), st.integers(0, 1), st.integers(0, 1), OFFSETS, st.none() | st.integers(0, 3))
OPERATIONS = st.lists(st.one_of(
    ADD, ADD, ADD,
    st.tuples(st.just("count"), st.integers(0, 1), st.integers(0, 1), st.integers(1, 900), WINDOWS),
    st.tuples(st.just("range"), st.integers(0, 1), st.integers(0, 1), st.integers(-900, 60), st.integers(0, 900)),
    st.tuples(st.just("step"), st.sampled_from([1, 5, 13, 59, 60, 200]))), min_size=5, max_size=50)


@pytest.fixture
def still(make_still):
    return make_still(OPTIONS)


def add(still, model, name, kind, offset, own=None):
    at = still.now if offset is None else still.now + offset
    words = ("EVENT.ADD", name, kind) + (() if offset is None else ("AT", at)) + (() if own is None else ("ID", own))
    if offset is not None and offset < -KEEP_S:
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith(f"ERR time {at} is too long ago"), reply
        return
    stood = own is not None and still.direct.zscore(f"{name}:{kind}", own) is not None
    model.add(name, kind, at, own, still.call(*words), stood)


def apply(still, model, example, verb, name, kind, *args):
    name, kind = f"e{example}:{name}", f"type{kind}"
    if verb == "add":
        offset, own = args
        add(still, model, name, kind, offset, own if own is None else b"own%d" % own)
    elif verb == "count":
        span, window = max(args), args[1]
        counted = check_counts(still, model, name, kind, span, window)
        assert check_counts(still, model, name, kind, span, window) == counted  # now from the cache
    else:
        check_range(still, model, name, kind, still.now + args[0], still.now + args[0] + args[1])


def test_model_over_an_hour(still):
    model, began, examples = Model(), still.now, [0]

    @settings(max_examples=60, deadline=None, database=None, print_blob=True,
              suppress_health_check=list(HealthCheck))
    @given(st.integers(0, CYCLE_S - 1), OPERATIONS)
    def run(phase, operations):
        examples[0] += 1
        still.begin_at(phase, CYCLE_S)
        for verb, *args in operations:
            if verb == "step":
                still.step(args[0])
            else:
                apply(still, model, examples[0], verb, *args)

    run()
    while still.now < began + HOUR_S:
        still.step(61)
        add(still, model, "last", "type0", None)
        check_counts(still, model, "last", "type0", 600, 60)
    for name, kind in list(model.logs):
        check_range(still, model, name, kind, 0, still.now + AHEAD_S)
    still.pass_until(lambda: not too_old(still), PREENED_S, "what is past its time is preened")
    for name, kind in list(model.logs):
        check_range(still, model, name, kind, 0, still.now + AHEAD_S)
    still.step(max(keep for _, keep in TIERS) + 121)
    still.pass_until(lambda: not too_old(still), PREENED_S, "later everything is past its time")
    assert not [log for log in model.logs if log_of(still.direct, *log)]


def test_cache_equals_log(still):
    """10,000 random windows: from the cache, from the log, and the model; with late events in between."""
    model, rng, compared = Model(), random.Random(7), 0
    while compared < 10_000:
        for _ in range(10):
            add(still, model, "web", "login", rng.choice([None, -rng.randrange(550), -rng.randrange(30)]))
        window = rng.choice([1, 2, 5, 7, 10, 30, 60, 97])
        span = window * rng.randrange(1, 550 // window + 1) + rng.randrange(window)
        first = check_counts(still, model, "web", "login", span, window)
        add(still, model, "web", "login", -rng.randrange(span + 5))  # late: drops what it falls in
        cached = check_counts(still, model, "web", "login", span, window)
        if rng.random() < 0.3:
            still.direct.delete("statcache:login")
            assert check_counts(still, model, "web", "login", span, window) == cached
        compared += len(first) + len(cached)
        still.step(rng.choice([1, 2, 5, 20]))


def test_only_closed_windows_are_cached(still):
    for back in range(50):
        add(still, Model(), "web", "login", -back)
    still.call("EVENT.COUNT", "web", "login", 50, 5)
    fields = {field.decode() for field in still.direct.hkeys("statcache:login")}
    opened = still.now - still.now % 5
    assert f"web:{opened}:5" not in fields
    assert {f"web:{opened - 5 * at}:5" for at in range(1, 10)} <= fields
    for field in fields - {"web:windows"}:
        assert int(field.split(":")[1]) % 5 == 0


def test_cached_windows_outlive_their_events(still):
    """Events are kept 10 minutes, counts of 5 s windows 15: after 12 the counts are still there, the events are gone."""
    model = Model()
    for at in range(60):
        add(still, model, "web", "login", -at)
    still.step(65)
    starts = windows_of(still.now, 130, 5)
    counts = dict(zip(starts, still.call("EVENT.COUNT", "web", "login", 130, 5)))
    assert sum(counts.values()) == 60
    still.step(KEEP_S)
    still.pass_until(lambda: not log_of(still.direct, "web", "login"), PREENED_S, "events are preened")
    later = dict(zip(windows_of(still.now, 895, 5), still.call("EVENT.COUNT", "web", "login", 895, 5)))
    for start in starts[:-1]:
        if start > still.now - 890:
            assert later[start] == counts[start]
    still.step(900)
    still.pass_until(lambda: not too_old(still), PREENED_S, "the counts are preened too")
    assert set(still.call("EVENT.COUNT", "web", "login", 895, 5)) == {0}


def test_preened_to_the_second(make_still):
    """An event a second, over twice the time that they are kept: what is kept is there at every look, the rest goes."""
    keep_s = 200
    still = make_still({"events": {"keep": f"{keep_s}s"}})
    began = still.now
    for _ in range(2 * keep_s):
        still.call("EVENT.ADD", "web", "login")
        still.step(1)
        seconds = [second for _, second in log_of(still.direct, "web", "login")]
        assert seconds == list(range(seconds[0], still.now))
        assert began <= seconds[0] <= max(began, still.now - keep_s)
        assert seconds[0] >= still.now - keep_s - PREENED_S
    assert seconds[0] > began


def test_many_ids_at_once(still):
    """Numbers are unique: a log's come from its leases, and the ticker is one for all types of a name."""
    replies = still.client.pipeline([("EVENT.ADD", "blob", "submit")] * 2000)
    numbers = [int(reply) for reply in replies]
    ticker = int(still.direct.get("blob:index"))
    assert len(set(numbers)) == 2000 and max(numbers) <= ticker <= 2000 + 1000
    assert {member for member, _ in log_of(still.direct, "blob", "submit")} == set(replies)
    assert int(still.call("EVENT.ADD", "blob", "other")) == ticker + 1
    for _ in range(50):
        replies += still.client.pipeline([("EVENT.ADD", "blob", "submit")] * 7)
    assert len(set(replies)) == 2350
    assert {member for member, _ in log_of(still.direct, "blob", "submit")} == set(replies)


def test_given_number_that_may_be_leased(still):
    """Of a log that has had a lease, a number at or below it that does not exist may be any client's: refused, alone."""
    replies = still.client.pipeline([("EVENT.ADD", "blob", "submit"), ("EVENT.ADD", "blob", "submit")])
    leased = int(still.direct.hget("tally:leased", "blob:submit").split()[0])
    assert leased > int(replies[1])
    good, bad, text, large = still.client.pipeline([("EVENT.ADD", "blob", "submit", "ID", replies[0]),
                                                    ("EVENT.ADD", "blob", "submit", "ID", leased),
                                                    ("EVENT.ADD", "blob", "submit", "ID", f"n{leased}"),
                                                    ("EVENT.ADD", "blob", "submit", "ID", leased + 1)])
    assert (good, text, large) == (replies[0], b"n%d" % leased, b"%d" % (leased + 1))
    assert isinstance(bad, RespError) and bad.startswith(f"ERR id {leased} may be a number that another event gets"), bad
    given = still.client.pipeline([("EVENT.ADD", "blob", "submit")] * 100)
    ids = {*replies, text, large, *given}
    assert len(ids) == 104 and {member for member, _ in log_of(still.direct, "blob", "submit")} == ids
    assert still.call("EVENT.ADD", "blob", "other", "ID", leased) == b"%d" % leased  # a log of its own


def test_a_log_that_was_preened_is_found_again(still):
    """The cleaner takes out a log's name while this process writes the log without naming it."""
    add(still, Model(), "web", "login", None)
    still.step(KEEP_S)
    still.pass_until(lambda: still.direct.zscore("tally:events", "web:login") is None, PREENED_S, "an empty log goes")
    add(still, Model(), "web", "login", None)
    still.pass_until(lambda: still.direct.zscore("tally:events", "web:login") is not None, 5, "its name is back")
    assert len(log_of(still.direct, "web", "login")) == 1
    still.step(KEEP_S)
    still.pass_until(lambda: not log_of(still.direct, "web", "login"), PREENED_S, "what came later is preened as well")


def test_given_id_keeps_its_first_time(still):
    early, late = still.now - 100, still.now - 50
    assert still.call("EVENT.ADD", "blob", "submit", "AT", early, "ID", "a") == b"a"
    assert still.call("EVENT.ADD", "blob", "submit", "AT", late, "ID", "a") == b"a"
    assert still.call("EVENT.ADD", "blob", "submit", "ID", "a", "AT", late) == b"a"
    assert log_of(still.direct, "blob", "submit") == [(b"a", early)]
    assert still.client.pipeline([("EVENT.ADD", "blob", "submit", "ID", "b")] * 3) == [b"b"] * 3
    assert log_of(still.direct, "blob", "submit") == [(b"a", early), (b"b", still.now)]


def test_given_id_keeps_its_first_time_among_many(still):
    """However many are on their way: in large frames and small ones, before and behind each other."""
    first = {}
    for size in (40, 1, 100, 3, 1):
        asked = [("EVENT.ADD", f"log{at % 7}", "submit", "AT", still.now - size - at, "ID", f"id{at % 5}") for at in range(size)]
        for words in asked:
            first.setdefault((words[1], words[6].encode()), words[4])
        replies = still.client.pipeline(asked + [("EVENT.ADD", f"log{at % 7}", "submit") for at in range(size)])
        assert replies[:size] == [words[6].encode() for words in asked]
    for (name, own), second in first.items():
        assert dict(log_of(still.direct, name, "submit"))[own] == second, (name, own)


def test_given_id_that_the_ticker_comes_to(still):
    """No event is lost when a client chose the number that the ticker would give next."""
    assert still.call("EVENT.ADD", "blob", "submit", "ID", "1") == b"1"
    assert still.call("EVENT.ADD", "blob", "submit", "ID", "3") == b"3"
    given = [still.call("EVENT.ADD", "blob", "submit") for _ in range(4)]
    assert len({b"1", b"3", *given}) == 6
    assert {member for member, _ in log_of(still.direct, "blob", "submit")} == {b"1", b"3", *given}


def test_seeds_reader(still):
    """The seed's own retrieve(): ZRANGEBYSCORE over the log; and events that it wrote are read by tallyd."""
    model = Model()
    for at in range(20):
        add(still, model, "blob", "submit", -at)
    now = still.now
    assert len(still.direct.zrangebyscore("blob:submit", now - 9, now)) == 10
    still.direct.zadd("blob:submit", {str(still.direct.incr("blob:index")): now})
    assert len(events_of(still.call("EVENT.RANGE", "blob", "submit", now, now))) == 2
    assert still.call("EVENT.COUNT", "blob", "submit", 1, 1) == [2]


def test_storm(make_daemon, make_redis, make_way):
    """Cuts and kills: each answered event is there once under the id it was answered with; none is doubled."""
    redis = make_redis(appendfsync="always", in_memory=True)
    proxy, url = make_way(redis)
    daemon = make_daemon(redis, redis_url=url)
    moment, direct = redis.client().time()[0], redis.client()

    def pick(rng):
        words = (b"EVENT.ADD", b"n%d" % rng.randrange(3), b"t%d" % rng.randrange(2), b"AT",
                 b"%d" % (moment - rng.randrange(20_000)))
        return words + ((b"ID", b"own%x" % rng.getrandbits(64)) if rng.random() < 0.5 else ())

    known = storm(daemon, redis, proxy, pick)
    settled(daemon, redis)
    found = {(name, kind): dict(log_of(direct, name, kind)) for name in ("n0", "n1", "n2") for kind in ("t0", "t1")}
    ticked = defaultdict(set)
    for (_, name, kind, _, at, *own), reply in known.answered:
        assert found[name.decode(), kind.decode()].get(reply) == int(at), (name, kind, reply)
        assert not own or own[1] == reply
        if not own:
            assert reply not in ticked[name], "an id was given twice"
            ticked[name].add(reply)
    for _, name, kind, _, at, *own in known.counted:
        assert not own or found[name.decode(), kind.decode()].get(own[1]) == int(at)
    asked = {request[6] for request in known.sure() + known.unknown if len(request) > 5}
    for log in found.values():
        assert {own for own in log if own.startswith(b"own")} <= asked
    for name in (b"n0", b"n1", b"n2"):
        numbers = sum(not own.startswith(b"own") for (of, _), log in found.items() if of == name.decode() for own in log)
        least = sum(request[1] == name and len(request) == 5 for request in known.sure())
        perhaps = sum(request[1] == name and len(request) == 5 for request in known.unknown)
        assert least <= numbers <= least + perhaps
    seconds = Counter(int(request[4]) for request in known.sure())
    stand = Counter(second for log in found.values() for second in log.values())
    assert not seconds - stand


BAD = [
    (("EVENT.ADD", "web"), "ERR wrong number of arguments"),
    (("EVENT.ADD", "web", "login", "AT"), "ERR "),
    (("EVENT.ADD", "web", "login", "AT", "-1"), "ERR "),
    (("EVENT.ADD", "web", "login", "AT", "now"), "ERR value is not an integer or out of range"),
    (("EVENT.ADD", "web", "login", "AT", "99999999999"), "ERR "),
    (("EVENT.ADD", "web", "login", "AT", "1"), "ERR time 1 is too long ago: events are kept for "),
    (("EVENT.ADD", "web", "login", "ID"), "ERR "),
    (("EVENT.ADD", "web", "login", "ID", ""), "ERR "),
    (("EVENT.ADD", "web", "login", "ID", "x" * 513), "ERR "),
    (("EVENT.ADD", "web", "login", "AS", "x"), "ERR syntax error"),
    (("EVENT.ADD", "", "login"), "ERR "),
    (("EVENT.ADD", "web", ""), "ERR "),
    (("EVENT.ADD", "web", "index"), "ERR "),  # the ticker's key
    (("EVENT.ADD", "tally", "dirty"), "ERR "),
    (("EVENT.RANGE", "web", "login", "0"), "ERR wrong number of arguments"),
    (("EVENT.RANGE", "web", "login", "a", "9"), "ERR value is not an integer or out of range"),
    (("EVENT.COUNT", "web", "login", "60"), "ERR wrong number of arguments"),
    (("EVENT.COUNT", "web", "login", "60", "0"), "ERR "),
    (("EVENT.COUNT", "web", "login", "60", "-5"), "ERR "),
    (("EVENT.COUNT", "web", "login", "0", "5"), "ERR "),
    (("EVENT.COUNT", "web", "login", "-60", "5"), "ERR "),
    (("EVENT.COUNT", "web", "login", "60", "x"), "ERR value is not an integer or out of range"),
    (("EVENT.COUNT", "web", "login", "4000000000", "1"), "ERR "),  # four thousand million windows
]


def test_bad_input(still):
    for words, error in BAD:
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith(error), f"{words}: {reply!r}"
    assert not still.direct.exists("web:login", "web:index", ":login", "web:", "statcache:login")


def test_nobody(still):
    assert still.call("EVENT.RANGE", "nobody", "none", 0, still.now) == []
    assert still.call("EVENT.RANGE", "nobody", "none", 10, 5) == []
    assert still.call("EVENT.COUNT", "nobody", "none", 25, 5) == [0] * 5


def test_key_of_another_kind(still):
    """The key of the log or the ticker is another program's: WRONGTYPE to that client alone, and nothing moves."""
    still.direct.rpush("web:login", "mine")
    still.direct.rpush("shop:index", "mine")
    replies = still.client.pipeline([("EVENT.ADD", "free", "login"), ("EVENT.ADD", "web", "login"),
                                     ("EVENT.ADD", "shop", "login"), ("EVENT.ADD", "free", "login")])
    assert replies[0] == b"1" and replies[3] == b"2"
    for reply in replies[1:3]:
        assert isinstance(reply, RespError) and reply.startswith("WRONGTYPE "), reply
    assert still.direct.lrange("web:login", 0, -1) == still.direct.lrange("shop:index", 0, -1) == [b"mine"]
    assert not still.direct.exists("web:index", "shop:login")
    for words in (("EVENT.RANGE", "web", "login", 0, still.now), ("EVENT.COUNT", "web", "login", 60, 5)):
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith("WRONGTYPE "), reply
