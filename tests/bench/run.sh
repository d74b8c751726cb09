#!/bin/sh
# The benchmark: tallyd beside what a shop would use instead, on this machine, in half an hour. Builds, starts all
# its servers privately on 127.0.0.1, prints a Markdown table of ratios. Figures mean nothing when anything else runs.
#   sh tests/bench/run.sh [JSON] [--markdown FILE] [--only NAMES] [--rounds N] [--quick]
# JSON (by default build/bench.json): the figures. When it is there already, what moved by more than 15 % since is
# printed too, and the older one is kept as JSON.before. --markdown: the table goes into FILE, too. --only: blocks and
# works, by commas (--help lists them); their rows replace those in JSON. BUILD=dir: where to build.
# REDIS_SERVER=program: another Redis, or a Valkey, under tallyd and under its peers. --quick shows in two minutes that
# all of it works; its figures mean nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/config/packages.sh"
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS python3 python3-redis python3-pymysql nutcracker valgrind

build=${BUILD:-$root/build}
mkdir -p "$build"
{ cmake -S "$root" -B "$build" -G Ninja && ninja -C "$build" tallyd load null upsert instructions; } \
    >"$build/bench.log" 2>&1 || {
    tail -n 40 "$build/bench.log" >&2
    exit 1
}
ulimit -n "$(ulimit -Hn)"
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 "$here/bench.py" --build "$build" "$@"
