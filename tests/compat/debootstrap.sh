#!/bin/sh
# Both commands of the README in a fresh Debian 12 and 13 that have nothing installed, with the checkout under /root (mode 0700,
# which a mariadbd without root's rights cannot enter). Root only; takes the mirror from this machine's apt.
#   sh tests/compat/debootstrap.sh [SUITE...]    bookworm and trixie, when none is named (ROOT=dir keeps and reuses the
#                                                Debian there, of one suite; COMMIT=what is checked out)
set -eu
cd "$(dirname "$0")/../.."
. tests/compat/debian.sh
trap debian_end EXIT
trap 'exit 130' INT TERM
[ $# -gt 0 ] || set -- bookworm trixie
[ -z "${ROOT:-}" ] || [ $# = 1 ] || { echo "ROOT=dir is for one suite: name it" >&2; exit 1; }

for suite in "$@"; do
    debian_make "$suite"
    rm -rf "$root/root/tallyd"
    mkdir -p "$root/root/tallyd"
    git archive "${COMMIT:-HEAD}" | tar xf - -C "$root/root/tallyd"
    chown -R 0:0 "$root/root"
    chmod 0700 "$root/root"
    for command in "config/try.sh --once" "tests/run.sh"; do
        echo "== $suite: sh $command"
        debian_run sh -c "cd /root/tallyd && sh $command"
    done
    debian_end
done
echo "$(($# * 2)) passed, 0 failed"
