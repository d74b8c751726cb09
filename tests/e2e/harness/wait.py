"""Waiting for conditions; nothing here or in the tests sleeps as a way to be in time."""
import os
import time

SLOWNESS = float(os.environ.get("TALLYD_PATIENCE") or 1)  # of this machine: tests/run.sh measures it, 1 on a quiet one


def patience(seconds):
    """A deadline here. Only the upper bound of a wait scales, never a time that is part of what is tested."""
    return seconds * SLOWNESS


def wait_until(condition, deadline_s=60, what="", every_s=0.02):
    """The first true answer of condition(). An exception in it counts as "not yet"; the last one is shown at the end. The longer it
    takes the seldomer it looks: many tests wait at the same time, and looks take the processors from what is waited for."""
    deadline_s = patience(deadline_s)
    began = time.monotonic()
    ends_at = began + deadline_s
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except Exception as problem:  # the server under test may be half up: any refusal means "not yet"
            last = problem
        if time.monotonic() > ends_at:
            raise AssertionError(f"not within {deadline_s:g} s: {what or condition}; last seen: {last!r}")
        time.sleep(max(every_s, min(0.25, (time.monotonic() - began) / 10)))


def stays(condition, for_s, what="", every_s=0.05):
    """condition() holds at every look during for_s."""
    ends_at = time.monotonic() + for_s
    while time.monotonic() < ends_at:
        assert condition(), f"did not stay: {what or condition}"
        time.sleep(every_s)
