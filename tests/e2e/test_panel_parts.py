"""Counters with several parts (a store, a product and a day; a field that is a pattern; counts by name) over HTTP and in the panel:
sums by the time and by what is no time, each column by its name, equal to SQL and to what was sent."""
import csv
import io
import itertools
import os
from collections import Counter
from urllib.parse import quote

import pytest

from harness.wait import wait_until
from test_http import make_web
from test_panel import STORE, Shop, axe, browser, chromium, day, day_goes_on, seen  # noqa: F401

SLOWLY = {"sync": {"hits": 10**9, "every": "3600s"}}
FAMILIES = {
    "product_views": {
        "key": "store:<store>:product:<product>:views", "field": "date", **SLOWLY, "table": "product_days",
        "columns": {"store": "store_id", "product": "product_id", "field": "day", "count": "views"}, "constants": {"kind": "view"},
        "labels": {"table": "products", "id": "id", "name": "title"}, "feeds": {"series": "s<store>:products"}},
    "clicks": {
        "key": "store:<store>:clicks", "field": "<campaign>@<at>", "kinds": {"campaign": "text", "at": "hour 2024-05-01T13"}, **SLOWLY,
        "table": "clicks", "columns": {"store": "store_id", "campaign": "campaign", "at": ["y", "m", "d", "h"], "count": "n"}},
    "articles": {
        "key": "article:<store>:<section>:<article>", "field": "count", "kinds": {"section": "text"}, **SLOWLY, "table": "articles",
        "columns": {"store": "store_id", "section": "section", "article": "id", "counts": {"views": "seen", "likes": "liked"}},
        "labels": {"table": "products", "id": "id", "name": "title"}, "labels_of": "article"},
    "ratings": {
        "key": "rated:<store>:<stars>", "field": "integer", **SLOWLY, "table": "ratings",
        "columns": {"store": "store_id", "stars": "stars", "field": "product_id", "count": "n"}},
    "bytes": {
        "key": "sent:<period>:<store>", "field": "none", "kinds": {"period": "month 2024-05"}, **SLOWLY, "table": "sent",
        "columns": {"store": "store_id", "period": "period", "count": "n"}},
}
TABLES = (
    "CREATE TABLE product_days (id INT AUTO_INCREMENT PRIMARY KEY, kind VARCHAR(9) NOT NULL, product_id BIGINT NOT NULL, day DATE NOT NULL,"
    " store_id BIGINT NOT NULL, views INT NOT NULL DEFAULT 0, UNIQUE (store_id, kind, product_id, day))",
    "CREATE TABLE clicks (store_id BIGINT NOT NULL, campaign VARCHAR(90) CHARACTER SET utf8mb4 NOT NULL, y SMALLINT NOT NULL,"
    " m TINYINT NOT NULL, d TINYINT NOT NULL, h TINYINT NOT NULL, n INT NOT NULL, PRIMARY KEY (store_id, campaign, y, m, d, h))",
    "CREATE TABLE articles (store_id BIGINT NOT NULL, section VARCHAR(20) NOT NULL, id BIGINT NOT NULL, seen INT NOT NULL DEFAULT 0,"
    " liked INT NULL, PRIMARY KEY (store_id, section, id))",
    "CREATE TABLE ratings (store_id BIGINT NOT NULL, stars INT NOT NULL, product_id BIGINT NOT NULL, n INT NOT NULL,"
    " PRIMARY KEY (store_id, stars, product_id))",
    "CREATE TABLE sent (store_id BIGINT NOT NULL, period VARCHAR(7) NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (store_id, period))",
    "CREATE TABLE products (id BIGINT PRIMARY KEY, title VARCHAR(90) CHARACTER SET utf8mb4)",
    "INSERT INTO products VALUES (42, 'Schal <b>'), (43, 'Mütze')",
    "INSERT INTO product_days (kind, product_id, day, store_id, views) VALUES ('sale', 42, CURDATE(), 12345, 999)",  # not the counter's
)


@pytest.fixture(autouse=True)
def tables(mysql):
    for statement in TABLES:
        mysql.query(statement)
    wait_until(day_goes_on, 60, "the next day")


def dashed(date):
    return f"{date[:4]}-{date[4:6]}-{date[6:]}"


def business(client):
    """(product, back) -> views, and the same of clicks by (campaign, hour)."""
    views, clicks = Counter(), Counter()
    for product, back in itertools.product((42, 43, 7), range(0, 40, 3)):
        views[product, back] = n = product % 10 + back + 1
        assert client.call("HINCRBY", f"store:{STORE}:product:{product}:views", day(-back), n) == n
    for campaign, hour in itertools.product(("mail", "a:b/<i>"), ("08", "19")):
        clicks[campaign, hour] = n = len(campaign) + int(hour)
        assert client.call("HINCRBY", f"store:{STORE}:clicks", f"{campaign}@{dashed(day())}T{hour}", n) == n
    for section, article, count, n in (("news", 42, "views", 9), ("news", 42, "likes", 2), ("blog", 43, "views", 4)):
        assert client.call("HINCRBY", f"article:{STORE}:{section}:{article}", count, n) == n
    assert client.call("HINCRBY", f"rated:{STORE}:5", 42, 6) == 6
    assert client.call("INCRBY", f"sent:{dashed(day())[:7]}:{STORE}", 700) == 700
    return views, clicks


def of_days(views, days, product=None):
    """By the day, and by the product, of the last days."""
    some = {key: n for key, n in views.items() if key[1] < days and product in (None, key[0])}
    by_day, by_product = Counter(), Counter()
    for (each, back), n in some.items():
        by_day[day(-back)] += n
        by_product[str(each)] += n
    return by_day, by_product


def test_the_api(make_daemon, redis, mysql):
    daemon, http = make_web(make_daemon, redis, families=FAMILIES)
    with daemon.client() as client:
        views, clicks = business(client)
    by_day, by_product = of_days(views, 30)
    live = lambda counter, query: http.figures(STORE, counter, query)["rows"]
    said = {each["name"]: each for each in http.get("/api/counters")}
    assert [(said[name]["time"], said[name]["columns"], said[name]["label_column"], said[name]["counts"]) for name in FAMILIES] == [
        ("date", ["product_id"], "product_id", []), ("hour", ["campaign"], None, []),
        (None, ["section", "id"], "id", ["views", "likes"]), (None, ["stars", "product_id"], None, []), ("month", [], None, [])]
    daemon.sync_all()
    with daemon.client() as client:
        client.call("HINCRBY", f"store:{STORE}:product:43:views", day(), 5)
        client.call("HINCRBY", f"store:{STORE}:product:43:views", day(-3), 1)
    # by the time: sums of all products, which nobody can know live; of one of them, live
    rows = live("product_views", "")
    assert [(row["field"], row["stored"], row["live"]) for row in rows] == [(day(-back), by_day[day(-back)], None) for back in range(29, -1, -1)]
    one = live("product_views", "?key[product_id]=43&from=" + day(-9))
    stored = of_days(views, 10, 43)[0]
    more = {day(): 5, day(-3): 1}
    assert [(row["field"], row["stored"], row["live"]) for row in one] == [
        (day(-back), stored[day(-back)], stored[day(-back)] + more.get(day(-back), 0)) for back in range(9, -1, -1)]
    # by the product, with names
    rows = live("product_views", "?top=2")
    best = by_product.most_common(2)
    assert [(row["key"], row["stored"], row["live"]) for row in rows] == [
        ({"product_id": product}, n, n + (6 if product == "43" else 0)) for product, n in best]
    names = {"42": "Schal <b>", "43": "Mütze", "7": None}
    assert [row["label"] for row in rows] == [names[product] for product, _ in best]
    three = of_days(views, 3)[1]
    assert {row["key"]["product_id"]: row["live"] for row in live("product_views", f"?top=9&from={day(-2)}")} == {
        product: n + (5 if product == "43" else 0) for product, n in three.items()}
    today = of_days(views, 1)[1]
    assert {row["key"]["product_id"]: row["live"] for row in live("product_views", f"?top=9&from={day()}&to={day()}")} == {
        product: n + (5 if product == "43" else 0) for product, n in today.items()}
    # a pattern in the field, a time in four columns
    rows = {row["field"]: row["stored"] for row in live("clicks", f"?from={day()}00&to={day()}23")}
    assert rows == {f"{day()}{hour:02}": sum(n for (_, at), n in clicks.items() if int(at) == hour) for hour in range(24)}
    rows = live("clicks", f"?top=5&from={day()}00&to={day()}23")
    assert [(row["key"]["campaign"], row["live"]) for row in rows] == [
        (name, clicks[name, "08"] + clicks[name, "19"]) for name in ("a:b/<i>", "mail")]
    # counts by name, and a month without anything else
    assert [(row["key"], row["live"], row["label"]) for row in live("articles", "")] == [
        ({"section": "news", "id": "42"}, 9, "Schal <b>"), ({"section": "blog", "id": "43"}, 4, "Mütze")]
    assert [row["live"] for row in live("articles", "?count=likes&key[section]=news")] == [2]
    assert [(row["field"], row["live"]) for row in live("bytes", "")][-1] == (day()[:6], 700)
    assert http.get("/api/stores")["stores"] == [STORE]
    mysql.query("DROP TABLE clicks")
    assert http.get("/api/stores")["stores"] == [STORE]


def test_as_csv(make_daemon, redis, mysql):
    daemon, http = make_web(make_daemon, redis, families=FAMILIES)
    with daemon.client() as client:
        views, _ = business(client)
    daemon.sync_all()

    def rows(counter, query):
        answer = http.ask(f"/api/stores/{STORE}/counters/{counter}?format=csv{query}")
        return list(csv.reader(io.StringIO(answer.text), strict=True))

    by_day, by_product = of_days(views, 30)
    assert rows("product_views", "")[0] == ["day", "live", "stored"]
    assert rows("product_views", "")[-1] == [dashed(day()), "", str(by_day[day()])]
    (top, n), = by_product.most_common(1)
    assert rows("product_views", "&top=1") == [["product_id", "name", "live", "stored"], [top, "Schal <b>" if top == "42" else "Mütze" if top == "43" else "", str(n), str(n)]]
    assert rows("articles", "&count=likes&top=1") == [["section", "id", "name", "live", "stored"], ["news", "42", "Schal <b>", "2", "2"]]
    assert rows("bytes", "")[-1] == [dashed(day())[:7], "700", "700"]


@pytest.mark.parametrize("counter, query, why", [
    ("product_views", "?key[day]=20240501", "is no key column"), ("product_views", "?key[product_id]=x", "is no key column"),
    ("product_views", "?count=views", "is no count"), ("articles", "?count=shares", "is no count"),
    ("articles", "?from=20240501", "this counter's field is count"), ("clicks", "?field=mail", "this counter's field is pattern"),
    ("product_views", "?field=2024", "expected a date as YYYYMMDD"), ("bytes", "?from=20240501", "a month as YYYYMM")])
def test_questions_that_it_cannot_be_asked(make_daemon, redis, counter, query, why):
    daemon, http = make_web(make_daemon, redis, families=FAMILIES)
    answer = http.ask(f"/api/stores/{STORE}/counters/{counter}{quote(query, safe='?=')}")
    assert answer.status == 400 and why in answer.json()["error"], answer.text


def test_rows_that_no_hit_can_have(make_daemon, redis, mysql):
    """Of a shop that writes them itself; and without MySQL the last answer stays."""
    daemon, http = make_web(make_daemon, redis, families=FAMILIES)
    mysql.query("INSERT INTO articles VALUES (%s, 'a:b', 9, 5, NULL), (%s, '', 8, 7, 1), (%s, 'ok', -3, 6, 1)", (STORE,) * 3)
    with daemon.client() as client:
        client.call("HINCRBY", f"article:{STORE}:news:1", "views", 3)
        daemon.sync_all()
        client.call("HINCRBY", f"article:{STORE}:news:1", "views", 1)
    rows = lambda: [(row["key"]["section"], row["stored"], row["live"]) for row in http.figures(STORE, "articles", "?top=4")["rows"]]
    assert rows() == (all_ := [("", 7, 7), ("ok", 6, 6), ("a:b", 5, 5), ("news", 3, 4)])
    mysql.kill9()
    wait_until(lambda: http.figures(STORE, "articles", "?top=4")["mysql"] == "down", 40, "it is known")
    assert rows() == all_
    mysql.start()


def test_two_times_and_rows_without(make_daemon, redis, mysql):
    """The first one is the time, the other one a column; rows of the shop's own that have no such time are left out."""
    mysql.query("CREATE TABLE booked (store_id INT, day DATE, month INT, n INT NOT NULL, PRIMARY KEY (store_id, day, month))")
    family = {"key": "booked:<store>:<day>", "field": "month", **SLOWLY, "kinds": {"day": "date"}, "table": "booked",
              "columns": {"store": "store_id", "day": "day", "field": "month", "count": "n"}}
    _, http = make_web(make_daemon, redis, families={"booked": family})
    mysql.query("INSERT INTO booked VALUES (7, CURDATE(), 202405, 4), (7, CURDATE() - INTERVAL 1 DAY, 202405, 1), (7, CURDATE(), 5, 9)")
    rows = http.figures("7", "booked", "?top=9")["rows"]
    assert [(row["key"], row["stored"], row["live"]) for row in rows] == [({"month": "202405"}, 5, 5)]
    assert http.figures("7", "booked")["rows"][-1]["stored"] == 13


def test_one_field_as_the_app_spells_it(make_daemon, redis, mysql):
    mysql.query("CREATE TABLE seen (store_id INT, day DATE, n INT NOT NULL, PRIMARY KEY (store_id, day))")
    family = {"key": "seen:<store>", "field": "date 2024-05-01", **SLOWLY, "table": "seen",
              "columns": {"store": "store_id", "field": "day", "count": "n"}}
    daemon, http = make_web(make_daemon, redis, families={"seen": family})
    with daemon.client() as client:
        client.call("HINCRBY", "seen:7", dashed(day()), 3)
        row, = http.figures("7", "seen", f"?field={dashed(day())}")["rows"]
        assert (row["field"], row["live"]) == (day(), 3)
        daemon.sync_all()
    assert http.figures("7", "seen", f"?field={dashed(day())}")["rows"] == [{"field": day(), "stored": 3, "live": 3}]
    assert http.figures("7", "seen")["rows"][-1] == {"field": day(), "stored": 3, "live": 3}


@pytest.fixture
def shop(make_daemon, redis, free_port):
    made = Shop(make_daemon(redis, start=False, families=FAMILIES), free_port)
    yield made
    made.client.close()


def test_in_the_panel(shop, browser, axe):
    """Charts by the time, tables by the rest; nothing is wider than the screen, and axe-core finds nothing. With SHOTS=dir the pictures
    are kept."""
    views, _ = business(shop.client)
    shop.daemon.sync_all()
    shop.hit(f"store:{STORE}:product:43:views", day(), 5)
    by_day, by_product = of_days(views, 30)
    card = lambda figure, counter="product_views": f"[data-counter={counter}][data-figure={figure}]"
    top = lambda counter="product_views": [row[:-2] for row in browser.rows(card("top", counter))]
    live = {product: n + (5 if product == "43" else 0) for product, n in by_product.items()}
    names = {"42": "Schal <b> 42", "43": "Mütze 43", "7": "7"}
    for width in (1280, 390):
        browser.open(shop.store(), width)
        seen(browser, lambda: browser.number(f"{card('range')} .sums strong"), sum(by_day.values()), "the sum of the days")
        seen(browser, top, [[names[product]] for product in sorted(live, key=live.get, reverse=True)], "the top products")
        assert [int(row[-2]) for row in browser.rows(card("top"))] == sorted(live.values(), reverse=True)
        assert browser.number(f"{card('today')} .big") == by_day[day()]
        browser.one(f"{card('top')} .total input").send_keys("43\n")
        seen(browser, lambda: browser.number(f"{card('top')} .total strong"), live["43"], "the total of one product")
        assert "Total of one product id" in browser.text(f"{card('top')} .total"), browser.text(f"{card('top')} .total")
        seen(browser, lambda: [row[:2] for row in browser.rows("[data-counter=articles][data-count=views]")],
             [["news", "Schal <b> 42"], ["blog", "Mütze 43"]], "views of articles")
        seen(browser, lambda: browser.rows(card("top", "ratings")), [["5", "42", "6", "6"]], "ratings")
        heads = browser.run("return [...document.querySelectorAll(arguments[0])].map((head) => head.textContent)", f"{card('top', 'ratings')} th")
        assert heads[:4] == ["Stars", "Product id", "Live", "Stored"], heads
        seen(browser, lambda: browser.number(f"{card('range', 'bytes')} .sums strong"), 700, "bytes of the month")
        wait_until(lambda: not browser.all("[aria-busy=true]"), 60, "all of it")
        if os.environ.get("SHOTS"):
            browser.screenshot(os.path.join(os.environ["SHOTS"], f"parts-{width}.png"))
        browser.unfold()
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0, width
        assert browser.faults(axe) == [], width
    browser.click("[data-days='7']")
    three = of_days(views, 7)[1]
    seen(browser, lambda: [int(row[-1]) for row in browser.rows(card("top"))],
         [three[product] for product in sorted(three, key=lambda p: three[p] + (5 if p == "43" else 0), reverse=True)], "seven days")
    assert browser.all("#view b b") == [] and browser.complaints() == []
