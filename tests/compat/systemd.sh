#!/bin/sh
# The package's unit under a real systemd: a clean Debian 12 is booted in namespaces of its own, and in it tallyd is
# installed, configured, started, hit, reloaded, killed, stopped dead (the watchdog must end it), upgraded and stopped.
# What a chroot cannot show: sd_notify, credentials, the system call filter, restarts, postinst's restart.
#   sh tests/compat/systemd.sh               (ROOT=dir keeps and reuses the Debian there, COMMIT=what is built)
# Exit status 77, skipped: this machine has no cgroup2 that may be used.
set -eu
cd "$(dirname "$0")/../.."
. tests/compat/debian.sh
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_PACKAGE

cgroups=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
group=$cgroups/tallyd-compat-$$
if [ -z "$cgroups" ] || ! mkdir "$group" 2>/dev/null; then
    echo "skipped: no cgroup2 to make a group in"
    exit 77
fi
work=$(mktemp -d /var/tmp/tallyd-systemd-XXXXXX)
end() {
    debian_end
    left=50
    # systemd made groups in it; they can go once the last process is gone
    until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || [ $left = 0 ]; do
        left=$((left - 1))
        sleep 0.1
    done
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
fail() {
    echo "FAILED: $1" >&2
    for log in "$work"/*.log "$root"/root/*.log; do [ ! -s "$log" ] || { echo "-- $log"; tail -n 40 "$log"; } >&2; done
    exit 1
}

mkdir "$work/source"
git archive "${COMMIT:-HEAD}" | tar xf - -C "$work/source"
build() {
    (
        cd "$work/source"
        cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DUNITS=OFF -DCMAKE_INSTALL_PREFIX=/usr
        ninja -C build tallyd
        cd build
        cpack -G DEB
    ) >"$work/build.log" 2>&1 || fail "it does not build"
}
build
mv "$work"/source/build/tallyd_*.deb "$work/old.deb"
sed -i 's/^project(tallyd VERSION [0-9.]*/&.9/' "$work/source/CMakeLists.txt"
build
mv "$work"/source/build/tallyd_*.deb "$work/new.deb"

debian_make >"$work/debootstrap.log" 2>&1 || fail "debootstrap"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started before the boot
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "$work/old.deb" "$work/new.deb" "$root/root/"
{
    debian_run apt-get -q update
    debian_run dpkg --purge tallyd # of an earlier run in the same ROOT
    debian_run apt-get -q -y install --no-install-recommends dbus redis-server redis-tools mariadb-server mariadb-client
    debian_run apt-get -q -y install --no-install-recommends /root/old.deb
} >"$work/apt.log" 2>&1 || fail "apt-get"
rm "$root/usr/sbin/policy-rc.d"
sed -i 's/^appendonly no/appendonly yes/' "$root/etc/redis/redis.conf"
debian_run systemctl mask getty.target console-getty.service systemd-udevd.service systemd-networkd.service \
    systemd-logind.service systemd-resolved.service systemd-timesyncd.service >"$work/mask.log" 2>&1

rm -f "$root/root/results" "$root"/root/*.log
# --- what is done in the booted system; its lines are this test's ---
cat >"$root/root/probe.sh" <<'PROBE'
#!/bin/sh
passed() { echo "passed: $1" >&3; }
fail() {
    echo "FAILED: $1" >&3
    systemctl --failed --no-pager
    journalctl --no-pager -p notice | tail -n 30
    journalctl -u tallyd --no-pager | tail -n 30
    systemctl poweroff -ff
    exit
}
within() { # SECONDS WHAT COMMAND...
    left=$(($1 * 5)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "$what"
        sleep 0.2
    done
}
shows() { [ "$(systemctl show tallyd -p "$1" --value)" = "$2" ]; }
status_has() { systemctl show tallyd -p StatusText --value | grep -q "$1"; }
exec 3>>/root/results 2>>/root/probe.log >>/root/probe.log
set -x

shows ConditionResult no && shows ActiveState inactive || fail "it was started without a configuration"
passed "without a configuration nothing is started"

within 60 "mariadbd is up" mariadb -e 'SELECT 1'
within 60 "redis-server is up" redis-cli PING
redis-cli FLUSHALL
mariadb -e "DROP DATABASE IF EXISTS shop; DROP USER IF EXISTS tally@localhost; CREATE DATABASE shop; CREATE USER tally@localhost IDENTIFIED BY 'only for this test';
    GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON shop.* TO tally@localhost"
(umask 077 && printf 'only for this test\n' >/etc/tallyd/mysql.password)
install -m 640 -g tallyd /usr/share/tallyd/tallyd.yaml /etc/tallyd/tallyd.yaml
sed -i -e 's|resp: \[.*|resp: [ "tcp://127.0.0.1:7370", "unix:///run/tallyd/tallyd.sock" ]|' \
    -e 's|url: "mysql:.*|url: "mysql://tally@localhost/shop?socket=/run/mysqld/mysqld.sock"|' \
    -e 's|# \(password_file: /etc/tallyd/mysql.password\)|\1|' /etc/tallyd/tallyd.yaml
tallyd migrate --tables && tallyd check || fail "migrate and check"
systemctl start tallyd || fail "systemctl start tallyd"
[ "$(redis-cli -p 7370 PING)" = PONG ] || fail "it is said to be started, and does not serve"
[ "$(redis-cli -s /run/tallyd/tallyd.sock HINCRBY s12345:unique_visitors:daily 20140920 1)" = 1 ] || fail "a hit"
redis-cli -p 7370 CTR.SYNC ALL
[ "$(mariadb -N -B shop -e 'SELECT visitors FROM daily_visitors')" = 1 ] || fail "the merchant's row"
within 10 "its status" status_has '^counts and merges; '
passed "started under its unit, with its password from systemd, it counts and merges"

pid=$(systemctl show tallyd -p MainPID --value)
[ "$(ps -o user= -p "$pid")" = tallyd ] || fail "its user"
for line in 'CapBnd:.0000000000000000' 'NoNewPrivs:.1' 'Seccomp:.2'; do
    grep -q "^$line$" "/proc/$pid/status" || fail "$line"
done
passed "no capability, no new privilege, its system calls filtered"

systemctl reload tallyd || fail "systemctl reload tallyd"
within 10 "active after the reload" shows ActiveState active
journalctl -u tallyd -o cat | grep -q 'event=reload' || fail "the reload"
[ -z "$(journalctl -u tallyd -p warning -o cat)" ] || fail "warnings in the journal"
[ -z "$(journalctl -u tallyd -o cat | grep '^<')" ] || fail "priorities that the journal did not take"
passed "reloads; the journal takes its priorities"

kill -KILL "$pid"
within 30 "started again after a kill" shows NRestarts 1
within 30 "serves again" redis-cli -p 7370 PING
kill -STOP "$(systemctl show tallyd -p MainPID --value)"
within 90 "ended by the watchdog, and started again" shows NRestarts 2
within 30 "serves again" redis-cli -p 7370 PING
journalctl -u tallyd | grep -q 'Watchdog timeout' || journalctl | grep -q 'tallyd.service: Watchdog timeout' || fail "no watchdog"
passed "killed, or stopped dead, it is started again"

systemctl stop redis-server
within 30 "its status without Redis" status_has '^Redis is away'
systemctl start redis-server
within 30 "its status with Redis" status_has '^counts and merges; '

apt-get -q -y install /root/new.deb || fail "apt-get install of the new version"
within 30 "restarted by the upgrade" sh -c 'journalctl -u tallyd -o cat | grep -q "event=ready version=.*\.9 "'
pid=$(systemctl show tallyd -p MainPID --value)
sed -i 's/every: 60s/every: never/' /etc/tallyd/tallyd.yaml
apt-get -q -y install --allow-downgrades /root/old.deb >/root/refused.log 2>&1 || fail "apt-get install of the old version"
[ "$(systemctl show tallyd -p MainPID --value)" = "$pid" ] || fail "restarted with a configuration that it refuses"
grep -q 'the old one goes on running' /root/refused.log || fail "the upgrade does not say that the old one goes on"
grep -q '^    .*tallyd.yaml:.*every' /root/refused.log || fail "the upgrade does not say what check found"
[ "$(redis-cli -p 7370 PING)" = PONG ] || fail "the old one does not go on"
passed "an upgrade restarts it, but not into a configuration that it refuses"

systemctl stop tallyd
shows Result success && shows ActiveState inactive || fail "systemctl stop tallyd"
systemctl start tallyd && fail "it starts with a configuration that it refuses"
sleep 5 # RestartSec and more: it must not be tried again
shows NRestarts 0 && shows ActiveState failed || fail "it is tried again and again"
apt-get -q -y purge tallyd || fail "purge"
systemctl is-enabled tallyd && fail "still enabled"
passed "stops, is not started into a wrong configuration again and again, leaves"
systemctl poweroff -ff
PROBE
chmod 755 "$root/root/probe.sh"
cat >"$root/etc/systemd/system/probe.service" <<'UNIT'
[Unit]
After=redis-server.service mariadb.service tallyd.service
[Service]
ExecStart=/root/probe.sh
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../probe.service "$root/etc/systemd/system/multi-user.target.wants/probe.service"

# --- the boot: namespaces of its own, a cgroup of its own, the directory as / ---
debian_unmount
cat >"$work/boot.sh" <<'BOOT'
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    set -- $node
    mknod -m 666 "dev/$1" c "$2" "$3"
done
mkdir -p dev/pts dev/shm old
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . old
umount -l /old
mount --make-rshared / # as systemd has it, and its credentials need it
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
BOOT
sh -c 'echo $$ >"$1/cgroup.procs"; exec timeout 400 unshare -C -m -p -f -u -i --kill-child sh "$2" "$3"' \
    sh "$group" "$work/boot.sh" "$root" </dev/null >"$work/boot.log" 2>&1 || true
cat "$root/root/results" 2>/dev/null || fail "it did not boot"
! grep '^FAILED' "$root/root/results" >/dev/null || fail "in the booted system"
[ "$(grep -c '^passed' "$root/root/results")" = 7 ] || fail "it ended early"
echo "7 passed, 0 failed"
