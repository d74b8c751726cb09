"""Timeboxes: both sorted sets hold the same buckets at every look, reads equal a brute-force model, cuts and kills, bad
input."""
import random
import threading
import time
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.moment import Hold
from harness.resp import RespError, encode
from harness.still import pairs
from harness.storm import settled, storm
from harness.wait import patience, wait_until

WIDTH_S, KEEP, AHEAD_S = 10, 5, 60
ROOMY = 14  # enough that most buckets cannot have gone by the clock: their hits go without a script
HOUR_S = 3600


def options(keep):
    return {"boxes": {"width": f"{WIDTH_S}s", "keep": keep}}


class Model:
    """The last KEEP buckets of each name."""

    def __init__(self, width_s=WIDTH_S, keep=KEEP):
        self.width_s, self.keep = width_s, keep
        self.boxes = defaultdict(dict)  # name -> bucket -> hits

    def hit(self, name, n, at):
        box, bucket = self.boxes[name], at - at % self.width_s
        if bucket not in box and len(box) >= self.keep and bucket < min(box):
            return 0
        box[bucket] = box.get(bucket, 0) + n
        for old in sorted(box)[:-self.keep]:
            del box[old]
        return box[bucket]

    def recent(self, name, offset, limit):
        return sorted(self.boxes[name].items(), reverse=True)[offset:offset + limit]

    def top(self, name, n):
        """Of equal ones the newer."""
        return sorted(self.boxes[name].items(), key=lambda item: (item[1], item[0]), reverse=True)[:n]

    def bottom(self, name, n):
        return sorted(self.boxes[name].items(), key=lambda item: (item[1], item[0]))[:n]


def both_sets(direct, name):
    """(tb, pv) of one moment: bucket -> score."""
    with direct.pipeline(transaction=True) as pipe:
        for kind in ("tb", "pv"):
            pipe.zrange(f"{kind}.{name}", 0, -1, withscores=True)
        return [{int(bucket): score for bucket, score in found} for found in pipe.execute()]


def look(direct, name, keep=KEEP):
    """Both sets hold the same buckets, each with its own time as score, not more than are kept; bucket -> hits."""
    times, hits = both_sets(direct, name)
    assert times.keys() == hits.keys()
    assert all(bucket == score for bucket, score in times.items())
    assert len(times) <= keep
    return {bucket: int(n) for bucket, n in hits.items()}


def check(still, model, name):
    assert look(still.direct, name, model.keep) == model.boxes[name]


def operations(keep):
    offsets = st.one_of(st.none(), st.integers(-WIDTH_S * (keep + 3), AHEAD_S), st.integers(-WIDTH_S * keep, 0),
                        st.sampled_from([-WIDTH_S * k + d for k in range(keep + 2) for d in (-1, 0, 1)]))
    hit = st.tuples(st.just("hit"), st.integers(0, 1), st.integers(1, 9), offsets)
    return st.lists(st.one_of(
        hit, hit, hit,
        st.tuples(st.just("recent"), st.integers(0, 1), st.integers(0, keep + 2), st.integers(1, keep + 2)),
        st.tuples(st.sampled_from(["top", "bottom"]), st.integers(0, 1), st.integers(1, keep + 2)),
        st.tuples(st.just("step"), st.sampled_from([1, 9, 10, 11, 35, 100, 300]))), min_size=5, max_size=50)


@pytest.fixture
def still(make_still):
    return make_still(options(KEEP))


def apply(still, model, verb, name, *args):
    if verb == "hit":
        n, offset = args
        at = still.now if offset is None else still.now + offset
        words = ("BOX.INCRBY", name, n) + (() if offset is None else ("AT", at))
        assert still.call(*words) == model.hit(name, n, at), words
        check(still, model, name)
    else:
        assert pairs(still.call(f"BOX.{verb.upper()}", name, *args)) == getattr(model, verb)(name, *args), (verb, args)


@pytest.mark.parametrize("keep", [KEEP, ROOMY])
def test_model_over_an_hour(make_still, keep):
    still = make_still(options(keep))
    model, began, examples = Model(keep=keep), still.now, [0]

    @settings(max_examples=60, deadline=None, database=None, print_blob=True,
              suppress_health_check=list(HealthCheck))
    @given(st.integers(0, WIDTH_S - 1), operations(keep))
    def run(phase, made):
        examples[0] += 1
        still.begin_at(phase, WIDTH_S)
        for verb, *args in made:
            if verb == "step":
                still.step(args[0])
            else:
                apply(still, model, verb, f"p{examples[0]}:{args[0]}", *args[1:])

    run()
    while still.now < began + HOUR_S:
        still.step(WIDTH_S)
        apply(still, model, "hit", "last", 1, None)
    for name in list(model.boxes):
        check(still, model, name)


def test_one_pipeline_is_one_frame(still):
    """Many hits on few buckets in one go: each client's own running value, also of buckets that fall out on the way."""
    rng = random.Random(3)
    for at_once in range(30):
        hits = [(rng.randrange(1, 4), still.now - rng.randrange(WIDTH_S * (KEEP + 2))) for _ in range(16)]
        replies = still.client.pipeline([("BOX.INCRBY", f"one:{at_once}", n, "AT", at) for n, at in hits])
        values, kept = defaultdict(int), look(still.direct, f"one:{at_once}")
        for (n, at), reply in zip(hits, replies):
            bucket = at - at % WIDTH_S
            values[bucket] += n
            assert reply in (values[bucket], 0), (hits, replies)
            assert reply == values[bucket] or bucket not in kept
        newest = sorted(values)[-KEEP:]
        assert kept == {bucket: values[bucket] for bucket in newest}


def calls(direct, command):
    return direct.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0)


def test_many_names_at_once(make_daemon, make_redis):
    """Hits that wait in a journal answer their bucket's hits, too."""
    redis = make_redis()
    daemon = make_daemon(redis, more={"boxes": {"width": "1h", "keep": 5}})
    direct, hits, waited = redis.client(), [0] * 40, False
    with daemon.client() as client:
        for _ in range(6):
            answers = client.pipeline([("BOX.INCRBY", f"many{n}", 3) for n in range(40)])
            assert all(now in (before + 3, 3) for before, now in zip(hits, answers))  # 3: a new hour began
            hits, waited = answers, waited or direct.exists("tally:journals")
    assert waited


def test_a_hit_on_a_bucket_that_stood_is_one_command(make_still):
    """Also a late one, until newer buckets may have pushed it out."""
    still = make_still(options(ROOMY))
    late = still.now - 3 * WIDTH_S
    for at in (still.now, late):
        assert still.call("BOX.INCRBY", "b", 1, "AT", at) == 1
    scripts, before = calls(still.direct, "zscore"), calls(still.direct, "zincrby")
    for at in (still.now, late, still.now):
        assert still.call("BOX.INCRBY", "b", 1, "AT", at) > 1
    assert (calls(still.direct, "zscore"), calls(still.direct, "zincrby")) == (scripts, before + 3)
    still.step((ROOMY - AHEAD_S // WIDTH_S) * WIDTH_S)
    assert still.call("BOX.INCRBY", "b", 1, "AT", late) == 3
    assert calls(still.direct, "zscore") == scripts + 2
    assert len(look(still.direct, "b", ROOMY)) == 2


def test_somebody_deletes_a_box(make_still):
    """A moment later both sets hold what came after that."""
    still = make_still(options(ROOMY))
    now, late = still.now, still.now - 2 * WIDTH_S
    for _ in range(3):
        for at in (now, late):
            still.call("BOX.INCRBY", "b", 1, "AT", at)
    still.direct.delete("tb.b", "pv.b")
    assert still.client.pipeline([("BOX.INCRBY", "b", n, "AT", at) for at in (now, late) for n in (2, 3)]) == [2, 5] * 2
    still.step(1)
    assert look(still.direct, "b", ROOMY) == {at - at % WIDTH_S: 5 for at in (now, late)}
    assert still.call("BOX.INCRBY", "b", 1, "AT", now) == 6


def test_deleted_under_the_hit_of_a_dead_tallyd(make_daemon, make_proxy, redis):
    """The hit lay unread when tallyd died, and its answer, which would show that the box is gone, is lost. The next
    new bucket brings it into both sets."""
    proxy, direct = make_proxy(redis.socket), redis.client()
    daemon = make_daemon(redis, redis_url=f"unix://{proxy.path}?db=0")
    minute = int(time.time()) // 60 * 60
    unread = Hold(proxy, "up", b"\r\n$7\r\nZINCRBY\r\n")
    with daemon.client() as client:
        assert client.call("BOX.INCRBY", "b", 1, "AT", minute) == 1
        client.send(encode("BOX.INCRBY", "b", 3, "AT", minute))
        unread.wait_held()
        daemon.kill9()
    direct.delete("tb.b", "pv.b")
    unread.let_go()
    wait_until(lambda: direct.exists("pv.b"), 60, "Redis reads the hit")
    assert both_sets(direct, "b") == [{}, {minute: 3}]
    with daemon.start().client() as client:
        assert client.call("BOX.INCRBY", "b", 1, "AT", minute - 60) == 1
        assert pairs(client.call("BOX.RECENT", "b", 0, 5)) == [(minute, 3), (minute - 60, 1)]
    assert look(direct, "b", 60) == {minute - 60: 1, minute: 3}


def test_the_clock_leaps_there_and_back(make_still):
    """What it brought there stays, so the buckets from before are too old, and go from both sets."""
    still = make_still(options(ROOMY))

    def takes(at):
        return still.call("BOX.INCRBY", "other", 1, "AT", at) in range(1, 1000)

    still.call("BOX.INCRBY", "b", 1)
    still.call("BOX.INCRBY", "b", 1)
    still.clock.step(0, jump_s=HOUR_S)
    still.pass_until(lambda: takes(still.now), 60, "tallyd follows Redis' clock")
    for at in range(ROOMY):
        assert still.call("BOX.INCRBY", "b", 1, "AT", still.now - at * WIDTH_S) == 1
    before = look(still.direct, "b", ROOMY)
    still.clock.step(0, jump_s=-HOUR_S)
    still.pass_until(lambda: not takes(still.now + HOUR_S), 60, "tallyd follows it back")
    still.call("BOX.INCRBY", "b", 5)
    still.step(1)
    assert look(still.direct, "b", ROOMY) == before


def test_minutes_are_minutes(make_still):
    """The defaults: 60 minutes, and hits an hour apart are in different buckets (the seed's % 60 mixed them)."""
    still = make_still()
    minute = still.now - still.now % 60
    assert [still.call("BOX.INCRBY", "home", 1, "AT", minute - 60 * at) for at in range(61)] == [1] * 60 + [0]
    assert still.call("BOX.INCRBY", "home", 4) == 5
    assert pairs(still.call("BOX.RECENT", "home", 0, 2)) == [(minute, 5), (minute - 60, 1)]
    assert pairs(still.call("BOX.RECENT", "home", 58, 10)) == [(minute - 58 * 60, 1), (minute - 59 * 60, 1)]
    assert pairs(still.call("BOX.TOP", "home", 1)) == [(minute, 5)]
    still.step(60)
    assert still.call("BOX.INCRBY", "home", 1) == 1
    assert len(look(still.direct, "home", keep=60)) == 60


def test_sets_agree_at_every_look(make_daemon, redis):
    """Four clients write; another reads both sets, and through tallyd: never torn."""
    daemon = make_daemon(redis, more={"boxes": {"width": "1s", "keep": 4}})
    direct, moment, ending = redis.client(), redis.client().time()[0], threading.Event()

    def write(seed):
        rng = random.Random(seed)
        with daemon.client() as client:
            while not ending.is_set():
                client.pipeline([("BOX.INCRBY", "torn", 1, "AT", moment - rng.randrange(30)) for _ in range(16)])

    writers = [threading.Thread(target=write, args=(seed,), daemon=True) for seed in range(4)]
    for writer in writers:
        writer.start()
    with daemon.client() as client:
        for _ in range(1000):
            look(direct, "torn", keep=4)
            read = pairs(client.call("BOX.RECENT", "torn", 0, 10))
            assert len(read) <= 4 and all(n > 0 for _, n in read)
            assert len(set(bucket for bucket, _ in read)) == len(read)
    ending.set()
    for writer in writers:
        writer.join(patience(30))
    assert sorted(look(direct, "torn", keep=4)) == [moment - 3, moment - 2, moment - 1, moment]


def test_storm(make_daemon, make_redis, make_way):
    """Cuts and kills: no hit lost or doubled, the sets equal."""
    redis = make_redis(appendfsync="always", in_memory=True)
    proxy, url = make_way(redis)
    daemon = make_daemon(redis, redis_url=url,
                         more={"boxes": {"width": "60s", "keep": 1000}})
    moment = redis.client().time()[0]

    def pick(rng):
        return (b"BOX.INCRBY", b"n%d" % rng.randrange(8), b"%d" % rng.randrange(1, 4), b"AT",
                b"%d" % (moment - rng.randrange(20_000)))

    def sums(requests):
        made = Counter()
        for _, name, n, _, at in requests:
            made[name.decode(), int(at) // 60 * 60] += int(n)
        return made

    known = storm(daemon, redis, proxy, pick)
    settled(daemon, redis)
    least, perhaps, direct = sums(known.sure()), sums(known.unknown), redis.client()
    found = Counter({(f"n{at}", bucket): n for at in range(8) for bucket, n in look(direct, f"n{at}", 1000).items()})
    wrong = {key: n for key, n in found.items() if not least[key] <= n <= least[key] + perhaps[key]}
    assert not wrong, list(wrong.items())[:10]
    assert set(least) <= set(found)


BAD = [
    (("BOX.INCRBY", "b"), "ERR wrong number of arguments"),
    (("BOX.INCRBY", "b", "one"), "ERR value is not an integer or out of range"),
    (("BOX.INCRBY", "b", str(10**12 + 1)), "ERR "),
    (("BOX.INCRBY", "b", "1", "AT"), "ERR "),
    (("BOX.INCRBY", "b", "1", "AT", "-1"), "ERR "),
    (("BOX.INCRBY", "b", "1", "AT", "noon"), "ERR value is not an integer or out of range"),
    (("BOX.INCRBY", "b", "1", "AT", "99999999999"), "ERR "),
    (("BOX.INCRBY", "b", "1", "TA", "5"), "ERR syntax error"),
    (("BOX.INCRBY", "", "1"), "ERR "),
    (("BOX.RECENT", "b", "0"), "ERR wrong number of arguments"),
    (("BOX.RECENT", "b", "-1", "5"), "ERR "),
    (("BOX.RECENT", "b", "0", "0"), "ERR "),
    (("BOX.RECENT", "b", "0", "-5"), "ERR "),
    (("BOX.RECENT", "b", "x", "5"), "ERR value is not an integer or out of range"),
    (("BOX.TOP", "b", "0"), "ERR "),
    (("BOX.TOP", "b", "-1"), "ERR "),
    (("BOX.TOP", "b", "ten"), "ERR value is not an integer or out of range"),
    (("BOX.BOTTOM", "b", "0"), "ERR "),
]


def test_bad_input(still):
    for words, error in BAD:
        reply = still.call(*words)
        assert isinstance(reply, RespError) and reply.startswith(error), f"{words}: {reply!r}"
    assert not still.direct.exists("tb.b", "pv.b", "tb.", "pv.")


def test_offset_beyond_the_end(still):
    assert still.call("BOX.RECENT", "nobody", 0, 5) == []
    still.call("BOX.INCRBY", "b", 1)
    assert still.call("BOX.RECENT", "b", 1, 5) == []
    assert still.call("BOX.RECENT", "b", 2**40, 5) == []


@pytest.mark.parametrize("kind,read", [("tb", ("BOX.RECENT", "taken", 0, 5)), ("pv", ("BOX.TOP", "taken", 5))])
def test_key_of_another_kind(still, kind, read):
    """Neither set moves, and the others of the frame do."""
    still.direct.set(f"{kind}.taken", "mine")
    replies = still.client.pipeline([("BOX.INCRBY", "free", 1), ("BOX.INCRBY", "taken", 1), ("BOX.INCRBY", "free", 1)])
    assert replies[0] == 1 and replies[2] == 2
    assert isinstance(replies[1], RespError) and replies[1].startswith("WRONGTYPE "), replies
    assert still.direct.get(f"{kind}.taken") == b"mine"
    assert still.direct.exists("tb.taken", "pv.taken") == 1
    reply = still.call(*read)
    assert isinstance(reply, RespError) and reply.startswith("WRONGTYPE "), reply
    assert look(still.direct, "free") == {still.now - still.now % WIDTH_S: 2}
