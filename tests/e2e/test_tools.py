"""Proxies and tools that a shop has beside its Redis, in front of tallyd or asking it: each does what it does with Redis."""
import http.client
import re
import socket
import subprocess
from inspect import signature

import pytest
import redis as redis_py

from harness.programs import PYTHON_CLIENT
from harness.resp import encode
from harness.tools import Exporter, HAProxy, Nginx, Nutcracker, Rsyslog, Sentinel
from harness.unmodified import CLIENTS, at, merged, assert_same_as_redis
from harness.wait import patience, stays, wait_until
from harness.web import Connection

REDIS_PY = [PYTHON_CLIENT, f"{CLIENTS}/redis_py.py"]


def test_haproxy(calm, make_redis, make_tool, mysql):
    """Both usual checks find the master; hits go through; tallyd killed is found out."""
    haproxy = make_tool(HAProxy, calm.port)
    up = {"by_info": ("UP", "L7OK"), "by_role": ("UP", "L7OK")}
    wait_until(lambda: haproxy.status() == up, 60, "both checks pass")
    assert_same_as_redis(REDIS_PY, calm, at(make_redis("plain")), mysql, ways=(("unix", haproxy.by_info), ("unix", haproxy.by_role)))
    assert haproxy.status() == up
    calm.kill9()
    wait_until(lambda: {status for status, _ in haproxy.status().values()} == {"DOWN"}, 60, "both checks fail")


def test_nutcracker(calm, make_tool, mysql):
    """Through twemproxy, which mixes its clients' requests on two connections: one by one, and in pipelines."""
    proxy = make_tool(Nutcracker, calm.port)
    # Newer redis-py begins with CLIENT SETINFO, for which twemproxy ends the connection.
    silent = {word: None for word in ("lib_name", "lib_version") if word in signature(redis_py.Redis).parameters}
    clients = [redis_py.Redis(unix_socket_path=proxy.socket, socket_timeout=patience(30), **silent) for _ in range(4)]
    for n in range(200):
        assert clients[n % 4].hincrby("s77:product_views", "5", 2) == 2 * (n + 1)
    for client in clients:
        pipe = client.pipeline(transaction=False)
        for n in range(5000):
            pipe.hincrby("s77:product_views", str(10 + n % 100), 1)
        assert len(pipe.execute()) == 5000
    assert clients[0].hincrby("s77:product_views", "10", 1) == 4 * 50 + 1
    calm.sync_all()
    assert merged(mysql, "product_views", "views") == 1 + 400 + 20000 + 1
    calm.verify()


def test_nginx(calm, make_redis, make_tool, mysql):
    """lua-resty-redis: the script, then pages that count themselves over links which nginx keeps."""
    nginx = make_tool(Nginx, calm.socket)
    asked = 'curl -sf --unix-socket "$0" "http://localhost/replies?script=$1&kind=$2&where=$3"'
    assert_same_as_redis(["sh", "-c", asked, nginx.socket], calm, at(make_redis("plain")), mysql)
    before = merged(mysql, "product_views", "views")
    page = Connection(nginx.socket, 30)
    for n in range(500):
        page.request("GET", "/view?product=900")
        answer = page.getresponse()
        assert (answer.status, answer.read()) == (200, b"%d\n" % (n + 1))
    page.close()
    calm.sync_all()
    assert merged(mysql, "product_views", "views") == before + 500
    calm.verify()


def test_rsyslog(calm, redis, make_tool, mysql):
    """omhiredis with a template: each line of a log is a hit."""
    rsyslog = make_tool(Rsyslog, calm.port)
    with socket.socket(socket.AF_UNIX) as log:
        log.connect(rsyslog.socket)
        log.sendall(b"".join(b"<14>Feb 14 10:00:00 shop view:%d\n" % (n % 7) for n in range(5000)))
    counted = lambda: sum(int(n) for n in redis.client().hgetall("s77:product_views").values())
    wait_until(lambda: counted() >= 5000, 30, "all lines are counted")
    calm.sync_all()
    assert merged(mysql, "product_views", "views") == 1 + 5000
    calm.verify()


def test_sentinel(calm, make_tool, mysql):
    """It takes tallyd for a master that is up, and says so to a client that asks it where to send hits. Its flags have
    `disconnected`: its second link wants SUBSCRIBE, which tallyd does not have."""
    sentinel = make_tool(Sentinel, calm.port)
    wait_until(lambda: int(sentinel.master()["info-refresh"]) > 0, 30, "it has read INFO")
    said = sentinel.master()
    assert said["role-reported"] == "master" and said["num-slaves"] == "0", said
    stays(lambda: "_down" not in sentinel.master()["flags"], 3, "neither s_down nor o_down")
    client = redis_py.sentinel.Sentinel([("127.0.0.1", sentinel.port)], socket_timeout=patience(30)).master_for("shop")
    assert [client.hincrby("s77:product_views", "5", 3) for _ in range(10)] == list(range(3, 33, 3))
    calm.sync_all()
    assert merged(mysql, "product_views", "views") == 1 + 30
    calm.kill9()
    wait_until(lambda: "s_down" in sentinel.master()["flags"], 60, "it finds tallyd dead")


EXPORTED = ("redis_up", "redis_connected_clients", "redis_blocked_clients", "redis_connected_slaves", "redis_uptime_in_seconds",
            "redis_commands_processed_total", "redis_connections_received_total", "redis_memory_used_bytes",
            "redis_exporter_last_scrape_error")


def test_exporter(calm, make_redis, make_tool):
    """Prometheus' exporter of Redis has the figures that a shop's dashboard shows, and the role."""
    plain = make_redis("plain")
    there = make_tool(Exporter, "exporter-redis", f"unix://{plain.socket}").metrics()
    exporter = make_tool(Exporter, "exporter", f"redis://127.0.0.1:{calm.port}")
    with calm.client() as client:
        client.pipeline([["HINCRBY", "s77:product_views", "5", 1]] * 1000)
    here = exporter.metrics()
    names = {re.sub("{.*", "", name) for name in here}
    assert set(EXPORTED) - {re.sub("{.*", "", name) for name in there} == set(), "an exporter of another age"
    assert set(EXPORTED) - names == set()
    assert (here["redis_up"], here["redis_connected_slaves"], here["redis_blocked_clients"]) == (1, 0, 0)
    assert [value for name, value in here.items() if name.startswith("redis_exporter_last_scrape_error")] == [0]
    assert here["redis_commands_processed_total"] >= 1000 and here["redis_memory_used_bytes"] > 1 << 20
    assert here["redis_connections_received_total"] >= here["redis_connected_clients"] >= 1
    assert [name for name in here if name.startswith("redis_instance_info{") and 'role="master"' in name], names


def test_redis_cli_stat(calm):
    """A figure that INFO lacks would be shown there as -9223372036854775808."""
    with calm.client() as client:
        client.pipeline([["HINCRBY", "s77:product_views", "5", 1]] * 500)
    stat = subprocess.Popen(["stdbuf", "-oL", "redis-cli", "-s", calm.socket, "--stat", "-i", "0.01"], text=True,
                            stdout=subprocess.PIPE)
    lines = [stat.stdout.readline() for _ in range(12)]
    stat.terminate()
    stat.wait(patience(30))
    rows = [line.split() for line in lines if re.match(r"\d", line)]
    assert len(rows) == 10 and all(re.fullmatch(r"\d+ +[\d.]+[KMG] +\d+ +0 +\d+ \(\+\d+\) +\d+ *\n", line)
                                   for line in lines[2:]), "".join(lines)
    assert int(rows[0][4]) >= 500 and int(rows[-1][4]) > int(rows[0][4]), "requests"


MILLION = 1_000_000


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_redis_cli_pipe_of_a_million(way, calm, mysql):
    """redis-cli --pipe, as one loads a day's hits from a file."""
    where = {"unix": ["-s", calm.socket], "tcp": ["-h", "127.0.0.1", "-p", str(calm.port)]}[way]
    hits = b"".join(encode("HINCRBY", "s77:product_views", str(n % 1000), 1) for n in range(1000)) * (MILLION // 1000)
    done = subprocess.run(["redis-cli", *where, "--pipe"], input=hits, capture_output=True, timeout=patience(120), check=False)
    assert b"errors: 0, replies: 1000000" in done.stdout, done.stdout + done.stderr
    calm.sync_all()
    assert merged(mysql, "product_views", "views") == 1 + MILLION
    calm.verify()
