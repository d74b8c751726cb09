"""HTTP at its worst: wrong requests, no MySQL, slow clients, strangers, a restart."""
import http.client
import os
import socket

import pytest

from harness.daemon import counters
from harness.wait import patience, wait_until
from harness.web import Web
from test_http import FED, days_before, make_web, today


@pytest.fixture
def web(make_daemon, redis):
    return make_web(make_daemon, redis)


def raw(web, data, timeout_s=30):
    """Everything that is answered to these bytes."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(patience(timeout_s))
        link.connect(web.at)
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while piece := link.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
        return got


# --- wrong requests ---

def test_unknown_stores_and_counters_are_404_and_say_what_to_do(web):
    _, http_ = web
    for path in ("/api/stores/99/counters/unique_visitors", "/api/stores/7/counters/visitors",
                 "/api/stores/07/counters/searches", "/api/stores/x/counters/searches", "/api/stores/-/counters/searches",
                 "/api/stores/9223372036854775808/counters/searches"):
        answer = http_.ask(path)
        assert answer.status == 404 and answer.json()["next"].startswith("see /api/"), path


@pytest.mark.parametrize("counter, query, why", [
    ("unique_visitors", "from=20140931", 'from is "20140931", expected a date as YYYYMMDD'),
    ("unique_visitors", "to=2014-09-20", 'to is "2014-09-20", expected a date as YYYYMMDD'),
    ("unique_visitors", "to=19691231", 'to is "19691231", expected a date as YYYYMMDD'),
    ("unique_visitors", "from=20140921&to=20140920", "from is after to; the first day comes first"),
    ("unique_visitors", "from=20110101&to=20140101", "that is 1097 days; at most 1000 come at once"),
    ("unique_visitors", "top=5", "top is for integer and text; this counter's field is date"),
    ("unique_visitors", "field=20140920&to=20140920", "give field without from, to and top"),
    ("product_views", "from=20140920", "from and to are for date and hour; this counter's field is integer"),
    ("product_views", "top=0", 'top is "0", expected a whole number from 1 to 1000'),
    ("product_views", "top=99999999999999999999", "expected a whole number from 1 to 1000"),
    ("product_views", "field=x", 'field is "x", expected'),
    ("product_views", "limit=5", '"limit" is no parameter of this path; it has: from to top field'),
    ("product_views", "top=1&top=2", "the query has a parameter twice"),
    ("product_views", "top=%zz", "the query has a % without two hexadecimal digits behind it"),
    ("product_views", "top=1%00", "the query has a NUL byte (%00)"),
    ("product_views%00", "", "the path has a NUL byte (%00)"),
    ("product_views%4", "", "the path has a % without"),
])
def test_wrong_parameters_are_400_and_say_why(web, counter, query, why):
    _, http_ = web
    answer = http_.ask(f"/api/stores/7/counters/{counter}?{query}")
    assert answer.status == 400 and why in answer.json()["error"], answer.text


def test_the_doors_own_reasons_come_through(web):
    _, http_ = web
    for path, why in (("/api/series/s7:views/7", "precision 7 is not kept; kept are 1, 5, 60"),
                      ("/api/events/s7/view?span=5&window=60", "")):
        answer = http_.ask(path)
        assert answer.status == 400 and why in answer.json()["error"], answer.text


def test_bytes_that_are_no_http_cost_only_their_connection(web):
    daemon, http_ = web
    for data in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                 b"POST /api/rejects/x/drop HTTP/1.1\r\nX-Tallyd: 1\r\nContent-Length: 99999999\r\n\r\n" + b"z" * 200000,
                 b"GET /api/counters HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"t" * 9000 + b"\r\n\r\n"):
        said = raw(http_, data)
        assert not said.startswith(b"HTTP/1.1 2"), said[:200]
    assert http_.get("/api/counters")
    assert daemon.alive()


def test_a_body_that_nobody_wants_is_let_pass(web):
    _, http_ = web
    answer = http_.ask("/api/counters", body=b"x" * 1000)
    assert answer.status == 200


# --- which clients may ask ---

def strangers_address():
    """An address of this machine that is not the loopback; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing
        except OSError:
            return None
        return probe.getsockname()[0]


@pytest.fixture
def open_to_all(make_daemon, redis, workdir, free_port):
    tokens = os.path.join(workdir, "tokens")
    with open(tokens, "w", encoding="ascii") as out:
        out.write("prometheus operator-0123456789abcdef\nshop shop-0123456789abcdef 7\n")
    os.chmod(tokens, 0o600)
    daemon = make_daemon(redis, start=False, families=counters(product_views=FED))
    daemon.config["listen"]["http"] = [f"tcp://0.0.0.0:{free_port}"]
    daemon.config["http"] = {"tokens": tokens}
    daemon.write_config()
    daemon.migrate().start()
    return daemon, free_port


def test_strangers_need_a_token(open_to_all):
    daemon, port = open_to_all
    address = strangers_address()
    if address is None or address.startswith("127."):
        pytest.skip("this machine has the loopback alone")
    assert Web(("127.0.0.1", port)).ask("/api/counters").status == 200
    for token, status in ((None, 401), ("operator-0123456789abcde", 401), ("operator-0123456789abcdef0", 401),
                          ("OPERATOR-0123456789abcdef", 401), ("operator-0123456789abcdef", 200)):
        answer = Web((address, port), token).ask("/api/counters")
        assert answer.status == status, token
        assert status == 200 or answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert Web((address, port)).ask("/").status == 200  # the panel, which then asks for the token
    assert "operator-0123456789" not in daemon.log() and "shop-0123456789" not in daemon.log()


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": "evil.example:7371"}, {"Host": "127.evil.example"}, {"Host": "128.0.0.1"},
    {"Host": ""}, {"X-Forwarded-For": "203.0.113.7"}, {"Forwarded": "for=203.0.113.7"}])
def test_who_comes_through_a_browser_or_a_proxy_is_no_local(open_to_all, headers):
    """DNS rebinding: another site's page reaches the loopback, but names its own host."""
    _, port = open_to_all
    assert Web(("127.0.0.1", port)).ask("/api/counters", headers=headers).status == 401
    assert Web(("127.0.0.1", port), "operator-0123456789abcdef").ask("/api/counters", headers=headers).status == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7371", "127.0.0.1", "127.8.9.1:1", "[::1]:7371"])
def test_the_loopback_has_many_names(open_to_all, host):
    _, port = open_to_all
    assert Web(("127.0.0.1", port)).ask("/api/counters", headers={"Host": host}).status == 200


def test_a_page_of_elsewhere_cannot_change_anything(open_to_all):
    _, port = open_to_all
    for origin, status, said in ((None, 400, "X-Tallyd"), ("http://evil.example", 403, "another site")):
        answer = Web(("127.0.0.1", port)).ask(f"/api/rejects/{'0' * 32}-0-0/drop", "POST",
                                              {"Origin": origin, "Content-Type": "text/plain"}, body=b"x")
        assert answer.status == status and said in answer.json()["error"]


def test_a_token_of_a_store_sees_only_that(open_to_all):
    daemon, port = open_to_all
    shop = Web(("127.0.0.1", port), "shop-0123456789abcdef")
    with daemon.client() as client:
        for store in (7, 8):
            client.call("HINCRBY", f"s{store}:product_views", 1, 5)
    assert shop.get("/api/stores")["stores"] == ["7"]
    # a new field that is claimed and not yet merged is in no list of fields: then it comes with the merge
    wait_until(lambda: [row["live"] for row in shop.figures("7", "product_views")["rows"]] == [5], 30, "the shop's own")
    assert shop.ask("/api/stores/8/counters/product_views").status == 403
    assert [one["name"] for one in shop.get("/api/series")["series"]] == ["s7:views"]
    assert shop.ask("/api/series/s77:views/60").status == shop.ask("/api/series/s8%3Aviews/60").status == 403
    seen = shop.get("/api/pulse?store=7")
    assert set(seen) == {"time", "started", "redis", "mysql", "moved"}
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 1)
    wait_until(lambda: shop.get("/api/pulse?store=7")["moved"] != seen["moved"], 30, "the hit")
    assert shop.ask("/api/pulse?store=8").status == 403


# --- without its servers ---

def test_without_mysql_live_goes_on_and_stored_says_as_of_when(make_daemon, make_proxy, redis, mysql):
    proxy = make_proxy(mysql.socket)
    daemon, http_ = make_web(make_daemon, redis, counters(hits=10, every="1s"),
                             mysql_url=f"mysql://root@localhost/shop?socket={proxy.path}")
    with daemon.client() as client:
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 20)
        client.call("HINCRBY", "s7:product_views", 5, 20)
        daemon.sync_all()
        before = http_.figures("7", "unique_visitors")
        http_.figures("7", "product_views")
        proxy.refuse()
        proxy.cut()
        wait_until(lambda: http_.figures("7", "unique_visitors")["mysql"] == "down", 60, "MySQL is seen to be down")
        client.call("HINCRBY", "s8:product_views", 5, 20)  # claimed; then the writers know it, too, and nothing more is
        daemon.log_contains("event=mysql_down")
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 3)
        client.call("HINCRBY", "s7:product_views", 6, 100)
        said = http_.figures("7", "unique_visitors")
        assert said["rows"][-1] == {"field": today(), "stored": 20, "live": 23}
        assert said["stored_as_of"] <= before["stored_as_of"] + 60 and said["live_as_of"] >= said["stored_as_of"]
        assert said["complete_until"] == before["complete_until"] or said["complete_until"] is not None
        assert http_.figures("7", "product_views")["rows"] == [
            {"field": "6", "stored": None, "live": 100}, {"field": "5", "stored": 20, "live": 20}]
        unseen = http_.figures("7", "unique_visitors", f"?from={days_before(3)}&to={today()}")
        assert unseen["stored_as_of"] is None and unseen["rows"][0]["stored"] is None
        assert unseen["rows"][-1]["live"] == 3  # at least
        assert http_.ask("/readyz").status == 200  # hits are counted
        wait_until(lambda: http_.metrics()["tallyd_mysql_up"] == 0, 30, "the metrics say so")
        proxy.refuse(False)
        wait_until(lambda: http_.figures("7", "unique_visitors")["mysql"] == "up", 60, "MySQL is back")
        daemon.sync_all()
        assert http_.figures("7", "unique_visitors")["rows"][-1] == {"field": today(), "stored": 23, "live": 23}


def test_without_redis_stored_is_still_told(web, redis):
    daemon, http_ = web
    with daemon.client() as client:
        client.call("HINCRBY", "s7:unique_visitors:daily", today(), 20)
    daemon.sync_all()
    redis.kill9()
    wait_until(lambda: http_.figures("7", "unique_visitors")["redis"] == "down", 60, "Redis is seen to be down")
    said = http_.figures("7", "unique_visitors")
    assert said["rows"][-1]["stored"] == 20 and said["rows"][-1]["live"] is None and said["mysql"] == "up"
    assert "tallyd_pending_hashes" not in http_.metrics()
    redis.start()
    wait_until(lambda: http_.figures("7", "unique_visitors")["rows"][-1]["live"] == 20, 60, "Redis is back")


def test_without_listen_http_there_is_no_port(make_daemon, redis):
    daemon = make_daemon(redis)
    with daemon.client() as client:
        client.call("HINCRBY", "s7:product_views", 1, 1)
    sockets = set()
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"))
        except OSError:
            pass
    with open("/proc/net/tcp", encoding="ascii") as table:
        listening = [row.split() for row in table.read().splitlines()[1:] if row.split()[3] == "0A"]
    assert not [row for row in listening if f"socket:[{row[9]}]" in sockets]
    assert "protocol=http" not in daemon.log()
    assert len(os.listdir(f"/proc/{daemon.pid}/task")) < 12
    assert daemon.terminate() == 0


def test_an_address_that_is_taken_is_named(make_daemon, redis):
    daemon = make_daemon(redis, start=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        daemon.config["listen"]["http"] = f"tcp://127.0.0.1:{taken}"
        daemon.write_config()
        daemon.migrate()
        done = daemon.verb("run")
        assert done.returncode == 78 and f"tcp://127.0.0.1:{taken}: bind: Address already in use" in done.stderr


# --- slow ones, and the end ---

def test_a_thousand_slow_clients_cost_the_hits_nothing(web):
    daemon, http_ = web
    slow = []
    try:
        for n in range(1000):
            link = socket.socket(socket.AF_UNIX)
            link.connect(http_.at)  # waits for room in the backlog; with a time limit it would not
            link.settimeout(patience(10))
            link.sendall((b"GET /api/counters HTTP/1.1\r\nHost: localhost\r\n", b"G", b"")[n % 3])
            slow.append(link)
        with daemon.client() as client:
            for n in range(500):
                assert client.call("HINCRBY", "s7:product_views", 1, 1) > 0
        assert http_.get("/api/counters")  # there is room for others, too
        wait_until(lambda: daemon_closes(slow), 60, "who says nothing for 10 s is closed")
    finally:
        for link in slow:
            link.close()


def daemon_closes(links):
    closed = 0
    for link in links:
        link.setblocking(False)
        try:
            while piece := link.recv(4096):
                assert piece
            closed += 1
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
    return closed == len(links)


def test_a_restart(web):
    daemon, http_ = web
    assert daemon.terminate(30) == 0
    with pytest.raises(OSError):
        http_.ask("/healthz")
    daemon.start()
    assert http_.get("/api/pulse?store=7")["hits"] == 0
    for _ in range(3):  # and killed outright: the socket file that is left behind is no hindrance
        daemon.kill9()
        daemon.start()
        assert http_.get("/api/counters")


def test_the_end_waits_for_nobody(web):
    """Requests under way, clients that read nothing: a SIGTERM ends it all the same."""
    daemon, http_ = web
    lazy = []
    for _ in range(50):
        link = socket.socket(socket.AF_UNIX)
        link.connect(http_.at)
        link.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        lazy.append(link)
    assert daemon.terminate() == 0
    for one in lazy:
        one.close()
    assert "stopped_early" not in daemon.log()
