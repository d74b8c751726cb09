"""The same bytes to tallyd and to redis-server: programs of the commands that both have, whole and damaged, cut at random.
None is NUL: in a line Redis ends at it, and tallyd takes it as a byte like others (protocol/request.c).

Replies are the same but for what is named here. A reply that may differ (ALLOWED) ends the comparison of its program, since
what follows may hang on it; how few these are is asserted, too. A failure prints the program's seed: SEED=n runs it alone."""
import itertools
import os
import random
import socket
import time

import pytest

from harness.daemon import counters
from harness.resp import encode
from harness.wait import patience

SENTINEL = b"the-end-of-the-program"
FILL = b"\r\n" * 40000  # ends every bulk that tallyd takes; between requests it is nothing
QUIET_S = 0.05
LEAST = 100  # programs, however long they take
PATIENCE_S = 5  # both may wait for a bulk that damage made longer than what follows
STORES = (1, 2, 3)

# What tallyd says where Redis says something else, and why.
LIMITS = (
    b"-ERR Protocol error: invalid bulk length",       # 64 KiB, Redis has 512 MiB
    b"-ERR Protocol error: invalid multibulk length",  # 1,024 arguments, Redis has a billion
    b"-ERR Protocol error: too many arguments",
    b"-ERR Protocol error: too big request",
)
ALLOWED = LIMITS + (
    b"-ERR no counter is configured for key",  # the keys of a tallyd are named in its configuration
    b"-ERR field '",                           # and so are the kinds of their fields
    b"-ERR increment '",                       # an increment is at most 2^53
    b"-ERR unknown command '",                 # a damaged name may be a command of Redis' alone
)
# What newer servers say otherwise than Redis 7, as which tallyd answers: whose version, since when, tallyd's words, why.
NEWER = (
    ("redis_version", 8, b"-WRONGPASS", "an AUTH that fails is not answered at all while an earlier answer waits"),
    ("valkey_version", 8, b"-WRONGPASS", "likewise"),
    ("valkey_version", 8, b"-ERR MULTI calls can not be nested", "in other words, and the transaction is aborted"),
    ("valkey_version", 9, b"-ERR Protocol error: unbalanced quotes", "text behind a closing quote is taken"),
)
CRLF = (b"-", b"ERR Protocol error: invalid CRLF in request")  # of Valkey 9 alone: what follows a bulk must be one
# Or, where Redis says QUEUED: what a transaction may not hold is refused when it is queued, so that it runs whole or not.
QUEUED = (b"+", b"QUEUED")


# ---- programs ----

def word_case(rng, word):
    return rng.choice((word, word.lower(), "".join(rng.choice((c, c.lower())) for c in word)))


def integer(rng):
    return rng.choice((1, 1, 1, 2, -1, 0, 7, 123456, -(1 << 40), 1 << 52, "x", "+1", "01", "", " 1", "1.0",
                       9223372036854775808, "9" * 30))


def hit(rng, field):
    words = ["HINCRBY", f"s{rng.choice(STORES)}:product_views", field + rng.randrange(3), integer(rng)]
    return words[:rng.choice((4, 4, 4, 4, 4, 4, 4, 3, 2, 1))] + (["more"] if rng.random() < 0.03 else [])


def text(rng):
    return rng.choice(("", "a", "hello", "a b", "\x01\x02", "é", "a\r\nb", "%s%n", "x" * 200, "'", '"', "\\"))


QUEUEABLE = (
    lambda rng, field: ["PING"],
    lambda rng, field: ["PING", text(rng)],
    lambda rng, field: ["PING", "a", "b"],
    lambda rng, field: ["ECHO", text(rng)],
    lambda rng, field: ["ECHO"],
    hit, hit, hit, hit,
    lambda rng, field: ["SELECT", rng.choice(("0", "0", "x", "1", "-1", "99999999999999999999", "2147483648"))],
    lambda rng, field: ["TIME"],
    lambda rng, field: ["NOSUCH" + rng.choice(("", "x" * 150)), *[text(rng) for _ in range(rng.randrange(4))]],
)
OUTSIDE = (
    lambda rng, field: ["AUTH", text(rng)],
    lambda rng, field: ["AUTH", rng.choice(("default", "nobody")), text(rng)],
    lambda rng, field: ["AUTH", "a", "b", "c"],
    lambda rng, field: ["AUTH"],
    lambda rng, field: ["HELLO", rng.choice(("2", "3", "4", "x", "1", ""))],
    lambda rng, field: ["HELLO", "3", "AUTH", "default", text(rng), "SETNAME", rng.choice(("me", "a b"))],
    lambda rng, field: ["HELLO", "2", rng.choice(("SETNAME", "AUTH", "NOSUCH")), "me"],
    lambda rng, field: ["HELLO"],
    lambda rng, field: ["CLIENT", word_case(rng, "SETNAME"), rng.choice(("shop", "a b", "", "é", "x" * 100))],
    lambda rng, field: ["CLIENT", "GETNAME"],
    lambda rng, field: ["CLIENT", "ID"],
    lambda rng, field: ["CLIENT", "NOSUCH", "a"],
    lambda rng, field: ["CLIENT", "SETNAME"],
    lambda rng, field: ["CLIENT", "NO-EVICT", rng.choice(("on", "OFF", "x"))],
    lambda rng, field: ["CLIENT"],
    lambda rng, field: ["COMMAND", "COUNT"],
    lambda rng, field: ["COMMAND", "INFO", rng.choice(("ping", "nosuch")), "echo"],
    lambda rng, field: ["COMMAND", "DOCS", "nosuch"],
    lambda rng, field: ["COMMAND", "NOSUCH"],
    lambda rng, field: ["CONFIG", "GET", rng.choice(("save", "databases", "nosuch", "APPENDONLY"))],
    lambda rng, field: ["CONFIG", "GET"],
    lambda rng, field: ["CONFIG"],
    lambda rng, field: ["INFO", "nosuch"],
    lambda rng, field: ["RESET"],
    lambda rng, field: ["EXEC"],
    lambda rng, field: ["DISCARD"],
    lambda rng, field: ["MULTI", "x"],
)


def quoted(word):
    return '"' + "".join(f"\\x{byte:02x}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte)
                         for byte in word) + '"'


def wire(rng, words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    words[0] = word_case(rng, words[0].decode()).encode()
    if rng.random() < 0.15:
        return " ".join(quoted(word) for word in words).encode() + rng.choice((b"\r\n", b"\n"))
    return encode(*words)


def program(rng, number):
    """Its requests, in bytes."""
    made, field = [], 10 * number
    for _ in range(rng.randrange(1, 9)):
        kind = rng.random()
        if kind < 0.12:
            made.append(["MULTI"])
            made += [rng.choice(QUEUEABLE)(rng, field) for _ in range(rng.randrange(5))]
            if rng.random() < 0.1:
                made.append(["MULTI"])
            made.append([rng.choice(("EXEC", "EXEC", "EXEC", "DISCARD", "RESET"))])
        elif kind < 0.15:
            made.append(["QUIT"])
        else:
            made.append(rng.choice(QUEUEABLE if kind < 0.6 else OUTSIDE)(rng, field))
    return [wire(rng, words) for words in made]


NOISE = (b"\r\n", b"\n", b"*", b"*0\r\n", b"*-1\r\n", b"$", b"$-1\r\n", b":1\r\n", b"\x01", b"'", b'"', b" ", b"*1\r\n", b"9")


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0:
            data[at:at] = rng.choice(NOISE)
        elif how == 1:
            del data[at:at + rng.randrange(1, 5)]
        elif how == 2 and at < len(data):
            data[at] = rng.randrange(1, 256)
        else:
            data[at:at] = data[at:at + rng.randrange(1, 12)]
    return bytes(data)


# ---- asking ----

def pieces(rng, data):
    while data:
        size = rng.choice((1, 2, 7, 30, 200, 5000))
        yield data[:size]
        data = data[size:]


class Asked:
    """All that one server said to the bytes, and whether it then closed."""

    def __init__(self, address, rng, data, patience_s=PATIENCE_S):
        self.said, self.closed = b"", False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as self.socket:
            self.socket.connect(address)
            try:
                for piece in pieces(rng, data + encode("ECHO", SENTINEL)):
                    self.socket.sendall(piece)
                if not self.ends(QUIET_S):
                    self.socket.sendall(FILL + encode("ECHO", SENTINEL))
                    self.ends(patience_s)
            except (BrokenPipeError, ConnectionResetError):
                self.ends(patience_s)
        said, end, _ = self.said.partition(SENTINEL + b"\r\n")
        self.said = said + end  # of two sentinels the first

    def ends(self, quiet_s):
        """Reads up to the sentinel's reply or the end. False: neither came, and nothing for that long."""
        self.socket.settimeout(patience(quiet_s))
        try:
            while not self.closed and SENTINEL + b"\r\n" not in self.said:
                data = self.socket.recv(1 << 16)
                self.said += data
                self.closed = not data
        except socket.timeout:
            return False
        except ConnectionResetError:
            self.closed = True
        return True


class Replies:
    """RESP bytes as a list of values: tuples of their type and what they hold."""

    def __init__(self, data):
        self.data, self.all = data, []
        while self.data:
            self.all.append(self.one())

    def one(self):
        line, _, self.data = self.data.partition(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind in b"$=" and rest != b"-1":
            value, self.data = self.data[:int(rest)], self.data[int(rest) + 2:]
            return kind, value
        if kind in b"*~%" and rest != b"-1":
            return kind, [self.one() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
        return kind, rest


# ---- comparing ----

def same_error(ours, theirs):
    """What is not printable is a '?' in tallyd's errors."""
    return len(ours) == len(theirs) and all(a == b or a == 63 for a, b in zip(ours, theirs))


def is_hello(reply):
    return isinstance(reply[1], list) and reply[1][:1] == [(b"$", b"server")]


def lists_commands(reply):
    """COMMAND, which damage makes of COMMAND INFO: each lists its own."""
    return reply[0] == b"*" and len(reply[1]) > 20 and all(one[0] == b"*" and len(one[1]) == 10 for one in reply[1])


def masked(reply):
    """What every server says differently, as dots."""
    kind, value = reply
    if kind == b"$" and value[:2] == b"# ":
        return kind, "INFO"
    if is_hello(reply):
        names, values = value[0::2], value[1::2]
        return kind, [(name, held if name[1] in (b"proto", b"mode", b"role") else held[0])
                      for name, held in zip(names, values)]
    if kind in b"*%" and isinstance(value, list) and len(value) == 2 and value[0][0] == b"$":
        if all(part[0] == b"$" and part[1].isdigit() for part in value):
            return kind, "time"
        return kind, value[0][1].lower()  # a setting and its value; Redis says its name as it was asked for
    if kind == b"*" and isinstance(value, list) and len(value) == 10 and value[0][0] == b"$":
        return kind, value[:2]  # COMMAND INFO: name and arity
    if kind == b"*" and isinstance(value, list):
        return kind, [masked(part) for part in value]
    return reply


def has_private_numbers(data):
    """CLIENT ID and COMMAND COUNT are numbers of the server's own."""
    low = data.lower()
    return b"id" in low or b"count" in low or b"\\x" in low


def same(ours, theirs, numbers):
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return False
    if ours[0] == b":" and not numbers:
        return True
    if lists_commands(ours) and lists_commands(theirs):
        return True
    return same_error(ours[1], theirs[1]) if ours[0] == b"-" else masked(ours) == masked(theirs)


def may_differ(ours, theirs, allowed):
    if theirs == CRLF:
        return True
    if ours is None or ours[0] != b"-":
        return False
    return theirs == QUEUED or (b"-" + ours[1]).startswith(allowed)


BEHIND_DATABASE = b': tallyd has database 0 alone; README, "What differs from Redis"'  # where Redis' error ends


class Tally:
    def __init__(self, allowed):
        self.allowed = allowed
        self.programs = self.compared = self.left = 0

    def compare(self, seed, data, ours, theirs):
        numbers = not has_private_numbers(data)
        ours.said = ours.said.replace(BEHIND_DATABASE, b"")
        self.programs += 1
        replies = list(itertools.zip_longest(Replies(ours.said).all, Replies(theirs.said).all))
        for at, (mine, other) in enumerate(replies):
            if same(mine, other, numbers):
                self.compared += 1
            elif may_differ(mine, other, self.allowed):
                self.left += len(replies) - at
                return
            else:
                pytest.fail(f"seed {seed}: reply {at} to {data!r}:\n tallyd {mine}\n redis  {other}\n"
                            f" tallyd said {ours.said!r}\n redis said  {theirs.said!r}", pytrace=False)
        assert ours.closed == theirs.closed, (seed, data, ours.said)


@pytest.fixture
def both(make_redis, make_daemon):
    """tallyd, a redis-server, and what may differ. Another client holds the keys' locks, so nothing is claimed and pending values
    are those of a Redis."""
    reference = make_redis("reference", extra=["--databases", "1"])
    behind = make_redis("behind", appendfsync="always")
    client = behind.client()
    for store in STORES:
        client.set(f"s{store}:product_views:sync", "somebody", ex=7200)
    daemon = make_daemon(behind, families=counters(hits=1000000, every="1h"))
    said = reference.client().info("server")
    newer = [text for name, since, text, _ in NEWER if int(str(said.get(name, 0)).split(".")[0]) >= since]
    return daemon.socket, reference.socket, ALLOWED + tuple(newer)


def run(both, seeds, for_s):
    ours, theirs, allowed = both
    tally, until = Tally(allowed), time.monotonic() + for_s
    for seed in seeds:
        rng = random.Random(seed)
        data = b"".join(program(rng, seed))
        if rng.random() < 0.35:
            data = damaged(rng, data)
        cuts = rng.random()
        mine = Asked(ours, random.Random(cuts), data)
        waits = any(text in mine.said for text in LIMITS)  # then Redis may wait for a bulk without end
        tally.compare(seed, data, mine, Asked(theirs, random.Random(cuts), data, QUIET_S if waits else PATIENCE_S))
        if time.monotonic() > until and tally.programs >= LEAST:
            break
    print(f"{tally.programs} programs, {tally.compared} replies the same, {tally.left} not compared")
    return tally


def seeds_from(first):
    return [int(os.environ["SEED"])] if "SEED" in os.environ else range(first, first + 10000000)


def test_same_bytes_same_replies(both):
    tally = run(both, seeds_from(1), 8)
    most = tally.compared / (5 if both[2] == ALLOWED else 3)
    assert tally.left < most or "SEED" in os.environ


@pytest.mark.soak
def test_same_bytes_same_replies_for_long(both):
    tally = run(both, seeds_from(1000000), 900)
    assert tally.programs >= 10000 and tally.left * 5 < tally.compared
