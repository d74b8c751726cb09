#!/bin/sh
# config/container/Containerfile built by Debian's buildah, on a Debian 12 that debootstrap made in place of the one from a
# registry, and run as its user beside redis-server and mariadbd of this machine: healthy, counts, merges, stops with 0. Root.
#   sh tests/compat/container.sh            (ROOT=dir keeps and reuses the Debian there); 77: cannot be done here, and why
set -eu
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "buildah's chroot isolation needs root"
command -v buildah >/dev/null || skip "apt-get install --no-install-recommends buildah"
command -v redis-server >/dev/null && command -v mariadbd >/dev/null || skip "redis-server and mariadb-server are missing"
. tests/compat/debian.sh
work=$(mktemp -d /var/tmp/tallyd-container-XXXXXX)
box() { buildah --root "$work/images" --runroot "$work/run" --storage-driver "${STORAGE:-vfs}" "$@"; }
started=
end() {
    for pid in $started; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
    box rm --all >/dev/null 2>&1 || true
    debian_end
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
fail() { echo "FAILED: $1"; exit 1; }
# until_true WHAT COMMAND...: for a minute.
until_true() {
    what=$1
    shift
    for _ in $(seq 600); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail "$what"
}

debian_make
debian_unmount
base=$(box from scratch) || skip "buildah cannot store images here"
box add -q "$base" "${root:?}" / >/dev/null
box commit -q "$base" localhost/debian:12 >/dev/null
box run --isolation chroot "$base" true || skip "buildah cannot run a command here (namespaces)"
box rm "$base" >/dev/null
git archive "${COMMIT:-HEAD}" | { mkdir "$work/tree" && tar xf - -C "$work/tree"; }
box build --isolation chroot --format docker --build-arg DEBIAN=localhost/debian:12 -t tallyd \
    -f "$work/tree/config/container/Containerfile" "$work/tree" >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log"; fail "the image does not build"; }
echo "passed: the image is built"

box inspect --type image tallyd >"$work/image.json"
grep -q '"User": "7370:7370"' "$work/image.json" || fail "its user"
grep -q 'healthy.sh' "$work/image.json" || fail "its health check"
echo "passed: not root, with a health check"

free_ports() { python3 -c 'import socket
s = [socket.socket() for _ in range(4)]
for one in s: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in s])'; }
# shellcheck disable=SC2046  # four words
set -- $(free_ports)
mkdir "$work/redis" "$work/db"
redis-server --bind 127.0.0.1 --port "$1" --dir "$work/redis" --appendonly yes --save "" >"$work/redis.log" 2>&1 &
started="$!"
mariadb-install-db --no-defaults --datadir="$work/db" --auth-root-authentication-method=normal --skip-test-db --user=root \
    >"$work/install.log" 2>&1
mariadbd --no-defaults --user=root --datadir="$work/db" --socket="$work/db.sock" --bind-address=127.0.0.1 --port="$2" \
    --skip-name-resolve --tmpdir="$work" --pid-file="$work/db.pid" >"$work/db.log" 2>&1 &
started="$! $started"
sql() { mariadb --no-defaults -u root -S "$work/db.sock" "$@"; }
until_true "mariadbd comes up" sql -e "SELECT 1"
sql -e "CREATE DATABASE shop; CREATE USER tally@'127.0.0.1' IDENTIFIED BY 'example'; GRANT ALL ON shop.* TO tally@'127.0.0.1'"

tallyd=$(box from tallyd)
tree=$(box mount "$tallyd")
sed -i "s/valkey:6379/127.0.0.1:$1/; s/mariadb:3306/127.0.0.1:$2/; s/0.0.0.0:7370/127.0.0.1:$3/; s/0.0.0.0:7371/127.0.0.1:$4/" \
    "$tree/etc/tallyd/tallyd.yaml"
echo "me 0123456789abcdef0123" >"$tree/etc/tallyd/http.tokens"
chown 7370 "$tree/etc/tallyd/http.tokens"
chmod 600 "$tree/etc/tallyd/http.tokens"
inside() { box run --isolation chroot --env TALLYD_MYSQL_PASSWORD=example "$tallyd" -- "$@"; }
inside tallyd migrate --tables >"$work/migrate.log" 2>&1 || { cat "$work/migrate.log"; fail "migrate"; }
inside tallyd run >"$work/tallyd.log" 2>&1 &
service=$!
until_true "the health check answers" inside bash /usr/lib/tallyd/healthy.sh "$4"
[ "$(inside id -u)" = 7370 ] || fail "it runs as another user"
[ "$(redis-cli -p "$3" HINCRBY s1:unique_visitors:daily 20140920 7)" = 7 ] || fail "a hit"
redis-cli -p "$3" CTR.SYNC ALL >/dev/null
[ "$(sql -N -e "SELECT visitors FROM daily_visitors WHERE store_id = 1" shop)" = 7 ] || fail "its row"
echo "passed: it is healthy, counts and merges"
pid=$(redis-cli -p "$3" INFO server | tr -d '\r' | sed -n 's/^process_id://p')
kill -TERM "$pid"
wait "$service" || { tail -n 20 "$work/tallyd.log"; fail "it does not stop with 0"; }
! inside bash /usr/lib/tallyd/healthy.sh "$4" 2>/dev/null || fail "the health check without a tallyd"
echo "passed: it stops with 0, and the health check says so
4 passed, 0 failed"
