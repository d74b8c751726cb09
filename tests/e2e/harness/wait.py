"""Waiting for conditions; nothing here or in the tests sleeps as a way to be in time."""
import time


def wait_until(condition, deadline_s=30, what="", every_s=0.02):
    """The first true answer of condition(). An exception in it counts as "not yet"; the last one is shown at the end."""
    ends_at = time.monotonic() + deadline_s
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except Exception as problem:  # the server under test may be half up: any refusal means "not yet"
            last = problem
        if time.monotonic() > ends_at:
            raise AssertionError(f"not within {deadline_s} s: {what or condition}; last seen: {last!r}")
        time.sleep(every_s)


def stays(condition, for_s, what="", every_s=0.05):
    """condition() holds at every look during for_s."""
    ends_at = time.monotonic() + for_s
    while time.monotonic() < ends_at:
        assert condition(), f"did not stay: {what or condition}"
        time.sleep(every_s)
