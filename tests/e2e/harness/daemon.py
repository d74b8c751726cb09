"""tallyd itself: its configuration file, its verbs, and the running service."""
import json
import os
import re
import subprocess

from harness.process import Process
from harness.redis_server import ClusterNode
from harness.resp import Resp
from harness.wait import patience, wait_until

TALLYD = os.environ.get("TALLYD", os.path.join(os.path.dirname(__file__), "../../../build/tallyd"))

COUNTERS = {
    "unique_visitors": {
        "key": "s<store>:unique_visitors:daily",
        "lock": "s<store>:unique_visitors:sync",
        "field": "date",
        "sync": {"hits": 50, "every": "60s"},
        "table": "daily_visitors",
        "columns": {"store": "store_id", "field": "day", "count": "visitors"},
    },
    "product_views": {
        "key": "s<store>:product_views",
        "field": "integer",
        "sync": {"hits": 50, "every": "60s"},
        "table": "product_views",
        "columns": {"store": "store_id", "field": "product_id", "count": "views"},
    },
    "searches": {
        "key": "s<store>:searches",
        "field": "text",
        "sync": {"hits": 50, "every": "60s"},
        "table": "searches",
        "columns": {"store": "store_id", "field": "term", "count": "searches"},
    },
}


def counters(hits=None, every=None, **changes):
    """COUNTERS with other thresholds; changes: counter -> {option: value}."""
    made = json.loads(json.dumps(COUNTERS))
    for name, counter in made.items():
        if hits is not None:
            counter["sync"]["hits"] = hits
        if every is not None:
            counter["sync"]["every"] = every
        counter.update(changes.get(name, {}))
    return made


def yaml_of(value, indent=0):
    """Nested dicts, lists and scalars as YAML; strings quoted as JSON, which YAML reads too."""
    pad = "  " * indent
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines.append(f"{pad}{key}:\n{yaml_of(item, indent + 1)}")
        elif isinstance(item, str) and item.isalnum():
            lines.append(f"{pad}{key}: {item}\n")
        else:
            lines.append(f"{pad}{key}: {json.dumps(item)}\n")
    return "".join(lines)


class Daemon(Process):
    name = "tallyd"

    def __init__(self, directory, redis, mysql, instance="one", families=None, redis_url=None, mysql_url=None,
                 tcp_port=None, more=None, clock=None):
        super().__init__(directory)
        self.clock = clock
        self.name = f"tallyd-{instance}"
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.redis, self.mysql, self.instance = redis, mysql, instance
        self.socket = os.path.join(directory, f"{self.name}.sock")
        self.crash = None
        self.config_path = os.path.join(directory, f"{self.name}.yaml")
        resp = [f"unix://{self.socket}"] + ([f"tcp://127.0.0.1:{tcp_port}"] if tcp_port else [])
        self.config = {
            "instance": instance,
            "listen": {"resp": resp},
            "redis": redis_url or redis.url,
            "mysql": mysql_url or mysql.url,
            "counters": families or counters(),
            **(more or {}),
        }
        self.control = None
        if "users" in self.config:
            self.control = os.path.join(directory, f"{self.name}.control")
            self.config["listen"]["control"] = f"unix://{self.control}"
        self.write_config()

    def write_config(self):
        if isinstance(self.redis, ClusterNode):  # it has the slots of that many lanes
            where = self.config["redis"]
            self.config["redis"] = {"lanes": self.redis.lanes, **(where if isinstance(where, dict) else {"url": where})}
        with open(self.config_path, "w", encoding="utf-8") as out:
            out.write(yaml_of(self.config))

    def argv(self):
        return [TALLYD, "run", "-c", self.config_path]

    def environment(self):
        made = super().environment()
        made.pop("TALLYD_CRASH", None)
        if self.crash:
            made["TALLYD_CRASH"] = self.crash
        return made

    def is_ready(self):
        with self.operator(timeout_s=5) as client:
            return client.call("PING") == "PONG"

    def client(self, timeout_s=60):
        return Resp(self.socket, timeout_s)

    def operator(self, timeout_s=60):
        """A client with full access, also when there are users."""
        return Resp(self.control or self.socket, timeout_s)

    def verb(self, *words, timeout_s=120, config=True, environment=None):
        """One run of the binary to its end: CompletedProcess with text output."""
        return subprocess.run([TALLYD, words[0], *(["-c", self.config_path] if config else []), *words[1:]],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=patience(timeout_s), check=False, cwd=self.directory,
                              env={**os.environ, **(environment or {})})

    def figure(self, name):
        """A number of INFO."""
        with self.operator() as client:
            return int(re.search(rf"^{name}:(\d+)\r?$", client.call("INFO").decode(), re.M).group(1))

    def migrate(self):
        done = self.verb("migrate", "--tables")
        assert done.returncode == 0, done.stdout + done.stderr
        return self

    def verify(self):
        done = self.verb("verify")
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def sync_all(self, deadline_s=60):
        """CTR.SYNC ALL until it says that everything is merged."""
        def merged():
            with self.operator(timeout_s=45) as client:
                reply = client.call("CTR.SYNC", "ALL")
                assert isinstance(reply, int), reply
                return True

        wait_until(merged, deadline_s, "CTR.SYNC ALL")
