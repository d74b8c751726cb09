# config/packages.sh - sourced by try.sh and run.sh: installs Debian's packages, without starting their services.
# `packages_need NAME...` installs only what is missing, and needs neither root nor a network when nothing is.

PACKAGES_BUILD="gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libhiredis-dev libmariadb-dev
 libmariadb-dev-compat libyaml-dev libxxhash-dev libcrypt-dev libssl-dev libmicrohttpd-dev libgnutls28-dev libjs-dygraphs
 libcmocka-dev scdoc"
PACKAGES_PACKAGE="dpkg-dev debootstrap"
PACKAGES_SERVERS="redis-server redis-tools mariadb-server mariadb-client"
PACKAGES_TESTS="python3 python3-pytest python3-hypothesis python3-redis python3-pymysql php-cli php-redis php-predis ruby
 ruby-redis clang libclang-rt-dev clang-format curl openssl procps systemd spin
 galera-4 prometheus python3-yaml tzdata man-db chromium-headless-shell chromium-driver python3-selenium"
# Clients, proxies and tools that tallyd is tried with.
PACKAGES_TESTS="$PACKAGES_TESTS libredis-perl libredis-fast-perl lua5.1 lua-redis lua-cjson haproxy nutcracker
 libnginx-mod-http-lua lua-nginx-redis rsyslog rsyslog-hiredis prometheus-redis-exporter"
# Debian 13 has none.
! grep -q '^VERSION_ID="12"' /etc/os-release || PACKAGES_TESTS="$PACKAGES_TESTS python3-aioredis"
# Only where npm is missing: a nodejs that is not Debian's brings its own.
PACKAGES_NODE="nodejs npm"

packages_missing() {
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf ' %s' "$package"
    done
}

# Installing a server must neither start it (a port may be taken) nor fail where nothing can be started (a chroot).
packages_install() {
    policy=/usr/sbin/policy-rc.d
    ours=no
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        ours=yes
    fi
    status=0
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } ||
        status=$?
    [ $ours = no ] || rm -f $policy
    return $status
}

packages_need() {
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "These packages are missing:$missing" >&2
        echo "Install them as root: apt-get install --no-install-recommends$missing" >&2
        return 1
    fi
    echo "installing:$missing"
    # shellcheck disable=SC2086  # a list of names
    if ! packages_install $missing >/tmp/tallyd-packages.$$ 2>&1; then
        tail -n 20 /tmp/tallyd-packages.$$ >&2
        rm -f /tmp/tallyd-packages.$$
        echo "apt-get could not install$missing; the reason is above." >&2
        return 1
    fi
    rm -f /tmp/tallyd-packages.$$
}

# packages_npm DIRECTORY: installs config/package.json into its node_modules; asks npm only when it is not there.
packages_npm() {
    cmp -s config/package.json "$1/package.json" && return 0
    rm -rf "$1" "$1.part"
    mkdir -p "$1.part" && cp config/package.json "$1.part" &&
        timeout 300 npm install --prefix "$1.part" --ignore-scripts --no-audit --no-fund --fetch-retries=1 \
            --fetch-retry-mintimeout=1000 && mv "$1.part" "$1"
}
