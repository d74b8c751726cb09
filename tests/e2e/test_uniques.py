"""Unique visitors: bitmaps exact, sketches within 2 %, days and unions of days, a counter that holds real uniques; against
a brute-force model; cuts and kills; bad input."""
import datetime
import random
import threading
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.daemon import counters
from harness.resp import RespError, encode
from harness.storm import settled, storm
from harness.wait import patience

LIMIT = 1000
FEED = {"uniques": {"exact_below": LIMIT, "days": 0, "name": "s<store>:visitors", "feeds": {"counter": "unique_visitors"}}}
DAYS = [20071228 + at for at in range(4)] + [20080101 + at for at in range(4)]
HOUR_S = 3600


def key_of(name, day):
    """Spool's."""
    text = str(day)
    return f"{name}_{text[:4]}_{text[4:6]}_{text[6:]}"


def is_bit(visitor, limit):
    return visitor.isdigit() and str(int(visitor)) == visitor and int(visitor) < limit


class Model:
    def __init__(self, limit=LIMIT):
        self.limit, self.seen = limit, defaultdict(set)

    def add(self, name, day, visitor):
        new = visitor not in self.seen[name, day]
        self.seen[name, day].add(visitor)
        return int(new)

    def count(self, name, first, last):
        """(bits, others) of the union."""
        union = set().union(*(self.seen[name, day] for day in DAYS if first <= day <= last))
        bits = sum(is_bit(visitor, self.limit) for visitor in union)
        return bits, len(union) - bits


def check_count(reply, bits, others):
    """A sketch may be off; without one the count is exact, and says so."""
    count, how = reply
    assert how == (b"estimated" if others else b"exact"), reply
    assert abs(count - bits - others) <= (1 + others // 50 if others else 0), (reply, bits, others)


VISITORS = st.one_of(st.integers(0, 30).map(str), st.sampled_from(["999", "1000", "1001", str(2**40), str(2**63)]),
                     st.sampled_from(["ann", "bob", "007", "zoë", "a b", "-1"]))
ADD = st.tuples(st.just("add"), st.integers(0, 1), st.sampled_from(DAYS), VISITORS)
OPERATIONS = st.lists(st.one_of(
    ADD, ADD, ADD,
    st.tuples(st.just("count"), st.integers(0, 1), st.sampled_from(DAYS), st.none() | st.sampled_from(DAYS)),
    st.tuples(st.just("step"), st.sampled_from([1, 30, 100]))), min_size=5, max_size=60)


@pytest.fixture
def still(make_still):
    return make_still({"uniques": {"exact_below": LIMIT, "days": 0}})


def apply(still, model, verb, name, *args):
    if verb == "add":
        day, visitor = args
        reply, right = still.call("UNIQ.ADD", name, day, visitor), model.add(name, day, visitor)
        if is_bit(visitor, LIMIT):
            assert reply == right
            assert still.direct.getbit(key_of(name, day), int(visitor)) == 1
        else:
            assert reply in (0, right)  # a sketch may take a new one for one it has seen, never the other way round
        return
    first, last = args
    words = ("UNIQ.COUNT", name, first) + (() if last is None else (last,))
    if last is not None and last < first:
        assert isinstance(still.call(*words), (RespError, list))
        return
    check_count(still.call(*words), *model.count(name, first, first if last is None else last))


def test_model_over_an_hour(still):
    model, began, examples = Model(), still.now, [0]

    @settings(max_examples=60, deadline=None, database=None, print_blob=True,
              suppress_health_check=list(HealthCheck))
    @given(OPERATIONS)
    def run(operations):
        examples[0] += 1
        for verb, *args in operations:
            if verb == "step":
                still.step(args[0])
            else:
                apply(still, model, verb, f"u{examples[0]}:{args[0]}", *args[1:])

    run()
    while still.now < began + HOUR_S:
        still.step(60)
    for name, day in list(model.seen):
        check_count(still.call("UNIQ.COUNT", name, day), *model.count(name, day, day))
        bits = sum(is_bit(visitor, LIMIT) for visitor in model.seen[name, day])
        assert still.direct.bitcount(key_of(name, day)) == bits
    still.pass_until(lambda: not list(still.direct.scan_iter("tally:tmp:*", count=10000)), 600,
                     "temporary unions are gone")
    allowed = {kind + tail for kind in (key_of(*of) for of in model.seen) for tail in ("", ":hll")}
    found = {key.decode() for key in still.direct.scan_iter(count=10000) if not key.startswith(b"tally:")}
    assert found <= allowed


def send_all(client, name, day, visitors):
    """How many were new; one long pipeline."""
    requests = b"".join(encode(b"UNIQ.ADD", name, b"%d" % day, visitor) for visitor in visitors)
    sender = threading.Thread(target=client.send, args=(requests,), daemon=True)
    sender.start()
    replies = client.exactly(4 * len(visitors))
    sender.join(patience(60))
    new = replies.count(b":1\r\n")
    assert new + replies.count(b":0\r\n") == len(visitors)
    return new


@pytest.mark.parametrize("kind", ["bitmaps", "sketches"])
def test_a_week_of_visitors(kind, make_daemon, make_redis):
    """7 days of 100,000 visitors with overlaps: exact on bitmaps, within 2 % on sketches."""
    redis = make_redis(appendfsync="everysec")
    daemon = make_daemon(redis, more={"uniques": {"days": 0}})
    days, seen, union = [20071201 + at for at in range(7)], {}, set()
    with daemon.client() as client:
        for at, day in enumerate(days):
            ids = random.Random(at).sample(range(at * 40_000, at * 40_000 + 200_000), 100_000)
            texts = [b"%d" % number if kind == "bitmaps" else b"visitor-%d" % number for number in ids]
            seen[day] = set(ids)
            union |= seen[day]
            new = send_all(client, b"s1:visitors", day, texts)
            again = send_all(client, b"s1:visitors", day, texts[:1000])
            assert again == 0
            assert new == 100_000 if kind == "bitmaps" else new <= 100_000
        for first, last in [(at, at) for at in range(7)] + [(0, 6), (2, 4), (0, 1)]:
            right = len(set().union(*(seen[day] for day in days[first:last + 1])))
            count, how = client.call("UNIQ.COUNT", "s1:visitors", days[first], days[last])
            assert how == (b"exact" if kind == "bitmaps" else b"estimated")
            assert abs(count - right) <= (0 if kind == "bitmaps" else right * 0.02), (first, last, count, right)
        assert client.call("UNIQ.COUNT", "s1:visitors", days[0])[0] <= 102_000


@pytest.mark.parametrize("pattern", ["%d", "visitor %d"], ids=["bitmap", "sketch"])
def test_fifty_visitors(pattern, still):
    assert [still.call("UNIQ.ADD", "shop", 20071204, pattern % at) for at in range(50)] == [1] * 50
    assert [still.call("UNIQ.ADD", "shop", 20071204, pattern % at) for at in range(50)] == [0] * 50
    assert still.call("UNIQ.COUNT", "shop", 20071204)[0] == 50
    assert still.call("UNIQ.COUNT", "shop", 20071203, 20071205)[0] == 50


def test_keys_are_spools(still):
    still.call("UNIQ.ADD", "unique_users", 20071204, 5)
    still.call("UNIQ.ADD", "unique_users", 20071205, 6)
    assert still.direct.getbit("unique_users_2007_12_04", 5) == 1
    still.direct.setbit("unique_users_2007_12_05", 7, 1)  # another program's
    assert still.call("UNIQ.ADD", "unique_users", 20071205, 7) == 0
    assert still.call("UNIQ.COUNT", "unique_users", 20071204, 20071205) == [3, b"exact"]
    before = {key: still.direct.dump(key) for key in still.direct.scan_iter("unique_users*")}
    still.call("UNIQ.COUNT", "unique_users", 20071201, 20071231)
    assert {key: still.direct.dump(key) for key in still.direct.scan_iter("unique_users*")} == before


def test_edge_of_the_bitmap(still):
    """The last bit below the limit; the limit itself is sketched, and so is 2^40: no bitmap of 128 GiB."""
    day = key_of("edge", 20071204)
    assert still.call("UNIQ.ADD", "edge", 20071204, LIMIT - 1) == 1
    assert still.direct.strlen(day) == LIMIT // 8
    for visitor in (LIMIT, 2**40, 2**63 - 1, 2**64):
        assert still.call("UNIQ.ADD", "edge", 20071204, visitor) == 1
    assert still.direct.strlen(day) == LIMIT // 8
    assert still.direct.pfcount(f"{day}:hll") == 4
    assert still.call("UNIQ.COUNT", "edge", 20071204) == [5, b"estimated"]


def test_same_visitor_in_one_frame(still):
    assert still.client.pipeline([("UNIQ.ADD", "shop", 20071204, 7)] * 20) == [1] + [0] * 19
    assert still.client.pipeline([("UNIQ.ADD", "shop", 20071204, "ann")] * 20) == [1] + [0] * 19


def visitors_of(mysql):
    return {(store, int(day.strftime("%Y%m%d"))): n
            for store, day, n in mysql.query("SELECT store_id, day, visitors FROM daily_visitors")}


def test_counter_holds_uniques(make_daemon, redis, mysql):
    """daily_visitors has how many different visitors a store had that day, whatever they were told in."""
    daemon = make_daemon(redis, more=FEED)
    rng, seen = random.Random(4), defaultdict(set)
    with daemon.client() as client:
        for _ in range(100):
            hits = [(rng.randrange(1, 4), rng.choice([20140919, 20140920]), rng.randrange(200)) for _ in range(30)]
            replies = client.pipeline([("UNIQ.ADD", f"s{store}:visitors", day, visitor)
                                       for store, day, visitor in hits])
            for (store, day, visitor), reply in zip(hits, replies):
                assert reply == int(visitor not in seen[store, day])
                seen[store, day].add(visitor)
        assert client.call("UNIQ.ADD", "other", 20140920, 5) == 1  # matches no pattern: counts, and feeds nothing
    daemon.sync_all()
    assert visitors_of(mysql) == {of: len(visitors) for of, visitors in seen.items()}
    daemon.verify()


def test_storm(make_daemon, make_redis, make_way, mysql):
    """Cuts and kills: no visitor lost; answered 1 once; bits and the counter, in MySQL, agree to the last one."""
    redis = make_redis(appendfsync="always", in_memory=True)
    proxy, url = make_way(redis)
    daemon = make_daemon(redis, redis_url=url,
                         more={"uniques": {**FEED["uniques"], "exact_below": 100_000}},
                         families=counters(hits=50, every="60s"))

    def pick(rng):
        return (b"UNIQ.ADD", b"s%d:visitors" % rng.randrange(1, 4), rng.choice([b"20140919", b"20140920"]),
                b"%d" % rng.randrange(20_000))

    known = storm(daemon, redis, proxy, pick)
    settled(daemon, redis)
    daemon.sync_all()
    direct = redis.client()
    first, asked = Counter(), set(known.sure())
    for request, reply in known.answered:
        first[request] += reply
    assert max(first.values()) == 1
    lost = Counter(known.unknown) + Counter(known.counted)
    assert not [request for request in asked if not first[request] and not lost[request]], "new, and never told so"
    counted = visitors_of(mysql)
    for store in range(1, 4):
        for day in (20140919, 20140920):
            key = key_of(f"s{store}:visitors", day)
            assert direct.bitcount(key) == counted[store, day]
            mine = [request for request in asked if request[1:3] == (b"s%d:visitors" % store, b"%d" % day)]
            assert all(direct.getbit(key, int(request[3])) for request in mine)
            perhaps = {request for request in lost if request[1:3] == (b"s%d:visitors" % store, b"%d" % day)}
            assert counted[store, day] <= len(set(mine) | perhaps)
    daemon.verify()


BAD = [
    (("UNIQ.ADD", "shop", "20071204"), "ERR wrong number of arguments"),
    (("UNIQ.ADD", "shop", "today", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "20071301", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "20070229", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "2007124", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "19691231", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "29991231", "5"), "ERR "),
    (("UNIQ.ADD", "shop", "20071204", ""), "ERR "),
    (("UNIQ.ADD", "shop", "20071204", "x" * 513), "ERR "),
    (("UNIQ.ADD", "", "20071204", "5"), "ERR "),
    (("UNIQ.ADD", "x" * 513, "20071204", "5"), "ERR "),
    (("UNIQ.COUNT", "shop"), "ERR wrong number of arguments"),
    (("UNIQ.COUNT", "shop", "20070230"), "ERR "),
    (("UNIQ.COUNT", "shop", "20070101", "20090101"), "ERR "),  # more than 366 days
    (("UNIQ.COUNT", "shop", "20070101", "20070102", "20070103"), "ERR "),
]


def test_bad_input(still):
    for words, error in BAD:
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith(error), f"{words}: {reply!r}"
    assert not [key for key in still.direct.scan_iter("*_*_*")]


def test_nobody(still):
    assert still.call("UNIQ.COUNT", "nobody", 20071204) == [0, b"exact"]
    assert still.call("UNIQ.COUNT", "nobody", 20071204, 20071231) == [0, b"exact"]


def test_a_year_over_its_end(still):
    first, n = datetime.date(2007, 6, 1), 366
    days = [int((first + datetime.timedelta(at)).strftime("%Y%m%d")) for at in range(n)]
    assert still.client.pipeline([("UNIQ.ADD", "shop", day, at % 300) for at, day in enumerate(days)]) == [1] * n
    assert still.call("UNIQ.COUNT", "shop", days[0], days[-1]) == [300, b"exact"]


@pytest.mark.parametrize("taken", ["the bitmap", "the counter's hash"])
def test_key_of_another_kind(taken, make_daemon, redis, mysql):
    """WRONGTYPE to that client alone; bit and counter move together or not at all."""
    daemon = make_daemon(redis, more=FEED, families=counters(hits=10**9, every="3600s"))
    direct, bitmap, pending = redis.client(), "s1:visitors_2014_09_20", "s1:unique_visitors:daily"
    direct.rpush(bitmap if taken == "the bitmap" else pending, "mine")
    with daemon.client() as client:
        replies = client.pipeline([("UNIQ.ADD", "s2:visitors", 20140920, 5), ("UNIQ.ADD", "s1:visitors", 20140920, 5),
                                   ("UNIQ.ADD", "s2:visitors", 20140920, 6)])
        assert replies[0] == replies[2] == 1
        assert isinstance(replies[1], RespError) and replies[1].startswith("WRONGTYPE "), replies
        assert direct.exists(bitmap, pending) == 1
        if taken == "the bitmap":
            reply = client.call("UNIQ.COUNT", "s1:visitors", 20140920)
            assert isinstance(reply, RespError) and reply.startswith("WRONGTYPE "), reply
    direct.delete(bitmap, pending)
    daemon.sync_all()
    assert visitors_of(mysql) == {(2, 20140920): 2}
    daemon.verify()
