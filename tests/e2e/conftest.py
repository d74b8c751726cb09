"""Fixtures: one mariadbd a test file, a fresh database and a fresh redis-server a test, and tallyd on them. Outcomes of
tests that prove rows of the fault matrix (matrix.py), and tests that were skipped, go to the directory FAULT_RESULTS."""
import json
import os
import shutil
import tempfile

import matrix
import pytest

from harness.clock import Clock
from harness.daemon import TALLYD, Daemon, counters
from harness.mariadb import MariaDB, install_template
from harness.ports import port as held_port
from harness.programs import NODE_MODULES
from harness.proxy import Proxy
from harness.redis_server import ClusterNode, Links, RedisServer, memory_directory
from harness.replicas import Pair
from harness.sanitizers import Reports
from harness.still import Still
from harness.unmodified import warm


ON_CLUSTER = int(os.environ.get("E2E_CLUSTER") or 0)  # so many lanes; 0: Redis servers of their own


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: long campaigns, not in the normal run")
    config.addinivalue_line("markers", "fault(row, ...): proves these rows of the fault matrix (matrix.py)")


def pytest_addoption(parser):
    parser.addoption("--fault-list", help="with --collect-only: write [row, test] of all marked tests to this file")


def rows_of(item):
    return [row for mark in item.iter_markers("fault") for row in mark.args]


def proof_of(item):
    return item.nodeid.rpartition("/")[2]


def pytest_collection_modifyitems(items):
    for item in items:
        unknown = set(rows_of(item)) - matrix.IDS
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such row of the fault matrix: {', '.join(sorted(unknown))}")


def pytest_collection_finish(session):
    wanted = session.config.getoption("--fault-list")
    if wanted:
        with open(wanted, "w", encoding="utf-8") as out:
            json.dump([(row, proof_of(item)) for item in session.items for row in rows_of(item)], out)


def pytest_sessionstart(session):
    if not os.access(TALLYD, os.X_OK):
        pytest.exit(f"{TALLYD} is not built; set TALLYD to the binary", 4)


@pytest.fixture(scope="session")
def template():
    """An installed, empty data directory; kept in E2E_CACHE between the test files of one run."""
    cache = os.environ.get("E2E_CACHE")
    kept = os.path.join(cache, "template") if cache else None
    if kept and os.path.isdir(kept):
        yield kept
        return
    made_in = tempfile.mkdtemp(prefix="tly-template-", dir=cache)
    data = install_template(made_in)
    try:
        if kept:
            os.rename(data, kept)
            data = kept
    except OSError:
        pass  # another run of the same moment was faster; ours is as good
    yield data
    shutil.rmtree(made_in, ignore_errors=True)


@pytest.fixture(scope="session")
def node_modules():
    if not shutil.which("node") or not os.path.isdir(NODE_MODULES):
        pytest.skip("config/package.json is not fetched from npm, or there is no node")
    return NODE_MODULES


@pytest.fixture(scope="session", autouse=True)
def sanitizers_write():
    directory = tempfile.mkdtemp(prefix="tly-reports-")
    yield Reports(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def sanitizers_are_silent(sanitizers_write):
    """The first fixture of a test and so the last to end: by then its tallyds have ended, too."""
    yield
    said = sanitizers_write.take()
    assert not said, said


@pytest.fixture
def workdir(request):
    """A fresh directory with a short name: a unix socket's path has 107 bytes. Kept when the test failed."""
    made = tempfile.mkdtemp(prefix="tly-")
    yield made
    failed = getattr(request.node, "failed", False)
    if failed:
        print(f"\nlogs are kept in {made}")
    else:
        shutil.rmtree(made, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        item.failed = True
    if report.skipped:
        item.skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
    if call.when == "teardown":
        record_outcome(item, getattr(item, "skipped", None))


def record_outcome(item, skipped):
    outcome = "failed" if getattr(item, "failed", False) else f"skipped: {skipped}" if skipped else "passed"
    if rows_of(item):
        record(item, "outcomes", outcome)
    if skipped:
        record(item, "skipped", skipped.removeprefix("Skipped: "))


def record(item, kind, said):
    directory = os.environ.get("FAULT_RESULTS")
    if directory is None:
        return
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{item.path.stem}.{kind}"), "a", encoding="utf-8") as out:
        out.write(json.dumps([proof_of(item), said]) + "\n")


@pytest.fixture(scope="module")
def mariadbd(template):
    made = memory_directory() or tempfile.mkdtemp(prefix="tly-sql-")
    server = MariaDB(made, template).start()
    yield server
    server.close()
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def mysql(mariadbd):
    if not mariadbd.alive():
        mariadbd.start()
    mariadbd.resume()
    mariadbd.fresh_database()
    return mariadbd


@pytest.fixture
def directory():
    """For the data of a MySQL that one test moves."""
    made = memory_directory() or tempfile.mkdtemp(prefix="tly-sql-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def pair(directory, template):
    """A MySQL and its replica."""
    made = Pair(directory, template)
    yield made
    made.close()


@pytest.fixture
def make_redis(workdir):
    made = []

    def make(name="redis", alone=False, **options):
        """alone: in no cluster, whatever E2E_CLUSTER says: what tallyd's replies are compared with."""
        directory = os.path.join(workdir, name)
        os.mkdir(directory)
        server = ClusterNode(directory, lanes=ON_CLUSTER, **options) if ON_CLUSTER and not alone else RedisServer(directory, **options)
        made.append(server)
        return server.start()

    yield make
    for server in made:
        server.close()


@pytest.fixture
def redis(make_redis):
    """With `always`, whose barrier waits for nothing; tests in which the barrier's delay matters make their own."""
    return make_redis(appendfsync="always", in_memory=True)


@pytest.fixture
def make_daemon(workdir, mysql):
    """A tallyd that is configured, migrated and running (start=False: only configured)."""
    made = []

    def make(redis, start=True, migrate=True, **options):
        if ON_CLUSTER and str(options.get("redis_url")).startswith("unix:"):
            pytest.skip("behind a proxy: nodes of a cluster name themselves")
        daemon = Daemon(workdir, redis, options.pop("mysql", mysql), **options)
        made.append(daemon)
        if start and migrate:
            daemon.migrate()
        return daemon.start() if start else daemon

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def make_clock(workdir):
    made = []

    def make(name="clock"):
        made.append(Clock(workdir, name))
        return made[-1]

    yield make
    for clock in made:
        clock.close()


@pytest.fixture
def make_still(make_clock, make_redis, make_daemon):
    """make(more) -> a tallyd and its redis-server at a stopped clock; more: sections of its configuration."""
    made = []

    def make(more=None, **options):
        clock = make_clock().flow()
        server = make_redis(appendfsync="always", clock=clock, in_memory=True)
        daemon = make_daemon(server, clock=clock, more=more, **options)
        clock.stand()
        made.append(Still(clock, server, daemon))
        made[-1].step(0)
        clock.align()
        return made[-1]

    yield make
    for still in made:
        still.client.close()


@pytest.fixture
def make_proxy(workdir):
    made = []

    def make(upstream, tcp=False, port=0):
        path = None if tcp else os.path.join(workdir, f"proxy{len(made)}.sock")
        made.append(Proxy(upstream, path, tcp, port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def make_way(make_proxy):
    """make(redis) -> what cuts tallyd's links to it, and tallyd's URL of it."""
    def make(server):
        if isinstance(server, ClusterNode):
            return Links(server), server.url
        proxy = make_proxy(server.socket)
        return proxy, f"unix://{proxy.path}?db=0"

    return make


@pytest.fixture
def make_tool(workdir):
    """make(class of harness/tools.py, arguments) -> it, started."""
    made = []

    def make(tool, *arguments):
        made.append(tool(workdir, *arguments))
        return made[-1].start()

    yield make
    for each in made:
        each.close()


@pytest.fixture
def free_port():
    return held_port()


@pytest.fixture
def calm(make_daemon, redis, free_port):
    """A tallyd in which nothing falls due any more for store 77: its first hits are merged, its locks are held."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), tcp_port=free_port)
    daemon.port = free_port
    warm(daemon)
    return daemon
