#!/bin/sh
# Try tallyd, on a fresh Debian 12 or 13 as root (or as any user, once the packages are there): installs what is missing, builds,
# starts a private redis-server, mariadbd and tallyd, sends hits with redis-cli, waits for the merchants' rows in SQL and
# compares them with the hits. It does not touch the system's own services.
#   sh config/try.sh           says what to try, and runs until Ctrl-C; data remains in var/
#   sh config/try.sh --panel   also opens the panel in a browser, and sends a minute of a shop's traffic
#   sh config/try.sh --once    stops after the comparison and cleans up; exit status 0 only if the rows equal the hits
# TALLYD=binary: runs that binary and builds nothing; DIR=dir: keeps data there instead of in var/.
set -eu
how=${1:-stay}
case "$#$how" in
0stay | 1--panel | 1--once) ;;
*)
    echo "usage: sh config/try.sh [--panel | --once]" >&2
    exit 64
    ;;
esac
cd "$(dirname "$0")/.."
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS

tmp=$(mktemp -d /tmp/tallyd-try-XXXXXX)
dev=
traffic=
end() {
    [ -z "$traffic" ] || kill "$traffic" 2>/dev/null || true
    if [ -n "$dev" ] && kill -TERM "$dev" 2>/dev/null; then wait "$dev" || true; fi
    rm -rf "$tmp"
}
trap end EXIT
trap 'exit 130' INT TERM

fail() {
    echo "$1" >&2
    [ ! -s "$tmp/$2" ] || tail -n 30 "$tmp/$2" >&2
    exit 1
}

tallyd=${TALLYD:-build/try/tallyd}
if [ -z "${TALLYD:-}" ]; then
    echo "building, which takes some minutes"
    { cmake -S . -B build/try -G Ninja -DUNITS=OFF && ninja -C build/try tallyd; } >"$tmp/build.log" 2>&1 ||
        fail "tallyd does not build:" build.log
fi

dir=${DIR:-$PWD/var}
if [ "$how" = --once ] || [ ${#dir} -gt 90 ]; then dir=$tmp/var; fi # a unix socket's path has 107 bytes
"$tallyd" dev --dir "$dir" >"$tmp/dev.log" 2>&1 &
dev=$!
left=1200
until grep -qs '^tallyd runs' "$tmp/dev.log"; do
    left=$((left - 1))
    [ $left -gt 0 ] && kill -0 "$dev" 2>/dev/null || fail "tallyd dev did not come up:" dev.log
    sleep 0.1
done
echo "tallyd runs: $dir/tallyd.sock"
port=$(sed -n 's/^ *redis-cli -p \([0-9]*\) .*/\1/p' "$tmp/dev.log" | head -n 1)
url=$(grep -o 'http://127[.]0[.]0[.]1:[0-9]*/' "$tmp/dev.log" | head -n 1)

# The hits: two new shops' visitors and product views, "key field n" a line.
shop=$(date +%s)
today=$(date +%Y%m%d)
tomorrow=$(date -d tomorrow +%Y%m%d)
awk -v shop="$shop" -v today="$today" -v tomorrow="$tomorrow" 'BEGIN {
    for (i = 0; i < 7; i++) print "s" shop ":unique_visitors:daily", today, 1
    for (i = 0; i < 900; i++) print "s" shop + i % 2 ":unique_visitors:daily", i % 3 ? today : tomorrow, 1
    for (i = 0; i < 1100; i++) print "s" shop ":product_views", 1000 + i % 5, 1 + i % 4
}' >"$tmp/hits"

echo "one by one:"
head -n 7 "$tmp/hits" | while read -r key field n; do
    echo "  HINCRBY $key $field $n -> $(redis-cli -s "$dir/tallyd.sock" HINCRBY "$key" "$field" "$n")"
done
echo "the other 2000 as one pipeline:"
tail -n +8 "$tmp/hits" | awk '{ printf "HINCRBY %s %s %s\r\n", $1, $2, $3 }' |
    redis-cli -s "$dir/tallyd.sock" --pipe >"$tmp/pipe.log" || fail "the pipeline failed:" pipe.log
grep -q 'errors: 0, replies: 2000' "$tmp/pipe.log" || fail "hits were refused:" pipe.log
echo "  $(tail -n 1 "$tmp/pipe.log")"

sql() { mariadb --no-defaults -u root -S "$dir/mysql.sock" tally "$@"; }
rows() {
    sql -N -B -e "
        SELECT CONCAT('s', store_id, ':unique_visitors:daily'), DATE_FORMAT(day, '%Y%m%d'), visitors
            FROM daily_visitors WHERE store_id BETWEEN $shop AND $shop + 1;
        SELECT CONCAT('s', store_id, ':product_views'), product_id, views
            FROM product_views WHERE store_id BETWEEN $shop AND $shop + 1"
}
awk '{ sum[$1 "\t" $2] += $3 } END { for (at in sum) print at "\t" sum[at] }' "$tmp/hits" | sort >"$tmp/wanted"

echo "merged: $(redis-cli -s "$dir/tallyd.sock" CTR.SYNC ALL) rows (CTR.SYNC ALL; by itself within a minute)"
left=300
until rows 2>"$tmp/sql.log" | sort >"$tmp/found" && cmp -s "$tmp/wanted" "$tmp/found"; do
    left=$((left - 1))
    if [ $left -eq 0 ]; then
        diff "$tmp/wanted" "$tmp/found" | head -n 20 >&2 || true
        fail "the merchants' rows (>) are not the hits sent (<)" sql.log
    fi
    sleep 0.1
done
sql -t -e "SELECT * FROM daily_visitors WHERE store_id BETWEEN $shop AND $shop + 1;
           SELECT * FROM product_views WHERE store_id BETWEEN $shop AND $shop + 1"
"$tallyd" verify -c "$dir/tallyd.yaml"
echo "The merchants' rows equal the $(wc -l <"$tmp/hits") requests sent."
if [ "$how" = --once ]; then
    echo "The binary is $tallyd."
    exit 0
fi

# A shop's minute, for the panel: a month of visitors at once, then each second some visits and what they look at, a few
# products most.
traffic_send() {
    now=$(date +%s)
    for ago in $(seq 1 29); do
        day=$(date -d "$ago days ago" +%Y%m%d)
        echo "HINCRBY s$shop:unique_visitors:daily $day $((400 + ago * 7919 % 300))"
    done
    for second in $(seq 60); do
        awk -v shop="$shop" -v day="$(date +%Y%m%d)" -v seed="$((now + second))" 'BEGIN {
            srand(seed)
            for (visits = 3 + int(9 * rand()); visits > 0; visits--) {
                print "UNIQ.ADD s" shop ":visitors", day, 1 + int(100000 * rand())
                for (views = 1 + int(5 * rand()); views > 0; views--)
                    print "HINCRBY s" shop ":product_views", 1000 + int(40 * rand() ^ 3), 1
            }
        }'
        sleep 1
    done
}
if [ "$how" = --panel ]; then
    traffic_send | redis-cli -s "$dir/tallyd.sock" >"$tmp/traffic.log" 2>&1 &
    traffic=$!
    echo "sending a minute of traffic for the store $shop"
    # With no display xdg-open would put a text browser into this terminal.
    if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && command -v xdg-open >/dev/null; then
        xdg-open "$url#/store/$shop" >"$tmp/browser.log" 2>&1 || echo "no browser opens here: open the panel yourself"
    fi
fi

cat <<END

What ran    redis-server, mariadbd and tallyd, private to $dir; their logs are there.
            redis-cli sent $(wc -l <"$tmp/hits") hits; tallyd merged them into MariaDB; the sums are equal.
The panel   $url#/store/$shop
Now try
  1. Count a product view, and see it in the panel within two seconds:
       redis-cli -p $port HINCRBY s$shop:product_views 1004 1
  2. Read what the merchant reads (tallyd merges within a minute, or at once after CTR.SYNC ALL):
       mariadb -u root -S $dir/mysql.sock tally -e 'SELECT * FROM product_views WHERE store_id = $shop'
  3. Prove that every hit is counted once:
       $tallyd verify -c $dir/tallyd.yaml
Your own    $tallyd check -c shop.yaml prints the ten lines to begin with; config/README.md goes on from there.
Ctrl-C stops all three. The data stays in $dir.
END
wait "$dev"
