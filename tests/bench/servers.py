"""The servers of the benchmark: private, on 127.0.0.1, in a temporary directory, ended by their own pid."""
import contextlib
import getpass
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile

import pymysql
import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from harness.process import Process  # noqa: E402
from harness.programs import REDIS_SERVER  # noqa: E402
from harness.wait import wait_until  # noqa: E402

HOST = "127.0.0.1"


def free_port():
    """Below the ports that the kernel gives to clients, of which a load uses up many."""
    for _ in range(1000):
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port on 127.0.0.1")


def resp(*words):
    """A command as it goes over the wire; words are byte strings."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def chunks(items, n):
    """Lists of up to n of what items yields."""
    items = iter(items)
    return iter(lambda: list(itertools.islice(items, n)), [])


class Server(Process):
    def __init__(self, directory, name):
        self.name = name
        self.port = free_port()
        os.makedirs(os.path.join(directory, name))
        super().__init__(os.path.join(directory, name))

    def now(self):
        """For owed(): what came due or was claimed later is not owed."""

    def owed(self, then=None):
        """What it has answered for, until now or until then, and not done yet."""
        return {}


class RedisServer(Server):
    """AOF everysec. Its file is not rewritten by itself, so that no measurement has a fork in it; trim() does it."""

    def argv(self):
        return [REDIS_SERVER, "--bind", HOST, "--port", str(self.port), "--dir", self.directory, "--save", "",
                "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0",
                "--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning",
                "--protected-mode", "no"]  # it takes 127.0.0.2, from where loads connect too, for another machine

    def is_ready(self):
        self.admin = redis.Redis(HOST, self.port, socket_timeout=60)
        return self.admin.ping()

    def version(self):
        said = self.admin.info("server")
        kind = said.get("server_name", "redis")
        return f"{kind} {said.get(f'{kind}_version')}"

    @property
    def url(self):
        return f"redis://{HOST}:{self.port}/0"

    def commands(self):
        """All that ran so far, those inside MULTI too."""
        return self.admin.info("stats")["total_commands_processed"]

    def cpu_s(self):
        """Of all its threads so far."""
        used = self.admin.info("cpu")
        return used["used_cpu_user"] + used["used_cpu_sys"]

    def trim(self):
        try:
            wait_until(self.admin.bgrewriteaof, 10, "an AOF rewrite begins")
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.log_tail()}") from problem
        wait_until(lambda: not self.admin.info("persistence")["aof_rewrite_in_progress"], 60, "the AOF is rewritten")

    def pour(self, encoded):
        """Many commands at once (resp() each), their replies not asked for."""
        with socket.create_connection((HOST, self.port)) as link:
            link.sendall(b"CLIENT REPLY OFF\r\n")
            for chunk in chunks(encoded, 10000):
                link.sendall(b"".join(chunk))
            link.sendall(b"CLIENT REPLY ON\r\n")
            assert link.recv(100) == b"+OK\r\n"


class ClusterNode(RedisServer):
    def __init__(self, directory, name):
        super().__init__(directory, name)
        self.bus = free_port()

    def argv(self):
        return [*super().argv(), "--cluster-enabled", "yes", "--cluster-port", str(self.bus)]

    def ask(self, *words):
        return self.admin.execute_command("CLUSTER", *words)


class Cluster:
    """Masters that share the slots evenly, already started."""

    def __init__(self, nodes):
        self.nodes = nodes
        for i, node in enumerate(nodes):
            node.ask("ADDSLOTSRANGE", 16384 * i // len(nodes), 16384 * (i + 1) // len(nodes) - 1)
            node.ask("SET-CONFIG-EPOCH", i + 1)
            if i > 0:
                node.ask("MEET", HOST, nodes[0].port, nodes[0].bus)
        wait_until(lambda: all(self.is_whole(node.ask("INFO")) for node in nodes), 60, "all slots are served")

    def is_whole(self, said):
        return b"cluster_state:ok" in said and b"cluster_known_nodes:%d\r" % len(self.nodes) in said

    @property
    def url(self):
        return f"redis+cluster://{HOST}:{self.nodes[0].port}/"

    def cpu_s(self):
        return sum(node.cpu_s() for node in self.nodes)


class MariaDB(Server):
    """With a tmpdir of its own: a starting mariadbd removes the temporary tables of every server that shares it."""

    def argv(self):
        os.makedirs(f"{self.directory}/tmp", exist_ok=True)
        return ["mariadbd", "--no-defaults", f"--datadir={self.directory}/data", f"--socket={self.directory}/s",
                f"--pid-file={self.directory}/pid", f"--tmpdir={self.directory}/tmp",
                f"--bind-address={HOST}", f"--port={self.port}",
                f"--user={getpass.getuser()}", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1",
                "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G", "--innodb-fast-shutdown=2"]

    def install(self):
        done = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={self.directory}/data", f"--user={getpass.getuser()}",
             "--skip-test-db", "--force", "--auth-root-authentication-method=normal"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
            env={**os.environ, "TMPDIR": self.directory})
        assert done.returncode == 0, done.stdout
        return self

    def is_ready(self):
        link = pymysql.connect(unix_socket=f"{self.directory}/s", user="root", autocommit=True)
        with link.cursor() as cursor:
            for sql in ("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4",
                        f"CREATE USER IF NOT EXISTS bench@'{HOST}'", f"GRANT ALL ON *.* TO bench@'{HOST}'"):
                cursor.execute(sql)
        link.close()
        self.link = pymysql.connect(host=HOST, port=self.port, user="bench", database="shop", autocommit=True,
                                    read_timeout=60)
        return True

    def rows(self):
        """Rows that were inserted or upserted so far, tallyd's own books too: a row that is there already counts once,
        as the attempt to insert it."""
        with self.link.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Handler_write'")
            return int(cursor.fetchone()[1])

    def query(self, sql):
        with self.link.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()


CONFIGURATION = """\
instance: {name}
listen: {{ resp: [ "tcp://127.0.0.1:{port}" ]{http} }}
redis: {redis}
mysql: "mysql://bench@127.0.0.1:{mysql}/{database}"
limits: {{ clients: 12000 }}
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    lock: "s<store>:unique_visitors:sync"
    field: date
    sync: {{ hits: 50, every: {every_s}s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
  product_views:
    key: "s<store>:product_views"
    field: integer
    sync: {{ hits: 50, every: {every_s}s }}
    table: product_views
    columns: {{ store: store_id, field: product_id, count: views }}
"""

FED = """\
  fed_visitors:
    key: "s<store>:fed_visitors:daily"
    field: date
    sync: { hits: 50, every: 60s }
    table: fed_visitors
    columns: { store: store_id, field: day, count: visitors }
    feeds: { series: "s<store>:fed" }
"""


class Tallyd(Server):
    """more: additional counters, as in a configuration."""

    def __init__(self, directory, name, program, behind, mysql, database, more="", http=False, every_s=60):
        super().__init__(directory, name)
        mysql.query(f"CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4")
        self.every_s = every_s
        self.http_port = free_port() if http else None
        self.program, self.behind, self.mysql = program, behind, mysql
        self.configuration = os.path.join(self.directory, "tallyd.yaml")
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(name=name, port=self.port, redis=self.on_redis(), mysql=mysql.port,
                                            database=database, every_s=every_s, http=self.listen_http()) + more)
        self.verb("migrate", "--tables")

    def on_redis(self):
        return f'"{self.behind.url}"'

    def listen_http(self):
        return f', http: "tcp://{HOST}:{self.http_port}"' if self.http_port else ""

    def verb(self, *words):
        done = subprocess.run([self.program, words[0], "-c", self.configuration, *words[1:]], text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"tallyd {words[0]}: {done.stdout}"

    def argv(self):
        return [self.program, "run", "-c", self.configuration]

    def is_ready(self):
        self.admin = redis.Redis(HOST, self.port, socket_timeout=120)
        return self.admin.ping()

    def now(self):
        stats = self.admin.info("stats")
        return {"s": self.behind.admin.time()[0], "claimed": int(stats["fields_in_flight"]), "merged": int(stats["rows_merged"])}

    def owed(self, then=None):
        now, link = self.now(), self.behind.admin
        then = then or now
        with link.pipeline(transaction=False) as asked:
            for name in link.hkeys("tally:journals"):
                asked.strlen(b"tally:journal:" + name)
            journals = sum(asked.execute())
        return {"journals": journals, "due": link.zcount("tally:dirty", "-inf", 1000 * (then["s"] - self.every_s)),
                "claimed": then["claimed"] - (now["merged"] - then["merged"])}

    def settle(self, what="ALL", within_s=180):
        """Everything counted so far is in MySQL."""
        def merged():
            try:
                return self.admin.execute_command("CTR.SYNC", what) is not None
            except redis.ResponseError as problem:
                if not str(problem).startswith("TRYAGAIN"):
                    raise AssertionError(f"CTR.SYNC {what}: {problem}") from problem
                return False

        wait_until(merged, within_s, f"CTR.SYNC {what}", every_s=0.01)


class LanesTallyd(Tallyd):
    """On one Redis, or on a cluster with so many lanes; what it owes is not asked."""

    def __init__(self, directory, name, program, behind, mysql, database, lanes):
        self.lanes = lanes
        super().__init__(directory, name, program, behind, mysql, database)

    def on_redis(self):
        return f'{{ url: "{self.behind.url}", lanes: {self.lanes} }}' if self.lanes > 0 else super().on_redis()

    def now(self):
        return None

    def owed(self, then=None):
        return {}


class OneTallyd(Server):
    """tallyd with a configuration of its own: `configuration` takes host, port, redis, mysql, directory and what is in `more`;
    `database` is made for it."""

    def __init__(self, directory, program, behind, mysql, database, configuration, **more):
        super().__init__(directory, "tallyd")
        self.program = program
        self.configuration = os.path.join(self.directory, "tallyd.yaml")
        mysql.query(f"CREATE DATABASE {database}")
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(configuration.format(host=HOST, port=self.port, redis=behind.port, mysql=mysql.port,
                                            directory=self.directory, **more))

    def argv(self):
        return [self.program, "run", "-c", self.configuration]

    def start(self):
        subprocess.run([self.program, "migrate", "-c", self.configuration, "--tables"], check=True, stdout=subprocess.DEVNULL)
        return super().start()

    def is_ready(self):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, self.port)) != 0:
                return False
        return subprocess.run([self.program, "status", "-c", self.configuration], check=False,
                              stdout=subprocess.DEVNULL).returncode in (0, 1)


@contextlib.contextmanager
def started(name, build, make):
    """What make(directory, path of tallyd, Redis, MySQL) gives, running; all in memory where there is some: what a busy disk
    does to an fsync is not what is measured."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(
            prefix=f"tly-{name}-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))

        def up(server):
            stack.callback(lambda: server.process and server.close())
            return server.start()

        mysql, behind = up(MariaDB(directory, "mariadbd").install()), up(RedisServer(directory, "redis"))
        yield up(make(directory, os.path.join(build, "tallyd"), behind, mysql))


class Nutcracker(Server):
    def __init__(self, directory, behind):
        super().__init__(directory, "nutcracker")
        self.behind, self.stats = behind, free_port()

    def argv(self):
        path = os.path.join(self.directory, "nutcracker.yml")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"bench:\n  listen: {HOST}:{self.port}\n  hash: fnv1a_64\n  distribution: ketama\n"
                       f"  redis: true\n  preconnect: true\n  servers:\n   - {HOST}:{self.behind.port}:1\n")
        return ["nutcracker", "-c", path, "-p", f"{self.directory}/pid", "-a", HOST, "-s", str(self.stats), "-v", "0",
                "-o", f"{self.directory}/out"]

    def is_ready(self):
        return redis.Redis(HOST, self.port, socket_timeout=10).get("nothing") is None


class Null(Server):
    def __init__(self, directory, program):
        super().__init__(directory, "null")
        self.program = program

    def argv(self):
        return [self.program]

    def is_ready(self):
        self.port = int(self.log().split("port=")[1])
        return True
