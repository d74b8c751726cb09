"""How much one store's flood delays another's hits: two users with limits, the quiet one's p99 alone and beside 8 connections
of the other that send 100 hits at once, again and again, in alternating rounds. Open loop, so that what is late is counted as
late. The flood goes over both of what holds it: its rate, and its share of a frame.

    tenants.py --build DIR [--rounds 9] [--window 2]      exit status 1: the median ratio is above 1.10"""
import argparse
import os
import statistics
import subprocess
import sys

from servers import OneTallyd, resp, started

LIMIT = 1.10
QUIET = ["-c", "4", "-P", "1", "-r", "1000", "-k", "1", "-f", "1"]
FLOOD = ["-c", "8", "-P", "100", "-k", "1000", "-f", "2000", "-z", "0"]

CONFIGURATION = """\
instance: tenants
listen: {{ resp: [ "tcp://{host}:{port}" ], control: "unix://{directory}/control" }}
redis: "redis://{host}:{redis}/0"
mysql: "mysql://root@{host}:{mysql}/tenants"
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    field: date
    sync: {{ hits: 1000000, every: 3600s }}
    table: daily_visitors
    columns: {{ store: store_id, field: day, count: visitors }}
users:
  quiet: {{ password: "{quiet}", keys: [ "s1:*" ], rate: 5000, connections: 50 }}
  flood: {{ password: "{flood}", keys: [ "s2???:*" ], rate: {rate}, connections: 50 }}
"""


class Tenants(OneTallyd):
    def __init__(self, directory, program, behind, mysql, rate):
        super().__init__(directory, program, behind, mysql, "tenants", CONFIGURATION, rate=rate,
                         **{name: self.user(program, name) for name in ("quiet", "flood")})
        for name in ("quiet", "flood"):
            with open(self.first(name), "wb") as file:
                file.write(resp(b"AUTH", name.encode(), b"the password of " + name.encode()))

    @staticmethod
    def user(program, name):
        return subprocess.run([program, "hash"], input=f"the password of {name}\n", check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()

    def first(self, name):
        return os.path.join(self.directory, f"{name}.auth")


def load(program, tallyd, name, options, seconds):
    return subprocess.Popen([program, "-t", str(tallyd.port), "-A", tallyd.first(name), *options, "-R", "65536", "-w", "0.5",
                             "-d", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def figure(text, name):
    return float(text.split(f"{name}=")[1].split()[0])


def quiet_p99(program, tallyd, seconds):
    process = load(program, tallyd, "quiet", QUIET, seconds)
    text = process.communicate(timeout=seconds + 120)[0]
    assert process.returncode == 0, text
    return figure(text, "p99_us")


def rounds(program, tallyd, count, seconds):
    alone, beside, flooded = [], [], []
    for _ in range(count):
        alone.append(quiet_p99(program, tallyd, seconds))
        flood = load(program, tallyd, "flood", FLOOD, seconds + 2)
        beside.append(quiet_p99(program, tallyd, seconds))
        flood.terminate()
        flooded.append(figure(flood.communicate(timeout=120)[0], "hits_per_s"))
    return alone, beside, flooded


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--build", required=True)
    words.add_argument("--rounds", type=int, default=9)
    words.add_argument("--window", type=float, default=2)
    words.add_argument("--rate", type=int, default=5000, help="of the flood's user; 0: its share of a frame alone holds it")
    asked = words.parse_args()
    with started("tenants", asked.build, lambda *servers: Tenants(*servers, asked.rate)) as tallyd:
        alone, beside, flooded = rounds(os.path.join(asked.build, "tests/bench/load"), tallyd, asked.rounds, asked.window)
    ratio = statistics.median(b / a for a, b in zip(alone, beside))
    print(f"quiet store, p99: alone {statistics.median(alone):.0f} us, beside a flood {statistics.median(beside):.0f} us, "
          f"ratio {ratio:.3f} (median of {asked.rounds} pairs: "
          f"{' '.join(f'{b / a:.2f}' for a, b in zip(alone, beside))}); the flood had "
          f"{statistics.median(flooded):.0f} hits/s; at most {LIMIT:.2f}")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
