"""Clients of compiled languages, built and run by tests/compat/clients.sh; else as test_clients.py. Not in the normal run."""
import os

import pytest
from harness.unmodified import at, run, assert_same_as_redis

BUILT = os.environ["BUILT_CLIENTS"]


@pytest.mark.parametrize("name", ["redigo", "go_redis", "hedis"])
def test_client(name, calm, make_redis, mysql):
    assert_same_as_redis([os.path.join(BUILT, name)], calm, at(make_redis("plain")), mysql)


@pytest.mark.parametrize("hits", [20_000, 120_000])
def test_redigo_writes_before_it_reads(hits, calm, mysql):
    """Send, Send, ... Flush, and only then Receive, Receive, ..."""
    assert run([os.path.join(BUILT, "redigo"), "large"], calm.socket, hits) == [hits, hits]
    calm.sync_all()
    assert mysql.query("SELECT views FROM product_views WHERE store_id = 77 AND product_id = 5") == ((hits,),)
    calm.verify()


def test_go_redis_watch_counts_nothing(calm, make_redis):
    """WATCH is refused, which Watch gives back; what it was to guard is not counted."""
    watch = [os.path.join(BUILT, "go_redis"), "watch"]
    assert run(watch, make_redis("plain").socket) == {"why": "<nil>", "left": 1}
    refused = run(watch, calm.socket)
    assert "WATCH" in refused["why"] and refused["left"] == 0
    calm.verify()
