"""Dead, full, slow and wrong servers: what clients are told, what tallyd refuses to start on, and what it heals from."""
import os
import subprocess
import time

import pytest

from harness.daemon import Daemon, counters
from harness.mariadb import MariaDB
from harness.resp import Closed, RespError
from harness.wait import stays, wait_until

VIEWS = "s1:product_views"
CONFIG_REFUSED, UNAVAILABLE = 78, 69


def hit(daemon, n=1):
    """One HINCRBY on a connection of its own."""
    with daemon.client() as client:
        return client.call("HINCRBY", VIEWS, "7", n)


def counts_again(daemon, deadline_s=60):
    wait_until(lambda: isinstance(hit(daemon), int), deadline_s, "hits are counted again")


def all_merged(daemon, views):
    """What is pending cannot be looked at for this: a new link may claim it."""
    daemon.sync_all()
    assert daemon.mysql.query("SELECT views FROM product_views") == ((views,),)
    daemon.verify()


def refused_with(daemon, *prefixes):
    """Waits until hits are refused with one of Redis' own prefixes, and sees that it is at once and counts nothing."""
    def refused():
        reply = hit(daemon)
        return isinstance(reply, RespError) and reply.startswith(prefixes) and reply

    return wait_until(refused, 30, f"refused with {prefixes}")


@pytest.fixture
def daemon(make_daemon, redis):
    made = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    hit(made)
    made.sync_all()
    return made


@pytest.mark.fault("redis-refuses")
def test_redis_killed(daemon, redis):
    with daemon.client() as client:
        assert client.call("HINCRBY", VIEWS, "7", 1) == 1
        redis.kill9()
        refused_with(daemon, "MASTERDOWN ")
        assert isinstance(client.call("HINCRBY", VIEWS, "7", 1), RespError)  # the old connection lives on
        assert client.call("PING") == "PONG"
        redis.start()
        wait_until(lambda: isinstance(client.call("HINCRBY", VIEWS, "7", 1), int), 30)
    all_merged(daemon, 3)  # what was refused was not counted


def test_redis_away_before_tallyd_starts(make_daemon, redis):
    daemon = make_daemon(redis, start=False).migrate()
    redis.kill9()
    done = daemon.verb("run", timeout_s=60)
    assert done.returncode == UNAVAILABLE
    assert "Redis" in done.stderr and redis.socket in done.stderr


def test_redis_loading(daemon, redis):
    """It loads for some seconds: LOADING to the clients at once, then by itself again."""
    direct = redis.client()
    pipe = direct.pipeline()
    for at in range(2000):
        pipe.set(f"other:{at}", at)
    pipe.execute()
    direct.bgrewriteaof()
    wait_until(lambda: direct.info("persistence")["aof_rewrite_in_progress"] == 0, 30)
    redis.kill9()
    redis.extra = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"]
    redis.spawn()
    refused_with(daemon, "LOADING ")
    redis.wait_ready()
    counts_again(daemon)
    daemon.sync_all()
    daemon.verify()


@pytest.mark.fault("redis-oom")
def test_redis_out_of_memory(daemon, redis, mysql):
    """OOM to the clients at once; what is pending is merged all the same, which is what makes room again."""
    direct = redis.client()
    with daemon.client() as client:
        assert all(isinstance(reply, int) for reply in
                   client.pipeline([("HINCRBY", VIEWS, field, 1) for field in range(1, 2001)]))
        direct.config_set("maxmemory", "1mb")
        refused_with(daemon, "OOM ")
        assert direct.hlen(VIEWS) == 2000
        daemon.sync_all()
        assert mysql.query("SELECT SUM(views) FROM product_views") == ((2001,),)
        assert not direct.exists(VIEWS)
        direct.config_set("maxmemory", 0)
        counts_again(daemon)
    daemon.sync_all()
    daemon.verify()


def test_redis_read_only(daemon, redis):
    direct = redis.client()
    direct.execute_command("REPLICAOF", "127.0.0.1", "1")
    refused_with(daemon, "READONLY ", "MASTERDOWN ")
    before = direct.hgetall(VIEWS)
    hit(daemon)
    assert direct.hgetall(VIEWS) == before
    direct.execute_command("REPLICAOF", "NO", "ONE")
    counts_again(daemon)
    daemon.sync_all()
    daemon.verify()


def test_redis_misconf(daemon, redis):
    """The last BGSAVE failed (its target is a directory): MISCONF, until one succeeds."""
    direct = redis.client()
    os.mkdir(f"{redis.data}/dump.rdb")
    direct.config_set("save", "3600 1")
    direct.execute_command("BGSAVE")
    wait_until(lambda: direct.info("persistence")["rdb_last_bgsave_status"] == "err", 30)
    refused_with(daemon, "MISCONF ")
    os.rmdir(f"{redis.data}/dump.rdb")
    direct.execute_command("BGSAVE")
    counts_again(daemon)
    daemon.sync_all()
    daemon.verify()


@pytest.mark.fault("enospc-redis")
def test_redis_disk_full(make_redis, make_daemon, workdir):
    """A full disk under the AOF: MISCONF to the clients, by itself again when there is room."""
    os.mkdir(f"{workdir}/small")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", f"{workdir}/small"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a small tmpfs")
    try:
        redis = make_redis("small/redis")
        daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
        counts_again(daemon)
        filler = f"{workdir}/small/filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True, check=False)
        refused_with(daemon, "MISCONF ")
        os.unlink(filler)
        counts_again(daemon)
        daemon.sync_all()
        daemon.verify()
        daemon.close()
        redis.close()
    finally:
        subprocess.run(["umount", "-l", f"{workdir}/small"], check=True)


def test_redis_stands_still(make_daemon, redis):
    """SIGSTOP: no answer, no end of the connection. Clients get an answer within the limits, the loop goes on."""
    daemon = make_daemon(redis, more={"redis": {"url": redis.url, "timeout": "1s"}})
    counts_again(daemon)
    with daemon.client() as client, daemon.client() as other:
        redis.pause()
        client.send(b"HINCRBY s1:product_views 7 1\r\n")
        assert other.call("PING") == "PONG"
        assert isinstance(client.reply(), RespError)
        assert other.call("PING") == "PONG"
        redis.resume()
    counts_again(daemon)
    daemon.sync_all()
    daemon.verify()


@pytest.mark.fault("redis-fin")
def test_answer_lost_is_resolved(make_daemon, redis, make_proxy):
    """The frame was applied, its answer swallowed, the link cut: the client still gets its value, counted once."""
    proxy = make_proxy(redis.socket)
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), redis_url=f"unix://{proxy.path}?db=0")
    hit(daemon)
    daemon.sync_all()
    assert hit(daemon) == 1
    with daemon.client() as client:
        proxy.swallow_replies()
        client.send(b"HINCRBY s1:product_views 7 5\r\n")
        wait_until(lambda: redis.client().hget(VIEWS, "7") == b"6", 60, "the frame was applied")
        proxy.cut()
        assert client.reply() == 6
    assert hit(daemon) in (7, 1)  # the new link may have claimed it meanwhile
    daemon.sync_all()
    assert daemon.mysql.query("SELECT views FROM product_views") == ((8,),)
    daemon.verify()


@pytest.mark.fault("redis-fin")
def test_request_lost_is_sent_again(make_daemon, redis, make_proxy):
    """The frame never reached Redis: it is sent again on the new link, once."""
    proxy = make_proxy(redis.socket)
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), redis_url=f"unix://{proxy.path}?db=0")
    hit(daemon)
    daemon.sync_all()
    with daemon.client() as client:
        proxy.stall("up")
        client.send(b"HINCRBY s1:product_views 7 5\r\n")
        stays(lambda: not redis.client().exists(VIEWS), 0.3)
        proxy.cut()
        proxy.flow()
        assert client.reply() == 5
    all_merged(daemon, 6)


def test_doubt_has_an_end(make_daemon, redis, make_proxy):
    """Redis stays away after a cut: "outcome unknown" after 5 s, and that frame is never sent again."""
    proxy = make_proxy(redis.socket)
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), redis_url=f"unix://{proxy.path}?db=0")
    hit(daemon)
    daemon.sync_all()
    with daemon.client() as client:
        proxy.stall("up")
        client.send(b"HINCRBY s1:product_views 7 5\r\n")
        stays(lambda: not redis.client().exists(VIEWS), 0.3)
        proxy.refuse()
        proxy.flow()
        began = time.monotonic()
        reply = client.reply()
        assert isinstance(reply, RespError) and reply.startswith("ERR outcome unknown"), reply
        assert time.monotonic() - began > 3
        proxy.refuse(False)
    counts_again(daemon)
    all_merged(daemon, 2)


def ends(daemon, status, *parts):
    """`check` and `run` both refuse, with this exit status and these words."""
    for verb in ("check", "run"):
        done = daemon.verb(verb, timeout_s=60)
        text = done.stdout + done.stderr
        assert done.returncode == status, f"{verb}: {done.returncode}\n{text}"
        for part in parts:
            assert part in text, f"{verb} does not say {part!r}:\n{text}"
    return text


@pytest.mark.parametrize("options,parts", [
    pytest.param({"policy": "allkeys-lru"}, ("maxmemory-policy", "allkeys-lru", "noeviction"),
                 marks=pytest.mark.fault("redis-evicts")),
    pytest.param({"policy": "volatile-ttl"}, ("maxmemory-policy", "volatile-ttl", "noeviction"),
                 marks=pytest.mark.fault("redis-evicts")),
    ({"appendonly": "no"}, ("appendonly",)),
    ({"appendfsync": "no"}, ("appendfsync",)),
], ids=["allkeys-lru", "volatile-ttl", "AOF off", "appendfsync no"])
def test_redis_that_may_lose(options, parts, make_redis, make_daemon):
    redis = make_redis(**options)
    daemon = make_daemon(redis, start=False)
    daemon.migrate()
    ends(daemon, CONFIG_REFUSED, *parts)
    daemon.config["redis"] = {"url": redis.url, "durability": "none"}
    daemon.write_config()
    daemon.start()
    assert hit(daemon) == 1


TABLE = "CREATE TABLE product_views (store_id BIGINT NOT NULL, product_id BIGINT NOT NULL, views BIGINT NOT NULL," \
        " PRIMARY KEY (store_id, product_id))"
TERMS = "CREATE TABLE searches (store_id BIGINT NOT NULL, term VARBINARY(255) NOT NULL, searches BIGINT NOT NULL," \
        " PRIMARY KEY (store_id, term))"


@pytest.mark.fault("schema-missing")
@pytest.mark.parametrize("ddl,parts", [
    (None, ("product_views", "CREATE TABLE")),
    (TABLE.replace(", PRIMARY KEY (store_id, product_id)", ""), ("product_views", "unique key", "ALTER TABLE")),
    (TABLE.replace("(store_id, product_id)", "(store_id, product_id, views)"), ("product_views", "unique key", "ALTER TABLE")),
    (TABLE.replace("(store_id, product_id)", "(product_id)"), ("product_views", "PRIMARY", "another row")),
    (TABLE.replace("views BIGINT NOT NULL", "hits BIGINT NOT NULL"), ("product_views", "views", "hits")),
    (TABLE + " ENGINE=MyISAM", ("product_views", "MyISAM", "ALTER TABLE")),
    (TABLE.replace("views BIGINT NOT NULL", "views DECIMAL(20) NOT NULL"), ("product_views", "decimal")),
], ids=["missing", "no primary key", "a longer primary key", "another primary key", "no such column", "no transactions",
        "no integer"])
def test_table_refused(ddl, parts, make_daemon, redis, mysql):
    """The exact reason, and the DDL that mends it, where that changes nothing of the shop's; and the DDL does mend it."""
    daemon = make_daemon(redis, start=False).migrate()
    table = "searches" if ddl and "searches" in ddl else "product_views"
    mysql.query(f"DROP TABLE {table}")
    if ddl:
        mysql.query(ddl)
    text = ends(daemon, CONFIG_REFUSED, *parts)
    if "ALTER TABLE" in parts:
        mend = text[text.index("ALTER TABLE"):].splitlines()[0]
        mysql.query(mend.split(";")[0])
        done = daemon.verb("check")
        assert done.returncode == 0, mend + "\n" + done.stdout + done.stderr


def test_mysql_that_may_lose(template, workdir, make_daemon, redis):
    os.mkdir(f"{workdir}/sql")
    lax = MariaDB(f"{workdir}/sql", template, extra=["--innodb-flush-log-at-trx-commit=2"]).start()
    try:
        lax.fresh_database()
        daemon = make_daemon(redis, start=False, mysql=lax)
        daemon.migrate()
        ends(daemon, CONFIG_REFUSED, "innodb_flush_log_at_trx_commit")
        daemon.config["mysql"] = {"url": lax.url, "durability": "relaxed"}
        daemon.write_config()
        assert daemon.verb("check").returncode == 0
    finally:
        lax.close()


def test_mysql_away(make_daemon, redis, mysql):
    daemon = make_daemon(redis, start=False).migrate()
    mysql.kill9()
    for verb in ("check", "migrate", "verify"):
        done = daemon.verb(verb, timeout_s=60)
        assert done.returncode == UNAVAILABLE, verb + done.stdout + done.stderr
        assert mysql.socket in done.stderr


def test_no_right_to_create(make_daemon, redis, mysql):
    """A MySQL user that may not create tables: migrate says which right it lacks and how to give it."""
    mysql.fresh_user("weak@localhost", "hush-hush")
    mysql.query("GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO weak@localhost")
    daemon = make_daemon(redis, start=False, mysql_url=mysql.url.replace("root@", "weak@"))
    done = daemon.verb("migrate", "--tables", environment={"TALLYD_MYSQL_PASSWORD": "hush-hush"})
    assert done.returncode in (CONFIG_REFUSED, UNAVAILABLE)
    assert "CREATE" in done.stderr and "grant" in done.stderr and "weak" in done.stderr
    done = daemon.verb("check", environment={"TALLYD_MYSQL_PASSWORD": "wrong-one"})
    assert done.returncode in (CONFIG_REFUSED, UNAVAILABLE)
    assert "weak" in done.stderr and "wrong-one" not in done.stdout + done.stderr


def test_least_rights_are_enough(make_daemon, redis, mysql):
    """Migrated by another, tallyd itself needs SELECT, INSERT, UPDATE, DELETE; its password comes from a file."""
    mysql.fresh_user("least@localhost", "hush-hush")
    mysql.query("GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO least@localhost")
    daemon = make_daemon(redis, start=False).migrate()
    secret = os.path.join(daemon.directory, "password")
    with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as out:
        out.write("hush-hush\n")
    daemon.config["mysql"] = {"url": mysql.url.replace("root@", "least@"), "password_file": secret}
    daemon.write_config()
    daemon.start()
    hit(daemon)
    daemon.sync_all()
    daemon.verify()
    assert "hush-hush" not in daemon.log()


def test_port_in_use(make_daemon, redis, free_port):
    first = make_daemon(redis, instance="one", tcp_port=free_port)
    second = make_daemon(redis, start=False, instance="two", tcp_port=free_port)
    done = second.verb("run", timeout_s=60)
    assert done.returncode in (1, UNAVAILABLE, CONFIG_REFUSED)
    assert "in use" in done.stderr and str(free_port) in done.stderr
    assert hit(first) == 1


def test_socket_directory_missing(make_daemon, redis, workdir):
    daemon = make_daemon(redis, start=False).migrate()
    daemon.config["listen"] = {"resp": [f"unix://{workdir}/no/such/directory/tallyd.sock"]}
    daemon.write_config()
    done = daemon.verb("run", timeout_s=60)
    assert done.returncode in (1, UNAVAILABLE, CONFIG_REFUSED)
    assert f"{workdir}/no/such/directory" in done.stderr


def test_stale_socket_is_taken_over(make_daemon, redis):
    """A killed tallyd leaves its socket file; the next start takes it. One that a process listens on is left alone."""
    daemon = make_daemon(redis)
    daemon.kill9()
    assert os.path.exists(daemon.socket)
    daemon.start()
    assert isinstance(hit(daemon), int)


@pytest.mark.fault("same-instance")
def test_second_instance_of_one_name_refuses(make_daemon, redis, workdir, mysql):
    first = make_daemon(redis, instance="one")
    os.mkdir(f"{workdir}/second")
    second = Daemon(f"{workdir}/second", redis, mysql, instance="one")
    done = second.verb("run", timeout_s=60)
    assert done.returncode != 0 and "one" in done.stderr and "instance" in done.stderr, done.stderr
    assert hit(first) == 1
    first.sync_all()
    first.verify()


def test_same_name_right_after_a_kill(make_daemon, redis):
    """A killed daemon's name is free at once: no waiting for its sign of life to expire, which it never does here."""
    daemon = make_daemon(redis)
    for _ in range(3):
        wait_until(lambda: redis.client().exists("tally:instance:one"), 60, "a sign of life")
        daemon.kill9()
        redis.client().persist("tally:instance:one")
        daemon.start()
    assert "event=name_refused" not in daemon.log()


def test_two_instances_share_the_work(make_daemon, redis, mysql):
    first = make_daemon(redis, instance="one")
    second = make_daemon(redis, instance="two", migrate=False)
    for daemon in (first, second) * 5:
        with daemon.client() as client:
            client.pipeline([("HINCRBY", f"s{store}:product_views", "7", 1) for store in range(1, 201)])
    first.sync_all()
    second.sync_all()
    assert mysql.query("SELECT SUM(views), COUNT(*) FROM product_views") == ((2000, 200),)
    first.verify()


def test_one_instance_stands_still(make_daemon, redis, mysql):
    """SIGSTOP in the middle of its work: the other merges what it can; nothing twice when the first goes on."""
    first = make_daemon(redis, instance="one", families=counters(hits=1, every="1s"))
    second = make_daemon(redis, instance="two", migrate=False, families=counters(hits=1, every="1s"))
    with first.client() as client:
        client.pipeline([("HINCRBY", f"s{store}:product_views", "7", 1) for store in range(1, 501)])
    first.pause()
    with second.client() as client:
        client.pipeline([("HINCRBY", f"s{store}:product_views", "7", 1) for store in range(1, 501)])
    first.resume()
    second.sync_all()
    first.sync_all()
    assert mysql.query("SELECT SUM(views), COUNT(*) FROM product_views") == ((1000, 500),)
    first.verify()


def test_rows_that_mysql_refuses(make_daemon, redis, mysql):
    """A row over the column's range goes to tally_rejects, raw, in the same transaction; the rest is merged."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    hit(daemon)
    daemon.sync_all()
    mysql.query("INSERT INTO product_views VALUES (1, 9, 9223372036854775800)")
    with daemon.client() as client:
        assert client.pipeline([("HINCRBY", VIEWS, field, 100) for field in range(9, 60)]) == [100] * 51
    daemon.sync_all()
    assert mysql.query("SELECT pending_hash, field, delta FROM tally_rejects") == ((VIEWS.encode(), b"9", b"100"),)
    assert mysql.query("SELECT SUM(views) FROM product_views WHERE product_id <> 9") == ((1 + 5000,),)
    daemon.verify()


def test_client_gone_in_the_middle(daemon, redis):
    """A client that dies with hits under way: they are counted, no other client notices."""
    with daemon.client() as client:
        client.send(b"HINCRBY s1:product_views 7 1\r\n" * 1000)
    wait_until(lambda: redis.client().hget(VIEWS, "7") is not None, 60)
    with daemon.client() as client:
        try:
            assert isinstance(client.call("HINCRBY", VIEWS, "7", 1), int)
        except Closed as problem:
            raise AssertionError("another client was closed") from problem
    daemon.sync_all()
    daemon.verify()
