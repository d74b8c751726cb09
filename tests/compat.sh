#!/bin/sh
# The end-to-end and fault suites against servers, libraries and clients that Debian 12 does not have. A world is a build
# of tallyd, a Redis and a MySQL, each of this machine (host) or of a newer Debian that debootstrap makes in a directory.
# Root only; packages come from the mirror that this machine's apt uses, npm's from npm.
#   sh tests/compat.sh [WORLD...]        all worlds, or these: an hour or two
#   sh tests/compat.sh --list            the worlds
#   sh tests/compat.sh --table           what they came to, as in tests/compat/README.md
# SUITES="e2e_faults e2e_sql": these suites only. JOBS=n at once, BUILD=dir, ROOTS=dir where the Debians are and stay.
# A cell is how many tests passed; or FAILED, with its log in BUILD/compat/results.
set -eu
cd "$(dirname "$0")/.."
source=$PWD
build=${BUILD:-$source/build}
jobs=${JOBS:-$(nproc)}
work=$build/compat
roots=${ROOTS:-$work/roots}
results=$work/results

# name       tallyd   Redis                  MySQL
worlds='
debian12     host     host:redis-server      host:mariadbd
redis8       host     sid:redis-server       host:mariadbd
redis86      host     experimental:redis-server host:mariadbd
valkey8      host     trixie:valkey-server   host:mariadbd
valkey9      host     sid:valkey-server      host:mariadbd
mariadb11    host     host:redis-server      trixie:mariadbd
mysql9       host     host:redis-server      sid:mysqld
hiredis1     trixie   trixie:redis-server    trixie:mariadbd
oracle       sid      sid:valkey-server      sid:mysqld'
world_names() { echo "$worlds" | awk 'NF { print $1 }'; }
world_has() { echo "$worlds" | awk -v name="$1" -v column="$2" '$1 == name { print $column }'; }

# Left out: what is about this machine's shells and browser, what starts servers of its own by name, and the hour's soak.
suites_all() {
    find tests/e2e -name 'test_*.py' | sed 's|.*/test_\(.*\)\.py|e2e_\1|' | sort |
        grep -vx -e e2e_completion -e e2e_dev -e e2e_everything -e e2e_harness -e e2e_panel
}

# --- what it came to ---
cell() {
    [ -e "$results/$1/$2.cell" ] && cat "$results/$1/$2.cell" || echo "-"
}
row() { # cells
    printf '|'
    printf ' %s |' "$@"
    echo
}
table() {
    row world "tallyd with" Redis MySQL run
    row --- --- --- --- ---
    for world in $(world_names); do
        [ ! -e "$results/$world/world" ] || cat "$results/$world/world"
    done
    echo
    # shellcheck disable=SC2046  # words
    row suite $(world_names)
    # shellcheck disable=SC2046
    row $(echo suite $(world_names) | sed 's/[^ ]*/---/g')
    for suite in $(suites_all); do
        printf '| %s |' "${suite#e2e_}"
        for world in $(world_names); do printf ' %s |' "$(cell "$world" "$suite")"; done
        echo
    done
}

case ${1:-} in
--list)
    echo "$worlds" | sed 1d
    exit
    ;;
--table)
    table
    exit
    ;;
esac
for world in "$@"; do
    [ -n "$(world_has "$world" 1)" ] || {
        echo "no world is called $world; see --list" >&2
        exit 64
    }
done

# In mounts of our own: however this ends, none is left.
if [ "${COMPAT_MOUNTS:-}" != own ]; then
    COMPAT_MOUNTS=own exec unshare --mount --propagation private sh tests/compat.sh "$@"
fi
. tests/compat/debian.sh
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS $PACKAGES_TESTS debootstrap
# shellcheck disable=SC2086
command -v npm >/dev/null || packages_need $PACKAGES_NODE
rm -rf "${work:?}/cache" "${work:?}/bin"
mkdir -p "$results" "$roots" "$work/cache" "$work/bin"

# step WHAT COMMAND...: quiet when it works; the end of what it said when not, and that is the end.
step() {
    what=$1
    shift
    "$@" >"$work/step.log" 2>&1 || {
        echo "FAILED: $what" >&2
        tail -n 40 "$work/step.log" >&2
        exit 1
    }
}

# --- the Debians ---
within() { # DEBIAN COMMAND...
    where=$1
    shift
    root=$roots/$where
    if [ "$where" = host ]; then "$@"; else debian_run "$@"; fi
}
# MySQL and MariaDB exclude each other: each Debian has one.
packages_of() {
    echo "$PACKAGES_BUILD" | sed 's/libmariadb-dev-compat//; s/libmariadb-dev//; s/scdoc//'
    echo redis-server redis-tools valkey-server python3 python3-redis
    case $1 in
    trixie) echo libmariadb-dev libmariadb-dev-compat mariadb-server-core mariadb-client-core ;;
    sid) echo libmysqlclient-dev mysql-server-core ;;
    esac
}
debian_of_worlds() {
    ROOT=$roots/$1
    if [ "$1" = experimental ]; then # sid, with its Redis
        debian_make sid
        echo "deb $mirror experimental main" >"$root/etc/apt/sources.list.d/experimental.list"
        printf 'Package: redis*\nPin: release a=experimental\nPin-Priority: 990\n' >"$root/etc/apt/preferences.d/redis"
    else
        debian_make "$1"
    fi
    echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99kept" # a mirror may be out of date
    for shared in /tmp /dev/shm "$source" "$build"; do # the same paths there as here
        mkdir -p "$root$shared"
        mount --bind "$shared" "$root$shared"
    done
    # shellcheck disable=SC2016,SC2046  # a shell's script; a list of names
    debian_run sh -c '. "$0/config/packages.sh" && packages_need "$@"' "$source" $(packages_of "$1")
}
tallyd_of() {
    targets=tallyd
    [ "$1" != host ] || targets="tallyd load hiredis_async clock_shim disk_shim malloc_shim"
    within "$1" cmake -S "$source" -B "$work/build-$1" -G Ninja
    # shellcheck disable=SC2086  # words
    within "$1" ninja -C "$work/build-$1" -j "$jobs" $targets
}

# --- a world ---
# program DEBIAN:NAME: the path of what starts that program of that Debian, in this very process.
program() {
    where=${1%%:*} name=${1#*:}
    path=$(within "$where" sh -c "command -v $name")
    if [ "$where" != host ]; then
        script=$work/bin/$where-${name##*/}
        # shellcheck disable=SC2016  # a script
        printf '#!/bin/sh\nexec chroot "%s" env -C "$PWD" "%s" "$@"\n' "$roots/$where" "$path" >"$script"
        chmod 755 "$script"
        path=$script
    fi
    echo "$path"
}
library_versions() { # of a Debian
    # shellcheck disable=SC2016  # dpkg-query's own
    within "$1" dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' 'libhiredis[0-9]*' libmariadb3 \
        'libmysqlclient[0-9]*' 2>&1 |
        awk '$1 == "installed" { sub(/^[0-9]+:/, "", $3); sub(/[-+].*/, "", $3); printf "%s%s %s", sep, $2, $3; sep = ", " }'
}
server_version() { # its name, its path
    printf '%s ' "$1"
    "$2" --version | grep -o '[0-9]\{1,\}\.[0-9]\{1,\}\.[0-9]\{1,\}' | head -n 1
}
world_enter() {
    tallyd=$(world_has "$1" 2) redis=$(world_has "$1" 3) mysql=$(world_has "$1" 4)
    TALLYD=$(program "$tallyd:$work/build-$tallyd/tallyd")
    REDIS_SERVER=$(program "$redis")
    unset MYSQLD MARIADBD MARIADB_INSTALL_DB
    case $mysql in
    *:mysqld) MYSQLD=$(program "$mysql") ;;
    *)
        MARIADBD=$(program "$mysql")
        MARIADB_INSTALL_DB=$(program "${mysql%:*}:mariadb-install-db")
        export MARIADBD MARIADB_INSTALL_DB
        ;;
    esac
    PYTHON_CLIENT=$(program "$tallyd:/usr/bin/python3")
    E2E_CACHE=$work/cache/${mysql%:*} # an empty MySQL to copy
    WORLD=$results/$1
    mkdir -p "$E2E_CACHE" "$WORLD"
    export TALLYD REDIS_SERVER MYSQLD PYTHON_CLIENT E2E_CACHE WORLD
    row "$1" "$(library_versions "$tallyd")" "$(server_version "${redis#*:}" "$REDIS_SERVER")" \
        "$(server_version "${mysql#*:}" "${MYSQLD:-$MARIADBD}")" "$(date -u +%F)" >"$WORLD/world"
}
world_run() {
    suites=${SUITES:-$(suites_all)}
    for suite in $suites; do rm -f "$WORLD/$suite.cell"; done
    # shellcheck disable=SC2086  # words
    printf '%s\n' $suites | xargs -r -n 1 -P "$jobs" sh tests/compat/cell.sh
    for suite in $suites; do # counted from what it is now
        case $(cell "${WORLD##*/}" "$suite") in *FAILED* | -) failed=$((failed + 1)) ;; *) passed=$((passed + 1)) ;; esac
    done
}

mount --bind /tmp /tmp
mount --make-shared /tmp # so that what a test mounts there is seen in the Debians, too
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(world_names)
debians() { # COLUMN... of the worlds that run
    echo "$worlds" | awk -v wanted=" $asked " -v columns="$*" 'index(wanted, " " $1 " ") {
        n = split(columns, at)
        for (i = 1; i <= n; i++) { split($at[i], part, ":"); print part[1] }
    }' | sort -u
}
asked=$*
for debian in $(debians 2 3 4); do [ "$debian" = host ] || step "the packages of $debian" debian_of_worlds "$debian"; done
for debian in host $(debians 2 | grep -vx host || true); do step "tallyd built in $debian" tallyd_of "$debian"; done
NODE_MODULES=$work/npm/node_modules
LOAD=$work/build-host/tests/bench/load
HIREDIS_ASYNC=$work/build-host/tests/e2e/hiredis_async
CLOCK_SHIM=$work/build-host/tests/e2e/clock_shim.so
MALLOC_SHIM=$work/build-host/tests/e2e/malloc_shim.so
export NODE_MODULES LOAD HIREDIS_ASYNC CLOCK_SHIM MALLOC_SHIM PYTHONDONTWRITEBYTECODE=1 TMPDIR=/tmp
step "npm" packages_npm "$work/npm"
npm ls --prefix "$work/npm" --depth 0

passed=0 failed=0
for world in "$@"; do
    echo "== $world"
    world_enter "$world"
    world_run
done
echo
table
echo
echo "$passed cells passed, $failed failed"
[ $failed = 0 ]
