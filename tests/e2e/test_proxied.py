"""A door for proxies (?proxy=on): the PROXY protocol header names the client, and comes from those that may send it."""
import re
import socket
import ssl
import struct

import pytest

from harness.certificates import Authority
from harness.ports import port
from harness.tools import FrontHAProxy, page_block
from harness.wait import patience

MARK = b"\r\n\r\n\0\r\nQUIT\n"
V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.1") + struct.pack("!HH", 56324, 7370)
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "::1") + struct.pack("!HH", 56324, 7370)
OWN = None  # the proxy's own address


def second(command, family, rest):
    return MARK + bytes([command, family]) + struct.pack("!H", len(rest)) + rest


HEADERS = {
    "text": (b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 7370\r\n", "192.0.2.7:56324"),
    "text, IPv6": (b"PROXY TCP6 2001:db8::7 ::1 56324 7370\r\n", "[2001:db8::7]:56324"),
    "text, unknown": (b"PROXY UNKNOWN whatever\r\n", OWN),
    "bytes": (second(0x21, 0x11, V4), "192.0.2.7:56324"),
    "bytes, IPv6, more behind": (second(0x21, 0x21, V6 + b"\x04\0\x64" + bytes(100)), "[2001:db8::7]:56324"),
    "bytes, a unix socket": (second(0x21, 0x31, bytes(216)), OWN),
    "bytes, the proxy itself": (second(0x20, 0, b""), OWN),
}
WRONG = {
    "none": b"PING\r\n",
    "no address": b"PROXY TCP4 192.0.2.777 192.0.2.1 56324 7370\r\nPING\r\n",
    "no port": b"PROXY TCP4 192.0.2.7 192.0.2.1 x 7370\r\nPING\r\n",
    "port too high": b"PROXY TCP4 192.0.2.7 192.0.2.1 65536 7370\r\nPING\r\n",
    "more words": b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 7370 1\r\nPING\r\n",
    "no end": b"PROXY UNKNOWN " + b"x" * 200,
    "another version": MARK + b"\x31\x11\0\x0c" + V4,
    "too long": second(0x21, 0x11, V4 + bytes(60000)),
}


class Door:
    def __init__(self, make_daemon, redis, workdir):
        self.authority = Authority(workdir)
        pair = self.authority.issue("door")
        self.plain, self.others, self.secure = port(), port(), port()
        self.daemon = make_daemon(redis, start=False)
        self.daemon.config["listen"] = {
            "resp": [f"unix://{self.daemon.socket}", f"tcp://127.0.0.1:{self.plain}?proxy=on",
                     f"tcp://127.0.0.1:{self.others}?proxy=on&from=192.0.2.0/24,::1",
                     f"tls://127.0.0.1:{self.secure}?proxy=on&from=127.0.0.0/8"],
            "tls": {"cert": pair.cert, "key": pair.key}}
        self.daemon.write_config()
        self.daemon.migrate().start()

    def link(self, at):
        link = socket.create_connection(("127.0.0.1", at), patience(30))
        link.settimeout(patience(30))
        return link

    def seen(self, link):
        """By which address tallyd knows it."""
        link.sendall(b"CLIENT INFO\r\n")
        text = b""
        while b"\n" not in text.partition(b"\r\n")[2]:
            more = link.recv(4096)
            assert more, text
            text += more
        return re.search(rb" addr=(\S+)", text)[1].decode()


@pytest.fixture
def door(make_daemon, redis, workdir):
    return Door(make_daemon, redis, workdir)


def own_address(link):
    return "{}:{}".format(*link.getsockname())


def assert_closed(link, why):
    try:
        assert link.recv(100) == b"", why
    except ConnectionResetError:
        pass


def test_a_header_names_the_client(door):
    for name, (header, address) in HEADERS.items():
        for pieces in ([header], [bytes([one]) for one in header]):
            with door.link(door.plain) as link:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in pieces:
                    link.sendall(piece)
                assert door.seen(link) == (address or own_address(link)), name
    with door.link(door.plain) as link:  # a request right behind it
        link.sendall(HEADERS["bytes"][0] + b"PING\r\n")
        assert link.recv(100) == b"+PONG\r\n"
    context = ssl.create_default_context(cafile=door.authority.cert)
    with door.link(door.secure) as link:  # before the handshake
        link.sendall(HEADERS["text"][0])
        with context.wrap_socket(link, server_hostname="127.0.0.1") as inside:
            assert door.seen(inside) == "192.0.2.7:56324"
    assert door.daemon.verb("status").returncode == 0


def test_no_header_or_from_a_stranger(door):
    """Closed without an answer; one line in ten seconds says why."""
    for name, sent in WRONG.items():
        with door.link(door.plain) as link:
            link.sendall(sent)
            assert_closed(link, name)
    door.daemon.log_contains("no PROXY protocol header came first", 30)
    with door.link(door.others) as link:
        assert_closed(link, "a stranger")
    with door.link(door.plain) as link:
        link.sendall(HEADERS["text"][0])
        assert door.seen(link) == "192.0.2.7:56324"


def test_haproxy_sends_it(door, make_tool):
    """As the page has it, and version 1."""
    ways, section = {"send-proxy": port(), "send-proxy-v2": port()}, page_block("haproxy", "send-proxy-v2")
    make_tool(FrontHAProxy, door.plain, "\n".join(
        section.replace("10.0.0.5:7370", f"127.0.0.1:{door.plain}").replace("bind :7370", f"bind 127.0.0.1:{at}")
        .replace("send-proxy-v2", way).replace("listen tallyd", f"listen {way}") for way, at in ways.items()))
    for at in ways.values():
        with door.link(at) as link:
            assert door.seen(link) == own_address(link)


def test_addresses_that_are_none(door):
    tcp = "tcp://127.0.0.1:7?proxy="
    for place, address, why in [("resp", f"{tcp}off", "proxy=on&from="), ("resp", f"{tcp}on&from=", "from="),
                                ("resp", f"{tcp}on&from=10.0.0.0/33", "from="), ("resp", f"{tcp}on&from=lb.example", "from="),
                                ("resp", f"{tcp}on&from=" + ",".join(["::1"] * 9), "from="), ("http", f"{tcp}on", "X-Forwarded-For")]:
        listen = door.daemon.config["listen"]
        door.daemon.config["listen"] = {**listen, place: address}
        door.daemon.write_config()
        done = door.daemon.verb("check")
        assert done.returncode == 78 and why in done.stderr, (address, done.stderr)
        door.daemon.config["listen"] = listen
