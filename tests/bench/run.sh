#!/bin/sh
# The benchmark: tallyd beside what a shop would use instead, on this machine, in under 10 minutes. Builds, starts all its
# servers privately on 127.0.0.1, prints a Markdown table of ratios. For figures that mean something, nothing else may run.
#   sh tests/bench/run.sh [JSON [MARKDOWN]]
# JSON (by default build/bench.json): the figures. When it is there already, what moved by more than 10 % since is printed
# too, and the older one is kept as JSON.before. MARKDOWN: the table goes there, too. BUILD=dir: where to build.
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
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 "$here/bench.py" --build "$build" --json "${1:-$build/bench.json}" \
    ${2:+--markdown "$2"}
