"""Clients that hit tallyd and keep the shadow."""
import random
import threading
import time

from harness.resp import Closed, Resp, encode
from harness.wait import patience


class Load:
    """`clients` threads with a connection each; each sends pipelines of random hits until it is paused or stopped.
    pick(random) -> (key, field, delta) as bytes, bytes, int; with another command, what comes after it. per_second: at most,
    and with on_time that many, as long as replies come in time."""

    def __init__(self, address, shadow, pick, clients=8, depth=20, per_second=4000, seed=1, command=(b"HINCRBY",), on_time=False):
        self.address, self.shadow, self.pick, self.depth, self.command = address, shadow, pick, depth, command
        self.on_time = on_time
        self.gap_s = depth * clients / per_second
        self.running = threading.Event()
        self.ending = False
        self.idle = [threading.Event() for _ in range(clients)]
        self.threads = [threading.Thread(target=self.work, args=(at, random.Random(seed * 1000 + at)), daemon=True)
                        for at in range(clients)]
        for thread in self.threads:
            thread.start()

    def work(self, at, rng):
        link = None
        while not self.ending:
            self.idle[at].clear()  # before the look at `running`: pause() must not see an old one
            if not self.running.is_set():
                self.idle[at].set()
                self.running.wait(0.2)
                continue
            since = time.monotonic()
            link = self.turn(link, rng)
            took_s = time.monotonic() - since if self.on_time else 0
            time.sleep(max(0, self.gap_s - took_s))  # the pace of a visitor, not a synchronisation
        self.idle[at].set()

    def turn(self, link, rng):
        """One pipeline; the connection to go on with, or None."""
        if link is None:
            link = self.connected()
            if link is None:
                return None
        requests = [self.pick(rng) for _ in range(self.depth)]
        replies = []
        try:
            link.send(b"".join(encode(*self.command, *request) for request in requests))
            for _ in requests:
                replies.append(link.reply())
        except (Closed, OSError):
            link.close()
            link = None
        self.shadow.settle(requests, replies)
        return link

    def connected(self):
        """A connection at whose other end tallyd has answered: what is sent on it is not lost on the way."""
        link = None
        try:
            link = Resp(self.address, timeout_s=30)
            assert link.call("PING") == "PONG"
            return link
        except (AssertionError, Closed, OSError):
            if link is not None:
                link.close()
            return None

    def go(self):
        for idle in self.idle:
            idle.clear()
        self.running.set()

    def pause(self, deadline_s=60):
        """Returns when every reply is in or given up."""
        self.running.clear()
        for idle in self.idle:
            assert idle.wait(patience(deadline_s)), "a client is still waiting for its replies"

    def stop(self):
        self.ending = True
        self.running.set()
        for thread in self.threads:
            thread.join(patience(60))
