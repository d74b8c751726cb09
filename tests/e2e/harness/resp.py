"""A RESP client that hides nothing: raw bytes in and out, and errors as values."""
import socket

from harness.wait import patience


class RespError(str):
    """An error reply, its text without the '-'."""


class Closed(Exception):
    """The other side closed the connection."""


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Resp:
    """address: a unix socket's path, or (host, port)."""

    def __init__(self, address, timeout_s=60):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(patience(timeout_s))
        self.socket.connect(address)
        self.buffer, self.at = b"", 0  # what came, and how much of it was taken

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Closed()
        self.buffer, self.at = self.buffer[self.at:] + data, 0

    def line(self):
        while (end := self.buffer.find(b"\r\n", self.at)) < 0:
            self.fill()
        line, self.at = self.buffer[self.at:end], end + 2
        return line

    def exactly(self, count):
        while len(self.buffer) - self.at < count:
            self.fill()
        self.at += count
        return self.buffer[self.at - count:self.at]

    def rest(self):
        data, self.buffer, self.at = self.buffer[self.at:], b"", 0
        return data

    def bulk(self, size):
        return self.exactly(size + 2)[:-2] if size >= 0 else None

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RespError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.bulk(int(rest))
        if kind == b"=":
            return self.bulk(int(rest))[4:]  # behind "txt:"
        if kind == b"_":
            return None
        if kind in (b"*", b">", b"~"):
            return [self.reply() for _ in range(int(rest))] if int(rest) >= 0 else None
        if kind == b"%":
            return {self.reply(): self.reply() for _ in range(int(rest))}
        raise AssertionError(f"no RESP: {line!r}")

    def call(self, *words):
        self.send(encode(*words))
        return self.reply()

    def pipeline(self, requests):
        self.send(b"".join(encode(*words) for words in requests))
        return [self.reply() for _ in requests]

    def until_closed(self):
        """Every byte up to the end of the connection."""
        try:
            while True:
                self.fill()
        except (Closed, ConnectionError):
            return self.rest()

    def until(self, ending):
        """Every byte up to and with `ending`, or up to the end of the connection."""
        try:
            while ending not in self.buffer[self.at:]:
                self.fill()
        except (Closed, ConnectionError):
            pass
        return self.rest()
