"""CTR.INCRBY ... TOKEN id: a message counts once, however often it is sent, over cut links, kills and to other daemons."""
import random
import threading
from collections import Counter, deque

import pytest

from harness.books import counted
from harness.daemon import counters
from harness.resp import Closed, Resp, RespError, encode
from harness.shadow import Shadow
from harness.storm import answers_lost, cut, redis_killed, requests_lost, tallyd_killed
from harness.wait import patience, wait_until

VIEWS = "s1:product_views"
CALM = counters(hits=10**9, every="3600s")
OTHER = "ERR this token came with another increment before: key, field or n differ; nothing was counted"


class Senders:
    """Threads that take messages from one queue, and send them in pipelines, each time to another of the addresses. With
    tokens a message whose answer was lost goes back into the queue; without, its outcome is unknown: shadow.unknown."""

    def __init__(self, addresses, tokens, seed, clients=6, depth=12):
        self.addresses, self.tokens, self.depth = addresses, tokens, depth
        self.queue, self.lock = deque(), threading.Lock()
        self.shadow, self.heard, self.again = Shadow(), {}, 0
        self.under_way, self.ending = 0, False
        self.threads = [threading.Thread(target=self.work, args=(random.Random(seed * 100 + at),), daemon=True)
                        for at in range(clients)]
        for thread in self.threads:
            thread.start()

    def work(self, rng):
        while not self.ending:
            with self.lock:
                taken = [self.queue.popleft() for _ in range(min(self.depth, len(self.queue)))]
                self.under_way += len(taken)
            if taken:
                self.settle(taken, self.send(rng.choice(self.addresses), taken))
            else:
                threading.Event().wait(0.005)

    def send(self, address, messages):
        """As many replies as came."""
        replies = []
        try:
            with Resp(address, timeout_s=30) as link:
                link.send(b"".join(encode("CTR.INCRBY", *m[1:], *(("TOKEN", m[0]) if self.tokens else ()))
                                   for m in messages))
                for _ in messages:
                    replies.append(link.reply())
        except (Closed, OSError):
            pass
        return replies

    def settle(self, messages, replies):
        if not self.tokens:
            self.shadow.settle([(key.encode(), field.encode(), n) for _, key, field, n in messages], replies)
        with self.lock:
            self.under_way -= len(messages)
            for at, message in enumerate(messages):
                reply = replies[at] if at < len(replies) else None
                if isinstance(reply, int):
                    self.heard.setdefault(message[0], set()).add(reply)
                elif self.tokens:
                    assert "token" not in (reply or ""), reply
                    self.again += 1
                    self.queue.append(message)

    def answered(self):
        with self.lock:
            return len(self.heard)

    def idle(self):
        with self.lock:
            return not self.queue and self.under_way == 0

    def wait_idle(self):
        wait_until(self.idle, 120, "every message is answered, or known to be lost")

    def stop(self):
        self.ending = True
        for thread in self.threads:
            thread.join(patience(60))


def messages_of(rng, n):
    return [(f"order-{rng.getrandbits(64):016x}", *rng.choice((
        ("s1:product_views", str(rng.randrange(40))), (f"s{rng.randrange(1, 9)}:unique_visitors:daily", "20140920"),
        ("s2:searches", "red shoes"))), rng.choice((1, 1, 3))) for _ in range(n)]


def blown(make_redis, make_daemon, make_proxy, make_way, mysql, tokens, seed):
    """Each message one to three times, shuffled, through proxies that cut, to two daemons, all of which are killed."""
    rng = random.Random(seed)
    redis = make_redis(appendfsync="always", in_memory=True)
    to_redis, url = make_way(redis)
    families = counters(hits=50, every="2s")
    daemons = [make_daemon(redis, instance=name, families=families, redis_url=url) for name in ("one", "two")]
    to_clients = [make_proxy(daemon.socket) for daemon in daemons]
    senders = Senders([proxy.path for proxy in to_clients], tokens, seed)
    sent = []
    blows = [(cut, to_redis), (answers_lost, to_redis), (requests_lost, to_redis), (cut, to_clients[0]),
             (answers_lost, to_clients[1]), (requests_lost, to_clients[0]), (tallyd_killed, None), (redis_killed, None)]
    rng.shuffle(blows)
    try:
        for blow, proxy in blows:
            portion = messages_of(rng, 500)
            sent += portion
            copies = [message for message in portion for _ in range(rng.randint(1, 3))]
            rng.shuffle(copies)
            heard = senders.answered()
            with senders.lock:
                senders.queue.extend(copies)
            # Without tokens nothing is sent again: what the blow before made of the links may have cost all but a few.
            wait_until(lambda: senders.answered() > heard + 30 or senders.idle(), 60, f"answers, before {blow.__name__}")
            blow(rng, rng.choice(daemons), redis, proxy)
            senders.wait_idle()
    finally:
        senders.stop()
    for daemon in daemons:
        daemon.sync_all()
    for daemon in daemons:
        daemon.pause()
    everything = counted(redis.client(), mysql, families)
    for daemon in daemons:
        daemon.resume()
    daemons[0].verify()
    return senders, sent, everything


@pytest.mark.parametrize("seed", [1, 2])
def test_with_tokens_the_total_is_that_of_the_messages(seed, make_redis, make_daemon, make_proxy, make_way, mysql):
    senders, sent, everything = blown(make_redis, make_daemon, make_proxy, make_way, mysql, True, seed)
    total = Counter()
    for _, key, field, n in sent:
        total[key.encode(), field.encode()] += n
    assert {name: n for name, n in everything.items() if n} == dict(total)
    assert senders.again > 20  # answers were lost, and asked for again
    told = [values for values in senders.heard.values() if len(values) > 1]
    assert len(senders.heard) == len(sent) and not told  # all copies of a message heard the same


def test_without_tokens_the_bound_of_the_unacknowledged_holds(make_redis, make_daemon, make_proxy, make_way, mysql):
    senders, _, everything = blown(make_redis, make_daemon, make_proxy, make_way, mysql, False, 3)
    senders.shadow.check(everything)
    assert sum(senders.shadow.unknown.values()) > 0


@pytest.fixture
def calm(make_daemon, redis):
    """Nothing is merged but the first hits of a hash."""
    return make_daemon(redis, families=CALM)


def test_an_answer_that_was_lost_is_read_back(make_redis, make_daemon, make_proxy):
    redis = make_redis(appendfsync="always")
    proxy = make_proxy(redis.socket)
    daemon = make_daemon(redis, families=CALM, redis_url=f"unix://{proxy.path}?db=0")
    with daemon.client() as client:
        first = client.call("CTR.INCRBY", VIEWS, "7", 5, "TOKEN", "a")
        daemon.sync_all()
        assert first == 5
        proxy.swallow_replies()
        client.send(encode("CTR.INCRBY", VIEWS, "7", 2, "TOKEN", "b"))
        wait_until(lambda: redis.client().exists("tally:token:1:b"), 60, "it was counted")
        told = int(redis.client().get("tally:token:1:b").split(b":")[1])
        redis.client().hincrby(VIEWS, "7", 100)  # a read of the field now gets this
        proxy.cut()
        assert client.reply() == told
        assert client.call("CTR.INCRBY", VIEWS, "7", 2, "TOKEN", "b") == told


def test_given_up_and_sent_again_to_another_daemon(make_redis, make_daemon, make_proxy, mysql):
    """"Outcome unknown" is no loss any more: the same token, sent to any tallyd there, counts it if nothing did."""
    redis = make_redis(appendfsync="always")
    proxies = [make_proxy(redis.socket) for _ in range(2)]
    cut_off = [make_daemon(redis, instance=name, families=CALM, redis_url=f"unix://{proxy.path}?db=0")
               for name, proxy in zip(("one", "two"), proxies)]
    well = make_daemon(redis, instance="well", families=CALM)
    clients, words = [daemon.client() for daemon in cut_off], ("CTR.INCRBY", VIEWS, "7", 3, "TOKEN")
    proxies[0].swallow_replies()
    proxies[1].stall("up")
    for client, token in zip(clients, ("counted", "not-counted")):
        client.send(encode(*words, token))
    wait_until(lambda: redis.client().exists("tally:token:1:counted"), 60, "it was counted")
    for proxy in proxies:
        proxy.refuse()
        proxy.flow()
    with well.client() as other:
        for client, token, known in zip(clients, ("counted", "not-counted"), (1, 0)):
            assert "outcome unknown" in client.reply()
            assert redis.client().exists(f"tally:token:1:{token}") == known
            assert isinstance(other.call(*words, token), int)
    for daemon, client, proxy, token in zip(cut_off, clients, proxies, ("counted", "not-counted")):
        proxy.refuse(False)
        wait_until(lambda: isinstance(client.call(*words, token), int), 30, f"{daemon.name} is back")
        client.close()
    well.sync_all()
    assert mysql.query("SELECT SUM(views) FROM product_views") == ((6,),)
    well.verify()


def test_scope_payload_and_refusals(calm, redis):
    with calm.client() as client:
        assert client.call("CTR.INCRBY", VIEWS, "7", 5, "TOKEN", "x") == 5
        assert client.call("ctr.incrby", VIEWS, "7", 5, "token", "x") == 5
        assert client.call("CTR.INCRBY", "s2:product_views", "7", 9, "TOKEN", "x") == 9  # another store's
        for other in ((VIEWS, "8", 5), (VIEWS, "7", 6), ("s1:unique_visitors:daily", "20140920", 5)):
            assert client.call("CTR.INCRBY", *other, "TOKEN", "x") == OTHER
        assert client.call("CTR.INCRBY", VIEWS, "7", 5, "TOKEN", "a b").startswith("ERR a TOKEN is 1 to 128 printable")
        assert client.call("CTR.INCRBY", VIEWS, "7", 5, "TOKEN") == "ERR syntax error"
        redis.client().set("s3:product_views", "not a hash")
        for _ in range(2):
            assert client.call("CTR.INCRBY", "s3:product_views", "7", 1, "TOKEN", "y").startswith("WRONGTYPE")
        redis.client().delete("s3:product_views")
        assert client.call("CTR.INCRBY", "s3:product_views", "7", 1, "TOKEN", "y") == 1
        info = client.call("INFO", "stats").decode()
    assert "\r\ntokens:3\r\n" in info and "\r\ntokens_known:1\r\n" in info and "\r\ntokens_standing:3\r\n" in info
    assert 86000 < redis.client().ttl("tally:token:1:x") <= 86400
    calm.sync_all()
    calm.verify()


def test_in_a_transaction(calm, mysql):
    with calm.client() as client:
        for _ in range(2):
            told = client.pipeline([("MULTI",), ("CTR.INCRBY", VIEWS, "7", 5, "TOKEN", "x"), ("HINCRBY", VIEWS, "8", 1),
                                    ("CTR.INCRBY", VIEWS, "7", 2, "TOKEN", "y"), ("EXEC",)])[-1]
            assert told[0] == 5 and told[2] == 7
    calm.sync_all()
    assert mysql.query("SELECT product_id, views FROM product_views ORDER BY 1") == ((7, 7), (8, 2))


def test_a_counter_with_feeds_takes_none(make_daemon, redis):
    families = counters(hits=10**9, product_views={"feeds": {"series": "s<store>:views"}})
    with make_daemon(redis, families=families).client() as client:
        reply = client.call("CTR.INCRBY", VIEWS, "7", 5, "TOKEN", "x")
        assert reply.startswith("ERR counter 'product_views' feeds other counts")
        assert client.call("CTR.INCRBY", "s1:searches", "shoes", 5, "TOKEN", "x") == 5
        assert client.call("CTR.INCRBY", VIEWS, "7", 5) == 5


def test_so_many_stand_and_no_more(make_still):
    still = make_still({"tokens": {"keep": "2h", "max": 100}}, families=CALM)
    still.begin_at(0, 600)
    with still.daemon.client() as client:
        replies = client.pipeline([("CTR.INCRBY", VIEWS, "7", 1, "TOKEN", f"t{n}") for n in range(150)])
        assert [reply for reply in replies[:100] if isinstance(reply, RespError)] == []
        assert set(replies[100:]) == {"OOM 100 tokens are in Redis (tokens.max); nothing was counted"}
        assert client.call("CTR.INCRBY", VIEWS, "7", 1, "TOKEN", "t5") == replies[5]
        assert isinstance(client.call("CTR.INCRBY", VIEWS, "7", 1), int)  # the others go on
        still.step(2 * 3600)
        assert client.call("CTR.INCRBY", VIEWS, "7", 1, "TOKEN", "later").startswith("OOM")  # counted in steps of 10 min
        still.step(600)
        assert isinstance(client.call("CTR.INCRBY", VIEWS, "7", 1, "TOKEN", "later"), int)
        assert still.direct.keys("tally:token:*") == [b"tally:token:1:later"]
    still.daemon.verify()
