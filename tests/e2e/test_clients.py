"""Unmodified clients: one by one, in a pipeline, in MULTI; the replies equal those of a redis-server."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from harness.programs import HIREDIS_ASYNC, NODE_MODULES, PYTHON_CLIENT
from harness.resp import encode
from harness.unmodified import CLIENTS, SCRIPT, run, same_as_redis

DEBIAN = {
    "redis-py": [PYTHON_CLIENT, f"{CLIENTS}/redis_py.py"],
    "php-redis": ["php", f"{CLIENTS}/phpredis.php"],
    "predis": ["php", f"{CLIENTS}/predis.php"],
    "ruby-redis": ["ruby", f"{CLIENTS}/redis.rb"],
    "aioredis": ["/usr/bin/python3", f"{CLIENTS}/aioredis_py.py"],
    "Redis.pm": ["perl", f"{CLIENTS}/redis.pl"],
    "lua-redis": ["lua5.1", f"{CLIENTS}/redis.lua"],
    "hiredis, asynchronous": [HIREDIS_ASYNC],
}
NPM = {
    "node-redis": ["node", f"{CLIENTS}/node_redis.js"],
    "ioredis": ["node", f"{CLIENTS}/ioredis.js", "ioredis"],
    "iovalkey": ["node", f"{CLIENTS}/ioredis.js", "iovalkey"],
}


@pytest.fixture(scope="module")
def node_modules():
    """The newest node-redis, ioredis and iovalkey, in a directory of their own; skips where npm cannot fetch them."""
    if NODE_MODULES:
        yield NODE_MODULES
        return
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("node and npm are not installed: node-redis, ioredis and iovalkey are not tried")
    made = tempfile.mkdtemp(prefix="tly-npm-")
    try:
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", made, "redis",
                               "ioredis", "iovalkey"], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            pytest.skip(f"npm cannot fetch node-redis, ioredis and iovalkey: {done.stderr.strip()[-200:]}")
        yield os.path.join(made, "node_modules")
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not answer: node-redis, ioredis and iovalkey are not tried")
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("name", DEBIAN)
def test_client(name, calm, make_redis, mysql):
    same_as_redis(DEBIAN[name], calm, make_redis("plain"), mysql)


@pytest.mark.parametrize("name", NPM)
def test_newer_client(name, calm, make_redis, mysql, node_modules):
    same_as_redis(NPM[name], calm, make_redis("plain"), mysql, {"NODE_PATH": node_modules})


RESEND = {
    "redis-py": ["/usr/bin/python3", f"{CLIENTS}/token_redis_py.py"],
    "php-redis": ["php", f"{CLIENTS}/token_phpredis.php"],
    "predis": ["php", f"{CLIENTS}/token_predis.php"],
    "ruby-redis": ["ruby", f"{CLIENTS}/token_redis.rb"],
}
RESEND_NPM = {
    "node-redis": ["node", f"{CLIENTS}/token_node_redis.js"],
    "ioredis": ["node", f"{CLIENTS}/token_ioredis.js"],
}
ORDERS = 60


def resends(command, daemon, proxy, mysql, environment=None):
    """Every seventh answer or so is lost with its link; what the client then sends again was counted already."""
    proxy.answers_most = 7
    assert len(run(command, proxy.path, ORDERS, environment=environment)) == ORDERS
    with daemon.client() as client:
        stats = dict(line.split(":") for line in client.call("INFO", "stats").decode().split("\r\n") if ":" in line)
    assert int(stats["tokens"]) == ORDERS and int(stats["tokens_known"]) > 3, stats
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 77 AND product_id = 5") == ((2 * ORDERS,),)
    daemon.verify()


@pytest.mark.parametrize("name", RESEND)
def test_client_resends(name, calm, make_proxy, mysql):
    resends(RESEND[name], calm, make_proxy(calm.socket), mysql)


@pytest.mark.parametrize("name", RESEND_NPM)
def test_newer_client_resends(name, calm, make_proxy, mysql, node_modules):
    resends(RESEND_NPM[name], calm, make_proxy(calm.socket), mysql, {"NODE_PATH": node_modules})


def redis_cli(socket, version, lines):
    done = subprocess.run(["redis-cli", "-s", socket, version], input="\n".join(lines) + "\n", capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["-2", "-3"])
def test_redis_cli(version, calm, make_redis):
    script = json.load(open(SCRIPT, encoding="utf-8"))
    hits = {way: [f"HINCRBY {key} {field} {n}" for key, field, n in script[way]] for way in script}
    lines = [*hits["one_by_one"], *hits["pipeline"], "MULTI", *hits["multi"], "EXEC", "ECHO done", "FOO bar", "EXEC"]
    expected = redis_cli(make_redis("plain").socket, version, lines)
    assert "QUEUED" in expected and "done" in expected
    assert redis_cli(calm.socket, version, lines) == expected
    calm.sync_all()
    calm.verify()


def test_redis_cli_pipe(calm, redis):
    """redis-cli --pipe sends raw commands without waiting, then an ECHO, and counts the replies."""
    one = "HINCRBY s77:product_views 5 2\r\n"
    done = subprocess.run(["redis-cli", "-s", calm.socket, "--pipe"], input=one * 5000, capture_output=True, text=True,
                          timeout=60, check=False)
    assert "errors: 0, replies: 5000" in done.stdout, done.stdout + done.stderr
    assert redis.client().hget("s77:product_views", "5") == b"10000"


@pytest.mark.parametrize("version", [[], ["-3"]])
@pytest.mark.parametrize("depth", [1, 16])
def test_redis_benchmark(version, depth, calm, redis):
    done = subprocess.run(["redis-benchmark", "-s", calm.socket, *version, "-n", "20000", "-c", "50", "-P", str(depth),
                           "-q", "HINCRBY", "s77:product_views", "7", "3"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and "requests per second" in done.stdout, done.stdout + done.stderr
    counted = int(redis.client().hget("s77:product_views", "7"))
    # it stops at 20,000 answers; what was still under way in its pipelines was sent, too
    assert 60000 <= counted <= 60000 + 3 * 50 * depth
    calm.sync_all()
    calm.verify()
