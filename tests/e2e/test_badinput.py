"""What bad input gets: one error line that names the key or value, nothing counted, the connection stays."""
import pytest

from harness.daemon import counters
from harness.resp import RespError, encode
from harness.wait import wait_until

VISITS, VIEWS, TERMS = "s1:unique_visitors:daily", "s1:product_views", "s1:searches"
REFUSED = [
    # words, what the one line must have
    (("HINCRBY", "nobody:knows", "1", "1"), "nobody:knows"),
    (("HINCRBY", "s1:unique_visitors", "20140920", "1"), "s1:unique_visitors"),
    (("HINCRBY", "sx:product_views", "1", "1"), "sx:product_views"),
    (("HINCRBY", "s01:product_views", "1", "1"), "s01:product_views"),
    (("HINCRBY", "s1:unique_visitors:sync", "20140920", "1"), "s1:unique_visitors:sync"),
    (("HINCRBY", "tally:accepted", "unique_visitors", "1"), "tally:accepted"),
    (("HINCRBY", VIEWS + "_" + "0123456789abcdef" * 2, "1", "1"), VIEWS),
    (("HINCRBY", VISITS, "2014092", "1"), "2014092"),
    (("HINCRBY", VISITS, "20140931", "1"), "20140931"),
    (("HINCRBY", VISITS, "20150229", "1"), "20150229"),
    (("HINCRBY", VISITS, "today", "1"), "today"),
    (("HINCRBY", VIEWS, "4a", "1"), "4a"),
    (("HINCRBY", VIEWS, "007", "1"), "007"),
    (("HINCRBY", VIEWS, "9223372036854775808", "1"), "9223372036854775808"),
    (("HINCRBY", VIEWS, "", "1"), ""),
    (("HINCRBY", TERMS, "", "1"), ""),
    (("HINCRBY", TERMS, "x" * 256, "1"), "xxxx"),
    (("HINCRBY", VIEWS, "1", "one"), "value is not an integer or out of range"),
    (("HINCRBY", VIEWS, "1", ""), "value is not an integer or out of range"),
    (("HINCRBY", VIEWS, "1", "1.5"), "value is not an integer or out of range"),
    (("HINCRBY", VIEWS, "1", "9223372036854775808"), "value is not an integer or out of range"),
    (("HINCRBY", VIEWS, "1", str(10**12 + 1)), "at most 1000000000000 either way (limits.hit)"),
    (("HINCRBY", VIEWS, "1", str(-10**12 - 1)), "-1000000000001"),
    (("HINCRBY", "evil\r\nkey" + "z" * 2000, "1", "1"), "evil"),
    (("HINCRBY", VISITS, "evil\r\n+OK", "1"), "evil"),
    (("CTR.INCRBY", "nobody:knows", "1", "1"), "nobody:knows"),
    (("CTR.PENDING", "nobody:knows"), "nobody:knows"),
    (("CTR.SYNC", "nobody:knows"), "nobody:knows"),
    (("CTR.RECOVER", "WHATEVER"), ""),
    (("SET", "a", "b"), "SET"),
    (("FLUSHALL",), "FLUSHALL"),
    (("SELECT", "1"), ""),
]


def all_counts(redis):
    return {key: redis.hgetall(key) for key in redis.scan_iter() if not key.startswith(b"tally:")
            and redis.type(key) == b"hash"}


@pytest.mark.parametrize("words,part", REFUSED, ids=[" ".join(words)[:40].strip() for words, _ in REFUSED])
def test_refused(words, part, make_daemon, redis):
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.send(encode(*words) + encode("ECHO", "still here"))
        raw = client.line()
        assert raw.startswith(b"-") and len(raw) < 1024
        assert b"\r" not in raw and b"\n" not in raw
        assert part.encode() in raw
        assert client.reply() == b"still here"  # one line only, and the connection stays
    assert all_counts(redis.client()) == {}
    assert not redis.client().exists("tally:accepted")
    daemon.verify()


def test_every_kind_of_field_is_taken(make_daemon, redis, mysql):
    families = counters(hits=10**9, every="3600s")
    families["hourly"] = {"key": "h<store>:hourly", "field": "hour", "store": "text", "sync": {"hits": 5, "every": "60s"},
                          "table": "hourly", "columns": {"store": "shop", "field": "hour", "count": "hits"}}
    daemon = make_daemon(redis, families=families, more={"limits": {"hit": 2**53}})
    good = [(VISITS, "20160229", 2**53), (VIEWS, "-9223372036854775808", -2**53), (VIEWS, "0", 1),
            (TERMS, "x" * 255, 1), (TERMS, "A", 1), (TERMS, "a", 2), (TERMS, "a ", 3), (TERMS, "á", 4),
            (TERMS, "\0\r\n'\"\\", 5), ("hmy-shop.example:hourly", "2014092023", 1)]
    with daemon.client() as client:
        assert client.pipeline([("HINCRBY", key, field.encode(), n) for key, field, n in good]) == \
            [n for _, _, n in good]
    daemon.sync_all()
    rows = dict(mysql.query("SELECT term, searches FROM searches WHERE store_id = 1"))
    rows = {term if isinstance(term, bytes) else term.encode(): count for term, count in rows.items()}
    assert rows == {field.encode(): n for key, field, n in good if key == TERMS}
    assert mysql.query("SELECT views FROM product_views WHERE product_id = -9223372036854775808") == ((-2**53,),)
    assert mysql.query("SELECT hits FROM hourly WHERE shop = 'my-shop.example'") == ((1,),)
    daemon.verify()


@pytest.mark.fault("cell-wrongtype", "cell-overflow", "cell-not-integer")
def test_redis_errors_of_one_cell(make_daemon, redis, mysql):
    """Overflow, WRONGTYPE and a value that is no integer fail only the clients of that field, with Redis' words; the
    books take that share back."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    direct = redis.client()
    with daemon.client() as client:
        for store in (1, 2, 3):
            client.call("HINCRBY", f"s{store}:product_views", "1", 1)
        daemon.sync_all()
        direct.hset("s1:product_views", mapping={"10": 2**63 - 10, "11": "abc"})
        direct.set("s2:product_views", "no hash")
        replies = client.pipeline([
            ("HINCRBY", "s1:product_views", "10", 100), ("HINCRBY", "s1:product_views", "11", 1),
            ("HINCRBY", "s2:product_views", "1", 1), ("HINCRBY", "s1:product_views", "12", 5),
            ("HINCRBY", "s3:product_views", "1", 7)])
        assert replies[:3] == ["ERR increment or decrement would overflow", "ERR hash value is not an integer",
                               "WRONGTYPE Operation against a key holding the wrong kind of value"]
        assert all(isinstance(reply, RespError) for reply in replies[:3])
        assert replies[3:] == [5, 7]
        assert direct.hget("s1:product_views", "10") == b"%d" % (2**63 - 10)
        direct.hdel("s1:product_views", "10", "11")
        direct.delete("s2:product_views")
        # the next frame takes the refused shares back from tally:accepted
        assert client.call("HINCRBY", "s3:product_views", "1", 1) == 8
    wait_until(lambda: int(direct.hget("tally:accepted", "product_views")) == 3 + 5 + 8, 60, "accepted is right again")
    daemon.sync_all()
    assert mysql.query("SELECT store_id, SUM(views) FROM product_views GROUP BY store_id ORDER BY 1") == \
        ((1, 6), (2, 1), (3, 9))
    daemon.verify()


@pytest.mark.fault("malformed-resp")
def test_oversize_is_refused_before_it_is_sent(make_daemon, redis):
    """A claimed length or count allocates nothing; Redis' own words, that connection closed, no other client notices."""
    daemon = make_daemon(redis)
    before = daemon.rss_kib()
    with daemon.client() as steady:
        for data, words in ((b"*4\r\n$7\r\nHINCRBY\r\n$536870912\r\n", b"invalid bulk length"),
                            (b"*1000000000\r\n$4\r\nPING\r\n", b"invalid multibulk length")):
            with daemon.client() as broken:
                broken.send(data)
                assert broken.until_closed() == b"-ERR Protocol error: " + words + b"\r\n"
            assert steady.call("PING") == "PONG"
        assert daemon.rss_kib() - before < 4 * 1024


def test_sync_is_refused_in_multi(make_daemon, redis):
    daemon = make_daemon(redis)
    with daemon.client() as client:
        assert client.call("MULTI") == "OK"
        assert isinstance(client.call("CTR.SYNC", "ALL"), RespError)
        assert client.call("EXEC").startswith("EXECABORT")
        assert client.call("PING") == "PONG"


def test_multi_is_whole_or_refused(make_daemon, redis):
    """A field that is refused at the queue aborts the whole transaction: nothing of it is counted."""
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        replies = client.pipeline([("MULTI",), ("HINCRBY", VIEWS, "1", 5), ("HINCRBY", VIEWS, "x", 5), ("EXEC",)])
        assert replies[:2] == ["OK", "QUEUED"] and isinstance(replies[2], RespError)
        assert replies[3].startswith("EXECABORT")
    assert all_counts(redis.client()) == {}


def test_pending(make_daemon, redis):
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    with daemon.client() as client:
        client.call("HINCRBY", VIEWS, "1", 1)
        daemon.sync_all()
        assert client.call("CTR.PENDING", VIEWS) == []
        assert client.pipeline([("CTR.INCRBY", VIEWS, "3", 4), ("CTR.INCRBY", VIEWS, "3", 4)]) == [4, 8]
        assert client.call("CTR.PENDING", VIEWS) == [b"3", b"8"]
