"""Unmodified clients: one by one, in a pipeline, in MULTI; the replies equal those of a redis-server."""
import json
import os
import re
import subprocess
from importlib.util import find_spec

import pytest

from harness.daemon import TALLYD, counters
from harness.ports import port
from harness.programs import HIREDIS_ASYNC, PYTHON_CLIENT
from harness.resp import Resp, RespError
from harness.unmodified import CLIENTS, SCRIPT, at, run, assert_same_as_redis
from harness.wait import patience, wait_until

DEBIAN = {
    "redis-py": [PYTHON_CLIENT, f"{CLIENTS}/redis_py.py"],
    "php-redis": ["php", f"{CLIENTS}/phpredis.php"],
    "predis": ["php", f"{CLIENTS}/predis.php"],
    "ruby-redis": ["ruby", f"{CLIENTS}/redis.rb"],
    "aioredis": ["/usr/bin/python3", f"{CLIENTS}/aioredis_py.py"],
    "Redis.pm": ["perl", f"{CLIENTS}/redis.pl", "Redis"],
    "Redis::Fast": ["perl", f"{CLIENTS}/redis.pl", "Redis::Fast"],
    "lua-redis": ["lua5.1", f"{CLIENTS}/lua_redis.lua"],
    "hiredis, asynchronous": [HIREDIS_ASYNC],
}
NPM = {
    "node-redis": ["node", f"{CLIENTS}/node_redis.js"],
    "ioredis": ["node", f"{CLIENTS}/ioredis.js", "ioredis"],
    "iovalkey": ["node", f"{CLIENTS}/ioredis.js", "iovalkey"],
}

EXAMPLES = {"php": ["php", "-r"], "python": [PYTHON_CLIENT, "-c"], "ruby": ["ruby", "-e"], "js": ["node", "-e"]}


def redis_py():
    return int(run([PYTHON_CLIENT, "-c", "import redis; print(redis.__version__.split('.')[0])"]))


def offered(commands):
    gone = pytest.mark.skipif(find_spec("aioredis") is None, reason="this Debian has no python3-aioredis")
    return [pytest.param(name, marks=gone if name == "aioredis" else ()) for name in commands]


@pytest.mark.parametrize("name", offered(DEBIAN))
def test_client(name, calm, make_redis, mysql):
    assert_same_as_redis(DEBIAN[name], calm, at(make_redis("plain")), mysql)


@pytest.mark.parametrize("name", NPM)
def test_newer_client(name, calm, make_redis, mysql, node_modules):
    assert_same_as_redis(NPM[name], calm, at(make_redis("plain")), mysql, {"NODE_PATH": node_modules})


def page(path):
    with open(os.path.join(os.path.dirname(__file__), "../..", path), encoding="utf-8") as file:
        return file.read()


def example(language):
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", page("README.md"), re.M | re.S)
    return code


@pytest.fixture
def counts(calm, make_proxy, request):
    """counts(language, code) -> how many hits tallyd counts when it runs; lost=True: none of them gets its answer, its link goes instead."""
    def total():
        with calm.client() as client:
            return client.call("CTR.TOTAL", "s12345:unique_visitors:daily", "20140920")[0]

    def make(language, code, lost=False):
        before, proxy, asked = total(), make_proxy(calm.socket, tcp=True), set()

        def lose(link, way, data):
            if way == "up" and b"HINCRBY" in data.upper():
                asked.add(link)
            return link.end() or b"" if way == "down" and link in asked and data.startswith(b":") else data

        proxy.filter = lose if lost else None
        modules = {"NODE_PATH": request.getfixturevalue("node_modules")} if language == "js" else {}
        with subprocess.Popen([*EXAMPLES[language], code.replace("7370", str(proxy.port))], env={**os.environ, **modules},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if lost else None) as program:
            wait_until(lambda: program.poll() is not None or total() > before + 1, 60, "it ends, or has sent its hit again")
            program.kill()
        assert lost or program.returncode == 0
        return total() - before

    return make


@pytest.mark.parametrize("language", EXAMPLES)
def test_example(language, counts):
    """The README's lines in each language count one hit, also when its answer is lost: they do not send it again."""
    assert counts(language, example(language)) == 1
    assert counts(language, example(language), lost=True) == 1


def test_example_in_php_looks_at_the_reply(calm, make_proxy):
    """php-redis throws nothing when a hit is refused: the page's lines say it."""
    code = example("php").replace("7370", str(make_proxy(calm.socket, tcp=True).port)).replace("s12345:", "laravel_database_s12345:")
    done = subprocess.run([*EXAMPLES["php"], code], capture_output=True, text=True, check=True)
    assert "ERR no counter is configured for key 'laravel_database_s12345:unique_visitors:daily'" in done.stderr


@pytest.mark.parametrize("path", ["README.md", "config/README.md", "src/command/README.md"])
def test_no_page_sends_again(path):
    """redis-rb and redis-py do, without an argument; each page shows them with it."""
    for made in re.findall(r"Redis(?:\.new)?\(port\W+7370[^`\n]*", page(path)):
        assert "reconnect_attempts: 0" in made or "retry=" in made, made


# Of the page's table: how a program gets its client, where that takes the port, and how it hits.
RETRIES = {
    "redis-py": ("python", "from redis import *\nfrom redis.backoff import *\nfrom redis.retry import *\nshop = ", "Redis(", "port=7370, ",
                 ")", "\nshop.hincrby(HIT)"),
    "redis-rb": ("ruby", "require 'redis'\nshop = ", "Redis.new(", "port: 7370, ", ")", "\nshop.hincrby(HIT)"),
    "ioredis": ("js", "const { Redis } = require('ioredis'); const shop = ", "new Redis({", " port: 7370, ", "})",
                "; shop.on('error', () => {}); shop.hincrby(HIT).catch(() => {}).then(() => process.exit())"),
    "predis": ("php", "require 'Predis/autoload.php'; $shop = ", "new Predis\\Client(", "'tcp://127.0.0.1:7370'", ")",
               "; $shop->hincrby(HIT);"),
}


@pytest.mark.parametrize("client", RETRIES)
def test_table_of_retries(client, counts):
    """What it says of a client: whether that sends a hit again as it comes, and the line with which it does not."""
    ((says, line),) = re.findall(rf"^  \| [^|]*{client}[^|]* \| ([^|]*) \| `?(.*?)`? \|$", page("src/command/README.md"), re.M)
    language, before, opening, port_is, closing, after = RETRIES[client]
    again = says.startswith("sends it again")

    def run_with(made):
        code = before + made.replace(opening, opening + port_is) + after.replace("HIT", "'s12345:unique_visitors:daily', '20140920', 1")
        return counts(language, code, lost=True)

    if client != "redis-py" or redis_py() >= 6:
        assert (run_with(opening + closing) > 1) == again
    assert not again or run_with(line) == 1


def test_valkey_glide(calm, make_redis, mysql, node_modules):
    """It knows TCP only, and asks whether this is a primary before all else."""
    other = port()
    make_redis("plain", extra=["--port", str(other), "--bind", "127.0.0.1"])
    assert_same_as_redis(["node", f"{CLIENTS}/glide.js"], calm, ("tcp", other), mysql, {"NODE_PATH": node_modules},
                  ways=(("tcp", calm.port), ("tcp", calm.port)))


LARGE = {
    "redis-py": ([PYTHON_CLIENT, f"{CLIENTS}/large_redis_py.py"], 200000),
    "php-redis": (["php", f"{CLIENTS}/large_phpredis.php"], 200000),
    "predis": (["php", f"{CLIENTS}/large_predis.php"], 100000),
}


def assert_large_pipeline(command, hits, daemon, mysql, environment=None):
    """One pipeline, which a client may write whole before it reads an answer."""
    assert run(command, daemon.socket, hits, environment=environment) == [hits, hits]
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 77 AND product_id = 5") == ((hits,),)
    daemon.verify()


@pytest.mark.parametrize("name", LARGE)
def test_large_pipeline(name, calm, mysql):
    assert_large_pipeline(*LARGE[name], calm, mysql)


def test_large_pipeline_of_ioredis(calm, mysql, node_modules):
    assert_large_pipeline(["node", f"{CLIENTS}/large_ioredis.js"], 300000, calm, mysql, {"NODE_PATH": node_modules})


HELPERS = {
    "redis-py": [PYTHON_CLIENT, f"{CLIENTS}/helpers_redis_py.py"],
    "php-redis": ["php", f"{CLIENTS}/helpers_phpredis.php"],
    "ruby-redis": ["ruby", f"{CLIENTS}/helpers_redis.rb"],
    "aioredis": ["/usr/bin/python3", f"{CLIENTS}/helpers_aioredis.py"],
    "Redis.pm": ["perl", f"{CLIENTS}/helpers_redis.pl"],
    "lua-redis": ["lua5.1", f"{CLIENTS}/helpers_lua_redis.lua"],
}
# Of CLIENT INFO in Redis 7.0; newer ones have more.
FIELDS = set("""id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll
                omem tot-mem events cmd user redir resp""".split())


@pytest.mark.parametrize("name", offered(HELPERS))
def test_helpers(name, calm, make_redis):
    """What libraries call beside hits: ROLE, INFO by section, CLIENT LIST and INFO."""
    there, here = run(HELPERS[name], make_redis("plain").socket), run(HELPERS[name], calm.socket)
    for fields in (there.pop("fields", FIELDS), here.pop("fields", FIELDS)):
        assert FIELDS - set(fields) == set()
    assert here == there and there["info_role"] == "master"


# What these send first, each list in one write; then hits. GLIDE of npm is tried above, here it logs in as a user.
SHOP = "secret of the shop"
GLIDE = [[("HELLO", "3", "AUTH", "shop", SHOP)], [("CLIENT", "SETINFO", "LIB-NAME", "GlidePy")],
         [("CLIENT", "SETINFO", "LIB-VER", "1.3.1")], [("INFO", "REPLICATION")]]
RUEIDIS = [[("HELLO", "3"), ("CLIENT", "TRACKING", "ON", "OPTIN"), ("CLIENT", "SETINFO", "LIB-NAME", "rueidis"),
            ("CLIENT", "SETINFO", "LIB-VER", "1.0.66")]]
LETTUCE = [[("HELLO", "3"), ("CLIENT", "SETINFO", "lib-name", "Lettuce"), ("CLIENT", "SETINFO", "lib-ver", "6.3.2")],
           [("INFO", "replication")], [("ROLE",)]]


def library(name, version, options=("LIB-NAME", "LIB-VER")):
    return [("CLIENT", "SETINFO", option, value) for option, value in zip(options, (name, version))]


def lettuce(name, version):
    return library(name, f"{version}.RELEASE/0a1b2c3", ("lib-name", "lib-ver"))


# What Jedis and Lettuce send when they connect, by their source, without a user and with one, each list in one write. Jedis says HELLO
# when it is told a protocol, and from 8.0 on by itself. Lettuce told RESP2 sends PING, or AUTH; from 7.0 on it asks for notifications of
# Redis Enterprise.
HELLO, LOGIN, AUTH = ("HELLO", "3"), ("AUTH", "shop", SHOP), [("AUTH", "shop", SHOP)]
NAME, NOTIFY = ("SETNAME", "till"), [("CLIENT", "MAINT_NOTIFICATIONS", "on", "moving-endpoint-type", "internal-ip")]
JEDIS, LETTUCE_7 = library("jedis", "7.5.3"), lettuce("Lettuce", "7.7.0")
BY_SPRING = lettuce("Lettuce(spring-data-redis_v4.1.1)", "7.5.2")
JAVA = {
    "Jedis 7.5.3": ([JEDIS], [AUTH, JEDIS]),
    "Jedis 7.5.3, RESP3 and a name": ([[HELLO], [("CLIENT", *NAME), *JEDIS]], [[HELLO + LOGIN], [("CLIENT", *NAME), *JEDIS]]),
    "Jedis 7.4.1 of Spring Data Redis 4.1.1": ([library("jedis(spring-data-redis_v4.1.1)", "7.4.1")],
                                               [AUTH, library("jedis(spring-data-redis_v4.1.1)", "7.4.1")]),
    "Jedis 8.0.0-beta1": ([[HELLO], library("jedis", "8.0.0-beta1")], [[HELLO + LOGIN], library("jedis", "8.0.0-beta1")]),
    "Lettuce 6.6.0": ([[HELLO], lettuce("Lettuce", "6.6.0")], [[HELLO + LOGIN], lettuce("Lettuce", "6.6.0")]),
    "Lettuce 7.5.2 of Spring Data Redis 4.1.1": ([[HELLO], BY_SPRING, NOTIFY], [[HELLO + LOGIN], BY_SPRING, NOTIFY]),
    "Lettuce 7.7.0 with a name": ([[HELLO + NAME], LETTUCE_7, NOTIFY], [[HELLO + LOGIN + NAME], LETTUCE_7, NOTIFY]),
    "Lettuce 7.7.0, RESP2": ([[("PING",)], LETTUCE_7, NOTIFY], [AUTH, LETTUCE_7, NOTIFY]),
}


def accepted(request, reply):
    """Whether these clients go on: HELLO says the protocol (Jedis), and fields of these types (Lettuce); notifications may be refused."""
    if request[0] == "HELLO":
        texts = [reply[field] for field in (b"server", b"version", b"mode", b"role")]
        return reply[b"proto"] == 3 and isinstance(reply[b"id"], int) and all(isinstance(text, bytes) for text in texts)
    if request in NOTIFY:
        return isinstance(reply, RespError) and reply.startswith("ERR")
    return reply == ("PONG" if request == ("PING",) else "OK")


def greeted(client, writes):
    """The replies to what is sent first, then those to hits: one, a pipeline, and MULTI ... EXEC in one write."""
    first = []
    for requests in writes:
        first += client.pipeline(requests)
    hit = ("HINCRBY", "s77:product_views", "5", "2")
    return first, [client.call(*hit), *client.pipeline([hit] * 100), *client.pipeline([("MULTI",), hit, hit, ("EXEC",)])]


def counted(daemon, mysql, hits):
    assert hits == [*range(2, 204, 2), "OK", "QUEUED", "QUEUED", [204, 206]]
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 77 AND product_id = 5") == ((206,),)
    daemon.verify()


def primary(info):
    """What clients look for in INFO replication: GLIDE for the words, lettuce for the line."""
    return b"role:master" in info and re.search(rb"^role:([a-z]+)\r?$", info, re.M).group(1) == b"master"


@pytest.fixture
def shops(make_daemon, redis):
    """A tallyd with the user of GLIDE, which is no admin."""
    made = subprocess.run([TALLYD, "hash"], input=SHOP + "\n", stdout=subprocess.PIPE, check=True, text=True)
    users = {"shop": {"password": made.stdout.strip(), "keys": ["s77:*"]}}
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), more={"users": users})
    with daemon.operator() as operator:
        operator.call("HINCRBY", "s77:product_views", "1", 1)
    daemon.sync_all()
    return daemon


def test_valkey_glide_says_hello(shops, mysql):
    """It logs in as the shop, and asks whether this is a primary."""
    with shops.client() as client:
        (hello, _, _, info), hits = greeted(client, GLIDE)
    assert hello[b"proto"] == 3 and hello[b"role"] == b"master" and hello[b"mode"] == b"standalone"
    assert primary(info), info
    counted(shops, mysql, hits)


def assert_connect(daemon, mysql, which):
    for hits, (name, greetings) in enumerate(JAVA.items(), 1):
        with daemon.client() as client:
            for requests in greetings[which]:
                for request, reply in zip(requests, client.pipeline(requests)):
                    assert accepted(request, reply), (name, request, reply)
            assert client.call("HINCRBY", "s77:product_views", "5", 1) == hits, name
            known = client.call("CLIENT", "INFO").decode().split()
            said = sum(greetings[which], [])
            about = [f"{words[2].lower()}={words[3]}" for words in said if words[1:2] == ("SETINFO",)]
            about += ["name=till" for words in said if "SETNAME" in words]
            assert len(about) >= 2 and set(about) <= set(known), (name, known)
            refused = client.call("SELECT", 1)  # a database that is given
            assert isinstance(refused, RespError) and "DB index is out of range" in refused, name
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 77 AND product_id = 5") == ((len(JAVA),),)
    daemon.verify()


def test_jedis_and_lettuce_connect(calm, mysql):
    assert_connect(calm, mysql, 0)


def test_jedis_and_lettuce_log_in(shops, mysql):
    assert_connect(shops, mysql, 1)


def test_rueidis_says_hello(calm, make_redis, mysql):
    with Resp(make_redis("plain").socket) as client:
        (_, tracking, _, _), expected = greeted(client, RUEIDIS)
    assert tracking == "OK"
    with calm.client() as client:
        (hello, tracking, _, _), hits = greeted(client, RUEIDIS)
    assert hello[b"proto"] == 3 and (tracking, hits) == ("OK", expected)
    counted(calm, mysql, hits)


def test_lettuce_says_hello(calm, make_redis, mysql):
    """MasterReplica with one address asks INFO, with several ROLE."""
    with Resp(make_redis("plain").socket) as client:
        (_, _, _, info, role), expected = greeted(client, LETTUCE)
    assert primary(info) and role == [b"master", 0, []]
    with calm.client() as client:
        (_, _, _, info, same), hits = greeted(client, LETTUCE)
    assert primary(info), info
    assert (same, hits) == (role, expected)
    counted(calm, mysql, hits)


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


def assert_resends(command, daemon, proxy, mysql, environment=None):
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
    assert_resends(RESEND[name], calm, make_proxy(calm.socket), mysql)


@pytest.mark.parametrize("name", RESEND_NPM)
def test_newer_client_resends(name, calm, make_proxy, mysql, node_modules):
    assert_resends(RESEND_NPM[name], calm, make_proxy(calm.socket), mysql, {"NODE_PATH": node_modules})


def redis_cli(socket, version, lines):
    done = subprocess.run(["redis-cli", "-s", socket, version], input="\n".join(lines) + "\n", capture_output=True,
                          text=True, timeout=patience(60), check=False)
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


@pytest.mark.parametrize("version", [[], ["-3"]])
@pytest.mark.parametrize("depth", [1, 16])
def test_redis_benchmark(version, depth, calm, redis):
    done = subprocess.run(["redis-benchmark", "-s", calm.socket, *version, "-n", "20000", "-c", "50", "-P", str(depth),
                           "-q", "HINCRBY", "s77:product_views", "7", "3"], capture_output=True, text=True, timeout=patience(60),
                          check=False)
    assert done.returncode == 0 and "requests per second" in done.stdout, done.stdout + done.stderr
    counted = int(redis.client().hget("s77:product_views", "7"))
    # it stops at 20,000 answers; what was still under way in its pipelines was sent, too
    assert 60000 <= counted <= 60000 + 3 * 50 * depth
    calm.sync_all()
    calm.verify()
