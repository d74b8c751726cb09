"""What a merchant's panel shows beyond figures: names of items, the period before, CSV, and days of the store's own zone.
The shop and its browser are those of test_panel.py."""
import csv
import datetime
import os
import re
import zoneinfo

import pytest

from harness.daemon import counters
from harness.wait import wait_until
from test_panel import (FED, RANGE, SEARCHES, STORE, TODAY, UNIQUES, VIEWS, VISITORS, Shop, axe, browser, chromium, day,  # noqa: F401
                        day_goes_on, seen)

PRODUCTS = {"labels": {"table": "products", "id": "product_id", "name": "title"}}
TERMS = {"labels": {"table": "terms", "id": "term", "name": "said"}}
NASTY = "<b>Wool</b> & \"silk\""


@pytest.fixture
def families():
    return counters(hits=10**9, every="3600s", product_views={**FED["product_views"], **PRODUCTS}, searches=TERMS)


@pytest.fixture
def shop(make_daemon, redis, free_port, mysql, families):
    mysql.query("CREATE TABLE shop.products (product_id BIGINT PRIMARY KEY, title VARCHAR(400) CHARACTER SET utf8mb4)")
    mysql.query("CREATE TABLE shop.terms (term VARCHAR(250) CHARACTER SET utf8mb4 PRIMARY KEY, said VARCHAR(90))")
    wait_until(day_goes_on, 60, "the next day")
    made = Shop(make_daemon(redis, start=False, families=families, more=UNIQUES), free_port)
    yield made
    made.client.close()


def items(browser, counter):
    return [row[0] for row in browser.rows(f"[data-counter={counter}][data-figure=top]")]


def test_names_of_items(shop, browser, mysql):
    """Names beside ids, as text; an id without a name; a changed name within its minute; the last known without MySQL."""
    mysql.query("INSERT INTO shop.products VALUES (1, %s), (2, 'Grüner Schal 🧣'), (4, %s)", (NASTY, "lang " * 80))
    mysql.query("INSERT INTO shop.terms VALUES ('red shoes', 'Rote Schuhe')")
    for product, n in ((1, 40), (2, 30), (3, 20), (4, 10)):
        shop.hit(VIEWS, product, n)
    for term, n in (("red shoes", 5), ("RED SHOES", 4), (b"\xff'; --", 3)):
        shop.hit(SEARCHES, term, n)
    shop.daemon.sync_all()
    browser.open(shop.store())
    seen(browser, lambda: items(browser, "product_views")[:3], [f"{NASTY} 1", "Grüner Schal 🧣 2", "3"], "the products")
    assert items(browser, "product_views")[3].startswith("lang lang") and items(browser, "product_views")[3].endswith(" 4")
    # 'RED SHOES' is equal to the row's term for the collation, but another item
    seen(browser, lambda: items(browser, "searches")[:2], ["Rote Schuhe red shoes", "RED SHOES"], "the terms")
    assert browser.all("#view b") == [] and browser.complaints() == []
    assert "counters.*.labels" not in browser.text("#view")
    mysql.kill9()
    shop.hit(VIEWS, 3, 100)
    wait_until(lambda: "MySQL is away" in browser.text("#banner"), 40, "it says so")
    seen(browser, lambda: items(browser, "product_views")[:2], ["3", f"{NASTY} 1"], "names without MySQL", 30)
    mysql.start()


def saved(browser, directory, button):
    """Clicks a button that saves; (name, rows) of the file, as Python's csv reads it."""
    before = set(os.listdir(directory))
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                                   {"behavior": "allow", "downloadPath": directory})
    browser.click(button)
    there = lambda end: [name for name in set(os.listdir(directory)) - before if name.endswith(end)]
    size = lambda name: os.path.getsize(os.path.join(directory, name))
    # Chromium first makes an empty file of that name, and another one for the bytes.
    wait_until(lambda: [size(name) > 0 for name in there(".csv")] == [True] and not there(".crdownload"), 60, "the file is saved")
    name = there(".csv")[0]
    with open(os.path.join(directory, name), encoding="utf-8", newline="") as file:
        return name, list(csv.reader(file, strict=True))


def test_the_period_before(shop, browser, mysql):
    """In figures, as a line, and as a column of the table: those of the same number of days before."""
    for back in range(20):
        shop.hit(VISITORS, day(-back), 100 + back if back < 7 else 10 * back)
    shop.daemon.sync_all()
    browser.open(shop.store(query="days=7"))
    now, before = sum(100 + back for back in range(7)), sum(10 * back for back in range(7, 14))
    seen(browser, lambda: browser.number(f"{RANGE} .sums strong"), now, "these days")
    said = browser.run("return {...document.querySelector(arguments[0]).dataset}", f"{RANGE} .sums [data-before]")
    assert said == {"before": str(before), "change": f"+{round(100 * (now - before) / before)}\u00a0%"}
    assert f"{before} in the 7 days before" in browser.text(f"{RANGE} .sums")
    assert "the sum of all days: who comes on several counts in each" in browser.text(f"{RANGE} .sums")
    seen(browser, lambda: "No ids of visitors came in these days" in browser.text("[data-uniques]"), True, "why there are none")
    browser.unfold()
    wait_until(lambda: len(browser.rows(RANGE)) == 7, 60, "the table")
    assert [int(row[3]) for row in browser.rows(RANGE)] == [10 * back for back in range(7, 14)]
    browser.open(shop.store(query=f"from={day(-19)}&to={day(-13)}"))
    seen(browser, lambda: "none in the 7 days before" in browser.text(f"{RANGE} .sums"), True, "nothing before")
    assert browser.complaints() == []


def test_this_week_beside_the_last(shop, browser, mysql):
    """Up to today, beside as many days of the week before; a week begins on Monday, where the reader is."""
    for back in range(16):
        shop.hit(VISITORS, day(-back), 1 + back)
    shop.daemon.sync_all()
    browser.open(shop.store())
    begun = datetime.date.today().weekday()
    week, last = (sum(1 + back for back in range(first, first + begun + 1)) for first in (0, 7))
    said = lambda: browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.dataset.week)", f"{TODAY} [data-week]")
    seen(browser, said, [str(week), str(last)], "the weeks")
    facts = browser.facts(TODAY)
    assert re.match(rf"{week} \([+-]\d+(,\d)?\u00a0%\)$", facts["This week"]), facts
    assert facts["Last week, to the same day"] == str(last) and facts["Yesterday"] == "2", facts
    assert "Every hit before the moment named here" in browser.run("return document.querySelector(arguments[0]).title", f"{TODAY} dt")
    assert browser.complaints() == []


def test_total_of_one_item(shop, browser, mysql):
    """Also of one that is not among the highest, live; the field is kept while figures move; a wrong one is told."""
    for product in range(12):
        shop.hit(VIEWS, 100 + product, 50 - product)
    shop.daemon.sync_all()
    browser.open(shop.store())
    card = "[data-counter=product_views][data-figure=top]"
    seen(browser, lambda: len(items(browser, "product_views")), 10, "the highest")
    assert "111" not in items(browser, "product_views") and browser.text(f"{card} .total .sums") == ""
    browser.one(f"{card} .total input").send_keys("111\n")
    seen(browser, lambda: browser.number(f"{card} .total strong"), 39, "its total")
    assert "111, since counting began" in browser.text(f"{card} .total") and "39 stored" in browser.text(f"{card} .total")
    shop.hit(VIEWS, 111, 4)
    seen(browser, lambda: browser.number(f"{card} .total strong"), 43, "its total, live")
    browser.one(f"{card} .total input").send_keys("x\n")
    seen(browser, lambda: '"111x" is no item of this counter' in browser.text(f"{card} .total"), True, "a wrong one")
    assert all("400" in line for line in browser.complaints())


def test_figures_saved_as_csv(shop, browser, mysql, workdir):
    """What the page saves is what SQL says, names and formulas with it; a file for each chart and list."""
    mysql.query("INSERT INTO shop.products VALUES (1, %s), (2, '=HYPERLINK(\"x\")')", (NASTY + "\r\nnew",))
    for back in range(9):
        shop.hit(VISITORS, day(-back), 7 * back + 1)
        for visitor in range(back + 1):
            shop.client.call("UNIQ.ADD", f"s{STORE}:visitors", day(-back), str(visitor))
    for product, n in ((1, 40), (2, 30), (3, 20)):
        shop.hit(VIEWS, product, n)
    for term, n in (("=1+1", 9), ("a,b", 8), ("-5", 7), ("zwölf \"x\"", 6)):
        shop.hit(SEARCHES, term, n)
    shop.daemon.sync_all()
    browser.open(shop.store(query="days=7"))
    seen(browser, lambda: len(items(browser, "searches")), 4, "the page")
    name, rows = saved(browser, workdir, f"{RANGE} .save")
    sql = {str(at): str(n) for at, n in
           mysql.query("SELECT day, visitors FROM shop.daily_visitors WHERE store_id = %s", (STORE,))}
    days = [(datetime.date.today() - datetime.timedelta(back)).isoformat() for back in range(6, -1, -1)]
    assert name == f"{STORE}-unique_visitors.csv"
    assert rows == [["day", "live", "stored"], *([at, sql[at], sql[at]] for at in days)]
    name, rows = saved(browser, workdir, "[data-counter=product_views][data-figure=top] .save")
    assert rows == [["item", "name", "live", "stored"], ["1", NASTY + "\r\nnew", "40", "40"],
                    ["2", "'=HYPERLINK(\"x\")", "30", "30"], ["3", "", "20", "20"]]
    name, rows = saved(browser, workdir, "[data-counter=searches][data-figure=top] .save")
    assert rows == [["item", "name", "live", "stored"], ["'=1+1", "", "9", "9"], ["a,b", "", "8", "8"],
                    ["'-5", "", "7", "7"], ["zwölf \"x\"", "", "6", "6"]]
    name, rows = saved(browser, workdir, "[data-uniques] .save")
    assert [row[2] for row in rows[1:]] == ["yes"] * 7 and [row[0] for row in rows[1:]] == days
    with shop.daemon.client() as client:
        samples = client.call("SERIES.GET", f"s{STORE}:views", 3600)
    name, rows = saved(browser, workdir, "[data-precision='3600'] .save")
    assert rows[0] == ["time", "hits"] and sum(int(n) for _, n in rows[1:]) == sum(int(n) for n in samples[1::2])
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:00:00Z", at) for at, _ in rows[1:])
    name, rows = saved(browser, workdir, "[data-box] .save")
    assert sum(int(n) for _, n in rows[1:]) == 90
    assert browser.complaints() == []


def test_names_that_cannot_be_read(shop, browser, mysql):
    """Then ids, and the log says why; the figures are the same."""
    mysql.query("DROP TABLE shop.products")
    shop.hit(VIEWS, 7, 3)
    shop.daemon.sync_all()
    browser.open(shop.store())
    seen(browser, lambda: items(browser, "product_views"), ["7"], "the id")
    shop.daemon.log_contains("event=labels_unread counter=product_views")


def restart(shop, **options):
    shop.client.close()
    assert shop.daemon.terminate() == 0
    shop.daemon.config.update(options)
    shop.daemon.write_config()
    shop.daemon.start()
    shop.wait_http()
    shop.client = shop.daemon.client()


def test_today_is_the_day_of_the_store(shop, browser, mysql):
    """Three stores whose days begin hours apart: what CTR.HIT counts now is today's in each, times are told in its zone, and
    a shop without a zone of its own has the default."""
    zones = {"1": "Pacific/Auckland", "2": "Asia/Kathmandu", "3": "Pacific/Honolulu", "4": "Europe/Berlin"}
    mysql.query("CREATE TABLE shop.stores (store_id BIGINT PRIMARY KEY, zone VARCHAR(64))")
    for store in ("1", "2", "3"):
        mysql.query("INSERT INTO shop.stores VALUES (%s, %s)", (store, zones[store]))
    restart(shop, zone="Europe/Berlin", store_zone={"table": "stores", "store": "store_id", "zone": "zone"})
    for store, zone in zones.items():
        now = lambda z=zone: datetime.datetime.now(zoneinfo.ZoneInfo(z))
        wait_until(lambda: (now() + datetime.timedelta(seconds=60)).date() == now().date(), 90, f"no midnight in {zone}")
        yesterday = (now() - datetime.timedelta(1)).strftime("%Y%m%d")
        shop.client.call("HINCRBY", f"s{store}:unique_visitors:daily", yesterday, 5)
        shop.client.call("CTR.HIT", f"s{store}:unique_visitors:daily", 7)
        shop.client.call("HINCRBY", f"s{store}:product_views", 1, 3)
        shop.daemon.sync_all()
        browser.open(shop.store(store, "days=7"))
        seen(browser, lambda: browser.number(f"{TODAY} .big"), 7, f"today in {zone}")
        assert browser.facts(TODAY)["Yesterday"] == "5"
        seen(browser, lambda: browser.number("[data-figure='since midnight'] .big"), 3, "since midnight")
        seen(browser, lambda: browser.number(f"{RANGE} .sums strong"), 12, "the last days")
        assert browser.run("return document.querySelector('#range-to').value") == now().date().isoformat()
        assert browser.text("#foot") == f"Times are those of {zone}."
        assert now().strftime("%d.").lstrip("0") in browser.text("#view .lead")
    assert browser.complaints(unreached=True) == []
    browser.open(shop.operator)
    wait_until(lambda: browser.text("#foot") == "Times are those of UTC.", 60, "the reader's own zone")


def test_midnight_under_an_open_page(shop, browser):
    """The store's ends its day. That of a reader in another zone does not."""
    store, reader = zoneinfo.ZoneInfo("Pacific/Auckland"), zoneinfo.ZoneInfo("America/Los_Angeles")
    restart(shop, zone=store.key)
    shown = lambda: (browser.number(f"{TODAY} .big"), browser.facts(TODAY)["Yesterday"], browser.text("#view .lead"))
    for midnight, later in ((datetime.datetime(2026, 11, 23, tzinfo=reader), (9, "5", "Montag, 23. November 2026")),
                            (datetime.datetime(2026, 11, 27, tzinfo=store), (1, "8", "Freitag, 27. November 2026"))):
        before = midnight - datetime.timedelta(seconds=10)
        days = [f"{at.astimezone(store):%Y%m%d}" for at in (before - datetime.timedelta(1), before, midnight)]
        with browser.at(before, reader.key):
            for at, n in zip(days, (5, 8)):
                shop.hit(VISITORS, at, n)
            browser.open(shop.store(query="days=7"))
            seen(browser, lambda: shown()[:2], (8, "5"), "the day before")
            browser.run("stepClock(20)")
            shop.hit(VISITORS, days[2], 1)
            seen(browser, shown, later, "after midnight")
            assert browser.run("return document.querySelector('#range-to').value") == f"{midnight.astimezone(store):%Y-%m-%d}"


def says_no_value(browser, what, until):
    """What JavaScript writes for a value that is none is nowhere on the page: not in what is read aloud or shown on hover, either. Nor are
    two ends of one sentence, or an address for programs."""
    wait_until(lambda: until in browser.text("body"), 60, what)
    wait_until(lambda: not browser.all("[aria-busy=true], .waiting"), 60, f"{what}: all is loaded")
    browser.unfold()
    told = browser.run("""return [document.title, document.body.innerText,
        ...[...document.querySelectorAll("[title]")].map(({ title }) => title),
        ...[...document.querySelectorAll("[aria-label], [label], [value]")].flatMap((one) =>
            ["aria-label", "label", "value"].map((name) => one.getAttribute(name) ?? "")),
        ...[...document.querySelectorAll("svg text, svg title")].map((text) => text.textContent)].join("\\n")""")
    words = re.findall(r".*(?:\b(?:null|undefined|false|true|NaN|Infinity|Invalid|object Object)\b|\?\.|/api/).*", told)
    assert words == [], (what, words)


def labels_of(browser, chart):
    """[text, where it begins, where it ends] of each label below it, from left to right."""
    return browser.run("""return [...document.querySelectorAll(arguments[0] + " .dygraph-axis-label-x")].map((label) => {
        const range = document.createRange();
        range.selectNodeContents(label);
        const { left, right } = range.getBoundingClientRect();
        return [label.textContent, left, right];
    }).filter(([text]) => text).sort((a, b) => a[1] - b[1])""", chart)


def test_labels_below_a_chart(shop, browser):
    """They do not overlap, and none is cut off; on a phone the first and the last day have one."""
    for back in range(30):
        shop.hit(VISITORS, day(-back), 5 + back)
    shop.daemon.sync_all()
    agent = browser.run("return navigator.userAgent")
    for width in (390, 700, 1280):
        for place, chart, reader in ((shop.operator, "[data-part=age]", "en-US"), (shop.store(), RANGE, "de-DE")):  # AM and PM are longest
            browser.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": reader})
            browser.open(place, width=width)
            wait_until(lambda: labels_of(browser, chart), 60, f"the labels of {chart}")
            labels = labels_of(browser, chart)
            assert chart == RANGE or labels[0][0].endswith("M"), labels
            assert all(before[2] < after[1] for before, after in zip(labels, labels[1:])), (width, chart, labels)
            assert labels[0][1] >= 0 and labels[-1][2] <= width, (width, chart, labels)
        if width == 390:
            browser.open(shop.store(), width=width)
            first, last = (f"{at.day}. " for at in (datetime.date.today() - datetime.timedelta(29), datetime.date.today()))
            seen(browser, lambda: [text[:len(end)] for (text, *_), end in zip(labels_of(browser, RANGE), (first, last))],
                 [first, last], "the first and the last day")
            assert len(labels_of(browser, RANGE)) == 2
        browser.open(shop.store(query=f"from={day(-1)}&to={day(-1)}"), width=width)
        seen(browser, lambda: [text.split(".")[0] for text, *_ in labels_of(browser, RANGE)], [str(int(day(-1)[6:]))], "the one day")
    assert browser.complaints() == []


FOOT = """const canvas = document.querySelector(arguments[0] + " canvas"), { width, height } = canvas.getBoundingClientRect();
    const scale = canvas.width / width, { data } = canvas.getContext("2d").getImageData(0, (height - 30) * scale, canvas.width, 1);
    const runs = Array.from({ length: canvas.width }, (_, x) => data[4 * x + 3] && data[4 * x + 2] > data[4 * x] + 40 ? "#" : " ").join("");
    return runs.match(/#+/g).map((run) => run.length)"""


def test_ends_of_a_chart(shop, browser):
    """The first bar and the last are as wide as the others, and labels say more than one time."""
    for back in range(30):
        shop.hit(VISITORS, day(-back), 500)
    shop.hit(VIEWS, 3, 100)
    shop.daemon.sync_all()
    for width, days in ((1280, 7), (1280, 30), (390, 7)):
        browser.open(shop.store(query=f"days={days}"), width=width)
        for precision in (60, 3600):
            chart = f"[data-precision='{precision}']"
            wait_until(lambda: len(labels_of(browser, chart)) > 1, 20, f"more than one label of {chart} at {width}")
            assert all(re.fullmatch(r"\d\d:\d\d", text) for text, *_ in labels_of(browser, chart)), labels_of(browser, chart)
        seen(browser, lambda: len(browser.run(FOOT, RANGE)), days, "a bar each day")
        bars = browser.run(FOOT, RANGE)
        assert max(bars) - min(bars) <= 1, (width, days, bars)


def test_no_page_says_null(shop, browser, redis, mysql):
    """A store without hits, days before which there are none, MySQL away before a page asked it for anything, and afterwards."""
    browser.open(shop.store("777"))
    says_no_value(browser, "a store without hits", "Store 777")
    for offset in (-1, 0):
        shop.hit(VISITORS, day(offset), 4)
        shop.client.call("UNIQ.ADD", f"s{STORE}:visitors", day(offset), "7")
    shop.hit(VISITORS, "19700105", 4)
    redis.client().setbit(f"s{STORE}:visitors_1970_01_05", 7, 1)  # tallyd takes no visitor of that day any more
    shop.hit(VIEWS, 3, 100)
    shop.daemon.sync_all()
    browser.open(shop.store(query="from=19700101&to=19700107"))
    says_no_value(browser, "the first days that there are", "exact")
    mysql.kill9()
    for place in (shop.store(), shop.store("778"), shop.store(query="from=19700101&to=19700107")):
        browser.open(place)
        says_no_value(browser, "MySQL is away", "MySQL is away")
        assert "No hits" not in browser.text(RANGE), place  # nobody knows
    browser.open(shop.operator)
    says_no_value(browser, "operations without MySQL", "Needs MySQL, which is away.")
    said = browser.text("body")
    assert len(re.findall("MySQL error", said)) == 1 and said.count("Needs MySQL, which is away.") == 2, said
    told = "return import('/assets/api.js').then(({ told }) => told({ message: 'is it right?', next: 'see that' }))"
    assert browser.run(told) == "Is it right? See that"
    assert "A cell is one field" in browser.run("return document.querySelector('.flow').textContent")
    mysql.start()
    redis.kill9()
    browser.open(shop.store())
    says_no_value(browser, "Redis is away", "Redis cannot be reached")
    assert "MASTERDOWN" not in browser.text("body")
    browser.open(shop.operator)
    seen(browser, lambda: browser.text("[data-part=age] .readout"), "Not known now", "an age that nobody knows")


VISITS = {"key": "visits", "field": "date", "sync": {"hits": 10**9, "every": "3600s"}, "table": "visits",
        "columns": {"field": "day", "count": "visits"}}
STATES = {  # the only counters, the page, what it says at rest, and without MySQL, and without Redis
    "one counter without a store": ({"visits": VISITS}, "-", "All counters without a store"),
    "one counter by item": ({"views": {**VISITS, "key": "s<store>:views", "field": "integer", "table": "views",
                                       "columns": {"store": "store_id", "field": "product_id", "count": "views"}}}, "7", "Store 7"),
    "one counter by item and day": ({"views": {**VISITS, "key": "s<store>:<product>", "table": "views", "columns": {
        "store": "store_id", "product": "product_id", "field": "day", "count": "views"}}}, "7", "Store 7"),
}


@pytest.mark.parametrize("state", STATES)
def test_no_page_says_null_in_any_state(make_daemon, redis, mysql, free_port, chromium, axe, state):
    """Before the first hit, with MySQL away, and Redis too; both pages. Without MySQL axe-core finds nothing and nothing is
    wider than the screen. With SHOTS=dir the pictures are kept."""
    families, store, until = STATES[state]
    shop = Shop(make_daemon(redis, start=False, families=families), free_port)
    counter, = families.values()
    key = counter["key"].replace("<store>", store).replace("<product>", "42")
    chromium.complaints()
    for when in ("before the first hit", "MySQL is away", "Redis is away too"):
        if when == "MySQL is away":
            shop.hit(key, day() if counter["field"] == "date" else 42, 3)
            shop.daemon.sync_all()
            mysql.kill9()
        elif when == "Redis is away too":
            redis.kill9()
        for page, says in ((shop.store(store), when if when == "MySQL is away" else until),
                           (shop.operator, "Needs MySQL, which is away." if "away" in when else "Batches in flight")):
            chromium.open(page)
            says_no_value(chromium, f"{state}, {when}", says)
            assert ("Last 30 days" in chromium.text("body")) == (page != shop.operator and counter["field"] == "date"), (state, when)
            for width, scheme in ((1280, "light"), (390, "dark")) if when == "MySQL is away" else ():
                chromium.view(width, scheme)
                if os.environ.get("SHOTS"):
                    chromium.screenshot(os.path.join(os.environ["SHOTS"], f"{state}, {when}, {says}, {width}.png"))
                assert chromium.run("return document.documentElement.scrollWidth - innerWidth") <= 0, (state, width)
                assert chromium.faults(axe) == [], (state, width)
    chromium.driver.get("about:blank")
    shop.client.close()
    mysql.start()


def test_names_of_stores(shop, browser, mysql):
    """The title, and the list of what is typed; a store without a name; the last known one without MySQL; what check says."""
    mysql.query("CREATE TABLE shop.stores (store_id BIGINT PRIMARY KEY, called VARCHAR(90) CHARACTER SET utf8mb4)")
    mysql.query("INSERT INTO shop.stores VALUES (%s, %s)", (STORE, NASTY))
    restart(shop, store_names={"table": "stores", "store": "store_id", "name": "called"})
    for store in (STORE, "12"):
        shop.hit(f"s{store}:product_views", 1)
    shop.daemon.sync_all()
    browser.open(shop.store())
    seen(browser, lambda: browser.text("#view h1"), NASTY, "the name of the store")
    assert f"Store {STORE}" in browser.text("#view .heading") and browser.driver.title == f"{NASTY} · tallyd"
    browser.click("#store")
    browser.press("1")
    offered = "return [...document.querySelectorAll('#stores option')].map(({ value, label }) => [value, label])"
    seen(browser, lambda: browser.run(offered), [["12", ""], [STORE, f"{STORE} {NASTY}"]], "the stores")
    browser.open(shop.store("12"))
    seen(browser, lambda: browser.text("#view h1"), "Store 12", "a store without a name")
    mysql.kill9()
    browser.open(shop.store())
    seen(browser, lambda: browser.text("#view h1"), NASTY, "the name without MySQL")
    mysql.start()
    assert browser.complaints(unreached=True) == []
    mysql.query("DROP TABLE shop.stores")
    assert "store_names cannot be read" in shop.daemon.verb("check").stdout


NAMELESS = "Items are shown as they were counted; with counters.*.labels in tallyd's configuration they have names."


def test_lists_say_of_when_they_are(make_daemon, redis, free_port, chromium):
    """The title of a list, or of the part of the page that it is in. Once, and only where no counter has them: how to get names."""
    by_item = {**VISITS, "key": "s<store>:views", "field": "integer", "table": "views",
               "columns": {"store": "store_id", "field": "product_id", "count": "views"}}
    by_both = {**VISITS, "key": "s<store>:<product>", "table": "daily_views",
               "columns": {"store": "store_id", "product": "product_id", "field": "day", "count": "views"}}
    shop = Shop(make_daemon(redis, start=False, families={"views": by_item, "daily_views": by_both, "visits": VISITS}), free_port)
    shop.hit(f"s{STORE}:views", 42)
    shop.hit(f"s{STORE}:42", day())
    chromium.complaints()  # of the test before
    of = lambda counter: chromium.text(f"[data-counter={counter}][data-figure=top] .title :is(h2, h3)")
    for days, title in ((30, "Last 30 days"), (7, "Last 7 days")):
        chromium.open(shop.store(query=f"days={days}"))
        seen(chromium, lambda: of("views"), "Views: the top 10 since counting began", "of all time")
        assert of("daily_views") == "Daily views: the top 10" and chromium.text("section.range > .heading h2") == title
        assert len(chromium.all("section.range [data-figure=top]")) == 1 and chromium.text("#view").count(NAMELESS) == 1
    chromium.open(shop.store("-"))
    seen(chromium, lambda: chromium.text("#view h1"), "All counters without a store", "a page without lists")
    assert NAMELESS not in chromium.text("#view")
    assert chromium.complaints() == []
    chromium.driver.get("about:blank")  # the next test would hear it complain of this shop's end
    shop.client.close()


def test_what_a_store_is_called(shop, browser):
    """Where stores are sellers: before there is one, in titles, and where one is chosen."""
    restart(shop, store_word="Seller")
    called = lambda: (browser.text("#view h1"), browser.text("label[for=store]"), browser.text("#to-store"), browser.driver.title)
    browser.open(f"{shop.url}/")
    seen(browser, lambda: called()[:3], ("No seller has figures yet", "Seller", "Seller"), "no seller")
    assert browser.one("#store").get_attribute("list") == "stores" and len(browser.all("datalist#stores")) == 1
    shop.hit(VIEWS, 1)
    shop.daemon.sync_all()
    browser.open(shop.store())
    seen(browser, called, (f"Seller {STORE}", "Seller", "Seller", f"Seller {STORE} · tallyd"), "a seller")
    assert browser.complaints(unreached=True) == []


VISITS_TODAY = "[data-counter=visits][data-figure=today] .big"


def test_no_counter_has_a_store(make_daemon, redis, free_port, chromium):
    """Then the first page is theirs, and it is live."""
    wait_until(day_goes_on, 60, "the next day")
    shop = Shop(make_daemon(redis, start=False, families={"visits": VISITS}), free_port)
    chromium.complaints()  # of the test before
    shop.hit("visits", day(), 412)
    shop.daemon.sync_all()
    chromium.open(f"{shop.url}/")
    seen(chromium, lambda: chromium.number(VISITS_TODAY), 412, "the visits of today")
    assert chromium.text("#view h1") == "All counters without a store" and chromium.all("#store") == []
    shop.hit("visits", day(), 3)
    seen(chromium, lambda: chromium.number(VISITS_TODAY), 415, "a hit that is pending", within_s=15)  # not by the refresh of each minute
    assert chromium.complaints() == []
    chromium.driver.get("about:blank")
    shop.client.close()


def test_counters_with_and_without_a_store(make_daemon, redis, free_port, chromium):
    """Each has its page, and one leads to the other."""
    families = {**counters(hits=10**9, every="3600s"), "visits": VISITS}
    wait_until(day_goes_on, 60, "the next day")
    shop = Shop(make_daemon(redis, start=False, families=families), free_port)
    chromium.complaints()
    shop.hit("visits", day(), 7)
    shop.hit(VISITORS, day(), 5)
    shop.daemon.sync_all()
    chromium.open(f"{shop.url}/")
    seen(chromium, lambda: chromium.number(f"{TODAY} .big"), 5, "the visitors of the store")
    assert chromium.all(VISITS_TODAY) == []
    chromium.click("a[href='#/store/-']")
    seen(chromium, lambda: chromium.number(VISITS_TODAY), 7, "the visits")
    assert chromium.all(TODAY) == [] and len(chromium.all("#store")) == 1
    chromium.open(f"{shop.url}/")
    seen(chromium, lambda: chromium.number(f"{TODAY} .big"), 5, "the store is the first page still")
    assert chromium.complaints() == []
    chromium.driver.get("about:blank")
    shop.client.close()
