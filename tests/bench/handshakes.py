"""How much a flood of TLS handshakes delays a plain client's hits: its p99 alone and beside processes that greet the tls://
address again and again, in alternating rounds. The flood costs its own side next to nothing: it has one hello that it sends
on every connection, and waits for the first byte of an answer, which is what costs tallyd a signature (RSA, 2048 bits).
Open loop, so that what is late is counted as late.

    handshakes.py --build DIR [--rounds 5] [--window 2] [--how greet|leave|connect]

leave: the flood does not wait for the answer; connect: it says nothing at all. Exit status 1: the
median ratio is above 20, which is that of a signature or two beside what a hit takes on an idle machine; without a bound it
is hundreds."""
import argparse
import contextlib
import multiprocessing
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys

from servers import HOST, OneTallyd, free_port, started
from tenants import figure

LIMIT = 20
PROCESSES, LINKS = 2, 64
PLAIN = ["-c", "4", "-P", "1", "-r", "1000", "-k", "1", "-f", "1", "-w", "0.5"]

CONFIGURATION = """\
instance: handshakes
listen:
  resp: [ "tcp://{host}:{port}", "tls://{host}:{tls}" ]
  tls: {{ cert: "{directory}/tls.pem", key: "{directory}/tls.key" }}
redis: "redis://{host}:{redis}/0"
mysql: "mysql://root@{host}:{mysql}/handshakes"
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: {{ hits: 1000000, every: 3600s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
"""


class Door(OneTallyd):
    def __init__(self, directory, program, behind, mysql):
        self.tls = free_port()
        super().__init__(directory, program, behind, mysql, "handshakes", CONFIGURATION, tls=self.tls)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "tls.key",
                        "-out", "tls.pem"], cwd=self.directory, check=True, stderr=subprocess.DEVNULL)


def hello():
    out = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


class Flood:
    """One process of it: `done` counts the answers, or what was sent where none is waited for."""

    def __init__(self, port, how):
        self.port, self.how, self.words, self.done = port, how, hello(), multiprocessing.Value("q", 0)
        self.process = multiprocessing.Process(target=self.greet if how == "greet" else self.knock, daemon=True)
        self.process.start()

    def knock(self):
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 10) as link:
                if self.how == "leave":
                    link.sendall(self.words)
            self.done.value += 1

    def greet(self):
        links = selectors.DefaultSelector()
        for _ in range(LINKS):
            self.begin(links)
        while True:
            for key, _ in links.select():
                with contextlib.suppress(OSError):
                    self.done.value += len(key.fileobj.recv(1))
                links.unregister(key.fileobj)
                key.fileobj.close()
                self.begin(links)

    def begin(self, links):
        link = socket.create_connection((HOST, self.port), 60)
        link.sendall(self.words)
        links.register(link, selectors.EVENT_READ)

    def end(self):
        self.process.kill()
        self.process.join()
        return self.done.value


def plain_p99(program, tallyd, seconds):
    done = subprocess.run([program, "-t", str(tallyd.port), *PLAIN, "-R", "65536", "-d", str(seconds)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + 120)
    return figure(done.stdout, "p99_us")


def rounds(program, tallyd, asked):
    alone, beside, greeted = [], [], []
    for _ in range(asked.rounds):
        alone.append(plain_p99(program, tallyd, asked.window))
        floods = [Flood(tallyd.tls, asked.how) for _ in range(PROCESSES)]
        beside.append(plain_p99(program, tallyd, asked.window))
        greeted.append(sum(flood.end() for flood in floods) / (asked.window + 0.5))
    return alone, beside, greeted


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--build", required=True)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--window", type=float, default=2)
    words.add_argument("--how", choices=("greet", "leave", "connect"), default="greet")
    asked = words.parse_args()
    with started("handshakes", asked.build, Door) as tallyd:
        alone, beside, greeted = rounds(os.path.join(asked.build, "tests/bench/load"), tallyd, asked)
    ratio = statistics.median(b / a for a, b in zip(alone, beside))
    pairs = " ".join(f"{b / a:.1f}" for a, b in zip(alone, beside))
    print(f"plain client, p99: alone {statistics.median(alone):.0f} us, beside a flood {statistics.median(beside):.0f} us, ratio "
          f"{ratio:.1f} (median of {asked.rounds} pairs: {pairs}); the flood: {asked.how}, "
          f"{statistics.median(greeted):.0f} a second; at most {LIMIT}")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
