"""A clock that is stopped until a test moves it, for redis-server and tallyd: an hour passes in seconds, and `now` is
the same before and after a request."""
import mmap
import os
import struct
import threading
import time

SHIM = os.environ.get("CLOCK_SHIM", os.path.join(os.path.dirname(__file__), "../../../build/tests/e2e/clock_shim.so"))
NS = 1_000_000_000
FLOW_MOST_S = 0.02  # at once while it flows: a process that asked for the time just before is wrong by no more


class Clock:
    """Processes that are given it (`clock=`) see its wall and monotonic time; it begins with the real ones."""

    def __init__(self, directory, name="clock"):
        self.path = os.path.join(directory, name)
        with open(self.path, "wb") as file:
            file.write(bytes(24))
        with open(self.path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 24)
        self.wall_ns, self.mono_ns, self.slept_ns = time.time_ns(), time.monotonic_ns(), 0
        self.lock, self.flowing, self.ended = threading.RLock(), threading.Event(), False
        self.step(0)
        threading.Thread(target=self.flow_on, daemon=True).start()

    def environment(self):
        return {"LD_PRELOAD": SHIM, "TEST_CLOCK": self.path}

    def step(self, seconds, jump_s=0):
        """Both clocks go on by `seconds`; the wall clock also jumps by jump_s, which may be negative."""
        with self.lock:
            self.wall_ns += round((seconds + jump_s) * NS)
            self.mono_ns += round(seconds * NS)
            self.shared[:] = struct.pack("=qqq", self.wall_ns, self.mono_ns, self.mono_ns + self.slept_ns)

    def sleep(self, seconds):
        """The host was suspended for that long: its monotonic clock was stopped."""
        with self.lock:
            self.slept_ns += round(seconds * NS)
            self.step(0, jump_s=seconds)

    def flow_on(self):
        while not self.ended:
            if self.flowing.wait(0.2):
                before = time.monotonic()
                time.sleep(0.002)  # the tick of the clock itself
                with self.lock:
                    if self.flowing.is_set():
                        self.step(min(time.monotonic() - before, FLOW_MOST_S))

    def flow(self):
        """From now on it goes as fast as the real one, or slower on a busy machine."""
        self.flowing.set()
        return self

    def stand(self):
        with self.lock:
            self.flowing.clear()
        return self

    def align(self):
        """On to the middle of a second: what took a few ms to tell is the same second for all."""
        self.step((3 * NS // 2 - self.wall_ns % NS) % NS / NS)
        return self

    @property
    def now(self):
        """Seconds, as Redis' TIME says it."""
        return self.wall_ns // NS

    def close(self):
        self.flowing.clear()
        self.ended = True
