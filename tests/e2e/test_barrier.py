"""The barrier before a merge is the best that the server has: WAITAOF from Redis 8.0 on, else the timed one. What Redis 7.4
and Valkey say to WAITAOF is not true."""
from harness.daemon import counters


def test_by_what_the_server_has(make_redis, make_daemon, mysql):
    redis = make_redis(appendfsync="everysec")
    daemon = make_daemon(redis, families=counters(hits=10**9, every="3600s"))
    direct = redis.client()
    version = tuple(int(part) for part in direct.info("server")["redis_version"].split(".")[:2])
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "7", 3)
    daemon.sync_all()
    asked = direct.info("commandstats").get("cmdstat_waitaof", {"calls": 0, "rejected_calls": 0, "failed_calls": 0})
    assert (asked["calls"] > 0) == (version >= (8, 0))
    assert asked["rejected_calls"] + asked["failed_calls"] == 0
    assert mysql.query("SELECT views FROM product_views") == ((3,),)
    daemon.verify()
