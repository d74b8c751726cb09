"""Users: which may connect, what each may name and do, and that one store's user neither reads, adds to nor delays another's.

Wording is Redis' own: the same requests go to a redis-server with the same users."""
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness.daemon import TALLYD, counters
from harness.resp import Closed, Resp, RespError, encode
from harness.wait import patience, wait_until
from harness.web import Web

DAY = "20260214"
NOAUTH = "NOAUTH Authentication required."
WRONGPASS = "WRONGPASS invalid username-password pair or user is disabled."
NOPERM_KEY = "NOPERM this user has no permissions to access one of the keys used as arguments"
TOO_MANY = "ERR max number of clients reached"


def made_hash(password):
    done = subprocess.run([TALLYD, "hash"], input=password + "\n", stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hashes():
    return {name: made_hash(f"secret of {name}") for name in ("shop1", "shop2", "default", "ops")}


def user(hashes, name, **changes):
    keys = {"shop1": ["s1:*"], "shop2": ["s2:*"], "default": ["s9:*"], "ops": ["*"]}[name]
    made = {"password": hashes[name], "keys": keys}
    if name == "ops":
        made["commands"] = ["all"]
    return {**made, **changes}


@pytest.fixture
def shops(make_daemon, redis, hashes):
    """A tallyd with two stores' users, a default one and an operator."""
    def make(more=None, **changes):
        users = {name: user(hashes, name, **changes.get(name, {})) for name in hashes}
        daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"), more={"users": users, "uniques": {"days": 0}, **(more or {})})
        with daemon.operator() as operator:  # the first hits of their hashes, which are due at once
            for store in (1, 2, 3, 9):
                operator.call("HINCRBY", f"s{store}:product_views", "1", 1)
        daemon.sync_all()
        return daemon

    return make


def known(daemon, name, timeout_s=60):
    client = daemon.client(timeout_s)
    assert client.call("AUTH", name, f"secret of {name}") == "OK"
    return client


def redis_with_users(make_redis, *users):
    server = make_redis("acl", alone=True)
    client = server.client()
    for words in users:
        client.execute_command("ACL", "SETUSER", *words)
    client.execute_command("ACL", "SETUSER", "default", "resetpass", ">secret of default")
    return server


NEWER = {"HELLO <proto> AUTH": "HELLO AUTH",
         "NOPERM No permissions to access a key": "NOPERM this user has no permissions to access one of the keys used as arguments"}


def told(reply):
    """In the words of Redis 7.0, where a newer one has others."""
    for newer, known_as in NEWER.items() if isinstance(reply, str) else ():
        reply = reply.replace(newer, known_as)
    return reply


def test_a_stranger_is_told_as_by_redis(shops, make_redis):
    """The same bytes to a redis-server with the same users; what each answers is compared."""
    daemon = shops()
    real = redis_with_users(make_redis, ["shop1", "on", ">secret of shop1", "~s1:*", "+hincrby"])
    asked = [["PING"], ["AUTH", "shop1", "wrong"], ["AUTH", "nobody", "x"], ["AUTH", "wrong"], ["HELLO", "3"],
             ["HELLO", "3", "AUTH", "shop1", "wrong"], ["MULTI"], ["EXEC"], ["COMMAND"], ["SELECT", "0"], ["AUTH"],
             ["AUTH", "a", "b", "c"], ["NOSUCH"], ["HINCRBY", "s1:product_views", "7", "1"], ["HINCRBY"], ["ROLE"], ["ACL", "WHOAMI"]]
    unfit = (["NOSUCH"], ["HINCRBY"])  # Valkey 9 first asks who it is
    with daemon.client() as ours, Resp(real.socket) as theirs:
        for words in asked:
            mine, other = ours.call(*words), theirs.call(*words)
            assert mine == told(other) or (words in unfit and other.startswith("NOAUTH ")), words
    for rude in (b"*11\r\n", b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"):
        said = []
        for path in (daemon.socket, real.socket):
            with Resp(path) as client:
                client.send(rude)
                said.append(client.reply())
        assert said[0] == said[1] and "unauthenticated" in said[0]


def test_a_user_is_told_as_by_redis(shops, make_redis):
    daemon = shops(shop1={"commands": ["hincrby", "ping"]})
    real = redis_with_users(make_redis, ["shop1", "on", ">secret of shop1", "~s1:*", "+hincrby", "+multi", "+exec", "+ping",
                                         "+reset"])
    asked = [["HINCRBY", "s1:product_views", "7", "1"], ["HINCRBY", "s2:product_views", "7", "1"],
             ["HINCRBY", "s1", "7", "1"], ["PING"], ["MULTI"], ["HINCRBY", "s2:product_views", "7", "1"], ["EXEC"],
             ["MULTI"], ["HINCRBY", "s1:product_views", "7", "2"], ["EXEC"], ["RESET"], ["PING"],
             ["HINCRBY", "s1:product_views", "7", "1"]]
    with known(daemon, "shop1") as ours, Resp(real.socket) as theirs:
        assert theirs.call("AUTH", "shop1", "secret of shop1") == "OK"
        for words in asked:
            assert ours.call(*words) == told(theirs.call(*words)), words
    with known(daemon, "shop1") as ours:
        assert ours.call("CTR.TOTAL", "s1:product_views", "7") == \
            "NOPERM this user has no permissions to run the 'ctr.total' command"


def test_a_hit_without_the_right_is_told_as_refused(shops):
    daemon = shops()
    with known(daemon, "shop1") as client:
        assert client.call("HINCRBY", "s2:product_views", "7", 1) == NOPERM_KEY
        assert client.call("SERIES.INCRBY", "s2:views", 1) == NOPERM_KEY
        assert client.call("CTR.TOTAL", "s2:product_views", "7") == NOPERM_KEY  # no hit
        assert [client.call("MULTI"), client.call("HINCRBY", "s2:product_views", "7", 1)] == ["OK", NOPERM_KEY]
    twice, once = sorted((each["what"] for each in json.loads(daemon.verb("status", "--json").stdout)["problems"]), reverse=True)
    assert "hits are refused: 2 in the last minute" in twice and "NOPERM" in twice and "'s2:product_views'" in twice
    assert "hits are refused: 1 in the last minute" in once and "NOPERM" in once and "'s2:views'" in once
    assert "reason=noperm" in log_of(daemon)


def test_a_hit_without_a_password_is_told_as_refused(shops):
    daemon = shops()
    with daemon.client() as client:
        assert client.call("HINCRBY", "s2:product_views", "7", 1) == client.call("CTR.TOTAL", "s2:product_views", "7") == NOAUTH
    (problem,) = json.loads(daemon.verb("status", "--json").stdout)["problems"]
    assert "hits are refused: 1 in the last minute" in problem["what"] and "NOAUTH" in problem["what"] and "password" in problem["next"]
    assert "reason=noauth" in log_of(daemon)


def test_ways_to_say_who_one_is(shops):
    daemon = shops()
    with daemon.client() as client:
        assert client.call("AUTH", "secret of default") == "OK"  # AUTH password: the user default
        assert client.call("HINCRBY", "s9:product_views", "7", 1) == 1
        assert client.call("AUTH", "default", "wrong") == WRONGPASS
        assert client.call("HINCRBY", "s9:product_views", "7", 1) == 2  # as in Redis: it stays the same user
    with daemon.client() as client:
        answer = client.call("HELLO", "3", "AUTH", "shop1", "secret of shop1", "SETNAME", "till")
        assert answer[b"proto"] == 3
        assert client.call("CLIENT", "GETNAME") == b"till"
    with known(daemon, "shop1") as client:
        assert b"user=shop1 " in client.call("CLIENT", "INFO")
    with daemon.client() as client:  # in one go, hits behind an AUTH that takes its time
        client.send(encode("AUTH", "shop2", "secret of shop2") + encode("HINCRBY", "s2:product_views", "5", 1) * 50)
        assert [client.reply() for _ in range(51)] == ["OK", *range(1, 51)]


EVERYTHING = [
    ("HINCRBY", "{s}:product_views", "7", 1), ("CTR.HIT", "{s}:unique_visitors:daily"), ("CTR.INCRBY", "{s}:product_views", "7", 1),
    ("CTR.PENDING", "{s}:product_views"), ("CTR.TOTAL", "{s}:product_views", "7"), ("CTR.SYNC", "{s}:product_views"),
    ("SERIES.INCRBY", "{s}:views", 1), ("SERIES.GET", "{s}:views", 1), ("BOX.INCRBY", "{s}:views", 1),
    ("BOX.RECENT", "{s}:views", 0, 5), ("BOX.TOP", "{s}:views", 5), ("BOX.BOTTOM", "{s}:views", 5),
    ("EVENT.ADD", "{s}", "view"), ("EVENT.ADD", "{s}:sub", "view"), ("EVENT.RANGE", "{s}", "view", 0, 9999999999),
    ("EVENT.COUNT", "{s}", "view", 60, 5), ("UNIQ.ADD", "{s}:visitors", DAY, 7), ("UNIQ.COUNT", "{s}:visitors", DAY),
    ("HGET", "{s}:product_views", "7"), ("HMGET", "{s}:product_views", "7"), ("EXPIRE", "{s}:product_views", 60),
    ("PEXPIRE", "{s}:product_views", 60), ("EXPIREAT", "{s}:product_views", 60), ("PEXPIREAT", "{s}:product_views", 60),
    ("PERSIST", "{s}:product_views"), ("TTL", "{s}:product_views"), ("PTTL", "{s}:product_views"),
]


def filled(words, store):
    return [str(word).replace("{s}", store) for word in words]


def test_no_store_reads_or_adds_to_another(shops, redis):
    """Must show 6, the first half: every command there is, on the other store's names."""
    daemon = shops(shop1={"commands": ["all"]}, shop2={"commands": ["all"]})
    with known(daemon, "shop2") as owner:
        for words in EVERYTHING:
            answer = owner.call(*filled(words, "s2"))
            assert not isinstance(answer, RespError), (words, answer)
    daemon.sync_all()
    before = everything_of(redis, b"s2")
    with known(daemon, "shop1") as thief:
        for words in EVERYTHING:
            assert thief.call(*filled(words, "s2")) == NOPERM_KEY, words
            assert thief.call("MULTI") == "OK"
            refused = thief.call(*filled(words, "s2"))
            assert isinstance(refused, RespError), words
            assert thief.call("EXEC") == "EXECABORT Transaction discarded because of previous errors."
        # As many hits of its own before and behind: the way that takes many at once looks at each.
        mixed = [("HINCRBY", "s1:product_views", "7", 1)] * 20 + [("HINCRBY", "s2:product_views", "7", 1)] + \
                [("HINCRBY", "s1:product_views", "7", 1)] * 20
        assert thief.pipeline(mixed) == [*range(1, 21), NOPERM_KEY, *range(21, 41)]
        for words in (("CTR.SYNC", "ALL"), ("CTR.RECOVER",), ("CTR.RECOVER", "DRYRUN")):
            assert thief.call(*words) == NOPERM_KEY
        assert thief.call("SERIES.INCRBY", "s1:views", 1) > 0
        names = thief.call("SERIES.LIST")
        assert names and all(name.split(b":", 1)[1].startswith(b"s1:") for name in names)
    daemon.sync_all()
    assert everything_of(redis, b"s2") == before
    with daemon.operator() as operator:
        assert len(operator.call("SERIES.LIST")) > len(names)


def everything_of(redis, store):
    """All of a store's keys in Redis with what they hold."""
    client = redis.client()
    kept = {}
    for key in client.keys(b"*" + store + b"*"):
        kind = client.type(key)
        kept[key] = {b"hash": client.hgetall, b"zset": lambda k: client.zrange(k, 0, -1, withscores=True)}.get(
            kind, client.get)(key)
    return kept


def test_info_tells_a_store_no_figures(shops):
    daemon = shops()
    with known(daemon, "shop1") as shop, known(daemon, "ops") as ops:
        told = shop.call("INFO")
        assert b"redis_version:7" in told and b"loading:0" in told
        assert b"role:master" in told and b"cluster_enabled:0" in told  # GLIDE looks for them as the shop
        assert shop.call("INFO", "replication") == b"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
        for section in ("default", "everything"):
            told = shop.call("INFO", section)
            assert not any(name in told for name in (b"hits:", b"connected_clients", b"used_memory", b"cmdstat", b"total_"))
        assert shop.call("INFO", "memory") == b""
        assert b"hits:" in ops.call("INFO")

        def hincrbys():
            return int(ops.call("INFO", "commandstats").split(b"cmdstat_hincrby:calls=")[1].split(b",")[0])

        before = hincrbys()
        shop.pipeline([("HINCRBY", "s1:product_views", "7", 1)] * 100)
        assert hincrbys() == before + 100


def test_acl_whoami(shops):
    daemon = shops()
    with known(daemon, "shop1") as shop, daemon.operator() as inside:
        assert shop.call("ACL", "WHOAMI") == b"shop1"
        assert shop.call("AUTH", "secret of default") == "OK" and shop.call("ACL", "WHOAMI") == b"default"
        assert inside.call("ACL", "WHOAMI") == b"default"  # no user in particular
        assert shop.call("ACL", "LIST") == "ERR unknown subcommand 'LIST'. Try ACL HELP."
        assert shop.call("ACL", "HELP")[1].startswith("whoami - ")


def test_patterns(make_daemon, redis, hashes):
    keys = ["s[1-3]:product_views", "s\\?:product_views", "t?:*views"]
    daemon = make_daemon(redis, families=counters(product_views={"key": "s<store>:product_views", "store": "text"}),
                         more={"users": {"shop1": user(hashes, "shop1", keys=keys)}})
    with known(daemon, "shop1") as client:
        for key, may in (("s1:product_views", True), ("s3:product_views", True), ("s4:product_views", False),
                         ("s?:product_views", True), ("s1:product_views2", False), ("s12:product_views", False)):
            answer = client.call("HINCRBY", key, "7", 1)
            assert (answer == NOPERM_KEY) is not may, (key, answer)


def test_too_many_connections_of_a_user(shops):
    daemon = shops(shop1={"connections": 3})
    clients = [known(daemon, "shop1") for _ in range(3)]
    with daemon.client() as one_more:
        assert one_more.call("AUTH", "shop1", "secret of shop1") == TOO_MANY
        with pytest.raises(Closed):
            one_more.reply()
    known(daemon, "shop2").close()
    clients.pop().close()
    wait_until(lambda: admits(daemon, "shop1"), 60, "room for one more")


def admits(daemon, name):
    with daemon.client() as client:
        return client.call("AUTH", name, f"secret of {name}") == "OK"


def test_rate(shops, redis):
    """2,000 hits of a user with 1,000 a second take more than a second and lose nothing; another one is answered meanwhile."""
    daemon = shops(shop1={"rate": 1000})
    hits = encode("HINCRBY", "s1:product_views", "7", 1) * 2000
    with known(daemon, "shop1") as flood, known(daemon, "shop2") as quiet:
        began = time.monotonic()
        sender = threading.Thread(target=flood.send, args=(hits,), daemon=True)
        sender.start()
        for at in range(1, 11):
            assert quiet.call("HINCRBY", "s2:product_views", "7", 1) == at
        assert [flood.reply() for _ in range(2000)] == list(range(1, 2001))
        took_s = time.monotonic() - began
        sender.join(patience(30))
    assert took_s >= 1.7
    assert redis.client().hget("s1:product_views", "7") == b"2000"


def test_guessing_is_slow_and_right_ones_are_not(shops):
    """Wrong passwords are soon refused unchecked; a user who logged in lately still gets in, and so do others."""
    daemon = shops()
    known(daemon, "shop1").close()
    said = []
    for at in range(30):
        with daemon.client() as guesser:  # one for each: who does not log in for ten seconds is cut
            said.append(guesser.call("AUTH", "shop1", f"guess {at}"))
    assert said[:5] == [WRONGPASS] * 5
    assert "ERR too many wrong passwords from this address; wait some seconds (limits.failed_logins)" in said
    known(daemon, "shop1").close()  # known from before
    known(daemon, "shop2").close()  # another user's guesses are not this one's


def ticks_of(daemon, thread=None):
    """CPU time of all its threads, or of one."""
    path = f"/proc/{daemon.pid}/stat" if thread is None else f"/proc/{daemon.pid}/task/{thread}/stat"
    with open(path, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_flood_of_passwords_does_not_stand_in_the_way(shops):
    """They are proved beside the loop: its thread has next to nothing of the work."""
    daemon = shops()
    over = threading.Event()
    all_before, loop_before = ticks_of(daemon), ticks_of(daemon, daemon.pid)

    def guess(which):
        with daemon.client() as client:
            at = 0
            try:
                while not over.is_set():
                    client.call("AUTH", f"user{which}", f"guess {which} {at}")
                    at += 1
            except (Closed, ConnectionError):
                pass  # a stranger has little time

    with known(daemon, "shop1") as client:
        guessers = [threading.Thread(target=guess, args=(which,), daemon=True) for which in range(8)]
        for guesser in guessers:
            guesser.start()
        at = 0
        while at < 300 or ticks_of(daemon) - all_before <= 20 and at < 30_000:
            at += 1
            assert client.call("HINCRBY", "s1:product_views", "7", 1) == at
        over.set()
        for guesser in guessers:
            guesser.join(patience(30))
    worked, looped = ticks_of(daemon) - all_before, ticks_of(daemon, daemon.pid) - loop_before
    assert worked > 20 and looped < worked / 2, (worked, looped)


def test_strangers_have_little_time(shops):
    daemon = shops(more={"limits": {"auth_timeout": "1s"}})
    with known(daemon, "shop1") as client, daemon.client() as stranger:
        began = time.monotonic()
        with pytest.raises((Closed, ConnectionError)):
            stranger.reply()
        assert time.monotonic() - began > 0.5
        assert client.call("HINCRBY", "s1:product_views", "7", 1) == 1


def test_reload(shops, hashes):
    """No connection is dropped: an unchanged user goes on under the new rules, a changed one has to log in again."""
    daemon = shops()
    with known(daemon, "shop1") as kept, known(daemon, "shop2") as changed, known(daemon, "default") as removed:
        assert kept.call("MULTI") == "OK"
        assert kept.call("HINCRBY", "s1:product_views", "7", 1) == "QUEUED"
        users = daemon.config["users"]
        users["shop1"]["keys"] = ["s1:product_views", "s3:*"]
        users["shop2"]["password"] = made_hash("another")
        del users["default"]
        daemon.write_config()
        os.kill(daemon.pid, signal.SIGHUP)
        wait_until(lambda: changed.call("PING") == NOAUTH, 60, "the reload")
        assert kept.call("EXEC") == "EXECABORT Transaction discarded because of previous errors."
        assert kept.call("HINCRBY", "s3:product_views", "7", 1) == 1
        assert kept.call("HINCRBY", "s1:unique_visitors:daily", DAY, 1) == NOPERM_KEY
        assert changed.call("AUTH", "shop2", "secret of shop2") == WRONGPASS
        assert changed.call("AUTH", "shop2", "another") == "OK"
        assert removed.call("PING") == NOAUTH
        assert removed.call("AUTH", "secret of default") == WRONGPASS
        users["shop1"]["password"] = "$1$abc$def"
        daemon.write_config()
        os.kill(daemon.pid, signal.SIGHUP)
        wait_until(lambda: "event=reload error=" in log_of(daemon), 60, "the refused reload")
        assert kept.call("HINCRBY", "s3:product_views", "7", 1) == 2
    assert "$1$abc" not in log_of(daemon)


def log_of(daemon):
    with open(daemon.log_path, encoding="utf-8", errors="replace") as log:
        return log.read()


def test_verbs_and_the_operators_socket(shops):
    daemon = shops()
    assert os.stat(daemon.control).st_mode & 0o777 == 0o600
    with known(daemon, "shop1") as client:
        assert client.call("HINCRBY", "s1:product_views", "7", 3) == 3
    done = daemon.verb("status")
    assert done.returncode == 0, done.stdout + done.stderr
    done = daemon.verb("recover")
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_warns_of_the_door_beside_users(shops, workdir):
    """The panel asks no client on this machine for a token, not even a store's user: on TCP that is everybody, unless http.local
    says otherwise. And verbs need a socket of their own."""
    daemon = shops()
    daemon.write_config()
    assert "no listen.control" not in daemon.verb("check").stdout
    del daemon.config["listen"]["control"]
    tokens = os.path.join(workdir, "tokens")
    with open(os.open(tokens, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as out:
        out.write("me 0123456789abcdef0123456789abcdef\n")
    for http, local, warned in ((f"unix://{workdir}/h.sock", "open", False), ("tcp://127.0.0.1:7371", "open", True),
                                ("tcp://127.0.0.1:7371", "token", False)):
        daemon.config["listen"]["http"] = http
        daemon.config["http"] = {"local": local, "tokens": tokens}
        daemon.write_config()
        done = daemon.verb("check")
        assert done.returncode == 0, done.stderr
        assert ("can read all stores at listen.http" in done.stdout) is warned
        assert "there are users, and no listen.control" in done.stdout
    assert "all stores feed the same one" not in done.stdout
    daemon.config["counters"]["product_views"]["feeds"] = {"box": "boxed"}
    daemon.write_config()
    assert "counters.product_views.feeds.box has no <store>: all stores feed the same one" in daemon.verb("check").stdout


def test_secrets_are_nowhere(shops, hashes):
    """Neither passwords nor hashes in logs, errors, command line or environment."""
    daemon = shops(more={"log": {"level": "debug"}})
    with daemon.client() as client:
        client.call("AUTH", "shop1", "secret of shop1")
        client.call("AUTH", "shop1", "not the secret of shop1")
        client.call("HELLO", "3", "AUTH", "shop1", "secret of shop1", "OOPS")
        client.call("CLIENT", "INFO")
    daemon.verb("check"), daemon.verb("status")
    seen = log_of(daemon)
    for name in ("cmdline", "environ"):
        with open(f"/proc/{daemon.pid}/{name}", "rb") as file:
            seen += file.read().decode(errors="replace")
    daemon.config["users"]["shop1"]["commands"] = ["nosuch"]
    daemon.write_config()
    done = daemon.verb("check")
    assert done.returncode == 78 and "nosuch" in done.stdout + done.stderr
    daemon.config["users"]["shop1"]["password"] = "secret of shop1"
    daemon.write_config()
    wrong = daemon.verb("check")
    assert wrong.returncode == 78
    seen += done.stdout + done.stderr + wrong.stdout + wrong.stderr
    assert "secret of" not in seen
    for made in hashes.values():
        assert made not in seen and made.rsplit("$", 1)[1] not in seen


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


@pytest.mark.skipif(os.getuid() != 0, reason="only root is warned")
def test_root_is_warned(make_daemon, redis):
    assert log_of(make_daemon(redis)).count("event=runs_as_root") == 1


def test_no_core(shops):
    """Neither a crash nor another process of that user gets at the memory, where passwords are."""
    daemon = shops()
    with open(f"/proc/{daemon.pid}/limits", encoding="ascii") as file:
        core = next(line for line in file if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]
    # root without its rights: as any other user it may look into processes of its own that let it
    confined = ["setpriv", "--bounding-set=-all"] if os.getuid() == 0 else []
    daemon.kill9()
    daemon.argv = lambda: [*confined, TALLYD, "run", "-c", daemon.config_path]
    daemon.start()
    peer = subprocess.Popen([*confined, "sleep", "600"])
    try:
        wait_until(lambda: may_look(confined, peer.pid), 60, "a process of the same user lets others look")
        assert not may_look(confined, daemon.pid)
    finally:
        peer.kill()
        peer.wait()


def may_look(confined, pid):
    return subprocess.run([*confined, "cat", f"/proc/{pid}/environ"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False).returncode == 0


def test_http_tokens_are_read_again(make_daemon, redis, workdir):
    path = os.path.join(workdir, "tokens")

    def tokens(text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o600)

    tokens("one aaaaaaaaaaaaaaaaaaaaaaaa\n")
    http = os.path.join(workdir, "http.sock")
    daemon = make_daemon(redis, start=False)
    daemon.config["listen"]["http"] = f"unix://{http}"
    daemon.config["http"] = {"tokens": path}
    daemon.write_config()
    daemon.migrate().start()
    assert asked_with(http, "a" * 24) == 200 and asked_with(http, "b" * 24) == 401
    tokens("two bbbbbbbbbbbbbbbbbbbbbbbb 12\n")
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: asked_with(http, "b" * 24) != 401, 60, "the new token")
    assert asked_with(http, "a" * 24) == 401


def test_tokens_move_at_a_reload(make_daemon, redis, workdir):
    """A reload takes tokens away and moves them to other stores."""
    path, http = os.path.join(workdir, "tokens"), os.path.join(workdir, "http.sock")
    write_tokens(path, {"gone": "", "moved": "12", "bound": "", "freed": "12", "stays": "12", "old-name": ""})
    daemon = make_daemon(redis, start=False)
    daemon.config["listen"]["http"] = f"unix://{http}"
    daemon.config["http"] = {"tokens": path}
    daemon.write_config()
    daemon.migrate().start()

    def told(name):
        """Is it known; has it the figures of the service; may it see store 12?"""
        answer = Web(http, name[0] * 24).ask("/api/pulse?store=12")
        if answer.status != 200:
            return answer.status
        return "all" if "hits" in answer.json() else "12"

    names = ("gone", "moved", "bound", "freed", "stays", "old-name")
    assert [told(name) for name in names] == ["all", "12", "all", "12", "12", "all"]
    write_tokens(path, {"moved": "13", "bound": "12", "freed": "", "stays": "12", "other-name": ""})
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: told("gone") == 401, 60, "the reload")
    assert [told(name) for name in names] == [401, 403, "12", "all", "12", "all"]


def write_tokens(path, stores):
    """name -> store; the token is the name's first letter, many times."""
    with open(path, "w", encoding="ascii") as file:
        for name, store in stores.items():
            file.write(f"{name} {name[0] * 24} {store}\n")
    os.chmod(path, 0o600)


def asked_with(path, token):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(f"GET /api/counters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       f"Authorization: Bearer {token}\r\n\r\n".encode())
        return int(client.makefile("rb").readline().split()[1])


def test_ten_thousand_clients_of_users(shops, hashes):
    """With the limits' defaults: 10,000 connections of two users, each of which counts; the next one is told."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10200:
        pytest.skip("this machine gives a process too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    daemon = shops(shop1={"connections": 9000}, shop2={"connections": 9000})
    clients = []
    try:
        for at in range(10000):
            name = "shop1" if at % 2 else "shop2"
            client = daemon.client()
            client.send(encode("AUTH", name, f"secret of {name}"))
            clients.append(client)
            if at % 200 == 199:  # a unix socket's backlog is 511
                assert [client.reply() for client in clients[-200:]] == ["OK"] * 200
        for at, client in enumerate(clients):
            client.send(encode("HINCRBY", f"s{1 if at % 2 else 2}:product_views", "7", 1))
        assert sorted(client.reply() for client in clients) == sorted([*range(1, 5001)] * 2)
        with daemon.client() as one_more:
            assert one_more.reply() == TOO_MANY
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
