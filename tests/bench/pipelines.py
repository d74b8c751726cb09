"""What ten clients that each write a million hits before they read a byte, again and again, and one that never reads cost
everybody else: the p99 of four clients that send a hit at a time, alone, beside the ten, beside the ten and the one, and
beside ten that send 100 at a time, in turns. Open loop, so that what is late is counted as late.

    pipelines.py --build DIR [--rounds 5] [--window 10]"""
import argparse
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

from servers import HOST, OneTallyd, resp, started

SIZE = 1_000_000
QUIET = ["-c", "4", "-P", "1", "-r", "1000", "-k", "1", "-f", "1", "-R", "65536", "-w", "1"]
SHORT = ["-c", "10", "-P", "100", "-k", "1", "-f", "2", "-R", "65536", "-w", "0"]

CONFIGURATION = """\
instance: pipelines
listen: {{ resp: [ "tcp://{host}:{port}" ] }}
redis: "redis://{host}:{redis}/0"
mysql: "mysql://root@{host}:{mysql}/pipelines"
limits: {{ send_timeout: 1h }}
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: {{ hits: 1000000000, every: 3600s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
"""


def tallyd_on(directory, program, behind, mysql):
    return OneTallyd(directory, program, behind, mysql, "pipelines", CONFIGURATION)


def write_and_read(port, number, done):
    hits = resp(b"HINCRBY", b"s%d:unique_visitors:daily" % (100 + number), b"20140920", b"1") * SIZE
    with socket.create_connection((HOST, port)) as link:
        while True:
            link.sendall(hits)
            left = SIZE
            while left > 0:
                left -= link.recv(1 << 20).count(b"\n")
            done[number] += 1


def write_only(port):
    hits = resp(b"HINCRBY", b"s99:unique_visitors:daily", b"20140920", b"1") * 1000
    with socket.create_connection((HOST, port)) as link:
        while True:
            link.sendall(hits)


def flood(port, clients, never):
    """The process of the clients; says how many hits a second were answered when it is told to end."""
    done = [0] * clients
    threads = [threading.Thread(target=write_and_read, args=(port, n, done), daemon=True) for n in range(clients)]
    if never:
        threads.append(threading.Thread(target=write_only, args=(port,), daemon=True))
    for thread in threads:
        thread.start()
    print("begun", flush=True)
    began = time.monotonic()
    sys.stdin.readline()
    print(sum(done) * SIZE / (time.monotonic() - began), flush=True)
    os._exit(0)


def p99(program, port, seconds):
    done = subprocess.run([program, "-t", str(port), *QUIET, "-d", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=seconds + 120, check=True)
    return float(done.stdout.split("p99_us=")[1].split()[0])


def beside_flood(program, port, seconds, never):
    child = subprocess.Popen([sys.executable, __file__, "--flood", str(port), *(["--never"] if never else [])], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    took = p99(program, port, seconds)
    return took, float(child.communicate("\n", timeout=60)[0])


def beside_short(program, port, seconds):
    child = subprocess.Popen([program, "-t", str(port), *SHORT, "-d", str(seconds + 3)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    took = p99(program, port, seconds)
    return took, float(child.communicate(timeout=120)[0].split("hits_per_s=")[1].split()[0])


def measure(load, tallyd, asked):
    figures = {name: [] for name in ("alone", "ten", "ten and one", "short")}
    for _ in range(asked.rounds):
        figures["alone"].append((p99(load, tallyd.port, asked.window), 0))
        figures["short"].append(beside_short(load, tallyd.port, asked.window))
        figures["ten"].append(beside_flood(load, tallyd.port, asked.window, False))
        figures["ten and one"].append(beside_flood(load, tallyd.port, asked.window, True))
    return figures


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--build")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--window", type=float, default=10)
    words.add_argument("--flood", type=int, help="a port: be the ten clients")
    words.add_argument("--never", action="store_true", help="and the one that never reads")
    asked = words.parse_args()
    if asked.flood:
        flood(asked.flood, 10, asked.never)
    with started("pipelines", asked.build, tallyd_on) as tallyd:
        figures = measure(os.path.join(asked.build, "tests/bench/load"), tallyd, asked)
        now, most = tallyd.rss_kib() >> 10, tallyd.rss_kib("VmHWM") >> 10
    for name, pairs in figures.items():
        print(f"{name}: p99 {statistics.median(took for took, _ in pairs):.0f} us "
              f"({' '.join(f'{took:.0f}' for took, _ in pairs)}), the others {statistics.median(hits for _, hits in pairs):,.0f} hits/s")
    print(f"memory: {now} MiB at the end, {most} MiB at most")


if __name__ == "__main__":
    sys.exit(main())
