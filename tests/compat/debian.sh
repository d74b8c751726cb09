# tests/compat/debian.sh - sourced: a fresh Debian in a directory, from the mirror that this machine's apt uses.
#   debian_make [SUITE]     sets $root: made by debootstrap, Debian 12 when not said, mounted, with a network; ROOT=dir
#                           keeps and reuses the one there
#   debian_end      to be called from a trap
#   debian_run COMMAND...   there, with an empty environment
[ "$(id -u)" = 0 ] || { echo "debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "apt-get install debootstrap" >&2; exit 1; }

root=
debian_unmount() {
    for mounted in dev/shm dev/pts dev proc; do ! mountpoint -q "$root/$mounted" || umount -l "$root/$mounted"; done
}

debian_end() {
    [ -n "$root" ] || return 0
    debian_unmount
    [ -n "${ROOT:-}" ] || rm -rf "$root"
}

debian_make() {
    # The first mirror of this machine that has bookworm's main.
    mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')
    [ -n "$mirror" ] || { echo "no mirror of bookworm in this machine's apt sources" >&2; exit 1; }
    suite=${1:-bookworm}
    root=${ROOT:-$(mktemp -d /var/tmp/tallyd-debian-XXXXXX)}
    mkdir -p "$root"
    chmod 755 "$root" # mktemp made it for root alone: there it is /, which every user must enter
    [ -x "$root/bin/sh" ] || debootstrap --variant=minbase "$suite" "$root" "$mirror"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    mount --bind /dev/pts "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    apt-config dump | grep -i '^Acquire::https\{0,1\}::' >"$root/etc/apt/apt.conf.d/99host" || true # a proxy, if any
    # Authorities that this machine has beside Debian's own, such as such a proxy's: npm asks over TLS.
    [ ! -r /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/authorities.crt"
}

debian_run() {
    chroot "$root" /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive \
        NODE_EXTRA_CA_CERTS=/etc/authorities.crt PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
