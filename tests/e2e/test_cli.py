"""The verbs: what they print, what they leave alone, and their exit status."""
import json
import os
import pty
import re
import signal
import subprocess
import termios
import threading

import pytest

from harness.daemon import TALLYD, counters
from harness.resp import Closed, Resp, encode
from harness.wait import patience, wait_until

VERBS = ("run", "check", "suggest", "migrate", "status", "verify", "rejects", "recover", "dev", "completion", "manual")


@pytest.fixture
def daemon(make_daemon, redis):
    return make_daemon(redis, families=counters(hits=10**9, every="3600s"))


@pytest.fixture
def idle(make_daemon, redis):
    """Configured, not migrated, not running."""
    return make_daemon(redis, start=False)


def tallyd(*words, environment=None):
    return subprocess.run([TALLYD, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60),
                          check=False, env={**os.environ, **(environment or {})})


@pytest.mark.parametrize("words", [("--help",), *[(verb, "--help") for verb in VERBS]], ids=" ".join)
def test_help(words):
    done = tallyd(*words)
    assert done.returncode == 0 and done.stderr == ""
    named = VERBS if words == ("--help",) else words[:1]
    assert all(name in done.stdout for name in named)


def test_help_of_an_option_is_of_its_verb():
    helps = {verb: " ".join(tallyd(verb, "--help").stdout.split()) for verb in ("verify", "rejects")}
    for said, verb in (("--all all that wait", "rejects"), ("--all also what MySQL has of each other Redis", "verify")):
        assert [name for name in helps if said in helps[name]] == [verb]


def test_version():
    done = tallyd("--version")
    assert done.returncode == 0 and re.match(r"tallyd \d+\.\d+\.\d+", done.stdout)


@pytest.mark.parametrize("words", [(), ("fly",), ("run", "--fly"), ("run", "-c"), ("verify", "extra", "words"),
                                   ("recover", "--dry-rnu")], ids=lambda words: " ".join(words) or "nothing")
def test_usage(words):
    done = tallyd(*words)
    assert done.returncode == 64 and done.stderr and done.stdout == ""


def test_usage_names_the_nearest():
    assert "--dry-run" in tallyd("recover", "--dry-rnu").stderr
    assert "verify" in tallyd("verfiy").stderr


def test_check(idle):
    idle.migrate()
    done = idle.verb("check")
    assert done.returncode == 0, done.stderr
    assert "everysec" in done.stdout or "always" in done.stdout  # it says what a power cut may cost


def test_check_of_a_full_redis(idle, redis):
    idle.migrate()
    assert "% of its memory" not in idle.verb("check").stdout
    redis.client().config_set("maxmemory", 1000)
    found = idle.verb("check")
    assert found.returncode == 0 and re.search(r"^warning: Redis uses \d+ % of its memory .*refuses hits", found.stdout, re.M), found


def test_check_advises_against_fsyncs_left_out(idle, redis):
    idle.migrate()
    assert "recommended" not in idle.verb("check").stdout
    redis.client().config_set("no-appendfsync-on-rewrite", "yes")
    assert "recommended: CONFIG SET no-appendfsync-on-rewrite no" in idle.verb("check").stdout


YAML_FAULTS = [
    # what is put in the place of what, line and column of the fault, what the message has
    ("hits: 50", "hits: many", ("many", "integer")),
    ("hits: 50", "hist: 50", ("hist", "hits")),
    ("every: 60s", "every: 60x", ("60x", "duration")),
    ("field: date", "field: dates", ("dates", "date")),
    ("table: daily_visitors", "table: daily visitors;", ("daily visitors;",)),
    ("table: daily_visitors", "tabel: daily_visitors", ("tabel", "table")),
    ("instance: one", "instance: \"o n e\"", ("instance",)),
    ("instance: one", "instance: [", ()),
    ("instance: one", "\tinstance: one", ()),
    ("instance: one", "instance: one\ninstance: two", ("instance",)),
    ("s<store>:product_views", "s<shop>:product_views", ("<shop>",)),
    ("s<store>:product_views", "tally:<store>", ("tally:",)),
    ("s<store>:product_views", "s<store>:searches", ("searches", "product_views")),
]
FILE = """instance: one
listen: { resp: "unix:///tmp/x.sock" }
redis: "unix:///tmp/redis.sock?db=0"
mysql: "mysql://root@localhost/shop?socket=/tmp/mysql.sock"
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: { hits: 50, every: 60s }
    table: daily_visitors
    columns: { store: store_id, field: day, count: visitors }
  product_views:
    key: "s<store>:product_views"
    field: integer
    table: product_views
    columns: { store: store_id, field: product_id, count: views }
  searches:
    key: "s<store>:searches"
    field: text
    table: searches
    columns: { store: store_id, field: term, count: searches }
"""


@pytest.mark.parametrize("good,bad,parts", YAML_FAULTS, ids=[repr(bad)[:30] for _, bad, _ in YAML_FAULTS])
def test_wrong_yaml(good, bad, parts, workdir):
    """file:line:column, what was found, what was expected, the nearest name."""
    assert good in FILE
    path = f"{workdir}/wrong.yaml"
    with open(path, "w", encoding="utf-8") as out:
        out.write(FILE.replace(good, bad))
    for verb in ("run", "check"):
        done = tallyd(verb, "-c", path)
        assert done.returncode == 78, done.stderr
        place = re.search(re.escape(path) + r":(\d+):(\d+): ", done.stderr)
        assert place, done.stderr
        at = FILE.splitlines().index(next(line for line in FILE.splitlines() if good in line)) + 1
        assert at <= int(place[1]) <= at + 8 and int(place[2]) >= 1, done.stderr
        for part in parts:
            assert part in done.stderr, done.stderr


def test_no_such_file():
    done = tallyd("check", "-c", "/no/such/tallyd.yaml")
    assert done.returncode in (64, 78) and "/no/such/tallyd.yaml" in done.stderr


@pytest.mark.parametrize("text", [None, "", "# nothing yet\n\n", "---\n{}\n"])
def test_check_of_nothing_gives_what_to_write(text, tmp_path):
    """Ten lines on stdout, which are a good configuration when they are pasted."""
    path = tmp_path / "new.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    done = tallyd("check", "-c", str(path))
    assert done.returncode == 78 and f"ten lines to {path}" in done.stderr, done.stderr
    assert len(done.stdout.splitlines()) == 10
    path.write_text(done.stdout.replace("redis://127.0.0.1:6379/0", f"unix://{tmp_path}/redis.sock?db=0")
                    .replace("127.0.0.1:3306/shop", f"localhost/shop?socket={tmp_path}/m.sock"), encoding="utf-8")
    done = tallyd("check", "-c", str(path))
    assert done.returncode == 69 and "good configuration with 1 counter" in done.stdout, done.stderr


def test_check_of_something_wrong_gives_no_lines(tmp_path):
    for path, text in ((tmp_path / "wrong.yaml", "redis: 1\n"), (tmp_path, None)):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        done = tallyd("check", "-c", str(path))
        assert done.returncode == 78 and done.stdout == "" and "ten lines" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["tallyd.yaml", "tallyd.full.yaml"])
def test_shipped_configurations_are_right(name, tmp_path):
    """Each is read without a complaint: what is refused is only that nothing runs where it says, here made
    a place where nothing can."""
    with open(os.path.join(os.path.dirname(__file__), "../../config", name), encoding="utf-8") as file:
        shipped = file.read()
    for there, nowhere in (("redis://127.0.0.1:6379/0", f"unix://{tmp_path}/redis.sock?db=0"),
                           ("mysql://tally@127.0.0.1:3306/shop", f"mysql://tally@localhost/shop?socket={tmp_path}/m.sock")):
        assert there in shipped, there
        shipped = shipped.replace(there, nowhere)
    (tmp_path / "tallyd.yaml").write_text(shipped, encoding="utf-8")
    done = tallyd("check", "-c", str(tmp_path / "tallyd.yaml"))
    assert done.returncode == 69, done.stderr


def test_migrate(idle, mysql):
    printed = idle.verb("migrate", "--tables", "--print")
    assert printed.returncode == 0 and "CREATE TABLE" in printed.stdout and "daily_visitors" in printed.stdout
    assert mysql.query("SHOW TABLES") == ()
    done = idle.verb("migrate")
    assert done.returncode == 0, done.stderr
    own = {"tally_ledger", "tally_counters", "tally_rejects", "tally_schema", "tally_realms", "tally_adjustments"}
    assert {name for name, in mysql.query("SHOW TABLES")} == own
    for _ in range(2):
        assert idle.verb("migrate", "--tables").returncode == 0
    assert {name for name, in mysql.query("SHOW TABLES")} == own | {"daily_visitors", "product_views", "searches"}
    versions = mysql.query("SELECT version FROM tally_schema")
    assert len(versions) == len(set(versions))
    assert idle.verb("check").returncode == 0


@pytest.mark.parametrize("code, says", [(1105, b"Percona-XtraDB-Cluster prohibits use of GET_LOCK with pxc_strict_mode = ENFORCING"),
                                        (1305, b"FUNCTION GET_LOCK does not exist")])
def test_migrate_without_get_lock(code, says, idle, mysql, make_proxy):
    """From a report: it says what to do instead, and that does."""
    proxy = make_proxy(mysql.socket)

    def refuse(link, way, data):
        if way == "down" or b"GET_LOCK" not in data:
            return data
        said = b"\xff" + code.to_bytes(2, "little") + b"#HY000" + says
        link.say(len(said).to_bytes(3, "little") + b"\1" + said)
        return b""

    proxy.filter = refuse
    idle.config["mysql"] = mysql.url.replace(mysql.socket, proxy.path)
    idle.write_config()
    done = idle.verb("migrate", "--tables")
    assert done.returncode == 78 and "refuses GET_LOCK" in done.stderr and says.decode() in done.stderr, done.stderr
    assert "`tallyd migrate --print`" in done.stderr


@pytest.mark.parametrize("table", ["tally_counters", "tally_rejects", "tally_realms", "tally_adjustments"])
def test_migrate_makes_a_dropped_table_again(table, idle, mysql):
    idle.migrate()
    mysql.query(f"DROP TABLE {table}")
    done = idle.verb("check")
    assert done.returncode == 78 and f"{table} was dropped" in done.stderr and "tallyd migrate" in done.stderr
    done = idle.verb("migrate")
    assert done.returncode == 0 and f"{table} was dropped" in done.stdout, done.stdout + done.stderr
    assert idle.verb("check").returncode == 0


def test_a_dropped_ledger(make_daemon, redis, mysql):
    """A merged batch still in Redis: check and migrate say what the ledger was good for, migrate names the batch and makes
    an empty one only when told to; verify then says before the merge what the merge counts twice."""
    daemon = make_daemon(redis, start=False, families=counters(hits=10**9, every="3600s")).migrate()
    daemon.crash = "merge_after_commit"
    daemon.start()
    with daemon.client() as client:
        assert client.call("HINCRBY", "s1:product_views", "7", 5) == 5  # its lock is free, so it is merged at once
    assert daemon.ended() == -signal.SIGKILL
    daemon.crash = None
    mysql.query("DROP TABLE tally_ledger")

    done = daemon.verb("check")
    assert done.returncode == 78 and "once more" in done.stderr and "tallyd migrate" in done.stderr
    done = daemon.verb("migrate")
    assert done.returncode == 78 and "--ledger-lost" in done.stderr, done.stdout + done.stderr
    assert re.search(r"[0-9a-f]{32} of product_views, hashes: 1\n", done.stdout), done.stdout
    assert not mysql.query("SHOW TABLES LIKE 'tally_ledger'")
    done = daemon.verb("migrate", "--ledger-lost")
    assert done.returncode == 0 and "tally_ledger was dropped" in done.stdout, done.stdout + done.stderr

    def difference():
        counted = json.loads(daemon.verb("verify", "--counter", "product_views", "--json").stdout)["counters"]
        return counted[0]["difference"]

    assert difference() == -5
    daemon.start()
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views") == ((10,),)
    assert difference() == -5
    assert "not lost" in daemon.verb("migrate", "--ledger-lost").stdout


def test_a_dropped_ledger_with_redis_away(idle, mysql, redis):
    idle.migrate()
    mysql.query("DROP TABLE tally_ledger")
    redis.kill9()
    done = idle.verb("migrate")
    assert done.returncode == 78 and "cannot tell" in done.stdout, done.stdout + done.stderr
    assert idle.verb("migrate", "--ledger-lost").returncode == 0
    assert mysql.query("SHOW TABLES LIKE 'tally_ledger'")


def test_printed_migration_is_the_migration(idle, mysql):
    """What --print says, given to the mariadb client, is accepted by check."""
    printed = idle.verb("migrate", "--tables", "--print").stdout
    done = subprocess.run(["mariadb", "--no-defaults", "-S", mysql.socket, "-u", "root", "shop"], input=printed,
                          capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 0, done.stderr
    assert idle.verb("check").returncode == 0


def test_run_before_migrate(idle):
    done = idle.verb("run", timeout_s=60)
    assert done.returncode == 78 and "tallyd migrate" in done.stderr


@pytest.mark.parametrize("running", [True, False], ids=["service running", "service stopped"])
def test_verify(running, daemon, redis, mysql):
    """0 when the books balance; 1 with counter, difference and next step when a hit was removed."""
    with daemon.client() as client:
        client.pipeline([("HINCRBY", f"s{store}:product_views", "7", store) for store in range(1, 101)])
        daemon.sync_all()
        client.pipeline([("HINCRBY", "s1:product_views", "7", 3)] * 5)
    if not running:
        assert daemon.terminate() == 0
    balanced = daemon.verify()
    assert "product_views" in balanced.stdout and "adjusted" not in balanced.stdout
    assert max(map(len, balanced.stdout.splitlines())) <= 100
    redis.client().hincrby("tally:accepted", "product_views", 11)
    done = daemon.verb("verify")
    text = done.stdout + done.stderr
    assert done.returncode == 1 and "product_views" in text and re.search(r"\b11\b", text), text
    redis.client().hincrby("tally:accepted", "product_views", -11)
    mysql.query("UPDATE tally_counters SET merged = merged + 2")
    assert daemon.verb("verify").returncode == 1
    mysql.query("UPDATE tally_counters SET merged = merged - 2")
    daemon.verify()


def test_verify_under_traffic(make_redis, make_daemon):
    """No retries, no pause: the books balance at every look while hits come in and merges go on."""
    daemon = make_daemon(make_redis(appendfsync="always"), families=counters(hits=20, every="1s"))
    ending = threading.Event()

    def traffic():
        with daemon.client() as client:
            at = 0
            while not ending.is_set():
                at += 1
                client.pipeline([("HINCRBY", f"s{at * 7 % 40}:product_views", n, 1) for n in range(20)])

    threads = [threading.Thread(target=traffic, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            daemon.verify()
    finally:
        ending.set()
        for thread in threads:
            thread.join(patience(30))
    daemon.sync_all()
    daemon.verify()


def test_recover_with_nothing_to_do(daemon):
    for words in (("recover", "--dry-run"), ("recover",)):
        done = daemon.verb(*words)
        assert done.returncode == 0, done.stderr


def test_recover_shows_a_bar_on_a_terminal(make_daemon, redis):
    """On a terminal one line is drawn over and over; elsewhere plain lines (test_recovery)."""
    daemon = make_daemon(redis, start=False, families=counters(hits=10**9, every="3600s")).migrate()
    pipe = redis.client().pipeline(transaction=False)
    for store in range(3000):
        pipe.hset(f"s{store}:product_views_{store * 7919}", "1", 1)
    pipe.execute()
    try:
        ours, theirs = pty.openpty()
    except OSError as problem:
        pytest.skip(f"no terminal can be made here: {problem}")
    process = subprocess.Popen([TALLYD, "recover", "-c", daemon.config_path], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    assert process.wait(patience(60)) == 0, shown
    assert re.search(rb"\r[^\n]", shown), shown[-500:]


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def test_hash_on_a_terminal():
    """What is typed is not shown, and the terminal is as it was afterwards, also after a Ctrl-C."""
    try:
        ours, theirs = pty.openpty()
    except OSError as problem:
        pytest.skip(f"no terminal can be made here: {problem}")

    def type_words(*words):
        process = subprocess.Popen([TALLYD, "hash"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for prompt, word in zip(("password: ", "\nagain: "), words):
            assert process.stderr.read(len(prompt)) == prompt
            wait_until(lambda: not echoes(theirs), 30, "nothing is shown")
            if word == "^C":
                process.send_signal(signal.SIGINT)
            else:
                os.write(ours, word + b"\n")
        said, _ = process.communicate(timeout=patience(60))
        assert echoes(theirs)
        return process.returncode, said

    assert type_words("^C") == (-signal.SIGINT, "")
    code, said = type_words(b"a secret", b"a secret")
    assert code == 0 and said.startswith("$y$")
    assert type_words(b"a secret", b"another") == (64, "")
    os.close(ours), os.close(theirs)


def test_sigterm(daemon, redis):
    """Hits under way are answered, exit status 0, no new connections; every answered hit is in Redis."""
    answered = []

    def traffic():
        with daemon.client() as client:
            try:
                while True:
                    answered.append(client.call("HINCRBY", "s1:searches", "shoes", 1))
            except (Closed, OSError):
                pass

    threads = [threading.Thread(target=traffic, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answered) > 500, 30)
    assert daemon.terminate(30) == 0
    for thread in threads:
        thread.join(patience(10))
    assert not os.path.exists(daemon.socket)
    hits = len([reply for reply in answered if isinstance(reply, int)])
    daemon.start()
    daemon.sync_all()
    assert int(redis.client().hget("tally:accepted", "searches")) >= hits
    daemon.verify()


@pytest.mark.fault("sigterm")
def test_sigterm_with_mysql_away(make_daemon, redis, mysql):
    """The runs that cannot finish are left standing within the deadline; the next start merges them."""
    daemon = make_daemon(redis, more={"stop_timeout": "2s"})
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 1)
    daemon.sync_all()
    mysql.pause()
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", "7", 1)] * 100)
    assert daemon.terminate(30) == 0
    mysql.resume()
    daemon.start()
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views") == ((101,),)
    daemon.verify()


def test_sigint_is_sigterm(daemon):
    daemon.signal(signal.SIGINT)
    assert daemon.ended() == 0


def test_sighup(daemon):
    """What can be reloaded is; what needs a restart is named; a broken file changes nothing."""
    daemon.config["log"] = {"level": "debug"}
    daemon.config["mysql"] = {"url": daemon.mysql.url, "writers": 3}
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    daemon.log_contains("mysql.writers")
    with open(daemon.config_path, "a", encoding="utf-8") as out:
        out.write("nonsense: 1\n")
    daemon.signal(signal.SIGHUP)
    daemon.log_contains("nonsense")
    assert daemon.is_ready()
    daemon.write_config()
    daemon.verify()


def test_password_is_never_logged(make_daemon, redis, mysql):
    mysql.fresh_user("secretive@localhost", "hush-hush")
    mysql.query("GRANT ALL ON shop.* TO secretive@localhost")
    daemon = make_daemon(redis, mysql_url=mysql.url.replace("root@", "secretive:hush-hush@"),
                         more={"log": {"level": "debug"}})
    daemon.sync_all()
    done = daemon.verb("check")
    assert done.returncode == 0
    assert "hush-hush" not in done.stdout + done.stderr + daemon.log()


def test_logs_are_logfmt(make_redis, make_daemon):
    daemon = make_daemon(make_redis(appendfsync="always"))
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 1)
    daemon.sync_all()
    daemon.log_contains("event=merged")
    for line in daemon.log().splitlines():
        assert re.fullmatch(r'(\S+?=("(\\.|[^"\\])*"|[^\s"]*)\s?)+', line), line


def test_several_addresses(make_daemon, redis, free_port):
    daemon = make_daemon(redis, tcp_port=free_port)
    with Resp(("127.0.0.1", free_port)) as tcp, daemon.client() as unix:
        assert isinstance(tcp.call("HINCRBY", "s1:product_views", "7", 1), int)
        assert isinstance(unix.call("HINCRBY", "s1:product_views", "7", 1), int)
        tcp.send(encode("QUIT"))
        assert tcp.until_closed() == b"+OK\r\n"


def test_verify_one_counter(daemon, redis):
    """--counter looks at that one only, --json says the same for programs."""
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", "7", 3)] * 5)
    redis.client().hincrby("tally:accepted", "product_views", 11)
    redis.client().hincrby("tally:accepted", "long_gone", 1)
    done = daemon.verb("verify", "--counter", "searches")
    assert done.returncode == 0 and "product_views" not in done.stdout and "long_gone" not in done.stdout, done.stdout
    assert daemon.verb("verify", "--counter", "product_views").returncode == 1
    done = daemon.verb("verify", "--json")
    seen = json.loads(done.stdout)
    assert done.returncode == 1 and seen["balanced"] is False
    assert {one["name"]: one["difference"] for one in seen["counters"]} == {
        "unique_visitors": 0, "product_views": 11, "searches": 0, "long_gone": 1}
    assert json.loads(daemon.verb("verify", "--json", "--counter", "searches").stdout)["balanced"] is True
    done = daemon.verb("verify", "--counter", "search")
    assert done.returncode == 64 and "no counter" in done.stderr


def test_verify_of_a_redis_that_was_emptied(daemon, redis, mysql):
    """From a report: FLUSHDB took what was pending, and the sums of what is left are equal."""
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 5)
        daemon.sync_all()
        client.call("HINCRBY", "s1:product_views", "7", 4)
        redis.client().flushdb()
        for pending in (0, 3):
            if pending:  # the first one is refused: Redis has other data under the links
                wait_until(lambda: client.call("HINCRBY", "s1:product_views", "7", 3) == 3, 60, "it counts again")
            done = daemon.verb("verify")
            assert done.returncode == 1 and "Redis does not know claims that MySQL has merged" in done.stdout, done.stdout
            assert "FLUSHDB" in done.stdout and "balance" not in done.stdout, done.stdout
            assert json.loads(daemon.verb("verify", "--json").stdout)["balanced"] is False
        others = "INSERT INTO tally_realms SELECT REPEAT('2', 16), REPEAT('3', 16), 'x', 'x', UTC_TIMESTAMP(3), 'x', 0, NULL, NULL"
        mysql.query(others)
        for realm, told in ((None, "Redis does not say which it is"), ("0" * 31 + "1", "MySQL does not count for this Redis")):
            if realm:
                redis.client().set("tally:realm", realm)
            done = daemon.verb("verify")
            assert done.returncode == 1 and told in done.stdout and "balance" not in done.stdout, done.stdout
        redis.client().delete("tally:realm")
        mysql.query("DELETE FROM tally_realms WHERE taken_by = 'x'")
        assert daemon.verb("recover", "--accept-rollback").returncode == 0
        daemon.sync_all()
    done = daemon.verb("verify")
    assert done.returncode == 1 and "Redis knows of 3 accepted hits, and 5 more are in the books" in done.stdout, done.stdout
    redis.client().hincrby("tally:accepted", "product_views", 5)
    daemon.verify()


@pytest.mark.parametrize("away", ["redis", "mysql"])
def test_verify_without_a_server(away, daemon, redis, mysql):
    {"redis": redis, "mysql": mysql}[away].kill9()
    done = daemon.verb("verify")
    assert done.returncode == 69 and done.stdout == "" and {"redis": "Redis", "mysql": "MySQL"}[away] in done.stderr
