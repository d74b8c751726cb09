#!/bin/sh
# Both commands of the README in a fresh Debian 12 that has nothing installed, with the checkout under /root (mode 0700,
# which a mariadbd without root's rights cannot enter). Root only; takes the mirror from this machine's apt.
#   sh tests/compat/debootstrap.sh            (ROOT=dir keeps and reuses the Debian there, COMMIT=what is checked out)
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "apt-get install debootstrap" >&2; exit 1; }

# The first mirror of this machine that has bookworm's main.
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || { echo "no mirror of bookworm in this machine's apt sources" >&2; exit 1; }

keep=${ROOT:-}
root=${ROOT:-$(mktemp -d /var/tmp/tallyd-debian-XXXXXX)}
end() {
    for mounted in dev/shm dev/pts dev proc; do ! mountpoint -q "$root/$mounted" || umount -l "$root/$mounted"; done
    [ -n "$keep" ] || rm -rf "$root"
}
trap end EXIT
trap 'exit 130' INT TERM

[ -x "$root/bin/sh" ] || debootstrap --variant=minbase bookworm "$root" "$mirror"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
apt-config dump | grep -i '^Acquire::https\{0,1\}::' >"$root/etc/apt/apt.conf.d/99host" || true # a proxy, if any

rm -rf "$root/root/tallyd"
mkdir -p "$root/root/tallyd"
git archive "${COMMIT:-HEAD}" | tar xf - -C "$root/root/tallyd"
chown -R 0:0 "$root/root"
chmod 0700 "$root/root"
for command in "config/try.sh --once" "tests/run.sh"; do
    echo "== sh $command"
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "cd /root/tallyd && sh $command"
done
echo "2 passed, 0 failed"
