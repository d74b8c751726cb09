"""A host that sleeps: its monotonic clock is stopped meanwhile, and MySQL's ledger is pruned by another."""
from harness.daemon import counters

FAMILIES = counters(hits=1, every="1s")
KEY = "s1:product_views"


def test_a_run_that_slept_knows_its_age(make_clock, make_redis, make_daemon, mysql):
    """A batch that waits for a row's lock in MySQL while its host sleeps for longer than a third of ledger.keep."""
    clock = make_clock().flow()
    daemon = make_daemon(make_redis(clock=clock), families=FAMILIES, more={"ledger": {"keep": "1h"}}, clock=clock)
    with daemon.client() as client:
        assert client.call("HINCRBY", KEY, "7", "1") == 1
        daemon.sync_all()
        with mysql.connect() as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT * FROM product_views FOR UPDATE")
            assert cursor.fetchall() == ((1, 7, 1),)
            client.call("HINCRBY", KEY, "7", "4")
            daemon.log_contains("event=chunk_retry")
            clock.sleep(1800)
            daemon.log_contains("event=run_given_up", 60)
            other.rollback()
    clock.step(61)  # the batch got no sign of life: it is taken over
    daemon.sync_all()
    assert mysql.query("SELECT views FROM product_views") == ((5,),)
    daemon.verify()
