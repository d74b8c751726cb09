#!/bin/sh
# First figures: hits a second of a raw redis-server (HINCRBY) and of tallyd, in turn A B A B in one run, with the same
# load, while tallyd syncs into mariadbd all the while; then the rows a second of a drain of 100,000 pending hashes.
#   TALLYD=build/tallyd LOAD=build/tests/bench/load SECONDS_EACH=4 sh tests/bench/first.sh
set -eu
tallyd=$(realpath "${TALLYD:-build/tallyd}")
load=$(realpath "${LOAD:-build/tests/bench/load}")
seconds=${SECONDS_EACH:-4}
dir=$(mktemp -d /tmp/tly-bench-XXXXXX)
user=$(id -un)
pids=

end() {
    for pid in $pids; do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

wait_for() { # seconds command...
    left=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || { echo "not in time: $*" >&2; tail -n 20 "$dir"/*.log >&2; exit 1; }
        sleep 0.05
    done
}

start_redis() { # name
    mkdir "$dir/$1"
    redis-server --port 0 --unixsocket "$dir/$1.sock" --dir "$dir/$1" --save '' --appendonly yes \
        --appendfsync everysec --maxmemory-policy noeviction --daemonize no >"$dir/$1.log" 2>&1 &
    pids="$pids $!"
    wait_for 30 redis-cli -e -s "$dir/$1.sock" PING
}

sql() { mariadb --no-defaults -S "$dir/sql.sock" -u root -N -B "$@"; }

start_mariadbd() {
    TMPDIR=$dir mariadb-install-db --no-defaults --datadir="$dir/data" --user="$user" --skip-test-db --force \
        --auth-root-authentication-method=normal >"$dir/install.log" 2>&1
    mariadbd --no-defaults --tmpdir="$dir" --datadir="$dir/data" --socket="$dir/sql.sock" --pid-file="$dir/sql.pid" --skip-networking \
        --user="$user" --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=512M >"$dir/sql.log" 2>&1 &
    pids="$pids $!"
    wait_for 60 sql -e 'SELECT 1'
    sql -e 'CREATE DATABASE shop'
}

start_tallyd() {
    cat >"$dir/tallyd.yaml" <<YAML
instance: bench
listen: { resp: [ "unix://$dir/tallyd.sock" ] }
redis: "unix://$dir/behind.sock?db=0"
mysql: "mysql://root@localhost/shop?socket=$dir/sql.sock"
counters:
  unique_visitors:
    key: "s<store>:unique_visitors:daily"
    lock: "s<store>:unique_visitors:sync"
    field: date
    sync: { hits: 50, every: 60s }
    table: daily_visitors
    columns: { store: store_id, field: day, count: visitors }
YAML
    "$tallyd" migrate -c "$dir/tallyd.yaml" --tables >"$dir/migrate.log" 2>&1
    "$tallyd" run -c "$dir/tallyd.yaml" >"$dir/tallyd.log" 2>&1 &
    pids="$pids $!"
    wait_for 30 redis-cli -e -s "$dir/tallyd.sock" PING
}

hits_per_s() { # socket, options of load
    socket=$1
    shift
    "$load" -s "$socket" -c 50 -d "$seconds" "$@" | tee -a "$dir/load.log" | sed -n 's/.*hits_per_s=\([0-9]*\).*/\1/p'
}

compare() { # title, options of load
    title=$1
    shift
    a1=$(hits_per_s "$dir/plain.sock" "$@")
    b1=$(hits_per_s "$dir/tallyd.sock" "$@")
    a2=$(hits_per_s "$dir/plain.sock" "$@")
    b2=$(hits_per_s "$dir/tallyd.sock" "$@")
    awk -v t="$title" -v a1="$a1" -v b1="$b1" -v a2="$a2" -v b2="$b2" 'BEGIN {
        printf "%-28s redis %9d %9d   tallyd %9d %9d hits/s   ratio %.2f\n", t, a1, a2, b1, b2, (b1 + b2) / (a1 + a2) }'
}

synced() { [ "$(redis-cli -s "$dir/tallyd.sock" CTR.SYNC ALL | grep -c '^[0-9]')" = 1 ]; }

drain() { # 100,000 pending hashes of one hit each, while nothing is merged; then all of them
    wait_for 600 synced
    stop_tallyd
    awk 'BEGIN { for (i = 1; i <= 100000; i++) {
        k = "s" (1000000 + i) ":unique_visitors:daily"
        printf "HINCRBY %s 20140921 1\r\nZADD tally:dirty 1 %s\r\n", k, k }
        printf "HINCRBY tally:accepted unique_visitors 100000\r\n" }' | redis-cli -s "$dir/behind.sock" --pipe >/dev/null
    began=$(date +%s.%N)
    "$tallyd" run -c "$dir/tallyd.yaml" >>"$dir/tallyd.log" 2>&1 &
    pids="$pids $!"
    tallyd_pid=$!
    wait_for 300 drained
    ended=$(date +%s.%N)
    awk -v b="$began" -v e="$ended" 'BEGIN { printf "drain of 100,000 pending hashes: %.1f s, %d rows/s\n", e - b, 100000 / (e - b) }'
}

drained() { [ "$(sql shop -e "SELECT COUNT(*) FROM daily_visitors WHERE day = '2014-09-21'")" = 100000 ]; }

stop_tallyd() {
    kill -TERM "$tallyd_pid"
    wait "$tallyd_pid"
}

start_redis plain
start_redis behind
start_mariadbd
start_tallyd
tallyd_pid=$!
for pipeline in 1 16 100; do
    compare "1,000 keys, Zipf, P=$pipeline" -P "$pipeline" -k 1000 -z 1.0
    compare "100,000 keys, uniform, P=$pipeline" -P "$pipeline" -k 100000 -z 0
done
drain
wait_for 60 synced
"$tallyd" verify -c "$dir/tallyd.yaml"
