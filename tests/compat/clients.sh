#!/bin/sh
# Clients whose toolchains take hundreds of MB: Go's redigo and go-redis, Haskell's hedis, all Debian's; and Java's compiler, for the
# recipes of Jedis and Spring. Installs what is missing (as root), builds them, and tries them as tests/e2e/test_clients.py does the others.
#   sh tests/compat/clients.sh               (BUILD=dir: a build of this tree; built there when it is not)
set -eu
cd "$(dirname "$0")/../.."
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS $PACKAGES_TESTS golang-go golang-github-gomodule-redigo-dev \
    golang-gopkg-redis.v5-dev ghc libghc-hedis-dev libghc-aeson-dev default-jdk-headless
build=${BUILD:-$PWD/build}
[ -e "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja
ninja -C "$build" tallyd >/dev/null

BUILT_CLIENTS=$build/compat/clients
mkdir -p "$BUILT_CLIENTS"
for client in redigo go_redis; do
    GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$BUILT_CLIENTS/cache go build -o "$BUILT_CLIENTS/$client" \
        "tests/compat/clients/$client.go"
done
ghc -v0 -Wall -outputdir "$BUILT_CLIENTS/hedis.objects" -o "$BUILT_CLIENTS/hedis" tests/compat/clients/hedis.hs

TALLYD=$build/tallyd
export TALLYD BUILT_CLIENTS PYTHONDONTWRITEBYTECODE=1
cd tests/e2e
exec /usr/bin/python3 -m pytest -q -p no:cacheprovider built_clients.py test_recipes.py::test_sent_again_by_go \
    test_recipes.py::test_sent_again_by_java test_recipes.py::test_spring
