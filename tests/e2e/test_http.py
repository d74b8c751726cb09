"""HTTP: at rest every figure equals the one from SQL or redis-cli; under way what is live moves, and the pulse says so."""
import os
import subprocess
import time

import pytest

from harness.daemon import counters
from harness.web import Web
from harness.wait import patience, wait_until

FED = {"feeds": {"series": "s<store>:views", "box": "s<store>:views", "event": "s<store>:view"}}


def make_web(make_daemon, redis, families=None, more=None, start_http=None, **options):
    daemon = make_daemon(redis, start=False, families=families or counters(hits=10, every="1s", product_views=FED),
                         **options)
    path = os.path.join(daemon.directory, "http.sock")
    daemon.config["listen"]["http"] = start_http or f"unix://{path}"
    daemon.config.update(more or {})
    daemon.write_config()
    daemon.migrate()
    daemon.start()
    return daemon, Web(path)


@pytest.fixture
def web(make_daemon, redis):
    return make_web(make_daemon, redis)


def today():
    return time.strftime("%Y%m%d", time.gmtime())


def days_before(n):
    return time.strftime("%Y%m%d", time.gmtime(time.time() - n * 86400))


def test_counters_are_those_of_the_configuration(web):
    daemon, http = web
    said = {c["name"]: c for c in http.get("/api/counters")}
    for name, wanted in daemon.config["counters"].items():
        assert said[name]["key"] == wanted["key"] and said[name]["field"] == wanted["field"]
        assert said[name]["table"] == wanted["table"] and said[name]["store"] == "integer"
        assert said[name]["feeds"] == {"series": None, "box": None, "event": None, **wanted.get("feeds", {})}


def test_figures_of_a_date_equal_sql_at_rest(web, mysql):
    daemon, http = web
    with daemon.client() as client:
        for back, n in ((0, 7), (1, 5), (29, 3), (40, 11)):
            client.call("HINCRBY", "s7:unique_visitors:daily", days_before(back), n)
    daemon.sync_all()
    said = http.figures("7", "unique_visitors")
    stored = {row[0].strftime("%Y%m%d"): int(row[1]) for row in
              mysql.query("SELECT day, visitors FROM shop.daily_visitors WHERE store_id = 7")}
    assert len(said["rows"]) == 30 and said["rows"][-1]["field"] == today()
    assert [row["field"] for row in said["rows"]] == [days_before(back) for back in range(29, -1, -1)]
    for row in said["rows"]:
        assert row["stored"] == row["live"] == stored.get(row["field"], 0)
    assert said["mysql"] == said["redis"] == "up"
    wide = http.figures("7", "unique_visitors", f"?from={days_before(45)}&to={days_before(35)}")
    assert sum(row["stored"] for row in wide["rows"]) == 11 and len(wide["rows"]) == 11


def test_live_runs_ahead_of_stored(make_daemon, redis):
    daemon, http = make_web(make_daemon, redis, counters(hits=10**6, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 7)
        daemon.sync_all()
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 5)
        row = http.figures("7", "unique_visitors", f"?field={today()}")["rows"]
        assert row == [{"field": today(), "stored": 7, "live": 12}]
        client.call("HINCRBY", "s7:product_views", 40, 1)
        daemon.sync_all()  # the first hit of a hash is due at once, a later one waits
        client.call("HINCRBY", "s7:product_views", 41, 100)
        assert {"field": "41", "stored": 0, "live": 100} in http.figures("7", "product_views")["rows"]


def test_tops_equal_sql_at_rest(web, mysql):
    daemon, http = web
    with daemon.client() as client:
        for product in range(1, 31):
            client.call("HINCRBY", "s7:product_views", product, 100 - product)
        for term, n in (("red shoes", 4), ("blé \"x\"", 9), (b"\xff", 1)):
            client.call("HINCRBY", "s7:searches", term, n)
    daemon.sync_all()
    sql = mysql.query("SELECT product_id, views FROM shop.product_views WHERE store_id = 7 ORDER BY views DESC LIMIT 10")
    rows = http.figures("7", "product_views")["rows"]
    assert [(int(row["field"]), row["stored"]) for row in rows] == [(int(p), int(v)) for p, v in sql]
    assert all(row["live"] == row["stored"] for row in rows)
    assert len(http.figures("7", "product_views", "?top=25")["rows"]) == 25
    searches = [(row["field"], row["stored"], row["live"]) for row in http.figures("7", "searches")["rows"]]
    assert searches == [("blé \"x\"", 9, 9), ("red shoes", 4, 4), ("\N{REPLACEMENT CHARACTER}", 1, 1)]


def test_complete_until_is_that_of_the_books(web, mysql):
    daemon, http = web
    with daemon.client() as client:
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 1)
    daemon.sync_all()

    def said():
        until = http.figures("7", "unique_visitors")["complete_until"]
        sql = mysql.query("SELECT UNIX_TIMESTAMP(complete_until) FROM shop.tally_counters"
                          " WHERE counter = 'unique_visitors'")
        return until is not None and abs(until - int(sql[0][0])) <= 1

    wait_until(said, 40, "complete_until")
    assert abs(http.figures("7", "unique_visitors")["complete_until"] - time.time()) < 120


def test_stores_come_from_the_tables(web):
    daemon, http = web
    with daemon.client() as client:
        for store in (1, 12, 120, 129, 13, 2, 1299):
            client.call("HINCRBY", f"s{store}:unique_visitors:daily", today(), 1)
        client.call("HINCRBY", "s130:product_views", 5, 1)
    daemon.sync_all()
    assert http.get("/api/stores")["stores"] == ["1", "2", "12", "13", "120", "129", "130", "1299"]
    said = http.get("/api/stores?prefix=12")
    assert said["stores"] == ["12", "120", "129", "1299"] and said["more"] is False
    said = http.get("/api/stores?prefix=1&limit=2")
    assert said["stores"] == ["1", "12"] and said["more"] is True
    assert http.get("/api/stores?prefix=x")["stores"] == []


def test_series_boxes_events_and_uniques_equal_the_door(web):
    daemon, http = web
    with daemon.client() as client:
        for n in range(5):
            client.call("HINCRBY", "s7:product_views", n, n + 1)
        for visitor in ("1", "2", "2", "anna"):
            client.call("UNIQ.ADD", "s7:visitors", today(), visitor)
        client.call("UNIQ.ADD", "s7:visitors", days_before(1), "2")
        client.call("EVENT.ADD", "s7", "order", "ID", "o/1")
        pairs = client.call("SERIES.GET", "s7:views", "60")
        assert http.get("/api/series/s7:views/60")["samples"] == [list(p) for p in zip(pairs[::2], pairs[1::2])]
        pairs = client.call("BOX.RECENT", "s7:views", "0", "60")
        said = http.get("/api/boxes/s7:views")
        assert said["buckets"] == [list(p) for p in zip(pairs[::2], pairs[1::2])] and said["width"] == 60
        for order in ("top", "bottom"):
            pairs = client.call(f"BOX.{order.upper()}", "s7:views", "3")
            assert http.get(f"/api/boxes/s7%3Aviews?{order}=3")["buckets"] == [
                list(p) for p in zip(pairs[::2], pairs[1::2])]
        assert sum(client.call("EVENT.COUNT", "s7", "view", "3600", "60")) == 5
        assert sum(http.get("/api/events/s7/view?span=3600&window=60")["counts"]) == 5
        now = int(time.time())
        said = http.get(f"/api/events/s7/order?from={now - 60}&to={now + 60}")["events"]
        assert [event["id"] for event in said] == ["o/1"]
        union = client.call("UNIQ.COUNT", "s7:visitors", days_before(1), today())
        said = http.get(f"/api/uniques/s7:visitors?from={days_before(1)}&to={today()}")
        assert [said["count"], "exact" if said["exact"] else "estimated"] == [union[0], union[1].decode() if
                                                                          isinstance(union[1], bytes) else union[1]]
        assert [(day["day"], day["count"]) for day in said["days"]] == [(days_before(1), 1), (today(), 3)]
        assert len(http.get("/api/uniques/s7:visitors")["days"]) == 30
    names = http.get("/api/series")["series"]
    assert [one["name"] for one in names] == ["s7:views"]
    assert names[0]["precisions"] == [1, 5, 60, 300, 3600, 18000, 86400]
    assert http.get("/api/series?prefix=s8")["series"] == []


def test_the_books_balance_over_http(web):
    daemon, http = web
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 5)
    said = http.get("/api/books")
    views = {one["counter"]: one for one in said["counters"]}["product_views"]
    assert said["balanced"] and views["accepted"] == 5 and views["difference"] == 0


def test_status_is_that_of_the_verb(web):
    daemon, http = web
    said = http.get("/api/status")
    assert said["well"] is True, said["problems"]
    assert [c["name"] for c in said["counters"]] == list(daemon.config["counters"])


def test_rejects_are_listed_replayed_and_dropped(web, mysql):
    daemon, http = web
    mysql.query("ALTER TABLE shop.product_views MODIFY views BIGINT NOT NULL, ADD CONSTRAINT few CHECK (views < 1000)")
    hits = [("s7", product, 1) for product in range(1, 50)] + [("s7", 50, 5000), ("s8", 50, 6000)]
    with daemon.client() as client:  # in one frame, so in one claim: two rows of 51 are refused, not one of one
        client.call("MULTI")
        for store, product, n in hits:
            client.call("HINCRBY", f"{store}:product_views", product, n)
        assert len(client.call("EXEC")) == len(hits)
    daemon.sync_all()
    said = http.get("/api/rejects")
    assert said["waiting"] == 2 and {(r["store"], r["field"], r["delta"]) for r in said["rejects"]} == {
        ("7", "50", "5000"), ("8", "50", "6000")}
    mine = http.get("/api/rejects?counter=product_views&store=7")["rejects"]
    assert len(mine) == 1 and http.get("/api/rejects?counter=searches")["rejects"] == []
    other = http.get("/api/rejects?store=8")["rejects"][0]
    done = http.post(f"/api/rejects/{mine[0]['id']}/replay").json()
    assert done["outcome"] == "refused" and done["reason"]
    mysql.query("ALTER TABLE shop.product_views DROP CONSTRAINT few")
    assert http.post(f"/api/rejects/{mine[0]['id']}/replay").json()["outcome"] == "replayed"
    assert http.figures("7", "product_views", "?field=50")["rows"][0]["stored"] == 5000
    assert http.post(f"/api/rejects/{mine[0]['id']}/replay").status == 404
    assert http.post(f"/api/rejects/{other['id']}/drop").json()["outcome"] == "dropped"
    assert http.get("/api/rejects")["waiting"] == 0


# --- metrics ---

def test_promtool_passes_the_metrics(web):
    daemon, http = web
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 5)
    daemon.sync_all()
    text = http.ask("/metrics").body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=patience(60), check=False)
    assert done.returncode == 0 and done.stdout == b"", done.stdout.decode()


def test_metrics_equal_info_redis_and_sql_at_rest(web, redis, mysql):
    daemon, http = web
    with daemon.client() as client:
        for store in range(20):
            client.call("HINCRBY", f"s{store}:product_views", 1, 5)
            client.call("HINCRBY", f"s{store}:product_views", "no number", 5)
        daemon.sync_all()
        client.call("HINCRBY", "s1:product_views", 1, 1)

        def same():
            info = dict(line.split(":", 1) for line in client.call("INFO").decode().splitlines() if ":" in line)
            said = http.metrics()
            with redis.client() as inside:
                dirty = inside.zcard("tally:dirty")
            wanted = {"tallyd_hits_total": int(info["hits"]), "tallyd_hits_refused_total": int(info["hits_refused"]),
                      "tallyd_cells_total": int(info["cells"]), "tallyd_rows_merged_total": int(info["rows_merged"]),
                      "tallyd_connections": int(info["connected_clients"]), "tallyd_pending_hashes": dirty,
                      "tallyd_rejects": 0, "tallyd_redis_up": 1, "tallyd_mysql_up": 1, "tallyd_books_balanced": 1,
                      'tallyd_books_difference{counter="product_views"}': 0,
                      "tallyd_frame_seconds_count": int(info["frames"])}
            return {name: said.get(name) for name in wanted} == wanted

        wait_until(same, 30, "the metrics equal what else is said")
        said = http.metrics()
        assert said["tallyd_merge_seconds_count"] >= 1 and said["tallyd_scan_seconds_count"] >= 1
        assert said["tallyd_barrier_seconds_count"] >= 1
        assert said["tallyd_hit_seconds_count"] == said["tallyd_hits_total"] and 0 < said["tallyd_hit_seconds_sum"] < 60
        assert said['tallyd_frame_seconds_bucket{le="+Inf"}'] == said["tallyd_frame_seconds_count"]
        assert said["tallyd_memory_bytes"] > 10**6 and abs(said["tallyd_start_time_seconds"] - time.time()) < 600
        assert mysql.query("SELECT SUM(views) FROM shop.product_views")[0][0] in (100, 101)  # on a slow machine "every" is over


# --- what moves ---

def test_a_pulse_tells_of_hits(web):
    """A mark moves with a hit, with its claim and with its merge, and at rest stays as it is; that of a store without hits does too."""
    daemon, http = web

    def rests():
        before, after = http.get("/api/pulse?store=7"), http.get("/api/pulse?store=7")
        return before["moved"] == after["moved"] and before

    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 5)  # due at once
        daemon.sync_all()
        first = wait_until(rests, 60, "nothing moves")
        assert set(first["moved"]) == {"unique_visitors", "product_views", "searches"}
        client.call("HINCRBY", "s8:product_views", 1, 1)
        client.call("HINCRBY", "s7:product_views", 1, 1)
        wait_until(lambda: http.get("/api/pulse")["hits"] == first["hits"] + 2, 60, "the hits")
        hit = http.get("/api/pulse?store=7")
        assert hit["moved"]["product_views"] != first["moved"]["product_views"]
        daemon.sync_all()
        merged = wait_until(rests, 60, "nothing moves")
        assert not set(merged["moved"].values()) & set(first["moved"].values())
        assert "moved" not in http.get("/api/pulse")


def test_pulses_read_a_large_hash_seldom(web, redis):
    daemon, http = web

    def reads():
        with daemon.client() as client:
            return int(client.call("INFO", "commandstats").split(b"cmdstat_ctr.pending:calls=")[1].split(b",")[0])

    redis.client().hset("s9:product_views", mapping={n: 1 for n in range(100_000)})
    first = http.get("/api/pulse?store=9")
    before = reads()
    marks = {http.get("/api/pulse?store=9")["moved"]["product_views"] for _ in range(20)}
    assert marks == {first["moved"]["product_views"]}
    assert reads() - before < 60  # of the store's three counters
