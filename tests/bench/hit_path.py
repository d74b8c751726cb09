#!/usr/bin/env python3
"""Functions of src/ that a hot hit passes: from the socket to a frame's EXEC and back to the client. tallyd runs under callgrind
on a private redis-server (MySQL is away, so nothing is merged); one client sends the same HINCRBY again and again, each when the
one before was answered. A function is passed when it is called at least once a hit: two runs, one of more hits, differ by that.

  hit_path.py PROGRAM     a tallyd of a build with -DCMAKE_BUILD_TYPE=Debug: inlined functions cannot be counted"""
import collections
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from servers import HOST, RedisServer, Server, resp

CONFIGURATION = """\
instance: path
listen: {{ resp: [ "tcp://127.0.0.1:{port}" ] }}
redis: "redis://127.0.0.1:{redis}/0"
mysql: "mysql://nobody@127.0.0.1:1/shop"
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: {{ hits: 1000000000, every: 3600s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
"""
HIT = resp(b"HINCRBY", b"s1:unique_visitors:daily", b"20140920", b"1")
FEW, MORE = 200, 600


class Watched(Server):
    """tallyd under callgrind."""

    def __init__(self, directory, name, program, behind):
        super().__init__(directory, name)
        self.out = os.path.join(self.directory, "callgrind.out")
        self.program = program
        self.configuration = os.path.join(self.directory, "tallyd.yaml")
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(port=self.port, redis=behind.port))

    def argv(self):
        return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}", "--compress-strings=no",
                "--compress-pos=no", self.program, "run", "-c", self.configuration]

    def is_ready(self):
        with socket.create_connection((HOST, self.port), timeout=60) as link:
            link.sendall(HIT)
            return link.recv(100).startswith(b":")

    def hits(self, n):
        with socket.create_connection((HOST, self.port), timeout=60) as link:
            for _ in range(n):
                link.sendall(HIT)
                reply = link.recv(100)
                assert reply.startswith(b":"), reply


def calls(out):
    """(file, function) -> times it was called, of src/ only."""
    count, file, callee, name = collections.Counter(), "", "", ""
    with open(out, encoding="utf-8") as lines:
        for line in lines:
            kind, _, value = line.rstrip("\n").partition("=")
            if kind in ("fl", "fi", "fe"):
                file = callee = value
            elif kind in ("cfi", "cfl"):
                callee = value
            elif kind == "cfn":
                name = value
            elif kind == "calls":
                source = re.search(r"(?:^|/)src/(\w+/\w+\.[ch]|main\.c)$", callee)
                if source:
                    count[source[1], re.split(r"['.]", name)[0]] += int(value.split()[0])
                callee = file
    return count


def run(directory, program, behind, hits):
    tallyd = Watched(directory, f"hits-{hits}", program, behind)
    tallyd.start()
    tallyd.hits(hits)
    assert tallyd.terminate() == 0, tallyd.log_tail()
    return calls(tallyd.out)


def main():
    directory = tempfile.mkdtemp(prefix="tly-path-")
    behind = RedisServer(directory, "redis")
    behind.start()
    try:
        few, more = (run(directory, os.path.abspath(sys.argv[1]), behind, hits) for hits in (FEW, MORE))
    finally:
        behind.close()
        shutil.rmtree(directory, ignore_errors=True)
    passed = sorted(place for place in more if more[place] - few[place] >= 0.9 * (MORE - FEW))
    for file, name in passed:
        print(f"{file} {name} {(more[file, name] - few[file, name]) / (MORE - FEW):.2f}")
    files = {file for file, _ in passed}
    print(f"functions {len(passed)}, .c files {len([f for f in files if f.endswith('.c')])}, "
          f"rooms {len({file.split('/')[0] for file in files})}, "
          f"calls a hit {sum(more[place] - few[place] for place in passed) / (MORE - FEW):.0f}")


if __name__ == "__main__":
    main()
