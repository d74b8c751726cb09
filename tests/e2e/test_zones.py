"""CTR.HIT: today in each store's time zone, over midnight and over changes of its clocks; its own error; what holds while MySQL
cannot be asked. Python's zoneinfo says what is right."""
import datetime
import os
import shutil
import signal
import zoneinfo

import pytest

from harness.daemon import counters
from harness.resp import RespError
from harness.wait import wait_until

ZONES = {"1": "Pacific/Auckland", "2": "Asia/Kathmandu", "3": "Pacific/Honolulu"}
STORE_ZONE = {"store_zone": {"table": "stores", "store": "store_id", "zone": "time_zone"}, "zone": "Europe/Berlin"}
UTC = datetime.timezone.utc
HOURS = {"orders": {"key": "s<store>:orders", "field": "hour", "table": "orders", "sync": {"hits": 10**9, "every": "3600s"},
                    "columns": {"store": "store_id", "field": "hour", "count": "orders"}}}


def visitors(store):
    return f"s{store}:unique_visitors:daily"


def day_in(store, at_s):
    zone = zoneinfo.ZoneInfo(ZONES.get(store, "Europe/Berlin"))
    return datetime.datetime.fromtimestamp(at_s, zone).strftime("%Y%m%d").encode()


def stores_made(mysql):
    mysql.query("CREATE TABLE shop.stores (store_id BIGINT PRIMARY KEY, time_zone VARCHAR(64))")
    for store, zone in ZONES.items():
        mysql.query("INSERT INTO shop.stores VALUES (%s, %s)", (store, zone))


@pytest.fixture
def begin(make_clock, make_redis, make_daemon, mysql):
    """begin(when, key...) -> the clock, stopped then, a tallyd, and Redis. The keys' first hits are merged: later ones
    wait."""
    def make(when, *keys):
        stores_made(mysql)
        clock = make_clock()
        clock.step(0, jump_s=when.timestamp() - 60 - clock.now)
        clock.flow()
        redis = make_redis(appendfsync="always", clock=clock, in_memory=True)
        daemon = make_daemon(redis, clock=clock, more=STORE_ZONE,
                             families={**counters(hits=10**9, every="3600s"), **HOURS})
        with daemon.client() as client:
            for key in keys:
                assert client.call("CTR.HIT", key) == 1
            daemon.sync_all()
        clock.stand()
        clock.step(when.timestamp() - clock.now)
        return clock.align(), daemon, redis.client()

    return make


def counted(redis, key):
    return {field: int(n) for field, n in redis.hgetall(key).items()}


@pytest.mark.parametrize("store", ["1", "2", "3", "9"])
def test_over_midnight(begin, store):
    """Each hit counts in the day that zoneinfo names for its second; in a pipeline and a MULTI as well."""
    zone = zoneinfo.ZoneInfo(ZONES.get(store, "Europe/Berlin"))
    midnight = datetime.datetime(2026, 11, 24, tzinfo=zone)
    clock, daemon, redis = begin(midnight - datetime.timedelta(seconds=5), visitors(store))
    wanted = {}
    with daemon.client() as client:
        for _ in range(10):
            today = day_in(store, clock.now)
            wanted[today] = wanted.get(today, 0) + 7
            assert client.call("CTR.HIT", visitors(store)) == wanted[today] - 6
            assert client.pipeline([("CTR.HIT", visitors(store), 2), ("HINCRBY", visitors(store), today, 1),
                                    ("MULTI",), ("CTR.HIT", visitors(store), 3), ("EXEC",)])[-1] == [wanted[today]]
            clock.step(1)
            assert client.call("PING") == "PONG" and client.call("PING") == "PONG"
    assert counted(redis, visitors(store)) == wanted and sorted(wanted) == [b"20261123", b"20261124"]


def test_sent_again_on_the_next_day_it_counts_in_the_first(begin):
    """The day of a token is that of the first; with another key, n or command it is another increment."""
    midnight = datetime.datetime(2026, 11, 24, tzinfo=zoneinfo.ZoneInfo(ZONES["1"]))
    key = visitors("1")
    clock, daemon, redis = begin(midnight - datetime.timedelta(seconds=2), key)
    first, second = day_in("1", midnight.timestamp() - 1), day_in("1", midnight.timestamp())
    with daemon.client() as client:
        assert client.call("CTR.HIT", key, "TOKEN", "a") == 1
        assert client.call("CTR.HIT", key, 5, "TOKEN", "b") == 6
        clock.step(3)
        assert client.call("PING") == "PONG" and client.call("PING") == "PONG"
        assert client.call("CTR.HIT", key, "TOKEN", "a") == 1
        assert client.call("CTR.HIT", key, 1, "TOKEN", "a") == 1
        assert client.pipeline([("MULTI",), ("CTR.HIT", key, 5, "TOKEN", "b"), ("EXEC",)])[-1] == [6]
        for other in (("CTR.HIT", key, 2), ("CTR.HIT", "s1:orders"), ("CTR.INCRBY", key, first, 1)):
            assert client.call(*other, "TOKEN", "a").startswith("ERR this token came with another increment before")
        assert client.call("CTR.HIT", key, "TOKEN", "c") == 1
    assert counted(redis, key) == {first: 6, second: 1}


def test_over_a_change_of_clocks(begin):
    """Auckland, 2026-09-27: the day has 23 hours, 1:59:59 is followed by 3:00:00, and its midnight comes an hour earlier."""
    zone = zoneinfo.ZoneInfo(ZONES["1"])
    change = datetime.datetime(2026, 9, 26, 14, tzinfo=UTC)
    clock, daemon, redis = begin(change - datetime.timedelta(seconds=3), "s1:orders", visitors("1"))
    with daemon.client() as client:
        orders, days = {}, {}
        for _ in range(6):
            hour = datetime.datetime.fromtimestamp(clock.now, zone).strftime("%Y%m%d%H").encode()
            orders[hour] = orders.get(hour, 0) + 1
            days[hour[:8]] = days.get(hour[:8], 0) + 1
            assert client.call("CTR.HIT", "s1:orders") == orders[hour]
            client.call("CTR.HIT", visitors("1"))
            clock.step(1)
            assert client.call("PING") == "PONG" and client.call("PING") == "PONG"
    assert counted(redis, "s1:orders") == orders and sorted(orders) == [b"2026092701", b"2026092703"]
    assert counted(redis, visitors("1")) == days == {b"20260927": 6}


def test_a_counter_without_dates(begin):
    _, daemon, _ = begin(datetime.datetime(2026, 11, 23, tzinfo=UTC))
    with daemon.client() as client:
        answer = client.call("CTR.HIT", "s1:product_views")
        assert isinstance(answer, RespError) and "counts by integer, so it has no field of today" in str(answer)
        assert client.call("COMMAND", "GETKEYS", "CTR.HIT", "s1:orders") == [b"s1:orders"]


def test_new_rules_of_a_zone(make_redis, make_daemon, workdir, monkeypatch):
    """The system's tzdata is updated: a SIGHUP reads them."""
    path = os.path.join(workdir, "zones", "Shop")
    os.makedirs(os.path.dirname(path))
    monkeypatch.setenv("TZDIR", os.path.dirname(path))

    def rules(zone):
        shutil.copy(f"/usr/share/zoneinfo/Etc/{zone}", path)
        return f"{datetime.datetime.now(zoneinfo.ZoneInfo(f'Etc/{zone}')):%Y%m%d}".encode()

    first = rules("GMT+12")
    redis = make_redis(appendfsync="always", in_memory=True)
    daemon = make_daemon(redis, more={"zone": "Shop"}, families=counters(hits=10**9, every="3600s"))
    key = visitors("1")
    with daemon.client() as client:
        client.call("CTR.HIT", key)
        daemon.sync_all()
        second = rules("GMT-14")  # 26 hours ahead: another day at any time
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "outcome=taken_over" in daemon.log(), 60, "reloaded")
        client.call("CTR.HIT", key)
        assert client.call("CTR.TOTAL", key, first, second) == [1, 1] and first != second


def test_while_mysql_cannot_be_asked(make_clock, make_redis, make_daemon, mysql):
    """At first `zone` holds for all; when MySQL is back, each store's own; and that goes on when it is away again. A zone
    that does not exist is logged, and `zone` holds for its store."""
    stores_made(mysql)
    mysql.query("INSERT INTO shop.stores VALUES (4, 'Middle/Earth'), (5, ''), (6, 'Nowhere')")
    clock = make_clock()
    clock.step(-58)  # a thread's wait for a moment of this clock ends by the machine's own: zones are read every two seconds
    clock.flow()
    redis = make_redis(appendfsync="always", clock=clock)
    daemon = make_daemon(redis, start=False, more={**STORE_ZONE, "zone": "Pacific/Honolulu"}, clock=clock,
                         families=counters(hits=10**9, every="3600s")).migrate()
    mysql.kill9()
    daemon.start()
    asked = lambda zone: datetime.datetime.fromtimestamp(clock.now, zoneinfo.ZoneInfo(zone)).strftime("%Y%m%d").encode()

    def day_of(client, key):
        redis.client().delete(key)
        assert client.call("CTR.HIT", key) == 1
        return next(iter(redis.client().hgetall(key)))

    with daemon.client() as client:
        if asked("Pacific/Honolulu") != asked("Pacific/Kiritimati"):  # for 24 hours of 24
            assert day_of(client, visitors("1")) == asked("Pacific/Honolulu")
        mysql.start()
        daemon.log_contains("event=store_zones stores=3 zones=3")
        daemon.log_contains("event=store_zones_unknown stores=3 zones=\"Middle/Earth '' Nowhere\"")
        wait_until(lambda: day_of(client, visitors("1")) == asked("Pacific/Auckland"), 60, "Auckland's day")
        day = wait_until(lambda: day_of(client, visitors("4")), 60, "a hit stays: the first of a hash is merged at once")
        assert day == asked("Pacific/Honolulu")
        mysql.kill9()
        daemon.log_contains("event=mysql_down")
        assert day_of(client, visitors("1")) == asked("Pacific/Auckland")
    mysql.start()
