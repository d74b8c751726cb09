#!/bin/sh
# Everything a change must pass: format, warnings as errors with gcc and clang, unit tests, simulation and 15 seconds of
# each fuzz target under ASan+UBSan, those of what has threads under TSan, and all tests, end to end on real servers.
# Complete on a fresh Debian 12 as root: what is missing is installed; nothing of the system's own services is touched. Once
# that is there and npm has given what config/package.json lists, it needs no network. Ends with ctest's closing lines, and
# names the end-to-end tests that were skipped.
#   sh tests/run.sh            everything (BUILD=dir: where to build, JOBS=n: how many at once)
set -u
cd "$(dirname "$0")/.." || exit 1
. config/packages.sh
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS $PACKAGES_TESTS || exit 1
# Where no /etc/hosts names it, as in a directory that debootstrap made, selenium and certificates cannot do with it.
getent hosts localhost >/dev/null || packages_need libnss-myhostname || exit 1
# shellcheck disable=SC2086
command -v npm >/dev/null || packages_need $PACKAGES_NODE || exit 1

build=${BUILD:-$PWD/build}
jobs=${JOBS:-$(nproc)}
log=$build/run.log
failed=
mkdir -p "$build" || exit 1

# step NAME COMMAND...: quiet when it passes; the end of what it said when not.
step() {
    name=$1
    shift
    began=$(date +%s)
    if "$@" >"$log" 2>&1; then
        echo "passed: $name ($(($(date +%s) - began)) s)"
    else
        echo "FAILED: $name"
        tail -n 60 "$log"
        failed="$failed $name;"
    fi
}

make_tree() { # directory, options of cmake
    directory=$1
    shift
    cmake -S . -B "$directory" -G Ninja "$@"
}

make_build() { # directory, options of cmake
    make_tree "$@" && ninja -C "$1" -j "$jobs"
}

# Of this tree nothing but the tests of the threads is run, so nothing else is built.
make_threads() {
    make_tree "$build/tsan" -DSANITIZE=thread && ninja -C "$build/tsan" -j "$jobs" unit_threads
}

# sim_rule_*: proofs that the simulator finds faults; they say nothing about memory, and take long under a sanitizer.
# Fuzz targets go by the clock, 15 seconds each: hardly more of them than processors.
sanitized_tests() {
    ctest --test-dir "$build/asan" --output-on-failure -j "$((jobs + 1))" -L 'unit|sim|fuzz' -E '^sim_rule' \
        -LE 'e2e|soak|compat|bench'
}

threads_tests() {
    ctest --test-dir "$build/tsan" --output-on-failure -j "$jobs" -L threads
}

# Beside the first build, for it mostly waits.
packages_npm "$build/npm" >"$build/npm.log" 2>&1 &
npm=$!
step "format" sh config/format.sh --check
step "clang, warnings as errors, ASan and UBSan" \
    make_build "$build/asan" -DCMAKE_C_COMPILER=clang -DSANITIZE=address,undefined
step "unit tests, simulation and 15 s of each fuzz target under ASan and UBSan" sanitized_tests
step "TSan build" make_threads
step "unit tests of what has threads, under TSan" threads_tests
# What users get: the package and the container are gcc's Release, whose warnings are others.
step "gcc's Release, warnings as errors" make_build "$build/gcc" -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release

wait "$npm" || echo "npm gives nothing ($build/npm.log): what needs it is skipped"
export NODE_MODULES="$build/npm/node_modules"
# End to end, tests wait more than they work.
ctest --test-dir "$build/gcc" --output-on-failure -j "$((5 * jobs))" -LE 'soak|compat|bench' || failed="$failed tests;"
[ -z "$failed" ] || {
    echo "failed:$failed"
    exit 1
}
