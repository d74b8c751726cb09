"""Client programs that were not written for tallyd, in clients/: each replays script.json and prints the replies as JSON."""
import json
import os
import subprocess

from harness.wait import patience

CLIENTS = os.path.join(os.path.dirname(__file__), "../clients")
SCRIPT = os.path.join(CLIENTS, "script.json")


def warm(daemon):
    """The first hits of store 77, which fall due at once, are merged; its locks are held."""
    with daemon.client() as client:
        client.call("HINCRBY", "s77:unique_visitors:daily", "20000101", 1)
        client.call("HINCRBY", "s77:product_views", "1", 1)
    daemon.sync_all()


def run(command, *arguments, environment=None):
    """What it printed, once it has ended well."""
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=patience(60), check=False,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def at(server):
    return "unix", server.socket


def merged(mysql, table, column):
    return int(mysql.query(f"SELECT SUM({column}) FROM {table} WHERE store_id = 77")[0][0])


def assert_same_as_redis(command, daemon, plain, mysql, environment=None, ways=None):
    """The replies by each of `ways` equal those of a redis-server, which is at `plain`; MySQL has the exact sums, with what
    warm() counted."""
    ways = ways or (("unix", daemon.socket), ("tcp", daemon.port))
    expected = run(command, SCRIPT, *plain, environment=environment)
    assert sum(len(replies) for replies in expected.values()) == 18
    for kind, where in ways:
        assert run(command, SCRIPT, kind, where, environment=environment) == expected
        daemon.sync_all()
    hits = [hit for way in json.load(open(SCRIPT, encoding="utf-8")).values() for hit in way]
    for table, column, key in (("daily_visitors", "visitors", "unique_visitors"), ("product_views", "views", "product_views")):
        assert merged(mysql, table, column) == 1 + len(ways) * sum(n for name, _, n in hits if key in name)
    daemon.verify()
