#!/bin/sh
# The Debian package, by the commands of config/README.md: built twice in different places (the same bytes), then its whole life
# in a clean Debian 12: installed, configured, checked, migrated, started, hit, upgraded to a higher version, removed,
# purged. There is no systemd in a chroot: the unit's ExecStart is run by hand, as its user, with its credentials.
#   sh tests/compat/package.sh               (ROOT=dir keeps and reuses the Debian there, COMMIT=what is built)
set -eu
cd "$(dirname "$0")/../.."
. tests/compat/debian.sh
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_PACKAGE

work=$(mktemp -d /var/tmp/tallyd-package-XXXXXX)
started=
end() {
    for pid in $started; do ! kill -KILL "$pid" 2>/dev/null || wait "$pid" 2>/dev/null || true; done
    debian_end
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

passed=0
fail() {
    echo "FAILED: $1" >&2
    for log in "$work"/*.log; do [ ! -s "$log" ] || { echo "-- $log"; tail -n 25 "$log"; } >&2; done
    exit 1
}
pass() {
    echo "passed: $1"
    passed=$((passed + 1))
}
# within SECONDS WHAT COMMAND...: the command succeeds within that time.
within() {
    left=$(($1 * 10)) what=$2
    shift 2
    until "$@" >"$work/within.log" 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "$what"
        sleep 0.1
    done
}

# The command under "Install" that begins so.
readme() {
    command=$(sed -n '/^## Install/,/^## /s/^    \([^ ].*\)/\1/p' config/README.md | sed 's/  *#.*//' |
        awk -v begins="$1" 'index($0, begins) == 1 { print; exit }')
    echo "${command:-exit 1 # no command of the page begins with $1}"
}
readme_build="$(readme 'cmake -S') && $(readme 'ninja -C') && $(readme '(cd build/package')"
readme_install=$(readme 'apt install ./tallyd_')
readme_configure=$(readme 'install -m')
readme_migrate=$(readme 'tallyd migrate')
readme_check=$(readme 'tallyd check')

# --- build ---
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "${COMMIT:-HEAD}")
export SOURCE_DATE_EPOCH CCACHE_DISABLE=1
umask 022 # which ar puts into its members' modes
build() { # directory
    (cd "$work/$1" && eval "$readme_build") >"$work/build.log" 2>&1 || fail "it does not build"
}
for place in one two/levels/deeper; do
    mkdir -p "$work/$place"
    git archive "${COMMIT:-HEAD}" | tar xf - -C "$work/$place"
done
build one
build two/levels/deeper
cmp "$work"/one/build/package/tallyd_*.deb "$work"/two/levels/deeper/build/package/tallyd_*.deb ||
    fail "two builds in different directories differ"
pass "two builds in different directories give the same bytes"
sed -i 's/^project(tallyd VERSION [0-9.]*/&.9/' "$work/one/CMakeLists.txt"
mv "$work"/one/build/package/tallyd_*.deb "$work/old.deb"
build one
mv "$work"/one/build/package/tallyd_*.deb "$work/new.deb"
old=$(dpkg-deb -f "$work/old.deb" Version) new=$(dpkg-deb -f "$work/new.deb" Version)
dpkg --compare-versions "$old" lt "$new" || fail "$new is not higher than $old"

# --- a clean Debian, with the servers that it is to meet ---
debian_make >"$work/debootstrap.log" 2>&1 || fail "debootstrap"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started in a chroot
chmod 755 "$root/usr/sbin/policy-rc.d"
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n' >"$root/etc/apt/apt.conf.d/99test"
apt() { debian_run apt-get -q "$@" >"$work/apt.log" 2>&1 || fail "apt-get $*"; }
apt update
apt install redis-server redis-tools mariadb-server mariadb-client
debian_run dpkg --purge tallyd >"$work/apt.log" 2>&1 # of an earlier run in the same ROOT
rm -rf "$root/root/old" "$root/root/new" "$root/root/redis"
mkdir "$root/root/old" "$root/root/new"
cp "$work/old.deb" "$root/root/old/tallyd_${old}_amd64.deb"
cp "$work/new.deb" "$root/root/new/tallyd_${new}_amd64.deb"
apt_readme() { # directory
    debian_run sh -c "cd /root/$1 && $readme_install" >"$work/apt.log" 2>&1 || fail "$readme_install"
}

# --- install ---
apt_readme old
grep -q 'tallyd is installed and not configured' "$work/apt.log" || fail "it does not say what is next"
debian_run getent passwd tallyd | grep -q ':/usr/sbin/nologin$' || fail "there is no user tallyd without a shell"
[ "$(debian_run stat -c '%U:%G %a' /etc/tallyd)" = "root:tallyd 750" ] || fail "/etc/tallyd"
debian_run test ! -e /etc/tallyd/tallyd.yaml || fail "it brought a configuration of its own"
debian_run test -L /etc/systemd/system/multi-user.target.wants/tallyd.service || fail "its unit is not enabled"
if debian_run ldd /usr/bin/tallyd | grep 'not found'; then fail "its dependencies miss a library"; fi
debian_run systemd-analyze verify --man=no tallyd.service >"$work/verify.log" 2>&1 || fail "systemd-analyze verify"
debian_run tallyd --version | grep -qx "tallyd $old" || fail "its version is not $old"
pass "installs, enables its unit, starts nothing"

# --- servers, a database, the configuration ---
redis_cli() { debian_run redis-cli -s /run/redis/redis.sock "$@"; }
sql() { debian_run mariadb -u root -S /run/mysqld/mysqld.sock -N -B "$@"; }
debian_run install -d -o redis -g redis /run/redis /root/redis
debian_run install -d -o mysql -g mysql /run/mysqld
chmod 755 "$root/root"
chroot "$root" setpriv --reuid redis --regid redis --clear-groups redis-server --port 0 --dir /root/redis \
    --unixsocket /run/redis/redis.sock --unixsocketperm 777 --appendonly yes >"$work/redis.log" 2>&1 &
started="$started $!"
chroot "$root" setpriv --reuid mysql --regid mysql --init-groups mariadbd --skip-networking \
    --socket=/run/mysqld/mysqld.sock >"$work/mariadbd.log" 2>&1 &
started="$started $!"
within 60 "redis-server is up" redis_cli PING
within 60 "mariadbd is up" sql -e 'SELECT 1'
sql -e "DROP DATABASE IF EXISTS shop; DROP USER IF EXISTS tally@localhost; CREATE DATABASE shop; CREATE USER tally@localhost IDENTIFIED BY 'only for this test';
    GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON shop.* TO tally@localhost"
debian_run sh -c "$readme_configure"
sed -i -e 's|resp: \[.*|resp: "unix:///run/tallyd/tallyd.sock"|' \
    -e 's|url: "redis:.*|url: "unix:///run/redis/redis.sock?db=0"|' \
    -e 's|url: "mysql:.*|url: "mysql://tally@localhost/shop?socket=/run/mysqld/mysqld.sock"|' \
    -e 's|# \(password_file: /etc/tallyd/mysql.password\)|\1|' "$root/etc/tallyd/tallyd.yaml"
printf 'only for this test\n' >"$root/etc/tallyd/mysql.password"
debian_run chmod 600 /etc/tallyd/mysql.password
debian_run install -d -o tallyd -g tallyd /run/tallyd

status=0
debian_run tallyd check >"$work/check.log" 2>&1 || status=$?
[ $status = 78 ] && grep -q 'run tallyd migrate' "$work/check.log" || fail "check before migrate: $status"
debian_run sh -c "$readme_migrate" >"$work/migrate.log" 2>&1 || fail "tallyd migrate"
debian_run sh -c "$readme_check" >"$work/check.log" 2>&1 || fail "tallyd check"
pass "check says what is missing, migrate makes it"
debian_run chmod 600 /etc/tallyd/tallyd.yaml
status=0
debian_run tallyd check >"$work/check.log" 2>&1 || status=$?
[ $status = 78 ] && grep -q "service's user cannot read /etc/tallyd/tallyd.yaml" "$work/check.log" || fail "check as root: $status"
debian_run chmod 640 /etc/tallyd/tallyd.yaml
pass "check as root says what the service cannot read"

# --- run, as the unit says ---
unit=$root/usr/lib/systemd/system/tallyd.service
run_unit() {
    user=$(sed -n 's/^User=//p' "$unit") group=$(sed -n 's/^Group=//p' "$unit")
    rm -rf "$root/run/credentials/tallyd.service"
    mkdir -p "$root/run/credentials/tallyd.service"
    sed -n 's/^LoadCredential=//p' "$unit" | while IFS=: read -r name path; do
        [ ! -e "$root$path" ] || cp "$root$path" "$root/run/credentials/tallyd.service/$name"
    done
    debian_run chown -R "$user" /run/credentials/tallyd.service
    # shellcheck disable=SC2046  # a command line
    chroot "$root" /usr/bin/env -i CREDENTIALS_DIRECTORY=/run/credentials/tallyd.service \
        setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
        $(sed -n 's/^ExecStart=//p' "$unit") >>"$work/tallyd.log" 2>&1 &
    service=$!
    started="$started $service"
    within 60 "tallyd answers" answers
}
hit() { # as a member of the group, which is what clients are
    chroot "$root" setpriv --reuid nobody --regid nogroup --groups "$(debian_run id -g tallyd)" \
        redis-cli -s /run/tallyd/tallyd.sock "$@"
}
answers() { [ "$(hit PING)" = PONG ]; }
visitors() { sql shop -e "SELECT visitors FROM daily_visitors WHERE store_id = 12345 AND day = 20140920"; }
counted() { # a hit more, and what the merchant reads then
    hit HINCRBY s12345:unique_visitors:daily 20140920 1 >"$work/hit.log"
    hit CTR.SYNC s12345:unique_visitors:daily >>"$work/hit.log"
    [ "$(visitors)" = "$1" ] || fail "the merchant reads '$(visitors)' instead of $1"
}
stop_service() {
    kill -TERM $service
    wait $service || fail "tallyd ended with $?"
}
run_unit
counted 1
debian_run tallyd verify >"$work/verify.log" 2>&1 || fail "the books"
pass "runs as its unit says, counts and merges"

# --- upgrade ---
sha256sum "$root"/etc/tallyd/* >"$work/before"
apt_readme new
sha256sum "$root"/etc/tallyd/* | cmp - "$work/before" || fail "the upgrade changed the configuration"
[ "$(debian_run stat -c '%U:%G %a' /etc/tallyd/mysql.password)" = "root:root 600" ] || fail "the password's rights"
debian_run tallyd --version | grep -qx "tallyd $new" || fail "its version is not $new"
counted 2 # the old one still runs: postinst restarts it where there is a systemd
debian_run tallyd check >"$work/check.log" 2>&1 || fail "check after the upgrade"
stop_service
run_unit
counted 3
apt install --allow-downgrades "/root/old/tallyd_${old}_amd64.deb"
stop_service
run_unit
counted 4
pass "upgrades and goes back, keeps its configuration and what was counted"

# --- leave ---
stop_service
apt remove tallyd
debian_run test ! -e /usr/bin/tallyd || fail "the binary is still there"
sha256sum "$root"/etc/tallyd/* | cmp - "$work/before" || fail "the removal took the configuration"
apt purge tallyd
debian_run test ! -e /etc/tallyd || fail "the purge left the configuration"
rm -rf "$root/root/old" "$root/root/new"
if debian_run find / -xdev -name '*tallyd*' -not -path '/proc/*' -not -path '/run/*' | grep .; then
    fail "the purge left these files"
fi
[ "$(visitors)" = 4 ] || fail "the merchant's rows are gone"
[ "$(redis_cli EXISTS tally:accepted)" = 1 ] || fail "what stands in Redis is gone"
pass "leaves: a removal keeps the configuration, a purge the data"
echo "$passed passed, 0 failed"
