"""A moment of a protocol: the first time that certain bytes pass a proxy, something happens before they go on."""
import threading

from harness.wait import wait_until


def COMMIT(data):
    """A pattern: the statement of MySQL's protocol. READ COMMITTED is no match, and before the text Oracle's library sends more."""
    return data.endswith(b"COMMIT")


def has(pattern, data):
    return pattern(data) if callable(pattern) else pattern in data


class Moment:
    """pattern: the bytes, or an object that finds them. act(link, data) -> the bytes that go on instead, None: those that
    came; it may block, which holds them. nth: not the first such bytes, but the nth. A filter that the
    proxy has goes on working, before this."""

    def __init__(self, proxy, way, pattern, act=None, nth=1):
        self.proxy, self.way, self.pattern, self.act, self.left = proxy, way, pattern, act, nth
        self.came, self.over = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        self.behind, proxy.filter = proxy.filter, self.look

    def look(self, link, way, data):
        data = self.behind(link, way, data) if self.behind else data
        with self.lock:
            mine = way == self.way and has(self.pattern, data) and not self.came.is_set()
            self.left -= mine
            mine = mine and self.left == 0
            if mine:
                self.came.set()
        if not mine:
            return data
        instead = self.act(link, data) if self.act else None
        self.over.set()
        return data if instead is None else instead

    def wait(self, deadline_s=60):
        """Until it has come and what happens then is done."""
        wait_until(self.over.is_set, deadline_s, f"{self.pattern} has passed the proxy")


class Reply(Moment):
    """The same for what the server answers first, once certain bytes have passed to it on that connection."""

    def __init__(self, proxy, request, act=None):
        self.asked = None
        self.request = request
        super().__init__(proxy, "down", b"", act)

    def look(self, link, way, data):
        if way == "up" and self.asked is None and self.request in data:
            self.asked = link
        if link is self.asked:
            return super().look(link, way, data)
        return self.behind(link, way, data) if self.behind else data


class Hold(Moment):
    """The bytes wait in the proxy until let_go(); first: what happens when they come."""

    def __init__(self, proxy, way, pattern, first=None):
        self.held, self.gate = threading.Event(), threading.Event()
        self.first = first
        super().__init__(proxy, way, pattern, self.hold)

    def hold(self, link, data):
        if self.first:
            self.first(link, data)
        self.held.set()
        self.gate.wait()

    def wait_held(self, deadline_s=60):
        wait_until(self.held.is_set, deadline_s, f"{self.pattern} waits in the proxy")

    def let_go(self):
        self.gate.set()
        self.wait()
