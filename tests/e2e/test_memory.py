"""A limit of memory that is reached in the running service. Single allocations that fail: test_matrix_machine.py, and of the
core each of them, tests/fuzz/nth_alloc.c."""
import resource
import signal

import pytest

from harness.books import counted
from harness.daemon import counters
from harness.load import Load
from harness.programs import SANITIZED
from harness.shadow import Shadow
from harness.wait import wait_until

FAMILIES = counters(hits=20, every="1s")


def pick_new(rng):
    """A hash with a new name."""
    return b"s%d:product_views" % rng.randrange(1 << 40), b"1", 1


def limit(daemon, more):
    """That many bytes of address space more than it has, and none after them."""
    with open(f"/proc/{daemon.pid}/statm", encoding="ascii") as statm:
        bytes_now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.prlimit(daemon.pid, resource.RLIMIT_AS, (bytes_now + more, resource.RLIM_INFINITY))


@pytest.mark.skipif(SANITIZED, reason="a sanitizer has an allocator of its own")
def test_a_limit_is_reached(make_daemon, mysql, redis):
    """It goes on as long as memory lasts, dies with the line that says so, and what it answered is counted, once."""
    shadow, daemon = Shadow(), make_daemon(redis, families=FAMILIES)
    load = Load(daemon.socket, shadow, pick_new, clients=4, depth=200, per_second=200000)
    try:
        load.go()
        wait_until(lambda: sum(shadow.acked.values()) > 200, 60, "answers")
        limit(daemon, 1 << 20)
        wait_until(lambda: not daemon.alive(), 120, "memory runs out")
        load.pause()
    finally:
        load.stop()
    log = daemon.log_tail()
    assert daemon.process.returncode == -signal.SIGABRT and log.count("event=out_of_memory asked_bytes=") == 1, log
    assert 'next="give tallyd more memory; a restart recovers"' in log
    daemon.start()
    daemon.sync_all()
    shadow.check(counted(redis.client(), mysql, FAMILIES))
    daemon.verify()
