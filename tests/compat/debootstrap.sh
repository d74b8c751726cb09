#!/bin/sh
# Both commands of the README in a fresh Debian 12 that has nothing installed, with the checkout under /root (mode 0700,
# which a mariadbd without root's rights cannot enter). Root only; takes the mirror from this machine's apt.
#   sh tests/compat/debootstrap.sh            (ROOT=dir keeps and reuses the Debian there, COMMIT=what is checked out)
set -eu
cd "$(dirname "$0")/../.."
. tests/compat/debian.sh
trap debian_end EXIT
trap 'exit 130' INT TERM
debian_make

rm -rf "$root/root/tallyd"
mkdir -p "$root/root/tallyd"
git archive "${COMMIT:-HEAD}" | tar xf - -C "$root/root/tallyd"
chown -R 0:0 "$root/root"
chmod 0700 "$root/root"
for command in "config/try.sh --once" "tests/run.sh"; do
    echo "== sh $command"
    debian_run sh -c "cd /root/tallyd && sh $command"
done
echo "2 passed, 0 failed"
