"""One hit on a counter also moves a series, a timebox and an event log, in the same frame: they never differ."""
import random
from collections import Counter

import pytest

from harness.books import counted
from harness.daemon import counters
from harness.still import pairs
from harness.storm import settled, storm

FED = {"product_views": {"feeds": {"series": "s<store>:views", "box": "s<store>:views", "event": "s<store>:view"}}}
FAMILIES = counters(hits=10**9, every="3600s", **FED)
VIEWS = "s1:product_views"


@pytest.fixture
def still(make_still):
    return make_still({"series": {"precisions": [60, 3600], "samples": 100}}, families=FAMILIES)


def test_all_move(still):
    """The reply is the counter's; the series and the timebox have the deltas, the log an event a hit."""
    assert still.client.pipeline([("HINCRBY", VIEWS, "7", 2), ("HINCRBY", VIEWS, "8", 1), ("HINCRBY", VIEWS, "7", 3),
                                  ("HINCRBY", "s2:product_views", "7", 1),
                                  ("CTR.INCRBY", VIEWS, "7", 4)]) == [2, 1, 5, 1, 9]
    minute = still.now - still.now % 60
    assert pairs(still.call("SERIES.GET", "s1:views", 60)) == [(minute, 10)]
    assert pairs(still.call("SERIES.GET", "s1:views", 3600)) == [(still.now - still.now % 3600, 10)]
    assert pairs(still.call("SERIES.GET", "s2:views", 60)) == [(minute, 1)]
    assert pairs(still.call("BOX.RECENT", "s1:views", 0, 9)) == [(minute, 10)]
    assert still.call("EVENT.COUNT", "s1", "view", 60, 60) == [4]
    assert len(still.call("EVENT.RANGE", "s1", "view", still.now, still.now)) == 2 * 4
    assert set(still.call("SERIES.LIST")) == {b"60:s1:views", b"3600:s1:views", b"60:s2:views", b"3600:s2:views"}


def test_over_time(still):
    """Each hit is in the slot of its second, beside hits that clients give the same series themselves."""
    right, rng = Counter(), random.Random(2)
    for _ in range(100):
        n = rng.randrange(1, 5)
        assert isinstance(still.call("HINCRBY", VIEWS, str(rng.randrange(5)), n), int)
        right[still.now - still.now % 60] += n
        if rng.random() < 0.3:
            assert still.call("SERIES.INCRBY", "s1:views", 1) == 2
            right[still.now - still.now % 60] += 1
        still.step(rng.choice([1, 5, 20, 61]))
    kept = {slot: n for slot, n in right.items() if slot > still.now - 100 * 60}
    assert {slot: n for slot, n in pairs(still.call("SERIES.GET", "s1:views", 60)) if slot in kept} == kept


def test_refused_hits_feed_nothing(still):
    still.call("HINCRBY", VIEWS, "not a number", 1)
    still.call("HINCRBY", VIEWS, "7", str(10**12 + 1))
    still.call("HINCRBY", "s1:product_view", "7", 1)
    assert still.call("SERIES.GET", "s1:views", 60) == [] and still.call("BOX.RECENT", "s1:views", 0, 5) == []


def test_fed_key_of_another_kind(still):
    """What a feed cannot write does not cost the hit, nor the other feeds."""
    still.direct.set("count:60:s1:views", "mine")
    still.direct.set("tb.s1:views", "mine")
    assert still.client.pipeline([("HINCRBY", VIEWS, "7", 1), ("HINCRBY", "s2:product_views", "7", 1)]) == [1, 1]
    assert still.call("HINCRBY", VIEWS, "7", 1) in (1, 2)  # the first one may have been claimed by now
    assert still.direct.get("count:60:s1:views") == still.direct.get("tb.s1:views") == b"mine"
    assert not still.direct.exists("pv.s1:views")
    assert still.call("EVENT.COUNT", "s1", "view", 60, 60) == [2]
    assert pairs(still.call("BOX.RECENT", "s2:views", 0, 1))[0][1] == 1


def test_storm(make_daemon, make_redis, make_way, mysql):
    """Cuts and kills: counter, series and timebox have the same sum to the last hit, and the log an event for each."""
    redis = make_redis(appendfsync="always", in_memory=True)
    proxy, url = make_way(redis)
    families = counters(hits=50, every="60s", **FED)
    daemon = make_daemon(redis, redis_url=url, families=families,
                         more={"series": {"precisions": [3600, 86400], "samples": 1000},
                               "boxes": {"width": "3600s", "keep": 1000}})

    def pick(rng):
        return (b"HINCRBY", b"s%d:product_views" % rng.randrange(1, 4), b"%d" % rng.randrange(9),
                b"%d" % rng.randrange(1, 4))

    known = storm(daemon, redis, proxy, pick)
    settled(daemon, redis)
    daemon.sync_all()
    daemon.verify()
    daemon.terminate()
    direct, views = redis.client(), Counter()
    for (key, _), n in counted(direct, mysql, families).items():
        views[key] += n
    requests = Counter(request[1] for request in known.sure())
    perhaps = Counter(request[1] for request in known.unknown)
    for store in range(1, 4):
        key = b"s%d:product_views" % store
        for precision in (3600, 86400):
            assert sum(map(int, direct.hvals(f"count:{precision}:s{store}:views"))) == views[key]
        assert sum(n for _, n in direct.zrange(f"pv.s{store}:views", 0, -1, withscores=True)) == views[key]
        assert requests[key] <= direct.zcard(f"s{store}:view") <= requests[key] + perhaps[key]
        assert direct.get(f"s{store}:index") == b"%d" % direct.zcard(f"s{store}:view")
