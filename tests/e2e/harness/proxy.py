"""A proxy between two unix sockets that cuts, resets, stalls, dribbles, and swallows replies."""
import os
import socket
import struct
import threading

from harness.ports import port as held_port


class Link:
    """One connection through the proxy: a thread each way."""

    def __init__(self, proxy, near, far):
        self.proxy, self.near, self.far = proxy, near, far
        self.swallow = False
        self.passed = 0
        self.ended = False
        for args in ((near, far, "up"), (far, near, "down")):
            threading.Thread(target=self.copy, args=args, daemon=True).start()

    def copy(self, source, target, way):
        try:
            while data := source.recv(1 << 16):
                self.proxy.wait_open(way)
                if self.proxy.filter is not None:
                    data = self.proxy.filter(self, way, data)
                if way == "down" and self.swallow:
                    continue
                if way == "down" and self.worn_out():
                    break
                if self.proxy.dribbling:
                    for byte in data:
                        target.sendall(bytes([byte]))
                else:
                    target.sendall(data)
        except OSError:
            pass
        self.end()

    def say(self, data):
        """To tallyd, as if the server had said it."""
        self.near.sendall(data)

    def worn_out(self):
        self.passed += 1
        return self.proxy.answers_most is not None and self.passed > self.proxy.answers_most

    def end(self, reset=False):
        if self.ended:
            return
        self.ended = True
        for side in (self.near, self.far):
            way = socket.SHUT_RDWR
            if reset and side.family == socket.AF_INET:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                way = socket.SHUT_RD  # tells the other side nothing, but the thread that reads lets go of the socket
            try:
                side.shutdown(way)
            except OSError:
                pass
            side.close()
        self.proxy.forget(self)


class Proxy:
    """upstream: path of a unix socket, or (host, port). Listens on `path` and, with tcp=True, on a free TCP port instead, or
    on `port`; it stays held when this is closed. filter(link, way, data) -> the bytes that go on instead; while it blocks, nothing goes on that way."""

    def __init__(self, upstream, path=None, tcp=False, port=0):
        self.upstream, self.path = upstream, path
        self.filter = None
        self.lock = threading.Lock()
        self.links = set()
        self.dribbling = False
        self.refusing = False
        self.swallowing = False
        self.answers_most = None  # a connection ends when it would pass one more piece of answers; that one is lost
        self.gates = {"up": threading.Event(), "down": threading.Event()}
        for gate in self.gates.values():
            gate.set()
        self.listener = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX, socket.SOCK_STREAM)
        if tcp:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port or held_port()) if tcp else path)
        self.port = self.listener.getsockname()[1] if tcp else None
        self.listener.listen(128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.refusing:
                    raise ConnectionRefusedError()
                far = socket.socket(socket.AF_UNIX if isinstance(self.upstream, str) else socket.AF_INET, socket.SOCK_STREAM)
                far.connect(self.upstream)
            except OSError:
                near.close()
                continue
            with self.lock:
                link = Link(self, near, far)
                link.swallow = self.swallowing
                self.links.add(link)

    def wait_open(self, way):
        self.gates[way].wait()

    def forget(self, link):
        with self.lock:
            self.links.discard(link)

    def all_links(self):
        with self.lock:
            return list(self.links)

    def cut(self):
        """Ends every connection now; new ones are let through."""
        for link in self.all_links():
            link.end()

    def reset(self):
        """As cut(), but with RST on the TCP side."""
        for link in self.all_links():
            link.end(reset=True)

    def refuse(self, on=True):
        """New connections are closed at once; existing ones are cut."""
        self.refusing = on
        if on:
            self.cut()

    def stall(self, *ways):
        """Holds the bytes of these ways ("up": towards the server, "down": its replies)."""
        for way in ways or ("up", "down"):
            self.gates[way].clear()

    def flow(self):
        for gate in self.gates.values():
            gate.set()

    def swallow_replies(self):
        """From now on existing connections get no reply any more; cut() then makes "applied, answer lost"."""
        for link in self.all_links():
            link.swallow = True

    def close(self):
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)  # the thread that accepts lets go of it
        self.listener.close()
        self.flow()
        self.cut()
        if self.path and os.path.exists(self.path):
            os.unlink(self.path)


class Blackhole:
    """A TCP port of this machine where a SYN gets no answer: nothing accepts there, and the backlog is full."""

    def __init__(self, port):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(0)
        self.callers = []
        while self.answers():
            pass

    def answers(self):
        caller = socket.socket()
        caller.settimeout(0.3)
        self.callers.append(caller)
        try:
            caller.connect(self.listener.getsockname())
            return True
        except TimeoutError:
            return False

    def close(self):
        for each in (*self.callers, self.listener):
            each.close()
