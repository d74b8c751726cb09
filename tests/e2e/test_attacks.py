"""What an attacker tries at each door, for real: through proxies, from pages of other sites, with a browser at the RESP door."""
import os
import re
import socket

import pytest

from harness.daemon import counters
from harness.tools import FrontHAProxy, FrontNginx
from harness.wait import wait_until
from harness.web import Web
from test_http import make_web

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


def nobody_gets_in(at):
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
        nobody_gets_in(("127.0.0.1", door))


@pytest.mark.parametrize("http", [{}, {"local": "token"}])
def test_haproxy_in_front(make_doors, make_tool, http):
    _, port = make_doors(**http)
    nobody_gets_in(("127.0.0.1", make_tool(FrontHAProxy, port).told))


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
            link.settimeout(30)
            try:
                assert link.recv(100) == b""
            except ConnectionResetError:
                pass
    with daemon.client() as client:
        assert client.call("CTR.TOTAL", "s7:unique_visitors:daily", "20140920") == [0]
    wait_until(lambda: "event=cross_protocol" in daemon.log(), 20, "the log has it")
    assert len(re.findall(r"level=warn event=cross_protocol peer=\S+ times=1 ", daemon.log())) == 1
    assert Web(("127.0.0.1", port)).metrics()["tallyd_cross_protocol_total"] == 3
