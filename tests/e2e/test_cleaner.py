"""The cleaner: whose turn it is, what others left, cuts in the middle of a pass, and a clock that leaps. That it cleans
what it should and nothing else is compared with models in test_series.py and test_events.py."""
import time

import pytest

from harness.wait import wait_until

SAMPLES = 10
OPTIONS = {"series": {"precisions": [1, 3600], "samples": SAMPLES}}
MANY = 2500  # more than two pages of names


def put(direct, now, *names):
    """Each `<precision>:<name>` with a sample that is just past its time."""
    pipe = direct.pipeline(transaction=False)
    for name in names:
        precision = int(name.split(":")[0])
        pipe.zadd("known:", {name: 0})
        pipe.hset(f"count:{name}", now - now % precision - SAMPLES * precision, 1)
    pipe.execute()


def whole_pass(still):
    """A pass from begin to end: of a precision that is not configured, the very last of all names."""
    put(still.direct, 1000, "9:~")
    still.step(61)
    still.pass_until(lambda: still.direct.zscore("known:", "9:~") is None, 900, "a pass")
    still.step(2)


@pytest.fixture
def still(make_still):
    made = make_still(OPTIONS)
    made.step(3600 - made.now % 3600 + 10)  # the next change of the hour is far
    whole_pass(made)
    return made


def test_each_precision_at_its_rate(still):
    """Seconds are cleaned each pass, hours once an hour, however many names that is."""
    hours = [f"3600:s{at}" for at in range(MANY)]
    put(still.direct, still.now, "1:b", *hours)
    still.direct.hset("count:3600:s7", still.now - still.now % 3600, 5)
    whole_pass(still)
    assert still.direct.zscore("known:", "1:b") is None
    assert still.direct.zcard("known:") == MANY
    assert still.direct.hlen("count:3600:s7") == 2
    still.step(3600 - still.now % 3600)
    whole_pass(still)
    assert still.direct.zrange("known:", 0, -1) == [b"3600:s7"]
    assert still.direct.hlen("count:3600:s7") == 1


def test_what_is_somebody_elses_stands(still):
    """Names that are no series', and keys that are no hashes, are skipped; what comes after them is cleaned."""
    still.direct.zadd("known:", {"": 0, ":": 0, "0:x": 0, "1": 0, "-1:x": 0, "1:odd": 0, "hits": 0})
    still.direct.set("count:1:odd", "mine")
    still.direct.hset("count:hits", 1, 1)
    put(still.direct, still.now, "1:a", "1:z", "59:z")
    whole_pass(still)
    assert still.direct.zrange("known:", 0, -1) == sorted([b"", b":", b"0:x", b"1", b"-1:x", b"1:odd", b"hits"])
    assert still.direct.get("count:1:odd") == b"mine"
    assert still.direct.hgetall("count:hits") == {b"1": b"1"}
    still.direct.delete("known:")
    still.direct.set("known:", "mine")
    still.call("EVENT.ADD", "blob", "submit")
    still.direct.zadd("blob:submit", {"ancient": 1})
    still.step(61)
    still.pass_until(lambda: still.direct.zscore("blob:submit", "ancient") is None, 130, "events are preened all the same")
    assert still.direct.get("known:") == b"mine"


def test_first_pass_is_soon(redis, make_daemon):
    """What a daemon that is gone left over is cleaned when the next one starts, also of precisions that it does not keep."""
    direct = redis.client()
    put(direct, int(direct.time()[0]), "1:a", "3600:a", "7:a")
    make_daemon(redis, more=OPTIONS)
    wait_until(lambda: not direct.exists("known:"), 60, "all is cleaned")
    assert not direct.keys("count:*")


def test_cut_in_a_pass(make_redis, make_proxy, make_daemon):
    """The pass goes on where it was cut, also when an answer was lost, and does not wait for the next one."""
    redis, many = make_redis(appendfsync="always", in_memory=True), 20_000
    direct, proxy = redis.client(), make_proxy(redis.socket)
    put(direct, int(direct.time()[0]), *[f"1:s{at}" for at in range(many)])
    make_daemon(redis, redis_url=f"unix://{proxy.path}?db=0", more=OPTIONS)

    def left():
        return direct.zcard("known:")

    def hangs():
        """No name goes in a tenth of a second, where each millisecond some should: an answer is due that does not come."""
        return len({(left(), time.sleep(0.005)) for _ in range(20)}) == 1

    for most in (many - 1, many // 2, many // 8):
        wait_until(lambda: left() <= most, 30, f"{most} are left", every_s=0.001)
        proxy.stall("down")
        wait_until(hangs, 60, "the answer is held back")
        assert left() > 0
        proxy.cut()
        proxy.flow()
    wait_until(lambda: left() == 0, 30, "all are cleaned")
    assert not list(direct.scan_iter("count:*"))


@pytest.mark.fault("clock-cleaner")
def test_clock_that_leaps_for_good(still):
    """A leap ahead makes nothing old at once; when it lasts ten minutes, it is the time."""
    assert still.call("SERIES.INCRBY", "hits", 1) == 2
    still.clock.step(0, jump_s=86400)
    for _ in range(9):
        still.step(61)
        put(still.direct, 1000, "9:~")
    whole_pass(still)
    assert still.direct.exists("count:3600:hits")
    still.step(61)
    still.pass_until(lambda: not still.direct.exists("count:3600:hits"), 130, "the new time is believed")
