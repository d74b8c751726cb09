"""`tallyd status`: what it shows of a running shop and of each thing that can be wrong, and its exit status."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from harness.daemon import TALLYD, counters
from harness.mariadb import PRODUCT
from harness.redis_server import RedisServer
from harness.resp import RespError
from harness.wait import patience, wait_until
from harness.web import Web

FAMILIES = counters(hits=10**9, every="3600s")


@pytest.fixture
def daemon(make_daemon, redis):
    return make_daemon(redis, families=FAMILIES)


def pend(daemon, hits=5):
    """Hits of s1:product_views that wait: the lock was granted to one before them, which is merged."""
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 1)
    daemon.sync_all()
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", hits)


def look(daemon, status=0):
    """The JSON of one look, which must end with this exit status."""
    done = daemon.verb("status", "--json")
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def screen(daemon, status=0):
    done = daemon.verb("status")
    assert done.returncode == status, done.stdout + done.stderr
    assert "\033" not in done.stdout  # not a terminal
    return done.stdout


def problems(seen):
    assert not seen["well"]
    assert all(problem["next"] for problem in seen["problems"])
    return "\n".join(problem["what"] + " -> " + problem["next"] for problem in seen["problems"])


def of_counter(seen, name):
    return next(counter for counter in seen["counters"] if counter["name"] == name)


def version_said(redis):
    """Valkey is Redis 7.2.4, and known by its own version."""
    said = redis.client().info("server")
    return "-valkey-".join(said[name] for name in ("redis_version", "valkey_version") if name in said)


def test_well(daemon, redis, mysql):
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 5)
        client.call("HINCRBY", "s2:product_views", "7", 2)
        client.pipeline([("HINCRBY", f"s{store}:searches", "shoes", 1) for store in (1, 2)])
    daemon.sync_all()  # the locks are granted: what comes now waits
    with daemon.client() as client:
        client.call("HINCRBY", "s1:searches", "shoes", 3)
        client.call("HINCRBY", "s2:searches", "shoes", 1)
    seen = look(daemon)
    assert seen["well"] and seen["problems"] == []
    service = seen["service"]
    assert (service["up"], service["pid"], service["instance"], service["hits"]) == (True, daemon.pid, "one", 6)
    assert service["hits_per_s"] == 0 and service["stats"]["rows_merged"] == 4
    assert service["redis_up"] and service["mysql_up"] and not service["stopping"]
    assert seen["redis"]["up"] and seen["redis"]["aof"] and seen["redis"]["appendfsync"] == "always"
    assert seen["redis"]["version"] == version_said(redis) and seen["redis"]["memory_bytes"] > 0
    assert seen["mysql"] == {"up": True, "server": PRODUCT, "version": seen["mysql"]["version"], "read_only": False,
                             "at": seen["mysql"]["at"], "gen": seen["redis"]["gen"]}
    assert mysql.query("SELECT @@hostname")[0][0] in seen["mysql"]["at"]
    assert service["redis_server"] == seen["redis"]["at"] == redis.socket and service["redis_moved_s"] is None
    assert service["redis_run_id"] == seen["redis"]["run_id"] and service["redis_links"] == "frame=1,sync=1,fence=1"
    assert (seen["redis"]["durability"], seen["redis"]["replica"]) == ("disk", [])
    assert seen["redis"]["run_id"] == redis.client().info("server")["run_id"]
    assert seen["backlog"]["dirty"] == 2 and 0 <= seen["backlog"]["oldest_s"] < 60
    searches, views = of_counter(seen, "searches"), of_counter(seen, "product_views")
    assert (searches["dirty"], searches["merged"], searches["rejects"]) == (2, 2, 0)
    assert searches["oldest_s"] == seen["backlog"]["oldest_s"]
    assert (views["dirty"], views["oldest_s"], views["merged"], views["held"]) == (0, None, 7, False)
    assert seen["batches"] == {"standing": 0, "oldest": []}
    assert seen["merges"]["held"] is False
    assert seen["books"]["balanced"] is True
    assert of_counter(seen["books"], "searches")["pending"] == 4


def test_screen(daemon):
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 1234567)
    daemon.sync_all()
    text = screen(daemon)
    assert "1,234,567" in text and text.endswith("All is well.\n") and "?" not in text
    assert all(name in text for name in FAMILIES)
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 120


def test_no_service(daemon):
    pend(daemon)
    assert daemon.terminate() == 0
    seen = look(daemon, 1)
    assert seen["service"] == {"up": False, "error": seen["service"]["error"]}
    assert "tallyd run" in problems(seen)
    assert of_counter(seen, "product_views")["dirty"] == 1 and seen["books"]["balanced"] is True
    assert "tallyd run" in screen(daemon, 1)


def test_what_listens_is_no_tallyd(daemon, redis):
    """listen.resp names the Redis itself."""
    daemon.config["listen"]["resp"] = [f"unix://{redis.socket}"]
    daemon.write_config()
    seen = look(daemon, 1)
    assert not seen["service"]["up"] and "tallyd" in seen["service"]["error"]


def test_redis_down(daemon, redis):
    redis.kill9()
    seen = look(daemon, 69)
    assert not seen["redis"]["up"] and seen["redis"]["error"] and "Redis" in problems(seen)
    assert seen["backlog"]["dirty"] is None and seen["batches"]["standing"] is None
    assert of_counter(seen, "searches")["dirty"] is None and of_counter(seen, "searches")["merged"] == 0
    assert seen["books"]["balanced"] is None and seen["books"]["error"]
    assert seen["service"]["up"] and seen["mysql"]["up"]
    assert re.search(r"Redis +down", screen(daemon, 69))


def test_mysql_down(daemon, mysql):
    pend(daemon)
    mysql.kill9()
    seen = look(daemon, 69)
    assert not seen["mysql"]["up"] and seen["mysql"]["error"] and "MySQL" in problems(seen)
    views = of_counter(seen, "product_views")
    assert (views["merged"], views["rejects"], views["complete_until"], views["held"]) == (None, None, None, None)
    assert views["dirty"] == 1 and seen["service"]["up"] and seen["merges"]["held"] is None
    text = screen(daemon, 69)
    assert re.search(r"MySQL +down", text) and re.search(r"product_views .*\?", text)


def test_nothing_answers(daemon, redis, mysql):
    daemon.kill9(), redis.kill9(), mysql.kill9()
    seen = look(daemon, 69)
    assert len(seen["problems"]) == 3


@pytest.mark.parametrize("stuck", ["redis", "mysql", "service"])
def test_stuck(stuck, daemon, redis, mysql):
    """A server that takes connections and says nothing, for ever, is told as one that is down."""
    process = {"redis": redis, "mysql": mysql, "service": daemon}[stuck]
    process.pause()
    try:
        seen = look(daemon, 1 if stuck == "service" else 69)
    finally:
        process.resume()
    assert not seen[stuck]["up"] and seen[stuck]["error"]


def test_not_migrated(make_daemon, redis):
    daemon = make_daemon(redis, start=False)
    seen = look(daemon, 1)
    assert seen["mysql"]["up"] and "tallyd migrate" in problems(seen)
    assert of_counter(seen, "searches")["merged"] is None


def test_table_that_refuses(daemon, mysql):
    mysql.query("ALTER TABLE product_views DROP PRIMARY KEY")
    seen = look(daemon, 1)
    held = of_counter(seen, "product_views")["held"]
    assert "unique key" in held["why"].lower() and "ALTER TABLE" in held["next"]
    assert of_counter(seen, "searches")["held"] is False
    assert "product_views" in problems(seen)
    assert "ALTER TABLE" in screen(daemon, 1)


def test_held_batch(make_daemon, redis, mysql):
    """A batch that the service holds is shown with the reason, and with how much is in it."""
    daemon = make_daemon(redis, families=counters(hits=1, every="1s"))
    mysql.query("ALTER TABLE product_views DROP COLUMN views")
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "s1:product_views", str(n), 1) for n in range(5)])
    daemon.log_contains("batch_held", 60)
    wait_until(lambda: any(batch["held"] for batch in look(daemon, 1)["batches"]["oldest"]), 60)
    batch = next(batch for batch in look(daemon, 1)["batches"]["oldest"] if batch["counter"] == "product_views")
    assert batch["hashes"] == 1 and 1 <= batch["fields"] <= 5 and batch["configured"]
    assert batch["owner"].startswith("one:") and batch["age_s"] >= 0


def stand_batch(redis, counter="gone", owner="two:0123456789abcdef"):
    batch = "00112233445566778899aabbccddeeff"
    link = redis.client()
    link.hset(f"tally:batch:{batch}", mapping={"format": 1, "counter": counter, "gen": 1, "owner": owner,
                                               "lowest_ms": int(time.time() * 1000) - 90000, "=s1:gone": 3})
    link.hset(f"s1:gone_{batch}", mapping={"1": 1, "2": 1, "3": 1})
    link.zadd("tally:batches", {batch: int(time.time() * 1000) - 80000})
    return batch


def test_unknown_counter(daemon, redis):
    batch = stand_batch(redis)
    seen = look(daemon, 1)
    assert "gone" in problems(seen) and "--reject-unknown" in problems(seen)
    shown, = seen["batches"]["oldest"]
    assert (shown["id"], shown["configured"], shown["fields"], shown["hashes"]) == (batch, False, 3, 1)
    assert 89 < shown["age_s"] < 150 and 79 < shown["silent_s"] < 150
    assert batch in screen(daemon, 1)


def test_rejects_standing(daemon, mysql):
    mysql.query("INSERT INTO tally_rejects (realm, batch, chunk, seq, counter, pending_hash, field, delta, counted, reason,"
                " rejected_at) VALUES ((SELECT MIN(realm) FROM tally_realms), x'00', 0, 1, 'searches', 's1:searches', 'x', '1', 0, 'why', UTC_TIMESTAMP(3))")
    seen = look(daemon, 1)
    assert of_counter(seen, "searches")["rejects"] == 1 and of_counter(seen, "product_views")["rejects"] == 0
    assert "tallyd rejects" in problems(seen)


def test_books_that_do_not_balance(daemon, redis):
    redis.client().hincrby("tally:accepted", "searches", 11)
    seen = look(daemon, 1)
    assert seen["books"]["balanced"] is False and of_counter(seen["books"], "searches")["difference"] == 11
    assert "tallyd verify" in problems(seen)
    assert "do NOT balance" in screen(daemon, 1)


def test_rolled_back(daemon, redis):
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 5)
    daemon.sync_all()
    redis.client().set("tally:gen", 0)
    seen = look(daemon, 1)
    assert seen["merges"]["held"] is True and "--accept-rollback" in problems(seen)


def test_hash_of_no_counter(daemon, redis):
    redis.client().hset("s1:gone", "x", 1)
    redis.client().zadd("tally:held", {"s1:gone": 1})
    seen = look(daemon, 1)
    assert seen["backlog"]["of_no_counter"] == 1 and seen["backlog"]["names_of_no_counter"] == ["s1:gone"]
    assert "s1:gone" in problems(seen)


def test_leftovers(make_daemon, redis):
    """Claimed hashes that no batch knows, as the service's walk at its start saw them."""
    redis.client().hset("s1:product_views_12345", "7", 1)
    daemon = make_daemon(redis, families=FAMILIES)
    wait_until(lambda: json.loads(daemon.verb("status", "--json").stdout)["backlog"]["leftovers"] == 1, 60)
    assert "tallyd recover" in problems(look(daemon, 1))


def test_more_than_can_be_told_apart(daemon, redis):
    """Past 20,000 dirty hashes the counters' own figures are unknown, never a part of them; the total is told."""
    now = int(time.time() * 1000)
    pipe = redis.client().pipeline(transaction=False)
    for at in range(0, 21000, 1000):
        pipe.zadd("tally:dirty", {f"s{n}:searches": now - n for n in range(at, at + 1000)})
    pipe.execute()
    seen = look(daemon)
    assert seen["backlog"]["dirty"] == 21000 and seen["backlog"]["error"]
    assert of_counter(seen, "searches")["dirty"] is None and of_counter(seen, "searches")["oldest_s"] >= 20
    assert seen["books"]["balanced"] is None and "verify" in seen["books"]["error"]


def test_watch(daemon):
    """One look after the other until SIGINT; the exit status is that of the last."""
    process = subprocess.Popen([TALLYD, "status", "--json", "--watch", "1", "-c", daemon.config_path],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first, second = json.loads(process.stdout.readline()), json.loads(process.stdout.readline())
    assert second["at"] >= first["at"] + 1
    process.send_signal(signal.SIGINT)
    assert process.wait(patience(30)) == 0 and process.stderr.read() == ""
    process.stdout.close(), process.stderr.close()


def test_watch_on_a_terminal(daemon):
    """Drawn over and over from the top; what is wrong is in colour; the screen fits the terminal."""
    daemon.redis.client().hincrby("tally:accepted", "searches", 11)
    try:
        pid, terminal = pty.fork()
    except OSError as problem:
        pytest.skip(f"no terminal can be made here: {problem}")
    if pid == 0:
        os.execvpe(TALLYD, [TALLYD, "status", "--watch", "1", "-c", daemon.config_path], {**os.environ, "NO_COLOR": ""})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    shown = b""
    while shown.count(b"\033[H\033[J") < 4:
        shown += os.read(terminal, 65536)
    os.kill(pid, signal.SIGINT)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 1
    last = shown.split(b"\033[H\033[J")[-2]
    assert b"do NOT balance" in last and b"\033[1;31m" in last and last.count(b"\n") <= 24


@pytest.mark.parametrize("words,said", [(("--watch=0",), "1 to 86400"), (("--watch=x",), "seconds"), (("all",), "all"),
                                        (("--jsno",), "--json"), (("--json=1",), "no value")])
def test_usage(words, said, make_daemon):
    daemon = make_daemon(None, start=False, migrate=False, redis_url="redis://127.0.0.1:1/0")
    done = daemon.verb("status", *words)
    assert done.returncode == 64 and said in done.stderr and done.stdout == ""


def full(redis):
    redis.client().config_set("maxmemory-policy", "noeviction")
    redis.client().config_set("maxmemory", 1)


def without_hincrby(redis):
    redis.client().execute_command("ACL", "SETUSER", "default", "-hincrby")


REFUSED = [("no_counter", "laravel_database_s1:product_views", "7", None,
            "'laravel_database_' out of the client.*the app's key a counter in the configuration"),
           ("no_counter", "sabc:product_views", "7", None, "'abc' is no integer, as the stores of counter 'product_views' are"),
           ("field", "s1:product_views", "no-number", None, "field 'no-number' of counter 'product_views' is not .*kind"),
           ("oom", "s1:product_views", "7", full, "OOM command not allowed.*maxmemory"),
           ("noperm", "s1:product_views", "7", without_hincrby, "NOPERM.*s1:product_views")]


def with_web(make_daemon, redis):
    daemon = make_daemon(redis, families=FAMILIES, start=False)
    web = Web(os.path.join(daemon.directory, "http.sock"))
    daemon.config["listen"]["http"] = f"unix://{web.at}"
    daemon.write_config()
    daemon.migrate()
    return daemon.start(), web


@pytest.mark.parametrize("reason, key, field, make, told", REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_refused_hits_are_told(reason, key, field, make, told, make_daemon, redis):
    """An app may look at no reply (php-redis throws nothing): status, log, metrics and the panel's API name reason and example."""
    daemon, web = with_web(make_daemon, redis)
    assert look(daemon)["service"]["refused"] == []
    if make is not None:
        make(redis)
    with daemon.client() as client:
        assert all(isinstance(reply, RespError) for reply in client.pipeline([("HINCRBY", key, field, 1)] * 3))
    seen = json.loads(daemon.verb("status", "--json").stdout)
    at, = [one for one in seen["service"]["refused"] if one["reason"] == reason]
    assert (at["minute"], at["all"]) == (3, 3) and key in at["example"]
    what = problems(seen)
    assert re.search("hits are refused: 3 in the last minute, 3 in all: .*" + told, what), what
    assert daemon.verb("status").returncode == 1
    assert daemon.log().count(f"level=warn event=hits_refused reason={reason} ") == 1
    assert (reason == "oom") == ("% of its memory" in what)
    assert web.metrics()[f'tallyd_hits_refused_by_reason_total{{reason="{reason}"}}'] == 3
    assert [one for one in web.get("/api/status")["problems"] if "hits are refused" in one["what"]]
    named = {name: n for name, n in web.metrics().items() if name.startswith("tallyd_hits_refused_prefix")}
    assert named == ({'tallyd_hits_refused_prefix{prefix="laravel_database_",pattern="s<store>:product_views"}': 3}
                     if key.startswith("laravel") else {})


def test_each_fault_is_told(make_daemon, redis):
    """An app whose rare hits are refused is named beside those that send all the time; what is beyond the places shares one."""
    daemon, web = with_web(make_daemon, redis)
    prefixed = [f"{prefix}s%d:product_views" for prefix in ("laravel_database_", "shop1_", "shop2_", "shop3_")]
    wrong = prefixed + ["product:%d:likes", "product:%d:view", "old_s%d:views", "cart:%d"]
    more = ["shop4_s7:product_views", "0123456789abcdef7", "limit:7"]
    with daemon.client() as client:
        client.pipeline([("HINCRBY", key % i, 1, 1) for i in range(100) for key in (wrong[0], wrong[4])] +
                        [("HINCRBY", key % 7, 1, 1) for key in wrong] + [("HINCRBY", key, 1, 1) for key in more] +
                        [("HINCRBY", f"s1:{counter}", "x", 1) for counter in ("product_views", "unique_visitors:daily")])
    seen = json.loads(daemon.verb("status", "--json").stdout)
    refused = seen["service"]["refused"]
    assert sorted((one["all"], one["reason"]) for one in refused) == \
        [(1, "field")] * 2 + [(1, "no_counter")] * 6 + [(3, "no_counter")] + [(101, "no_counter")] * 2
    for key in wrong:
        assert f"key '{key % (0 if key in (wrong[0], wrong[4]) else 7)}'" in problems(seen)
        assert key.split("%")[0] in daemon.log()
    assert web.metrics()['tallyd_hits_refused_by_reason_total{reason="no_counter"}'] == 211
