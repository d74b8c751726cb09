"""What an attacker tries at each door, for real: through proxies, from pages of other sites, with a tenant's password, with texts
that would be SQL. guards.py takes each guard out and sees the attack succeed."""
import datetime
import os
import re
import select
import signal
import socket
import threading
import time

import pytest

from harness.daemon import counters
from harness.resp import RespError, encode
from harness.tools import FrontHAProxy, FrontNginx
from harness.wait import patience, wait_until
from harness.web import Web
from test_http import make_web
from test_users import NOAUTH, NOPERM_KEY, hashes, known, shops, status_of  # noqa: F401 (fixtures)

OPERATOR = "operator-0123456789abcdef"
FIGURES = ["/metrics", "/api/status", "/api/books", "/api/stores", "/api/counters", "/api/rejects", "/api/series",
           "/api/uniques/s7:visitors"]
HOSTS = ["localhost", "127.0.0.1", "[::1]", "127.0.0.1:7371", "panel.example"]


@pytest.fixture
def make_doors(make_daemon, redis, workdir, free_port):
    """make(http) -> tallyd with the panel at a port of this machine, which is also given."""
    tokens = os.path.join(workdir, "tokens")
    with open(tokens, "w", encoding="ascii") as out:
        out.write(f"operator {OPERATOR}\n")
    os.chmod(tokens, 0o600)

    def make(**http):
        daemon, _ = make_web(make_daemon, redis, counters(hits=10, every="1s"), start_http=f"tcp://127.0.0.1:{free_port}",
                             more={"http": {"tokens": tokens, **http}})
        return daemon, free_port
    return make


def statuses(at, headers=None, token=None):
    return {path: Web(at, token).ask(path, headers=headers, check=False).status for path in FIGURES}


def assert_nobody_gets_in(at):
    for host in HOSTS:
        for more in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Connection": "X-Forwarded-For, close"}):
            said = statuses(at, {"Host": host, **more})
            assert set(said.values()) == {401}, (host, more, said)
    assert set(statuses(at, {"Host": "panel.example"}, OPERATOR).values()) == {200}


@pytest.mark.parametrize("http", [{}, {"local": "token"}])
def test_nginx_in_front(make_doors, make_tool, http):
    """As it comes it adds no header, and speaks HTTP/1.0."""
    _, port = make_doors(**http)
    nginx = make_tool(FrontNginx, port)
    for door in (nginx.bare, nginx.told):
        assert_nobody_gets_in(("127.0.0.1", door))


@pytest.mark.parametrize("http", [{}, {"local": "token"}])
def test_haproxy_in_front(make_doors, make_tool, http):
    _, port = make_doors(**http)
    assert_nobody_gets_in(("127.0.0.1", make_tool(FrontHAProxy, port).told))


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via", "CF-Connecting-IP",
                                    "True-Client-IP", "X-Envoy-External-Address", "X-Amzn-Trace-Id"])
def test_header_of_a_proxy(make_doors, header):
    _, port = make_doors()
    at = ("127.0.0.1", port)
    assert set(statuses(at).values()) == {200}
    assert set(statuses(at, {header: "x"}).values()) == {401}


def test_local_token(make_doors):
    _, port = make_doors(local="token")
    assert set(statuses(("127.0.0.1", port)).values()) == {401}
    assert set(statuses(("127.0.0.1", port), token=OPERATOR).values()) == {200}


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"},
                                     {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:3000"}])
def test_page_of_another_site(make_doors, headers):
    """Neither reads nor changes anything, with the header that the panel sends, too."""
    _, port = make_doors()
    at = ("127.0.0.1", port)
    assert set(statuses(at, headers).values()) == {403}
    path = f"/api/rejects/{'0' * 32}-0-0/drop"
    assert Web(at).ask(path, "POST", {"X-Tallyd": "1", **headers}).status == 403
    assert Web(at).ask(path, "POST", {"X-Tallyd": "1", "Sec-Fetch-Site": "same-origin"}).status == 404
    assert Web(at).ask("/api/status", headers={"Sec-Fetch-Site": "none"}).status == 200


def test_browser_at_the_resp_door(make_doors):
    """It is closed without an answer, nothing behind it runs, and one line in ten seconds says so."""
    daemon, port = make_doors()
    request = (b"POST / HTTP/1.1\r\nHost: 127.0.0.1:7370\r\nContent-Type: text/plain\r\n\r\n"
               b"HINCRBY s7:unique_visitors:daily 20140920 1\r\n")
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(daemon.socket)
            link.sendall(request)
            link.settimeout(patience(30))
            try:
                assert link.recv(100) == b""
            except ConnectionResetError:
                pass
    with daemon.client() as client:
        assert client.call("CTR.TOTAL", "s7:unique_visitors:daily", "20140920") == [0]
    wait_until(lambda: "event=cross_protocol" in daemon.log(), 60, "the log has it")
    assert len(re.findall(r"level=warn event=cross_protocol peer=\S+ times=1 ", daemon.log())) == 1
    assert Web(("127.0.0.1", port)).metrics()["tallyd_cross_protocol_total"] == 3


def test_identity_ends(shops):
    """RESET ends it, a wrong password leaves the old one, and inside MULTI no client can change its user."""
    daemon = shops()
    with known(daemon, "shop1") as client:
        assert client.call("AUTH", "shop2", "wrong").startswith("WRONGPASS")
        assert client.call("HINCRBY", "s2:product_views", "7", 1) == NOPERM_KEY
        assert client.call("MULTI") == "OK"
        for words in (("AUTH", "shop2", "secret of shop2"), ("HELLO", "3", "AUTH", "shop2", "secret of shop2")):
            assert client.call(*words) == "ERR Command not allowed inside a transaction", words
        assert client.call("HINCRBY", "s2:product_views", "7", 1) == NOPERM_KEY
        assert client.call("EXEC").startswith("EXECABORT")
        assert client.call("MULTI") == "OK" and client.call("HINCRBY", "s1:product_views", "7", 1) == "QUEUED"
        assert client.call("RESET") == "RESET"
        assert client.call("EXEC").startswith(("NOAUTH", "EXECABORT", "ERR EXEC without MULTI"))
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == NOAUTH
        assert client.call("HELLO", "3", "AUTH", "shop2", "secret of shop2")
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == NOPERM_KEY
    with daemon.operator() as operator:
        assert operator.call("CTR.TOTAL", "s1:product_views", "7") == operator.call("CTR.TOTAL", "s2:product_views", "7") == [0]


def test_names_that_look_alike(shops):
    """Another case, a NUL, a pattern's own signs, a name with the type of another: none is the other store's, nor one's own."""
    daemon = shops(shop1={"keys": ["s1:*"], "commands": ["all"]})
    names = ["S2:views", "s2:views", "s1\0:views", "s2:views\0s1:", "*", "s[12]:views", "s", "s1:views\n", "s1*:x"]
    with known(daemon, "shop1") as client:
        for name in names:
            for words in (("SERIES.INCRBY", name, 1), ("BOX.INCRBY", name, 1), ("EVENT.ADD", name, "click"),
                          ("UNIQ.ADD", name, "20140920", "7"), ("CTR.TOTAL", name, "7"), ("HINCRBY", name, "7", 1)):
                assert isinstance(client.call(*words), RespError), words
        assert isinstance(client.call("EVENT.ADD", "s1:a", "b:c"), RespError)
        assert client.call("EVENT.ADD", "s1:a", "b") == b"1"


def test_name_that_was_rebound(make_doors):
    """A foreign page's own name leads to 127.0.0.1: the browser sends that name as Host, and same-origin."""
    _, port = make_doors()
    said = statuses(("127.0.0.1", port), {"Host": f"evil.example:{port}", "Sec-Fetch-Site": "same-origin"})
    assert set(said.values()) == {401}


def test_plain_form(make_doors):
    """What a form of an old browser sends has no header of ours."""
    _, port = make_doors()
    path = f"/api/rejects/{'0' * 32}-0-0/drop"
    assert Web(("127.0.0.1", port)).ask(path, "POST", {"Content-Type": "text/plain"}).status == 400


TEXTS = [b"'", b'"', b"\\", b"\\'", b"'; DROP TABLE searches; -- ", b"x' OR 1=1 #", b"a\0b", b"\xff\xfe", b"\xbf\x27 OR 1=1 -- ",
         b"`", b"%s%n%x", b"\xe2\x98\x83", b"\xf0\x9f\x9b\x92", b"\xc0\xa7", b"\r\n", b"\x1a", b"?", b":1", b"{}", b"$1", b"/*!50000 x*/"]


@pytest.mark.parametrize("mode", ["", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,IGNORE_SPACE"])
@pytest.mark.parametrize("charset", ["utf8mb4", "gbk", "latin1"])
def test_texts_are_not_sql(make_daemon, redis, mysql, mode, charset):
    """Fields, and rows that MySQL refuses, come back byte by byte, whatever the server's modes and character set are."""
    before = mysql.query("SELECT @@GLOBAL.sql_mode, @@GLOBAL.character_set_server")[0]
    mysql.query(f"SET GLOBAL sql_mode = '{mode}'")
    mysql.query(f"SET GLOBAL character_set_server = {charset}")
    try:
        daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
        mysql.query("ALTER TABLE searches ADD CONSTRAINT few CHECK (searches < 1000)")
        with daemon.client() as client:
            for text in TEXTS:
                assert client.call("HINCRBY", "s7:searches", text, 5) == 5 or text
        daemon.sync_all()
        with daemon.client() as client:
            assert client.call("HINCRBY", "s8:searches", TEXTS[4], 5000) == 5000
        daemon.sync_all()
        rows = dict(mysql.query("SELECT HEX(term), searches FROM searches WHERE store_id = 7"))
        assert {bytes.fromhex(term): int(hits) for term, hits in rows.items()} == {text: 5 for text in TEXTS}
        assert mysql.query("SELECT HEX(field) FROM tally_rejects") == ((TEXTS[4].hex().upper(),),)
        daemon.verify()
    finally:
        mysql.query(f"SET GLOBAL sql_mode = '{before[0]}'")
        mysql.query(f"SET GLOBAL character_set_server = {before[1]}")


def smuggled(at, head, hidden):
    """What comes back when these bytes go out as one request's, with another in its body."""
    with socket.create_connection(at, timeout=patience(10)) as link:
        link.sendall(head + hidden)
        answer = b""
        try:
            while piece := link.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
    return re.findall(rb"HTTP/1\.1 (\d+)", answer)


def test_requests_smuggled_through_haproxy(make_doors, make_tool):
    """A body that is a request to a server that reads lengths otherwise: none runs it as the operator's."""
    _, port = make_doors(local="token")
    door = ("127.0.0.1", make_tool(FrontHAProxy, port).told)
    hidden = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    path = b"POST /api/rejects/" + b"0" * 32 + b"-0-0/drop HTTP/1.1\r\nHost: localhost\r\nX-Tallyd: 1\r\nConnection: close\r\n"
    for lengths in (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    b"Content-Length: 4\r\nContent-Length: 0\r\n\r\n", b"Content-Length: +0\r\n\r\n",
                    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
                    b"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
                    b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"):
        for at in (door, ("127.0.0.1", port)):
            assert b"200" not in smuggled(at, path + lengths, hidden), (lengths, at)
    assert set(statuses(door, {"Host": "localhost"}).values()) == {401}


def test_books_wrap(shops, redis, mysql):
    """A store's hits go over 2^63 and back, in Redis' books and in MySQL's: all merges, with tokens too, and verify balances."""
    daemon = shops(more={"limits": {"hit": 2**53}})
    hits = [("HINCRBY", "s1:product_views", str(n), 2**53) for n in range(2, 1102)]
    with known(daemon, "shop1") as attacker, known(daemon, "shop2") as other, daemon.operator() as operator:
        for way in (1, -1):
            attacker.pipeline([(*words, way * n) for *words, n in hits])
            for count in (1, 2):
                assert other.call("CTR.INCRBY", "s2:product_views", "9", 1, "TOKEN", f"{way}{count}") == count
            assert operator.call("CTR.SYNC", "s2:product_views") >= 0 and operator.call("CTR.SYNC", "ALL") >= 0
            daemon.verify()
            sums = [int(redis.client().hget("tally:accepted", "product_views")), *mysql.query(
                "SELECT merged FROM tally_counters WHERE counter = 'product_views'")[0]]
            assert all((n < 0) == (way == 1) for n in sums), sums
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 2 AND product_id = 9") == ((4,),)


def test_largest_hit(shops):
    daemon = shops()
    refused = "ERR increment '{}' is too large: at most 1000000000000 either way (limits.hit)"
    with known(daemon, "shop1") as client:
        for words in (("HINCRBY", "s1:product_views", "2"), ("CTR.INCRBY", "s1:product_views", "2"), ("SERIES.INCRBY", "s1:x"),
                      ("BOX.INCRBY", "s1:x")):
            for n in (10**12 + 1, -10**12 - 1, 2**53):
                assert client.call(*words, n) == refused.format(n)
                assert client.call("MULTI") == "OK" and client.call(*words, n) == refused.format(n)
                assert client.call("EXEC").startswith("EXECABORT")
        assert client.call("CTR.INCRBY", "s1:product_views", "2", 2**53, "TOKEN", "x") == refused.format(2**53)
        replies = client.pipeline([("HINCRBY", "s1:product_views", "2", n) for n in (10**12, -10**12)])  # no merge between them
        assert replies == [10**12, 0]


def answered(links):
    return len(select.select(links, [], [], 0)[0])


def pieces_before(direct, what):
    """For each hit of s2: how many pieces of s1 Redis reads from then on until it reads s2's."""
    counts, n = [], None
    for words in [entry["command"] for entry in reversed(direct.slowlog_get(-1))]:
        if words.startswith(b"HINCRBY s2:"):
            n = 0
        elif words.startswith((b"EVAL", b"HSCAN")) and n is not None:
            if b" s2:" + what in words:
                counts, n = [*counts, n], None
            elif b" s1:" in words:
                n += 1
    return counts


def test_pending_of_a_big_hash(shops, redis):
    """Neither Redis nor tallyd holds it many times, and another's own comes meanwhile, as do all hits: while they come, it is 4 KB of
    such hashes in a millisecond."""
    daemon, direct, n = shops(), redis.client(), 6000
    direct.hset("s1:searches", mapping={f"{i:0240}": 1 for i in range(n)})
    askers = [known(daemon, "shop1") for _ in range(12)]
    links = [asker.socket for asker in askers]
    before = most = direct.info("memory")["used_memory"]
    with known(daemon, "shop2") as other:
        direct.config_set("slowlog-max-len", 100000)
        direct.config_set("slowlog-log-slower-than", 0)
        first = time.monotonic()
        for asker in askers:
            asker.send(encode("CTR.PENDING", "s1:searches"))
        for hits in range(1, 11):
            assert other.pipeline([("HINCRBY", "s2:product_views", "9", 1), ("CTR.PENDING", "s2:product_views")])[0] == hits
        direct.config_set("slowlog-log-slower-than", -1)
        assert answered(links) < len(links) / 2
        counts = pieces_before(direct, b"product_views")
        assert len(counts) == 10 and max(counts) < 4, counts
        while answered(links) < len(links):
            began = time.monotonic()
            other.call("HINCRBY", "s2:product_views", "9", 1)
            assert time.monotonic() - began < patience(1)
            most = max(most, direct.info("memory")["used_memory"])
        assert time.monotonic() - first > 0.5 * len(links) * n * 241 / 4096 / 1000
    assert most - before < 5 << 20
    for asker in askers[:2]:
        said = asker.rest()
        while said.count(b"$240\r\n") < n:
            asker.fill()
            said += asker.rest()
        assert len(set(said.split(b"\r\n")[2::4])) == n and said.startswith(b"*%d\r\n" % (2 * n))
    for asker in askers:
        asker.close()


def test_totals_of_many_fields(shops):
    """Another's comes after a round or two, not after all of them."""
    daemon = shops()
    askers = [known(daemon, "shop1") for _ in range(40)]
    links = [asker.socket for asker in askers]
    with known(daemon, "shop2") as other:
        for asker in askers:
            asker.send(encode("CTR.TOTAL", "s1:product_views", *range(1000)))
        before = answered(links)
        assert other.call("CTR.TOTAL", "s2:product_views", "1") == [1]
        assert answered(links) - before < len(links) / 2
    for asker in askers:
        assert asker.reply() == [0, 1] + [0] * 998
        asker.close()


def test_reads_take_turns(shops, redis):
    """One user's long reads go one piece at a time, whatever their number: another's as long one is through when few of them are,
    and a short one waits for no more than the piece that is read and the one that was asked for."""
    daemon, direct = shops(), redis.client()
    askers = [known(daemon, "shop1") for _ in range(20)]
    links = [asker.socket for asker in askers]
    with known(daemon, "shop2") as other:
        for asker, store in [*((asker, 1) for asker in askers), (other, 2)]:
            asker.send(encode("EVENT.COUNT", f"s{store}:e", "view", 20000 * 26, 26))
        assert len(other.reply()) == 20000
        assert answered(links) < len(links) / 2
        direct.config_set("slowlog-max-len", 100000)
        direct.config_set("slowlog-log-slower-than", 0)
        for n in range(1, 11):
            assert other.pipeline([("HINCRBY", "s2:product_views", "9", 1), ("EVENT.COUNT", "s2:e", "view", 260, 26)])[0] == n
        direct.config_set("slowlog-log-slower-than", -1)
        counts = pieces_before(direct, b"e")
        assert len(counts) == 10 and max(counts) < 4, counts
    for asker in askers:
        assert len(asker.reply()) == 20000
        asker.close()


def test_long_reads_rest(shops, redis):
    """While hits come, Redis has most of its time for them."""
    daemon, direct = shops(), redis.client()
    askers = [known(daemon, "shop1") for _ in range(30)]

    def reading_us():
        return direct.info("commandstats")["cmdstat_eval"]["usec"]

    def hits_for(other, seconds):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            other.call("HINCRBY", "s2:product_views", "9", 1)
        return time.monotonic() - began

    with known(daemon, "shop2") as other:
        hits_for(other, 0.5)
        for asker in askers:
            asker.send(encode("EVENT.COUNT", "s1:e", "view", 20000 * 26, 26))
        before = reading_us()
        took_s = hits_for(other, 1)
        assert answered([asker.socket for asker in askers]) < len(askers)
        assert reading_us() - before < 0.4 * took_s * 1e6
    for asker in askers:
        assert len(asker.reply()) == 20000
        asker.close()


def niceness(pid):
    """Of each of its threads, the loop's first."""
    threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    return [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads]


def test_tops_of_a_stores_token(make_doors, redis, workdir):
    """Slow requests of one token leave a worker to the operator's, and do not come before it; workers leave processors to the loop."""
    with open(os.path.join(workdir, "tokens"), "a", encoding="ascii") as out:
        out.write(f"shop 1{OPERATOR} 1\n")
    daemon, port = make_doors(local="token")
    wait_until(lambda: sorted(niceness(daemon.pid))[-4:] == [10] * 4, 60, "its threads have run")
    assert niceness(daemon.pid)[0] == 0
    redis.client().hset("s1:searches", mapping={f"{i:0100}": 1 for i in range(10000)})
    request = (f"GET /api/stores/1/counters/searches?top=10 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
               f"Authorization: Bearer 1{OPERATOR}\r\n\r\n").encode()
    links = [socket.create_connection(("127.0.0.1", port)) for _ in range(24)]
    redis.pause()
    for link in links:
        link.sendall(request)
    assert Web(("127.0.0.1", port), OPERATOR).ask("/api/rejects").status == 200  # it is in MySQL
    assert answered(links) == 0
    redis.resume()
    for link in links:
        link.settimeout(patience(60))
        assert link.recv(12) == b"HTTP/1.1 200"
        link.close()


def test_a_thousand_slow_clients(make_doors):
    """Half at each door, each with a byte now and then: hits and the panel answer all the while."""
    daemon, port = make_doors()
    slow = []
    try:
        for n in range(1000):
            link = socket.socket(socket.AF_INET if n % 2 else socket.AF_UNIX)
            link.connect(("127.0.0.1", port) if n % 2 else daemon.socket)
            link.sendall(b"GET /api/status HT" if n % 2 else b"*4\r\n$7\r\nHINC")
            slow.append(link)
        ended = threading.Event()

        def dribble():
            while not ended.is_set():
                for link in slow:
                    try:
                        link.send(b"T")
                    except OSError:
                        pass
                ended.wait(1)

        dribbler = threading.Thread(target=dribble)
        dribbler.start()
        try:
            with daemon.client() as client:
                for n in range(2000):
                    assert client.call("CTR.INCRBY", "s7:product_views", "1", 1) > 0
                assert Web(("127.0.0.1", port)).ask("/api/status").status == 200
        finally:
            ended.set()
            dribbler.join()
    finally:
        for link in slow:
            link.close()


@pytest.mark.parametrize("way", ["sends", "waits"])
def test_client_that_stays_after_its_error(make_doors, way):
    """It goes on sending, or never closes: it is cut off after 16 MiB, or after 5 s."""
    daemon, _ = make_doors()
    with daemon.client() as watcher, daemon.client() as client:
        at = client.call("CLIENT", "ID")
        client.send(b"*x\r\n")
        assert "invalid multibulk length" in client.reply()
        sent = 0
        with pytest.raises(OSError):
            while way == "sends" and sent < 1 << 30:
                sent += client.socket.send(b"x" * 65536)
            wait_until(lambda: watcher.call("CLIENT", "LIST", "ID", at) == b"", 30, "it is closed")
            client.send(b"x")
        assert sent < 32 << 20


@pytest.mark.parametrize("how", ["mode", "group", "directory", "dangling"])
def test_password_file_that_others_may_read(make_daemon, redis, workdir, how):
    daemon = make_daemon(redis, start=False)
    path = os.path.join(workdir, "secret")
    with open(path, "w", encoding="ascii") as out:
        out.write("the-password\n")
    os.chmod(path, {"mode": 0o604, "group": 0o640}.get(how, 0o600))
    named = {"directory": workdir, "dangling": os.path.join(workdir, "link")}.get(how, path)
    if how == "dangling":
        os.symlink(os.path.join(workdir, "nothing"), named)
    daemon.config["mysql"] = {"url": daemon.config["mysql"] if isinstance(daemon.config["mysql"], str) else
                              daemon.config["mysql"]["url"], "password_file": named}
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 78 and "password_file" in done.stderr + done.stdout, done.stderr
    assert "the-password" not in done.stderr + done.stdout


def resident(daemon):
    return int(status_of(daemon.pid)["VmRSS"].split()[0]) << 10


def test_answers_that_nobody_reads(shops):
    """150 MB of answers are asked for and left: a share of limits.memory is made, and another store's read is answered meanwhile."""
    daemon = shops({"limits": {"memory": "64MiB", "busy_timeout": "1s"}})
    idle = []
    try:
        with known(daemon, "shop1") as client:
            for at in range(0, 7000, 1000):
                client.send(b"".join(encode("EVENT.ADD", "s1:big", "view", "ID", f"{n:06}".ljust(250, "x"))
                                     for n in range(at, at + 1000)))
                for _ in range(1000):
                    client.reply()
        before = resident(daemon)
        for _ in range(80):
            idle.append(known(daemon, "shop1"))
            idle[-1].send(encode("EVENT.RANGE", "s1:big", "view", 0, 1 << 33))
        with known(daemon, "shop2") as client:
            client.call("EVENT.ADD", "s2:small", "view", "ID", "mine")
            wait_until(lambda: len(select.select([link.socket for link in idle], [], [], 0)[0]) == len(idle), 60,
                       "all have an answer, or a part of one")
            assert client.call("EVENT.RANGE", "s2:small", "view", 0, 1 << 33)[0] == b"mine"
        assert resident(daemon) < before + (40 << 20)
        said = [link.socket.recv(1) for link in idle]
        assert 2 <= said.count(b"*") < 20 and said.count(b"-") == 80 - said.count(b"*")
    finally:
        for link in idle:
            link.close()
    with known(daemon, "shop1") as client:
        wait_until(lambda: len(client.call("EVENT.RANGE", "s1:big", "view", 0, 1 << 33)) == 14000, 30, "it is answered again")


def closed(links):
    """Those that were told why and closed; what they were told."""
    said = []
    for link in [link for link in links if select.select([link.socket], [], [], 0)[0]]:
        try:
            said.append(link.socket.recv(1000))
        except ConnectionResetError:
            said.append(b"")
        links.remove(link)
        link.close()
    return said


def test_requests_that_never_end(shops):
    """100 MB of unfinished requests hold a share of limits.memory, and not for long; another store's come whole all the while."""
    daemon = shops({"limits": {"memory": "64MiB", "send_timeout": "2s"}})
    before, links, said = resident(daemon), [], []
    with known(daemon, "shop2") as other:
        other.send(b"*2\r\n$4\r\nECHO\r\n$6000\r\n" + b"y" * 5000)
        try:
            for n in range(100):
                links.append(known(daemon, "shop1"))
                try:
                    links[-1].send(b"*1024\r\n" + b"$900\r\n%s\r\n" % (b"x" * 900) * 1000)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                said += closed(links)
            assert resident(daemon) < before + (16 << 20)
            other.send(b"y" * 1000 + b"\r\n")
            assert other.reply() == b"y" * 6000
            wait_until(lambda: said.extend(closed(links)) or len(links) <= 2, 30, "the longest are closed")
            assert b"(limits.memory)" in b"".join(said) and b"-ERR Protocol error" in b"".join(said)
        finally:
            for link in links:
                link.close()
    assert 1 <= daemon.log().count("event=client_closed why=\"ERR Protocol error: unfinished") < 10
    with known(daemon, "shop1") as link:
        link.send(b"*2\r\n$4\r\nPI")
        assert "(limits.send_timeout)" in link.reply()


def test_http_heads_that_never_end(make_doors):
    """As many half requests as the door may have connections: /healthz answers all the while, and the log has a line."""
    daemon, port = make_doors()
    links = []
    try:
        for _ in range(1100):
            link = socket.create_connection(("127.0.0.1", port), timeout=patience(10))
            links.append(link)
            try:
                link.sendall(b"POST /healthz HTTP/1.1\r\nHost: l\r\nContent-Length: 9\r\n\r\n1" if len(links) % 2 else b"GET /healthz HTT")
            except OSError:
                pass
        for _ in range(3):
            assert Web(("127.0.0.1", port)).ask("/healthz").status == 200
        wait_until(lambda: "event=http_closed" in daemon.log(), 10, "the log has it")
    finally:
        for link in links:
            link.close()
    assert Web(("127.0.0.1", port)).ask("/api/status").status == 200


def test_http_connections_of_one_address(make_doors):
    """As many half requests and unread answers as it can have: /healthz answers another address, and the log has a line."""
    daemon, port = make_doors()
    links = []
    try:
        for n in range(1100):
            link = socket.socket()
            links.append(link)
            link.settimeout(patience(10))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # with small buffers, on both sides
            link.bind(("127.0.0.2", 0))
            link.connect(("127.0.0.1", port))
            try:
                link.sendall(b"GET /assets/dygraph.min.js HTTP/1.1\r\nHost: l\r\n\r\n" * 4 if n % 2 else b"GET /healthz HTT")  # more than a kernel keeps
            except OSError:
                pass
        for _ in range(3):
            assert Web(("127.0.0.1", port), timeout_s=5).ask("/healthz").status == 200
        wait_until(lambda: "event=http_closed times=" in daemon.log(), 10, "the log has it")
    finally:
        for link in links:
            link.close()


def test_visitors_of_days_long_ago(shops, redis):
    """A visitor of 56 bytes may take 2 MiB of a day: only days of a year and some ahead are taken."""
    daemon = shops(more={"uniques": {"days": 366}})
    with known(daemon, "shop1") as client:
        day = datetime.date.today()
        for back in (0, 1, 366):
            assert client.call("UNIQ.ADD", "s1:x", (day - datetime.timedelta(back)).strftime("%Y%m%d"), 70) == 1
        for back in (370, 1000, 20000):
            told = client.call("UNIQ.ADD", "s1:x", (day - datetime.timedelta(back)).strftime("%Y%m%d"), 16777215)
            assert re.fullmatch(r"ERR day \d+ is more than 366 days back \(uniques.days\)", told)
        assert "has not begun" in client.call("UNIQ.ADD", "s1:x", (day + datetime.timedelta(3)).strftime("%Y%m%d"), 1)
    assert len(list(redis.client().scan_iter("*s1:x*"))) == 3


def test_bits_of_one_user(shops, redis):
    """56 bytes take 2 MiB of a day, and there are many days and names: a user's share of a day is bounded, and another's is not
    touched. What has bits already is counted on."""
    daemon = shops(more={"uniques": {"days": 366, "growth": "16MiB"}})
    days = [(datetime.date.today() - datetime.timedelta(back)).strftime("%Y%m%d") for back in range(70)]
    sent = lambda store, visitor=16777215: [("UNIQ.ADD", f"s{store}:x", day, visitor) for day in days]  # noqa: E731
    before = redis.client().info("memory")["used_memory"]
    with known(daemon, "shop1") as attacker, known(daemon, "shop2") as other:
        told = attacker.pipeline(sent(1))
        assert other.call(*sent(2)[0]) == 1 and other.call("HINCRBY", "s2:product_views", "7", 1) == 1
        assert told[:8] == [1] * 8 and set(told[8:]) == {"OOM this user's visitors took 16777216 bytes today, and 2097152 more would pass "
                                                         "uniques.growth; nothing was added"}
        assert redis.client().info("memory")["used_memory"] - before < 1.5 * (16 + 2) * 2**20
        assert attacker.pipeline(sent(1, 7)[:8]) == [1] * 8 and attacker.call(*sent(1, 7)[9]) == 1
        assert attacker.call("UNIQ.ADD", "s1:x", days[9], "ann") == 1 and attacker.call("HINCRBY", "s1:product_views", "7", 1) == 1
        assert other.call(*sent(2)[1]) == 1
    assert all(0 < redis.client().ttl(key) <= 2 * 86400 for key in redis.client().keys("tally:grown:*"))


def test_windows_without_events(shops, redis):
    """A read of 63 bytes counts 100,000 windows of a log with one event: none but that one's is kept in Redis."""
    daemon = shops()
    with known(daemon, "shop1") as client:
        assert client.call("EVENT.ADD", "s1:e", "view", "AT", int(redis.client().time()[0]) - 600)
        counts = client.call("EVENT.COUNT", "s1:e", "view", 20000 * 26, 26)
        assert sum(counts) == 1 == sum(client.call("EVENT.COUNT", "s1:e", "view", 20000 * 26, 26))
    assert redis.client().hlen("statcache:view") <= 2


def test_tokens_of_one_user(shops):
    """It fills tokens.max no further than half, and hears why: another's are counted."""
    daemon = shops(more={"tokens": {"max": 200}})
    sent = lambda store: [("CTR.INCRBY", f"s{store}:product_views", "7", 1, "TOKEN", f"t{n}") for n in range(150)]  # noqa: E731
    with known(daemon, "shop1") as attacker, known(daemon, "shop2") as other:
        told = attacker.pipeline(sent(1))
        assert other.call(*sent(2)[0]) == 1
        assert told[:100] == list(range(1, 101)) and attacker.pipeline(sent(1)[:100]) == told[:100]
        assert set(told[100:]) == {"OOM 100 tokens are this user's, and 100 of tokens.max are free; nothing was counted"}
        assert other.pipeline(sent(2)[:50]) == list(range(1, 51))
        assert attacker.call(*sent(1)[100]).startswith("OOM 100 tokens are this user's, and 50 of ")
