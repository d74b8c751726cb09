"""Shapes of keys, fields and commands with which apps count: each is taken as it is sent, and is in the row that it means."""
import pytest

from harness.resp import RespError

DAY, HOUR = "2024-05-01", "2024-05-01 13:00:00"


def counter(key, field, **more):
    return {"key": key, "field": field, "sync": {"hits": 10**9, "every": "3600s"}, "table": "hits", **more}


def one(key, field, kinds=None, columns=None, store=None):
    """A counter with a column for each placeholder, named as it is."""
    made = counter(key, field, columns={"count": "n", **(columns or {})})
    return {**made, **({"kinds": kinds} if kinds else {}), **({"store": store} if store else {})}


# name: the counter, what is sent, the row: column -> value as text.
SHAPES = {
    "an id in the key, an id in the field": (
        one("views:account:<store>", "integer", columns={"store": "a", "field": "b"}), "HINCRBY views:account:7 42 1", "7 42"),
    "no id in the key": (one("views", "integer", columns={"field": "a"}), "HINCRBY views 42 1", "42"),
    "no id in the key, a slug in the field": (one("views", "text", columns={"field": "a"}), "HINCRBY views my-first-post 1", "my-first-post"),
    "laravel": (one("laravel_database_product:<store>:views", "date", columns={"store": "a", "field": "d"}),
                "HINCRBY laravel_database_product:7:views 20240501 1", f"7 {DAY}"),
    "laravel 12": (one("my-shop-database-product:<store>:views", "date", columns={"store": "a", "field": "d"}),
                   "HINCRBY my-shop-database-product:7:views 20240501 1", f"7 {DAY}"),
    "an environment in front": (one("prod:shop:store:<store>:views", "integer", columns={"store": "a", "field": "b"}),
                                "HINCRBY prod:shop:store:7:views 42 1", "7 42"),
    "a uuid": (one("video:<store>:views", "date", columns={"store": "a", "field": "d"}, store="text"),
               "HINCRBY video:7f9c24e8-3b12-4fef-91e0-5d7ff1b0e8aa:views 20240501 1", f"7f9c24e8-3b12-4fef-91e0-5d7ff1b0e8aa {DAY}"),
    "a slug in the key": (one("post:<store>:views", "date", columns={"store": "a", "field": "d"}, store="text"),
                          "HINCRBY post:my-first-post:views 20240501 1", f"my-first-post {DAY}"),
    "a slug at the end of the key": (one("views:<store>", "date", columns={"store": "a", "field": "d"}, store="text"),
                                     "HINCRBY views:my-first-post 20240501 1", f"my-first-post {DAY}"),
    "a text that takes the rest": (one("views:<url>", "date", {"url": "text"}, {"url": "a", "field": "d"}),
                                   "HINCRBY views:https://example.com/a{b} 20240501 1", f"https://example.com/a{{b}} {DAY}"),
    "a domain": (one("site:<store>:hits", "date", columns={"store": "a", "field": "d"}, store="text"),
                 "HINCRBY site:shop.example.com:hits 20240501 1", f"shop.example.com {DAY}"),
    "a url path in the field": (one("pageviews", "text", columns={"field": "a"}), "HINCRBY pageviews /de/schuhe?id=7 1", "/de/schuhe?id=7"),
    "a hash tag": (one("{store:<store>}:views", "integer", columns={"store": "a", "field": "b"}), "HINCRBY {store:7}:views 42 1", "7 42"),
    "gitlab, three ids": (
        one("project:{<project>}:counters:<kind>:<id>:<attribute>", "none", {"kind": "text", "attribute": "text"},
            {"project": "a", "kind": "b", "id": "c", "attribute": "e"}),
        "INCRBY project:{42}:counters:ProjectStatistics:7:build_artifacts_size 1", "42 ProjectStatistics 7 build_artifacts_size"),
    "store, product and day": (one("store:<store>:product:<product>:views", "date", columns={"store": "a", "product": "b", "field": "d"}),
                               "HINCRBY store:1:product:42:views 20240501 1", f"1 42 {DAY}"),
    "a kind and an id": (one("views:<kind>:<id>", "date", {"kind": "text"}, {"kind": "a", "id": "b", "field": "d"}),
                         "HINCRBY views:product:42 20240501 1", f"product 42 {DAY}"),
    "day and campaign in the key, the column in the field": (
        one("tracking_daily:<day>:<campaign>", "count", {"day": "date 2024-05-01"}, {"day": "d", "campaign": "a"}),
        "HINCRBY tracking_daily:2024-05-01:7 clicks 1", f"7 {DAY}"),
    "three ids, the column in the field": (
        one("metrics:<tenant>:<channel>:<vendor>", "count", {"channel": "text", "vendor": "text"},
            {"tenant": "a", "channel": "b", "vendor": "c"}),
        "HINCRBY metrics:1:email:acme clicks 1", "1 email acme"),
    "a composite field": (one("liked_count", "<id>::<kind>", columns={"id": "a", "kind": "b"}), "HINCRBY liked_count 42::1 1", "42 1"),
    "an object's hash": (one("article:<article>", "count", columns={"article": "a"}), "HINCRBY article:42 clicks 1", "42"),
    "the day with dashes": (one("product:<store>:views", "date 2024-05-01", columns={"store": "a", "field": "d"}),
                            "HINCRBY product:7:views 2024-05-01 1", f"7 {DAY}"),
    "the day as unix midnight": (one("product:<store>:views", "date seconds", columns={"store": "a", "field": "d"}),
                                 "HINCRBY product:7:views 1714521600 1", f"7 {DAY}"),
    "the day in milliseconds": (one("analytics:pageviews", "date milliseconds", columns={"field": "d"}),
                                "HINCRBY analytics:pageviews 1714521600000 1", DAY),
    "the month": (one("product:<store>:views", "month", columns={"store": "a", "field": "d"}), "HINCRBY product:7:views 202405 1", f"7 {DAY}"),
    "the hour with dashes": (one("product:<store>:views", "hour 2024-05-01 13", columns={"store": "a", "field": "t"}),
                             ["HINCRBY", "product:7:views", "2024-05-01 13", "1"], f"7 {HOUR}"),
    "the minute, as a text": (one("views:minutely", "text", columns={"field": "a"}), "HINCRBY views:minutely 2024-05-01-13-37 1", "2024-05-01-13-37"),
    "the day in the key, the page in the field": (one("views:<day>", "text", {"day": "date 2024-05-01"}, {"day": "d", "field": "a"}),
                                                  "HINCRBY views:2024-05-01 /about 1", f"/about {DAY}"),
    "the day in the key": (one("stats:<day>", "integer", {"day": "date"}, {"day": "d", "field": "a"}), "HINCRBY stats:20240501 42 1", f"42 {DAY}"),
    "a type and a day without a separator": (one("app_req_http_total<day>", "none", {"day": "date"}, {"day": "d"}),
                                             "INCR app_req_http_total20240501", DAY),
    "INCR": (one("views:<page>", "none", columns={"page": "a"}), "INCR views:42", "42"),
    "INCRBY": (one("views:<page>", "none", columns={"page": "a"}), "INCRBY views:42 1", "42"),
    "packagist": (one("dl:<package>:<day>", "none", {"day": "date"}, {"package": "a", "day": "d"}), "INCR dl:42:20240501", f"42 {DAY}"),
    "HINCRBY, then EXPIRE": (one("views", "integer", columns={"field": "a"}), ["HINCRBY views 42 1", "EXPIRE views 86400"], "42"),
    "HINCRBY and EXPIRE in MULTI": (one("views", "integer", columns={"field": "a"}),
                                    ["MULTI", "HINCRBY views 42 1", "EXPIRE views 86400", "EXEC"], "42"),
    "HINCRBY, then HGET": (one("views", "integer", columns={"field": "a"}), ["HINCRBY views 42 1", "HGET views 42"], "42"),
    "upper and lower case": (one("views", "integer", columns={"field": "a"}), "hincrby views 42 1", "42"),
    "a leading zero": (one("product:<product>:views", "date", {"product": "text"}, {"product": "a", "field": "d"}),
                       "HINCRBY product:007:views 20240501 1", f"007 {DAY}"),
}
# A key with a text where its counter has integers: the counter, the key, what the error says of it.
MISFITS = {
    "the store": (one("product:<store>:views", "date", columns={"store": "a", "field": "d"}), "product:abc:views",
                  ": 'abc' is no integer, as the stores of counter 'hits' are (counters.*.store: text)"),
    "the only placeholder": (one("product:<product>:views", "date", columns={"product": "a", "field": "d"}), "product:abc:views",
                             ": 'abc' is no integer, as each <product> of counter 'hits' is (counters.*.kinds: { product: text })"),
    "the store of two": (
        one("store:<store>:product:<product>:views", "date", columns={"store": "a", "product": "b", "field": "d"}),
        "store:abc:product:7:views", ": 'abc' is no integer, as the stores of counter 'hits' are (counters.*.store: text)"),
    "the second of two": (
        one("store:<store>:product:<product>:views", "date", columns={"store": "a", "product": "b", "field": "d"}),
        "store:7:product:abc:views", ": 'abc' is no integer, as each <product> of counter 'hits' is (counters.*.kinds: { product: text })"),
    "a prefix is no value": (one("<product>:views", "date", columns={"product": "a", "field": "d"}), "laravel_database_7:views",
                             ", but \"<product>:views\" is for '7:views': take the prefix 'laravel_database_' out of the client, or put it into the counter's key"),
    "another key": (one("product:<product>:views", "date", columns={"product": "a", "field": "d"}), "product:abc:sales", ""),
}
TYPES = {"d": "DATE", "t": "DATETIME"}


def prepared(shape, mysql):
    """The counter with its table made; and its key columns in alphabetical order."""
    family = {**shape, "columns": dict(shape["columns"])}
    keys = sorted(column for name, column in family["columns"].items() if name != "count")
    if family["field"] == "count":
        family["columns"] = {**{name: column for name, column in family["columns"].items() if name != "count"},
                             "counts": {"views": "m", "clicks": "n"}}
    ddl = ", ".join(f"{key} {TYPES.get(key, 'VARBINARY(255)')} NOT NULL" for key in keys)
    mysql.query(f"CREATE TABLE hits ({ddl}, m INT NOT NULL DEFAULT 5, n INT NOT NULL DEFAULT 0, PRIMARY KEY ({', '.join(keys)}))")
    return family, keys


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_as_it_is_sent(shape, make_daemon, redis, mysql):
    family, requests, row = shape
    family, keys = prepared(family, mysql)
    if isinstance(requests, str) or requests[0] == "HINCRBY":
        requests = [requests]
    daemon = make_daemon(redis, families={"hits": family})
    with daemon.client() as client:
        for request in requests:
            said = client.call(*(request if isinstance(request, list) else request.split(" ")))
            assert not isinstance(said, RespError), said
        daemon.sync_all()
        assert mysql.query(f"SELECT CAST(CONCAT_WS(' ', {', '.join(keys)}) AS BINARY), n, m FROM hits") == ((row.encode(), 1, 5),)
    daemon.verify()


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS.keys())
def test_a_text_where_an_integer_is_configured(misfit, make_daemon, redis, mysql):
    shape, key, why = misfit
    family, _ = prepared(shape, mysql)
    with make_daemon(redis, families={"hits": family}).client() as client:
        assert client.call("HINCRBY", key, "20240501", "1") == f"ERR no counter is configured for key '{key}'{why}"


def test_today_as_the_counter_spells_it(make_daemon, redis, mysql):
    family, _ = prepared(one("product:<store>:views", "date 2024-05-01", columns={"store": "a", "field": "d"}), mysql)
    daemon = make_daemon(redis, families={"hits": family})
    with daemon.client() as client:
        before = mysql.query("SELECT UTC_DATE()")[0][0]
        assert client.call("CTR.HIT", "product:7:views", 3) == 3
        assert client.pipeline([("MULTI",), ("CTR.HIT", "product:7:views"), ("EXEC",)])[-1] in ([4], [1])
        daemon.sync_all()
        days = [day for day, in mysql.query("SELECT d FROM hits")]
        assert mysql.query("SELECT SUM(n) FROM hits")[0][0] == 4 and before in days or mysql.query("SELECT UTC_DATE()")[0][0] in days
    daemon.verify()


def test_counters_without_fields(make_daemon, redis, mysql):
    """INCR and its like, GET of the live total, and what they say of counters with fields, and of other keys."""
    family, _ = prepared(one("views:<page>", "none", columns={"page": "a"}), mysql)
    mysql.query("CREATE TABLE others (a BIGINT PRIMARY KEY, n BIGINT NOT NULL)")
    other = {**one("others", "text", columns={"field": "a"}), "table": "others"}
    mysql.query("ALTER TABLE others MODIFY COLUMN a VARBINARY(255) NOT NULL")
    daemon = make_daemon(redis, families={"hits": family, "others": other})
    with daemon.client() as client:
        assert client.pipeline([("INCR", "views:1"), ("INCRBY", "views:1", 41), ("DECR", "views:1"), ("DECRBY", "views:1", 5)]) == [1, 42, 41, 36]
        assert client.call("GET", "views:1") == b"36" and client.call("HINCRBY", "views:1", "count", 1) in (1, 37)  # may be claimed by now
        assert client.call("GET", "views:1") == b"37"
        daemon.sync_all()
        assert client.call("INCR", "views:1") == 1 and client.call("GET", "views:1") == b"38"
        assert client.pipeline([("MULTI",), ("INCR", "views:2"), ("DECRBY", "views:2", 3), ("EXEC",)])[-1] == [1, -2]
        assert "counts by field" in str(client.call("INCR", "others")) and "counts by field" in str(client.call("GET", "others"))
        assert "no counter is configured" in str(client.call("INCR", "other")) and "not an integer" in str(client.call("INCRBY", "views:1", "x"))
        assert "decrement would overflow" in str(client.call("DECRBY", "views:1", -2**63))
        assert "too large" in str(client.call("INCRBY", "views:1", 2**60)) and "only one" in str(client.call("HINCRBY", "views:1", "7", 1))
        daemon.sync_all()
    assert dict(mysql.query("SELECT a, n FROM hits")) == {b"1": 38, b"2": -2}
    daemon.verify()


def test_several_counts_of_a_row(make_daemon, redis, mysql):
    """The field names the column: one row, each count for itself, also where rows are only updated and a count refuses."""
    mysql.query("CREATE TABLE articles (id BIGINT PRIMARY KEY, title TEXT NOT NULL, view_count INT UNSIGNED NULL, like_count TINYINT NOT NULL DEFAULT 3)")
    mysql.query("INSERT INTO articles VALUES (1, 'a', NULL, 3), (2, 'b', 5, 120)")
    family = {**counter("article:<article>", "count", columns={"article": "id", "counts": {"views": "view_count", "likes": "like_count"}}),
              "table": "articles", "missing": "reject"}
    daemon = make_daemon(redis, families={"articles": family})
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "article:1", "views", 4), ("HINCRBY", "article:1", "likes", -2), ("HINCRBY", "article:2", "views", -5),
                         ("HINCRBY", "article:2", "likes", 9), ("HINCRBY", "article:3", "likes", 1), ("HINCRBY", "article:3", "views", 1)])
        assert "one of views, likes" in str(client.call("HINCRBY", "article:1", "shares", 1))
        daemon.sync_all()
        assert client.call("CTR.TOTAL", "article:1", "likes", "views") == [1, 4] and client.call("HMGET", "article:2", "views", "likes") == [b"0", b"120"]
    assert mysql.query("SELECT id, view_count, like_count FROM articles ORDER BY id") == ((1, 4, 1), (2, 0, 120))
    assert sorted(mysql.query("SELECT pending_hash, field, delta FROM tally_rejects")) == [
        (b"article:2", b"likes", b"9"), (b"article:3", b"likes", b"1"), (b"article:3", b"views", b"1")]
    daemon.verify()
    mysql.query("UPDATE articles SET like_count = 0 WHERE id = 2")
    assert daemon.verb("rejects", "replay", "--key", "article:2").returncode == 0
    assert daemon.verb("adjust", "--counter", "articles", "--key", "article:1", "--field", "views", "--set", "9", "--reason", "x").returncode == 0
    assert daemon.verb("adjust", "--counter", "articles", "--key", "article:9", "--field", "views", "--by", "9", "--reason", "x").returncode == 1
    assert mysql.query("SELECT id, view_count, like_count FROM articles ORDER BY id") == ((1, 9, 1), (2, 0, 9))
    assert daemon.verb("verify", "--key", "article:1").returncode == 0
    for verb, why in ((("verify",), "only one of these"), (("rejects", "list"), "has a store such as"),
                      (("rejects", "replay"), "has a store such as")):
        both = daemon.verb(*verb, "--key", "article:1", "--store", "1")
        assert both.returncode == 64 and why in both.stderr, both.stderr
    daemon.verify()


def test_tables_and_views_of_ones_own(make_daemon, redis, mysql):
    """`migrate --tables --views` makes what these counters need, `check` finds nothing, and the views have each key column."""
    families = {
        "daily": {**one("store:<store>:product:<product>:views", "date", columns={"store": "shop", "product": "product", "field": "day"}),
                  "table": "daily", "constants": {"kind": "view", "blog": 1}},
        "hourly": {**one("hourly:<page>", "hour", {"page": "text"}, {"page": "page", "field": ["y", "m", "d", "h"]}), "table": "hourly"},
        "monthly": {**one("monthly", "<lang>:<month>", {"lang": "text", "month": "month 2024-05"}, {"lang": "lang", "month": "month"}),
                    "table": "monthly"},
        "articles": {**counter("article:<article>", "count", columns={"article": "id", "counts": {"views": "views", "likes": "likes"}}),
                     "table": "articles"},
        "downloads": {**one("dl:<package>:<day>", "none", {"day": "date seconds"}, {"package": "package", "day": "day"}), "table": "downloads"}}
    daemon = make_daemon(redis, start=False, migrate=False, families=families)
    assert daemon.verb("migrate", "--tables", "--views").returncode == 0
    done = daemon.verb("check")
    assert done.returncode == 0 and "MySQL:" not in done.stderr, done.stderr
    daemon.start()
    with daemon.client() as client:
        for words in (("HINCRBY", "store:1:product:2:views", "20240501", 3), ("HINCRBY", "hourly:a:b", "2024050113", 4),
                      ("HINCRBY", "monthly", "de:2024-05", 5), ("HINCRBY", "article:1", "likes", 6), ("INCRBY", "dl:7:1714521600", 7)):
            assert client.call(*words) == words[-1]
        daemon.sync_all()
    for name, row in (("daily", "1,2024-05-01,2,view,1,3"), ("hourly", "2024,5,1,13,a:b,4"), ("monthly", "de,2024-05-01,5"),
                      ("articles", "1,0,6"), ("downloads", "7,2024-05-01,7")):
        said = [value.decode() if isinstance(value, bytes) else str(value) for value in mysql.query(f"SELECT * FROM tally_stored_{name}")[0][:-1]]
        assert sorted(said) == sorted(row.split(",")), name
    daemon.verify()
