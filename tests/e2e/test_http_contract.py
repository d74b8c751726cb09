"""openapi.yaml held true: every path and status of it is seen here, each answer as it says (harness/contract.py judges); and
what it does not name is not there."""
import os
import re
import urllib.parse

import pytest

from harness.daemon import counters
from harness.hang import hung
from harness.wait import wait_until
from harness.web import CONTRACT, Web
from test_http import FED, make_web, today

OPERATOR, SHOP = "operator-0123456789abcdef", "shop-0123456789abcdef"
UNIQUES = {"uniques": {"name": "s<store>:visitors", "feeds": {"counter": "unique_visitors"}}}
AWAY = {"X-Forwarded-For": "192.0.2.1"}  # a client on another machine, so needs a token
ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}  # a browser, led here by another site's page
ID = "0" * 32 + "-0-0"

CSV = [f"{path}?format=csv" for path in ("/api/stores/7/counters/unique_visitors", "/api/stores/7/counters/searches",
                                         "/api/series/s7:views/60", "/api/boxes/s7:views", "/api/uniques/s7:visitors")]
OPEN = ["/", "/favicon.ico", "/assets/panel.js", "/assets/dygraph.min.js", "/healthz", "/readyz", "/api/openapi.yaml"]
SEEN_BY_ALL = ["/api/counters", "/api/stores", "/api/stores/7", "/api/stores/7/counters/unique_visitors",
               "/api/stores/7/counters/product_views", "/api/stores/7/counters/searches", "/api/series",
               "/api/series/s7:views/60", "/api/boxes/s7:views", "/api/events/s7/view?span=60&window=5",
               "/api/events/s7/view?from=0", "/api/uniques/s7:visitors", "/api/pulse?store=7", *CSV]
OF_THE_OPERATOR = ["/metrics", "/api/rejects", "/api/status", "/api/books", "/api/history"]
POSTS = [f"/api/rejects/{ID}/replay", f"/api/rejects/{ID}/drop"]
WRONG = [*(path.replace("csv", "xml") for path in CSV), "/api/stores?limit=0", "/api/stores/7/counters/unique_visitors?from=20140931",
         "/api/series?limit=x", "/api/series/s7:views/7", "/api/boxes/s7:views?top=0", "/api/events/s7/view?span=60",
         "/api/uniques/s7:visitors?from=20140101&to=20160101", "/api/rejects?limit=-1", "/api/pulse?store="]
OF_ANOTHER = [*(path.replace("stores/7", "stores/8").replace("/s7:", "/s8:") for path in CSV),
              "/api/stores/8", "/api/stores/8/counters/unique_visitors", "/api/series/s8:views/60", "/api/boxes/s8:views",
              "/api/events/s8/view?span=60&window=5", "/api/uniques/s8:visitors", "/api/pulse?store=8"]
NEED_REDIS = [*CSV[2:], "/api/series", "/api/series/s7:views/60", "/api/boxes/s7:views", "/api/events/s7/view?span=60&window=5",
              "/api/uniques/s7:visitors", "/api/books"]


@pytest.fixture
def world(make_daemon, make_proxy, mysql, redis, workdir):
    tokens = os.path.join(workdir, "tokens")
    with open(tokens, "w", encoding="ascii") as out:
        out.write(f"prometheus {OPERATOR}\nshop {SHOP} 7\n")
    os.chmod(tokens, 0o600)
    proxy = make_proxy(mysql.socket)
    families = counters(hits=10, every="1s", product_views=FED)
    daemon, web = make_web(make_daemon, redis, families, more={"http": {"tokens": tokens}, **UNIQUES},
                           mysql_url=f"mysql://root@localhost/shop?socket={proxy.path}")
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 5)
        client.call("HINCRBY", "s7:searches", "red shoes", 5)
        client.call("UNIQ.ADD", "s7:visitors", today(), 1)
    daemon.sync_all()
    return daemon, web, Web(web.at, SHOP), proxy


def ask_all(web, paths, status, **options):
    for path in paths:
        answer = web.ask(path, **options)
        assert answer.status == status, (path, answer.status, answer.text)


def test_every_path_and_status_of_the_contract(world, redis, mysql, workdir):
    daemon, web, shop, proxy = world
    away = Web(web.at, OPERATOR)
    ask_all(web, OPEN + SEEN_BY_ALL + OF_THE_OPERATOR, 200)
    ask_all(away, OPEN + SEEN_BY_ALL + OF_THE_OPERATOR, 200, headers=AWAY)
    ask_all(web, SEEN_BY_ALL + OF_THE_OPERATOR, 401, headers=AWAY)
    ask_all(Web(web.at, "wrong-0123456789abcdef"), SEEN_BY_ALL + OF_THE_OPERATOR, 401)
    ask_all(shop, SEEN_BY_ALL, 200)
    ask_all(shop, OF_THE_OPERATOR + OF_ANOTHER, 403)
    ask_all(web, SEEN_BY_ALL + OF_THE_OPERATOR, 403, headers=ELSEWHERE)
    ask_all(web, WRONG, 400)
    ask_all(web, ["/assets/nothing.js", "/api/stores/7/counters/nothing", "/api/stores/99/counters/searches"], 404)
    for path in POSTS:
        assert web.ask(path, "POST").status == 400
        assert web.post(path).status == 404
        assert web.ask(path, "POST", {"X-Tallyd": "1", **AWAY}).status == 401
        assert shop.post(path).status == 403
    for path in ("/", "/favicon.ico", "/assets/panel.js", "/api/openapi.yaml"):
        known = web.ask(path).headers["ETag"]
        assert web.ask(path, headers={"If-None-Match": known}).status == 304
    rejects_done(web, mysql, daemon)
    refused_by_mysql(web, mysql)
    with hung(daemon):
        wait_until(lambda: web.ask("/healthz").status == 503, 30, "healthz sees that the loop hangs")
    wait_until(lambda: web.ask("/healthz").status == 200, 30, "healthz sees that it turns again")
    proxy.refuse()
    proxy.cut()
    wait_until(lambda: web.get("/api/stores")["mysql"] == "down", 60, "MySQL is seen to be down")
    ask_all(web, ["/api/rejects", "/api/books"], 503)
    ask_all(web, ["/api/stores/7/counters/unique_visitors", "/api/status", "/metrics", "/readyz"], 200)
    assert [web.post(path).status for path in POSTS] == [503, 503]
    redis.kill9()
    wait_until(lambda: web.ask("/readyz").status == 503, 30, "readyz sees that Redis is down")
    ask_all(web, NEED_REDIS, 503)
    ask_all(web, ["/api/stores/7/counters/unique_visitors", "/api/status", "/metrics", "/healthz"], 200)
    wanted = {(method.upper(), path, int(status)) for path, operations in CONTRACT.paths.items()
              for method, operation in operations.items() for status in operation["responses"]}
    assert wanted - CONTRACT.seen == set()


def rejects_done(web, mysql, daemon):
    mysql.query("ALTER TABLE shop.searches ADD CONSTRAINT few CHECK (searches < 1000)")
    with daemon.client() as client:
        for store in (7, 8):
            client.call("HINCRBY", f"s{store}:searches", "boots", 5000)
            daemon.sync_all()  # each alone: of a batch, not half may be refused
    mysql.query("ALTER TABLE shop.searches DROP CONSTRAINT few")
    first, second = web.get("/api/rejects")["rejects"]
    assert web.post(f"/api/rejects/{first['id']}/replay").json()["outcome"] == "replayed"
    assert web.post(f"/api/rejects/{second['id']}/drop").json()["outcome"] == "dropped"


def refused_by_mysql(web, mysql):
    tables = ("daily_visitors", "product_views", "searches")
    for table in tables:
        mysql.query(f"RENAME TABLE shop.{table} TO shop.no_{table}")
    ask_all(web, ["/api/stores", "/api/stores/7/counters/unique_visitors"], 503)
    for table in tables:
        mysql.query(f"RENAME TABLE shop.no_{table} TO shop.{table}")
    ask_all(web, ["/api/stores", "/api/stores/7/counters/unique_visitors"], 200)


def test_csv_is_to_be_saved(world):
    """Its type and name; a refusal is JSON as ever, and nothing to be saved; a store token saves its store alone."""
    _, web, shop, _ = world
    for path in CSV:
        for client in (web, shop):
            answer = client.ask(path)
            assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
            assert re.fullmatch(r'attachment; filename="[\w.-]+\.csv"', answer.headers["Content-Disposition"])
            assert answer.text.endswith("\r\n") and "\n" not in answer.text.replace("\r\n", "")
        refused = shop.ask(path.replace("stores/7", "stores/8").replace("/s7:", "/s8:"))
        assert refused.status == 403 and refused.headers["Content-Disposition"] is None
    assert web.ask(CSV[1]).text == "item,live,stored\r\nred shoes,5,5\r\n"


def test_what_is_not_in_the_contract_is_not_there(world):
    daemon, web, _, _ = world
    for path in ("/nothing", "/api", "/api/", "/api/counters/", "/api/nothing", "/assets", "/assets/", "/assets/a/b",
                 "/assets/../index.html", "/assets/..%2Findex.html", "/assets/%2e%2e/x", "//", "/metrics/", "/..",
                 "/%2e%2e/etc/passwd", "/api/stores/7/", "/api/stores/7/counters", "/api/stores//counters/searches",
                 "/" + "x/" * 20):
        answer = web.ask(path)
        assert answer.status in (400, 404), (path, answer.status)
    for path in OPEN + SEEN_BY_ALL + OF_THE_OPERATOR:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = web.ask(path, method)
            assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD", (method, path)
    answer = web.ask(POSTS[0])
    assert answer.status == 405 and answer.headers["Allow"] == "POST"


def test_head_is_get_without_its_body(world):
    _, web, _, _ = world
    for path in ("/", "/api/counters", "/healthz", "/assets/dygraph.min.js"):
        got, head = web.ask(path), web.ask(path, "HEAD")
        assert head.status == 200 and head.body == b""
        assert head.headers["Content-Length"] == str(len(got.body))


def test_the_page_comes_whatever_its_query(world):
    """Links to it carry what others put behind them; an unknown parameter of the API is still refused."""
    _, web, _, _ = world
    page = web.ask("/").body
    for query in ("?", "?utm_source=mail", "?a=1&a=2", "?%zz", "?" + "&".join(f"p{n}" for n in range(99))):
        answer = web.ask("/" + query)
        assert answer.status == 200 and answer.body == page, (query, answer.text)
    assert web.ask("/api/stores?utm_source=mail").status == 400


def test_the_icon(world):
    _, web, _, _ = world
    icon = web.ask("/favicon.ico")
    assert icon.headers["Content-Type"] == "image/x-icon" and icon.body.startswith(b"\0\0\1\0")


def test_the_panel_is_served_safely(world):
    _, web, _, _ = world
    page = web.ask("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    assets = os.path.join(os.path.dirname(__file__), "../../src/http/assets")
    for name in os.listdir(assets) + ["dygraph.min.js", "dygraph.min.css"]:
        answer = web.ask("/assets/" + urllib.parse.quote(name))
        assert answer.status == 200 and answer.headers["Content-Type"] == types.get(os.path.splitext(name)[1],
                                                                                  answer.headers["Content-Type"])
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["ETag"].startswith('"')
        if os.path.exists(os.path.join(assets, name)):
            with open(os.path.join(assets, name), "rb") as file:
                assert answer.body == file.read()
