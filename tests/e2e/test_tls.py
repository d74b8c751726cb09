"""TLS: at the doors, to Redis and to MySQL; which clients are refused and with what message; renewal; cuts in the middle of it."""
import os
import random
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time

import pymysql
import pytest
import redis as redis_py

from harness.books import counted
from harness.certificates import Authority, openssl
from harness.daemon import counters
from harness.load import Load
from harness.mariadb import PRODUCT, MariaDB
from harness.ports import port
from harness.resp import Resp
from harness.shadow import Shadow
from harness.wait import patience, wait_until

VIEWS = "s1:product_views"
CONFIG_REFUSED, UNAVAILABLE = 78, 69


@pytest.fixture(scope="module")
def module_directory():
    made = tempfile.mkdtemp(prefix="tly-tls-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def authority(module_directory):
    return Authority(module_directory)


@pytest.fixture(scope="module")
def stranger(module_directory):
    return Authority(module_directory, "stranger")


@pytest.fixture(scope="module")
def pairs(authority, stranger):
    return {"good": authority.issue("good"), "old": authority.issue("old", days=-1),
            "wrong": authority.issue("wrong", names="DNS:elsewhere.example"), "unknown": stranger.issue("unknown"),
            "client": authority.issue("client", usage="clientAuth"), "soon": authority.issue("soon", days=5)}


class SecureMariaDB(MariaDB):
    """With a certificate, on TCP as well; `shop` may come in by TLS alone. Not at 127.0.0.1, for which newer MariaDB libraries
    look at no name."""
    host = "127.0.0.2"

    def __init__(self, directory, template, pair, ca):
        self.pair, self.port = pair, port()
        super().__init__(directory, template, [f"--port={self.port}", "--tls-version=TLSv1.2,TLSv1.3", f"--bind-address={self.host}",
                                               f"--ssl-cert={pair.cert}", f"--ssl-key={pair.key}", f"--ssl-ca={ca}"])

    def argv(self):
        return [word for word in super().argv() if word != "--skip-networking"]

    def url_at(self, host=None, at=None):
        return f"mysql://shop:word@{host or self.host}:{at or self.port}/shop"

    def show(self, pair):
        self.pair.replace_by(pair)
        maria = "MariaDB" in self.query("SELECT VERSION()")[0][0]
        self.query("FLUSH SSL" if maria else "ALTER INSTANCE RELOAD TLS")


@pytest.fixture(scope="module")
def mariadbd(template, authority, module_directory):
    """In the place of the usual one: `mysql` is it, through its unix socket."""
    directory = os.path.join(module_directory, "sql")
    os.mkdir(directory)
    server = SecureMariaDB(directory, template, authority.issue("mysql"), authority.cert).start()
    server.fresh_database()
    server.query("CREATE USER shop@'127.0.0.1' IDENTIFIED BY 'word' REQUIRE SSL")
    server.query("GRANT ALL ON *.* TO shop@'127.0.0.1'")
    yield server
    server.close()


@pytest.fixture
def secure_redis(make_redis, pairs, authority):
    """A redis-server whose TCP port speaks TLS alone; the test itself asks it through its unix socket."""
    at = port()
    server = make_redis(appendfsync="always", extra=[
        "--tls-port", str(at), "--tls-cert-file", pairs["good"].cert, "--tls-key-file", pairs["good"].key,
        "--tls-ca-cert-file", authority.cert, "--tls-auth-clients", "no"])
    server.tls_port = at
    return server


def listening(pair, resp=None, http=None, ca=None):
    """A `listen` section with TLS."""
    made = {"resp": resp, "tls": {"cert": pair.cert, "key": pair.key}}
    if http:
        made["http"] = http
    if ca:
        made["tls"]["ca"] = ca
    return made


def make_door(make_daemon, redis, pair, unix=True, http=False, ca=None, **options):
    """A tallyd with a tls:// address (.tls_port), and .http_port where asked for."""
    daemon = make_daemon(redis, start=False, **options)
    daemon.tls_port, daemon.http_port = port(), port()
    resp = [f"tls://127.0.0.1:{daemon.tls_port}"] + ([f"unix://{daemon.socket}"] if unix else [])
    daemon.config["listen"] = listening(pair, resp, f"tls://127.0.0.1:{daemon.http_port}" if http else None, ca)
    daemon.write_config()
    if not unix:
        daemon.is_ready = lambda: "event=ready" in daemon.log()
    return daemon.migrate().start()


def redis_client(daemon, authority, pair=None, **options):
    more = {"ssl_certfile": pair.cert, "ssl_keyfile": pair.key} if pair else {}
    return redis_py.Redis(host="localhost", port=daemon.tls_port, ssl=True, ssl_ca_certs=authority.cert,
                          ssl_check_hostname=True, socket_timeout=patience(20), **more, **options)


def strictly(plain, context):
    """An end of the socket that TLS did not announce is an error, which Python else takes for the end."""
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)


def wrapped(daemon, context):
    return strictly(socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=patience(20)), context)


def serial_at(at, authority):
    """Of the certificate that is shown there now."""
    with socket.create_connection(("127.0.0.1", at), timeout=patience(20)) as plain:
        with authority.context().wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.getpeercert()["serialNumber"]


def curl(*words):
    return subprocess.run(["curl", "-sS", "--max-time", "20", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=patience(60), check=False)


# --- doors


def test_clients(make_daemon, redis, pairs, authority):
    """redis-py and redis-cli over TLS 1.2 and 1.3; their hits and those of a plain client are the same counts."""
    daemon = make_door(make_daemon, redis, pairs["good"])
    with redis_client(daemon, authority) as client:
        assert client.hincrby(VIEWS, 7, 2) == 2
        pipe = client.pipeline(transaction=False)
        for _ in range(2000):
            pipe.hincrby(VIEWS, 8, 1)
        assert len(pipe.execute()) == 2000
        assert client.echo("x" * 60_000) == b"x" * 60_000
    done = subprocess.run(["redis-cli", "--tls", "--cacert", authority.cert, "-p", str(daemon.tls_port), "HINCRBY", VIEWS,
                           "9", "5"], stdout=subprocess.PIPE, text=True, timeout=patience(60), check=True)
    assert done.stdout == "5\n"
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = authority.context()
        context.minimum_version = context.maximum_version = version
        with wrapped(daemon, context) as link:
            link.sendall(b"HINCRBY s1:product_views 10 1\r\nQUIT\r\n")
            got = b""
            while chunk := link.recv(4096):
                got += chunk
            assert got.endswith(b"+OK\r\n")  # and recv() saw the end of TLS: no cut
    with daemon.client() as plain:
        plain.call("HINCRBY", VIEWS, "7", 1)
    daemon.sync_all()
    assert dict(daemon.mysql.query("SELECT product_id, views FROM product_views")) == {7: 3, 8: 2000, 9: 5, 10: 2}
    daemon.verify()


def test_who_is_refused_at_the_door(make_daemon, redis, pairs, authority, stranger):
    """TLS 1.1, no TLS, nonsense, a client that trusts another authority: each is closed, one line in the log for all."""
    daemon = make_door(make_daemon, redis, pairs["good"])
    old = authority.context()
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    old.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.raises(ssl.SSLError, match="(?i)protocol version"):
        wrapped(daemon, old)
    with pytest.raises(ssl.SSLCertVerificationError):
        wrapped(daemon, stranger.context())
    for words in (b"PING\r\nPING\r\n", b"*1\r\n$4\r\nPING\r\n", os.urandom(5000)):
        with socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=patience(20)) as link:
            link.sendall(words)
            answer = b""
            try:
                while chunk := link.recv(4096):
                    answer += chunk
            except ConnectionResetError:
                pass  # what it did not read of ours makes the kernel say so
            assert b"PONG" not in answer
    with daemon.client() as client:
        wait_until(lambda: stat_of(client, "tls_refused") >= 5, 60)
        assert 1 <= daemon.log().count("event=tls_refused") < 4  # one in ten seconds, however slow this machine is
        assert client.call("PING") == "PONG"


def stat_of(client, name):
    lines = client.call("INFO").decode().splitlines()
    return int(next(line.split(":")[1] for line in lines if line.startswith(f"{name}:")))


def hello_of(authority):
    """A client's first words; sending them again and again costs the client nothing, but costs the server."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_handshakes_that_dribble(make_daemon, redis, pairs, authority):
    """Forty handshakes that come byte by byte, and forty that are stuck, delay no other client."""
    daemon = make_door(make_daemon, redis, pairs["good"])
    words = hello_of(authority)
    links = [socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=patience(20)) for _ in range(80)]
    with redis_client(daemon, authority) as client:
        for at in range(len(words) - 1):
            for link in links[:40]:
                link.sendall(words[at:at + 1])
            if at % 20 == 0:
                assert client.hincrby(VIEWS, 1, 1) > 0
        links[0].sendall(words[-1:])
        assert links[0].recv(1) == b"\x16"  # an answer to the whole of it
    for link in links:
        link.close()


def test_a_handshake_has_its_time(make_clock, make_daemon, redis, pairs, authority):
    """A client that begins one and sends no more is disconnected after limits.auth_timeout, by tallyd's clock."""
    clock = make_clock().flow()
    daemon = make_door(make_daemon, redis, pairs["good"], http=True, more={"limits": {"auth_timeout": "100s"}}, clock=clock)
    begun = hello_of(authority)[:-1]
    links = [socket.create_connection(("127.0.0.1", at), timeout=patience(20)) for at in (daemon.tls_port, daemon.http_port)]
    for link in links:
        link.sendall(begun)
    with daemon.client() as client:
        assert client.call("PING") == "PONG"  # it has them by now
    clock.step(50)
    assert not select.select(links, [], [], 0.5)[0]
    clock.step(110)  # as long as it may, wherever it was by then
    for link in links:
        assert link.recv(1) in (b"", b"\x15")  # a close, or an alert before it
        link.close()
    with daemon.client() as client:
        wait_until(lambda: stat_of(client, "tls_refused") == 2, 60, "both are counted")
    daemon.log_contains("the handshake took too long")


def answered(links):
    """Those that have an answer to their hello by now."""
    return select.select(links, [], [], 0)[0]


FLOOD = 400


def test_a_flood_of_handshakes(make_daemon, redis, pairs, authority):
    """Of many at once each is put off until its turn comes, and has it; meanwhile hits are counted, of plain clients and of
    those that are through."""
    daemon = make_door(make_daemon, redis, pairs["good"])
    words = hello_of(authority)
    with daemon.client() as plain, redis_client(daemon, authority) as secure:
        assert secure.hincrby(VIEWS, 2, 1) > 0
        links = [socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=patience(20)) for _ in range(FLOOD)]
        for link in links:
            link.sendall(words)
        for _ in range(5):
            assert plain.call("HINCRBY", VIEWS, "1", 1) > 0 and secure.hincrby(VIEWS, 2, 1) > 0
        assert len(answered(links)) < FLOOD  # without a bound the loop has done them all before it takes a hit
        for link in links:
            assert link.recv(1) == b"\x16"
        assert stat_of(plain, "tls_put_off") >= FLOOD / 2 and stat_of(plain, "tls_refused") == 0
        for link in links[::2]:
            link.close()
        with redis_client(daemon, authority) as late:
            assert late.hincrby(VIEWS, 3, 1) > 0
    for link in links[1::2]:
        link.close()
    daemon.sync_all()
    assert dict(daemon.mysql.query("SELECT product_id, views FROM product_views")) == {1: 5, 2: 6, 3: 1}


def test_client_certificates_and_verbs(make_daemon, redis, pairs, authority, stranger):
    """With listen.tls.ca only a client with a certificate gets in, by RESP and HTTP; the verbs say what they need of a service that
    has no other address, and do their work once it has it."""
    daemon = make_door(make_daemon, redis, pairs["good"], unix=False, http=True, ca=authority.cert)
    with redis_client(daemon, authority, pairs["client"]) as client:
        assert client.hincrby(VIEWS, 7, 1) == 1
    none, stale = None, authority.issue("stale", usage="clientAuth", days=-1)
    for shown in (none, stale, stranger.issue("foreign", usage="clientAuth")):
        with pytest.raises((redis_py.ConnectionError, ssl.SSLError)):
            redis_client(daemon, authority, shown).ping()
    with wrapped(daemon, authority.context()) as client, pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        client.sendall(b"x" * (4 << 20))  # it reads late, and is told all the same
        client.recv(1)
    address = f"https://localhost:{daemon.http_port}"
    shown = ["--cacert", authority.cert, "--cert", pairs["client"].cert, "--key", pairs["client"].key]
    assert curl(*shown, f"{address}/healthz").stdout == "ok\n"
    assert curl("--cacert", authority.cert, f"{address}/healthz").returncode != 0
    metrics = curl(*shown, f"{address}/metrics").stdout
    assert "tallyd_tls_refused_total " in metrics and "tallyd_certificate_expires_seconds " in metrics
    assert '"well":true' in curl(*shown, f"{address}/api/status").stdout  # no token: it is known to come from here
    next_step = "give listen.control, a unix socket such as unix:///run/tallyd/control.sock, and restart tallyd"
    status, recover = daemon.verb("status"), daemon.verb("recover")
    assert status.returncode == 1 and "tallyd     ?: verbs cannot use any address at which it listens" in status.stdout, status.stdout
    assert "tallyd does not answer" in status.stdout and next_step in status.stdout
    assert recover.returncode == 78 and next_step in recover.stderr, recover.stderr
    assert "cannot use any address at which it listens (tls://, users, proxies)" in recover.stderr
    daemon.verify()
    daemon.terminate()
    assert "no tallyd runs" in daemon.verb("status").stdout
    assert daemon.verb("recover").returncode == 0  # by itself
    daemon.control = f"{daemon.directory}/control.sock"
    daemon.config["listen"]["control"] = f"unix://{daemon.control}"
    daemon.write_config()
    del daemon.is_ready
    daemon.start()
    for verb in ("status", "recover"):
        done = daemon.verb(verb)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "tallyd     up " in daemon.verb("status").stdout


def test_https(make_daemon, redis, pairs, authority):
    """The whole panel's file, many at once; plain HTTP and TLS 1.1 are refused."""
    daemon = make_door(make_daemon, redis, pairs["good"], http=True)
    address, known = f"https://localhost:{daemon.http_port}", ["--cacert", authority.cert]
    page = curl(*known, f"{address}/").stdout
    assert page.endswith("</html>\n")
    done = curl(*known, "--parallel", "--parallel-max", "30", *[f"{address}/"] * 60)
    assert done.returncode == 0 and done.stdout.count("</html>") == 60, done.stderr
    assert curl(f"{address}/").returncode == 60  # the authority is not one of the system's
    assert curl(f"http://localhost:{daemon.http_port}/").returncode != 0
    assert curl(*known, "--tls-max", "1.1", "--ciphers", "DEFAULT:@SECLEVEL=0", f"{address}/").returncode == 35
    with socket.create_connection(("127.0.0.1", daemon.http_port)) as plain, ssl.create_default_context(
            cafile=authority.cert).wrap_socket(plain, server_hostname="localhost") as kept:
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        assert daemon.terminate() == 0  # it does not wait for a client that stays


ASSETS = 60  # of 130 KB: more than the kernel keeps for a client that does not read


def assets_at(daemon, authority, source="127.0.0.1"):
    """A connection that was asked for many, and takes next to nothing as long as it does not read."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    plain.settimeout(patience(30))
    plain.bind((source, 0))
    plain.connect(("127.0.0.1", daemon.http_port))
    secure = strictly(plain, authority.context())
    for at in range(1, ASSETS + 1):
        secure.sendall(b"GET /assets/dygraph.min.js HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n" %
                       (b"close" if at == ASSETS else b"keep-alive"))
    return secure


def test_https_for_who_reads_slowly(make_daemon, redis, pairs, authority):
    """All of an answer comes, then a proper close, no cut; a client that reads nothing delays no other. 16 KB in half a second is no
    connection on which nothing moves, though a kernel that keeps megabytes for it hides that from tallyd for ten seconds."""
    daemon = make_door(make_daemon, redis, pairs["good"], http=True, more={"stop_timeout": "10m"})
    whole = curl("--cacert", authority.cert, f"https://localhost:{daemon.http_port}/assets/dygraph.min.js").stdout.encode()
    assert len(whole) > 100_000
    with assets_at(daemon, authority) as link:
        heard = b""
        for _ in range(24):
            time.sleep(0.5)  # it reads so slowly
            heard += link.recv(16384)
        while chunk := link.recv(65536):
            heard += chunk
        assert heard.count(whole) == ASSETS and heard.endswith(whole)
    with assets_at(daemon, authority):
        time.sleep(0.5)  # nothing waits for that: a moment in which all is written that can be
        assert daemon.terminate() == 0  # long before stop_timeout


def with_72_connections(make_daemon, redis, pair):
    """To HTTP, with 400 descriptors; handshakes may take minutes."""
    daemon = make_door(make_daemon, redis, pair, http=True, more={"limits": {"clients": 200, "auth_timeout": "10m"}})
    daemon.kill9()
    run = daemon.argv()
    daemon.argv = lambda: ["prlimit", "--nofile=400:400", *run]
    return daemon.start()


def test_handshakes_that_never_begin(make_daemon, redis, pairs, authority):
    """Beyond half of the connections the oldest of them is closed."""
    daemon = with_72_connections(make_daemon, redis, pairs["good"])
    silent = [socket.create_connection(("127.0.0.1", daemon.http_port)) for _ in range(200)]
    # While they are still being accepted a handshake on a busy machine may be the oldest.
    wait_until(lambda: curl("--cacert", authority.cert, f"https://localhost:{daemon.http_port}/healthz").stdout == "ok\n", 60)
    for link in silent:
        link.close()


def test_one_address_has_three_quarters_of_https(make_daemon, redis, pairs, authority):
    """One IP address leaves the answers of 54 unread, and gets no other; another address does."""
    daemon = with_72_connections(make_daemon, redis, pairs["good"])
    held = []
    with pytest.raises((OSError, ssl.SSLError)):
        while len(held) < 72:
            held.append(assets_at(daemon, authority))
    assert len(held) in (54, 55)  # libmicrohttpd 1.0 takes one more
    assert curl("--interface", "127.0.0.2", "--cacert", authority.cert, f"https://localhost:{daemon.http_port}/healthz").stdout == "ok\n"
    for link in held:
        link.close()


def test_what_the_log_says_of_https(make_daemon, redis, pairs, authority, stranger):
    """Of a handshake that failed: how far it came. One line in ten seconds, so each client has a tallyd of its own; one that is through
    and asks for nothing is none of them."""
    foreign = stranger.issue("foreign-https", usage="clientAuth")
    for at, (shown, why) in enumerate((([], "the client shows no certificate of an authority in listen.tls.ca"),
                       (["--cert", foreign.cert, "--key", foreign.key], "the client's certificate: "),
                       (["--tls-max", "1.1", "--ciphers", "DEFAULT:@SECLEVEL=0"], ""))):
        daemon = make_door(make_daemon, redis, pairs["good"], http=True, ca=authority.cert, instance=f"asks{at}")
        assert curl("--cacert", authority.cert, *shown, f"https://localhost:{daemon.http_port}/healthz").returncode != 0
        daemon.log_contains("event=tls_refused")
        line = next(line for line in daemon.log().splitlines() if "event=tls_refused" in line)
        assert f"door=tls://127.0.0.1:{daemon.http_port} peer=127.0.0.1:" in line and why in line
        daemon.terminate()
    daemon = make_door(make_daemon, redis, pairs["good"], http=True)
    with socket.create_connection(("127.0.0.1", daemon.http_port)) as plain, strictly(plain, authority.context()):
        pass
    with socket.create_connection(("127.0.0.1", daemon.http_port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with daemon.client() as client:
        wait_until(lambda: stat_of(client, "tls_refused") == 1, 60, "the second one is counted")
    assert "that was no TLS" in daemon.log()


def test_renewal_under_traffic(make_daemon, redis, authority):
    """New files and SIGHUP: new connections see the new certificate, old ones go on, nothing is lost; files that
    are not fit leave the old one, and the log says why."""
    mine, renewed = authority.issue("mine"), authority.issue("renewed")
    daemon = make_door(make_daemon, redis, mine, http=True, families=counters(hits=100, every="1s"))
    hits_of, stop, lasting = [0, 0], threading.Event(), redis_client(daemon, authority)
    assert lasting.hincrby(VIEWS, 0, 1) == 1

    def hits(me):
        while not stop.is_set():
            with redis_client(daemon, authority) as client:
                for _ in range(5):
                    client.hincrby(VIEWS, me + 1, 1)
                    hits_of[me] += 1

    threads = [threading.Thread(target=hits, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    first = serial_at(daemon.tls_port, authority)
    wait_until(lambda: min(hits_of) > 10, 30)
    mine.replace_by(renewed)
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: serial_at(daemon.tls_port, authority) != first, 60, "the new certificate is shown")
    assert serial_at(daemon.http_port, authority) == serial_at(daemon.tls_port, authority) == renewed.serial()
    for what, spoil in (("it is not the key of the certificate", lambda: shutil.copy(authority.issue("other").key, mine.key)),
                        ("it has expired", lambda: mine.replace_by(authority.issue("late", days=-1))),
                        ("a certificate in PEM is expected", lambda: write(mine.cert, "no certificate"))):
        spoil()
        daemon.signal(signal.SIGHUP)
        daemon.log_contains(what)
        assert serial_at(daemon.tls_port, authority) == renewed.serial()
    seen = list(hits_of)
    wait_until(lambda: all(now > then for now, then in zip(hits_of, seen)), 30)
    stop.set()
    for thread in threads:
        thread.join()
    assert daemon.log().count("outcome=kept") == 3 and "connections use the old files" in daemon.log()
    assert lasting.ping()
    lasting.close()
    daemon.sync_all()
    assert dict(daemon.mysql.query("SELECT product_id, views FROM product_views")) == {
        0: 1, **{me + 1: hits_of[me] for me in range(2)}}
    daemon.verify()


def write(path, text):
    with open(path, "w", encoding="ascii") as out:
        out.write(text)


def test_modes_of_unix_sockets(make_daemon, redis, workdir):
    group = os.getgroups()[0] if os.getuid() else 33
    paths = {f"{workdir}/a.sock": ("", 0o660, os.getgid()), f"{workdir}/b.sock": ("?mode=0600", 0o600, os.getgid()),
             f"{workdir}/c.sock": (f"?mode=0666&group={group}", 0o666, group)}
    daemon = make_daemon(redis, start=False)
    http, control = f"{workdir}/h.sock", f"{workdir}/mode=.sock"  # an odd name for a socket, and no option
    daemon.config["listen"] = {"resp": [f"unix://{path}{more}" for path, (more, _, _) in paths.items()],
                               "http": f"unix://{http}?mode=0622&group={group}", "control": f"unix://{control}"}
    daemon.socket = f"{workdir}/c.sock"
    daemon.write_config()
    daemon.migrate().start()
    for path, (_, mode, owner) in {**paths, http: ("", 0o622, group), control: ("", 0o600, os.getgid())}.items():
        found = os.stat(path)
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (mode, owner), path
    assert daemon.terminate() == 0
    assert not os.path.exists(daemon.socket)
    daemon.config["listen"] = {"resp": [f"unix://{workdir}/a.sock?group=no-such-group"]}
    daemon.write_config()
    daemon.spawn()
    assert daemon.ended() == CONFIG_REFUSED
    assert "there is no group no-such-group" in daemon.log()
    assert not os.path.exists(f"{workdir}/a.sock")


def test_check_of_files(make_daemon, redis, pairs, authority, workdir):
    """What `check` says of a certificate and a key, with the place in the file and what to do."""
    daemon = make_daemon(redis, start=False)
    daemon.migrate()

    def check(cert, key):
        daemon.config["listen"] = {"resp": ["tls://127.0.0.1:7380"], "tls": {"cert": cert, "key": key}}
        daemon.write_config()
        done = daemon.verb("check")
        assert "PRIVATE" not in done.stdout + done.stderr
        return done

    good = pairs["good"]
    done = check(good.cert, good.key)
    assert done.returncode == 0 and "the certificate of listen.tls is good until" in done.stdout
    done = check(pairs["soon"].cert, pairs["soon"].key)
    assert done.returncode == 0 and "warning: the certificate of listen.tls is good until" in done.stdout
    assert "renew it" in done.stdout
    done = check(pairs["old"].cert, pairs["old"].key)
    assert done.returncode == CONFIG_REFUSED and "has expired at" in done.stderr
    sealed, open_to_all = f"{workdir}/sealed.key", f"{workdir}/open.key"
    openssl("pkey", "-in", good.key, "-out", sealed, "-aes128", "-passout", "pass:word", directory=workdir)
    os.chmod(sealed, 0o600)
    with open(good.key, encoding="ascii") as source:
        write(open_to_all, source.read())
    os.chmod(open_to_all, 0o644)
    for key, why in ((sealed, "it has a passphrase"), (open_to_all, "run chmod 640"),
                     (pairs["old"].key, "it is not the key of the certificate"), ("/nowhere", "No such file")):
        done = check(good.cert, key)
        assert done.returncode == CONFIG_REFUSED and f"listen.tls.key: the key: " in done.stderr and why in done.stderr
    done = check("cert.pem", "key.pem")  # beside the configuration
    assert "No such file" in done.stderr
    for name, source in (("cert.pem", good.cert), ("key.pem", good.key)):
        os.symlink(source, f"{workdir}/{name}")
    assert check("cert.pem", "key.pem").returncode == 0


# --- Redis and MySQL


def behind(make_daemon, secure_redis, mysql, authority, redis_tls=None, mysql_tls=None, redis_url=None,
           mysql_url=None, **options):
    """A tallyd that has TLS with both."""
    return make_daemon(
        secure_redis, migrate=False,
        redis_url={"url": redis_url or f"rediss://localhost:{secure_redis.tls_port}/0",
                   "tls": redis_tls or {"ca": authority.cert}},
        mysql_url={"url": mysql_url or mysql.url_at(), "tls": mysql_tls or {"use": "on", "ca": authority.cert}},
        **options)


@pytest.mark.parametrize("name, redis_says, mysql_says", [
    ("wrong", "localhost is refused (hostname mismatch): connect by a name that it has",
     "not name the host of mysql.url"),
    ("old", "(certificate has expired): have it renewed", "has expired"),
    ("unknown", "): name the file of the authority that signed it in tls.ca",
     "mysql.tls.ca"),
])
def test_servers_that_are_refused(make_daemon, secure_redis, mysql, authority, pairs, name, redis_says, mysql_says):
    daemon = behind(make_daemon, secure_redis, mysql, authority, start=False)
    good = authority.issue("mysql-good")
    daemon.migrate()
    assert daemon.verb("check").returncode == 0
    show_redis(secure_redis, pairs[name])
    shown = shows(mysql, pairs[name])
    try:
        done = daemon.verb("check")
        assert done.returncode == CONFIG_REFUSED
        assert "no TLS with Redis at localhost:" in done.stderr and redis_says in done.stderr
        assert not shown or "MySQL error 2026: " in done.stderr and mysql_says in done.stderr
        for verb in ("run", "verify", "recover") if name == "wrong" else ():
            refused = daemon.verb(verb)
            assert refused.returncode == CONFIG_REFUSED and redis_says in refused.stderr
        off = behind(make_daemon, secure_redis, mysql, authority, start=False, redis_tls={"verify": "off"},
                     mysql_tls={"use": "on", "verify": "off"})
        done = off.verb("check")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("warning: ") == 2 and "can pose as Redis" in done.stdout
    finally:
        mysql.show(good)


def shows(mysql, pair):
    """False: MySQL does not take a certificate that is expired or of an authority that it does not know."""
    try:
        mysql.show(pair)
    except pymysql.err.OperationalError as error:
        assert PRODUCT == "MySQL" and error.args[0] == 3888
        return False
    return True


def show_redis(server, pair):
    server.client().execute_command("CONFIG", "SET", "tls-cert-file", pair.cert, "tls-key-file", pair.key)


@pytest.mark.soak
def test_redis_without_tls(make_daemon, make_redis, secure_redis, mysql, authority):
    """Where TLS is asked for, a plain port hears nothing else. Five seconds: that Redis waits for the end of a line."""
    plain_port = port()
    plain = make_redis("plain", extra=["--port", str(plain_port)])
    daemon = behind(make_daemon, secure_redis, mysql, authority, start=False,
                    redis_url=f"rediss://localhost:{plain_port}/0")
    daemon.migrate()
    done = daemon.verb("check")
    assert done.returncode == UNAVAILABLE
    assert "is this its port for TLS?" in done.stderr
    assert plain.client().info("commandstats").keys() <= {"cmdstat_ping", "cmdstat_info"}


def test_mysql_without_tls(make_daemon, secure_redis, mysql, authority):
    """A MySQL that wants TLS of this user and is asked without; one that has none and is asked for it."""
    daemon = behind(make_daemon, secure_redis, mysql, authority, start=False, mysql_tls={"use": "off"})
    done = daemon.verb("check")  # Oracle's library has TLS unasked where MySQL has it, and verifies nothing
    assert done.returncode == CONFIG_REFUSED
    assert "MySQL error 1045" in done.stderr or PRODUCT == "MySQL" and "tally_ledger is missing" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet_without_tls, args=(server,))
        thread.start()
        daemon = behind(make_daemon, secure_redis, mysql, authority, start=False,
                        mysql_url=mysql.url_at("127.0.0.1", server.getsockname()[1]))
        done = daemon.verb("check")
        thread.join()
    assert done.returncode == UNAVAILABLE
    assert "support it; give MySQL a certificate" in done.stderr


def greet_without_tls(server):
    """The greeting of a MySQL that knows no TLS; what it hears must be nothing, least of all a password."""
    link, _ = server.accept()
    with link:
        capabilities = 0xFFFFFFFF & ~0x800  # all but CLIENT_SSL
        body = (b"\x0a" + b"8.0.36\0" + b"\1\0\0\0" + b"12345678\0" + (capabilities & 0xFFFF).to_bytes(2, "little") +
                b"\x21\2\0" + (capabilities >> 16).to_bytes(2, "little") + b"\x15" + b"\0" * 10 + b"123456789012\0" +
                b"mysql_native_password\0")
        link.sendall(len(body).to_bytes(3, "little") + b"\0" + body)
        link.settimeout(patience(20))
        assert b"shop" not in link.recv(4096)


def test_certificate_of_tallyd_itself(make_daemon, secure_redis, mysql, authority, pairs):
    """Redis and MySQL may want one as well."""
    secure_redis.client().config_set("tls-auth-clients", "yes")
    mysql.query("ALTER USER shop@'127.0.0.1' REQUIRE X509")
    shown = {"ca": authority.cert, "cert": pairs["client"].cert, "key": pairs["client"].key}
    try:
        daemon = behind(make_daemon, secure_redis, mysql, authority, start=False)
        done = daemon.verb("check")
        assert done.returncode == CONFIG_REFUSED
        assert "it wants another client certificate than the configured one" in done.stderr
        daemon = behind(make_daemon, secure_redis, mysql, authority, start=False, redis_tls=shown,
                        mysql_tls={"use": "on", **shown})
        daemon.migrate()
        done = daemon.verb("check")
        assert done.returncode == 0, done.stderr
        assert "the certificate of redis.tls is good until" in done.stdout
    finally:
        mysql.query("ALTER USER shop@'127.0.0.1' REQUIRE SSL")


def test_cuts_in_the_middle(make_daemon, make_proxy, secure_redis, mysql, authority):
    """Links to Redis and MySQL cut, stalled, dribbled, their answers lost, in the middle of TLS records, under load: what
    was answered is counted, what was not at most once; every link has TLS."""
    to_redis = make_proxy(("127.0.0.1", secure_redis.tls_port), tcp=True)
    to_mysql = make_proxy((mysql.host, mysql.port), tcp=True)
    families = counters(hits=50, every="1s")
    daemon = behind(make_daemon, secure_redis, mysql, authority, start=False, families=families,
                    redis_url=f"rediss://localhost:{to_redis.port}/0", mysql_url=mysql.url_at("127.0.0.1", to_mysql.port))
    daemon.migrate().start()
    shadow, rng = Shadow(), random.Random(7)
    load = Load(daemon.socket, shadow, lambda r: (b"s%d:product_views" % r.randrange(20), b"%d" % r.randrange(5), 1), clients=4,
                depth=20, per_second=4000, seed=7)

    def answers(n=200):
        before = sum(shadow.acked.values())
        wait_until(lambda: sum(shadow.acked.values()) > before + n, 60, "answers")

    try:
        load.go()
        for _ in range(8):
            answers()
            proxy = rng.choice((to_redis, to_redis, to_mysql))
            way = rng.choice(("cut", "dribble", "up", "lost"))
            if way == "dribble":  # so that the cut comes inside of a record
                proxy.dribbling = True
                wait_until(lambda: len(proxy.all_links()) > 0, 30)
            elif way == "up":
                proxy.stall("up")
            elif way == "lost":
                proxy.swallow_replies()
            proxy.cut()
            proxy.dribbling = False
            proxy.flow()
        answers()
        load.pause()
    finally:
        load.stop()
    wait_until(lambda: isinstance(one_hit(daemon), int), 30, "counts again")
    daemon.sync_all()
    daemon.verify()
    assert daemon.verb("status").returncode == 0
    assert daemon.terminate() == 0
    found = counted(secure_redis.client(), mysql, families)
    assert found.pop((b"s1:searches", b"end")) > 0
    shadow.check(found)


def one_hit(daemon):
    with Resp(daemon.socket, 10) as client:
        return client.call("HINCRBY", "s1:searches", "end", 1)


# --- its end, at any moment ---

def https_asks(daemon, context, ended):
    """Also handshakes that are never ended, and answers that no client reads."""
    while not ended.is_set():
        try:
            with socket.create_connection(("127.0.0.1", daemon.http_port), timeout=patience(20)) as plain:
                if random.random() < 0.2:
                    plain.sendall(b"\x16\x03\x01\x02\x00\x01")
                    continue
                with context.wrap_socket(plain, server_hostname="localhost") as link:
                    path = random.choice(["/metrics", "/api/pulse", "/api/status", "/api/stores", "/healthz"])
                    link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                    link.recv(65536)
        except OSError:
            time.sleep(0.002)  # it is not there


def hits(daemon, authority, ended):
    while not ended.is_set():
        try:
            for n in range(50):
                if n == 0:
                    client = redis_client(daemon, authority)
                client.hincrby(VIEWS, n, 1)
        except redis_py.RedisError:
            time.sleep(0.002)


@pytest.mark.soak
def test_stops_at_any_moment(make_daemon, secure_redis, mysql, authority, pairs):
    """While it starts, while it reloads, beside handshakes, answers and merges: threads of all kinds end."""
    daemon = make_door(make_daemon, secure_redis, pairs["good"], http=True)
    context = ssl.create_default_context(cafile=authority.cert)
    ended, ends = threading.Event(), []
    threads = [threading.Thread(target=https_asks, args=(daemon, context, ended)) for _ in range(3)]
    threads += [threading.Thread(target=hits, args=(daemon, authority, ended)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(60):
            time.sleep(random.choice([0.05, 0.2, 0.5, 2]) * random.random())  # the moment itself is what is tried
            if turn % 2 and "event=ready" in daemon.log():
                daemon.signal(signal.SIGHUP)
            ends.append(daemon.terminate(30))
            os.remove(daemon.log_path)
            daemon.spawn()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert set(ends) <= {0, -signal.SIGTERM}, ends  # the latter: before it heard signals
    assert ends.count(0) >= 20, ends
