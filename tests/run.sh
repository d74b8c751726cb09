#!/bin/sh
# Everything a change must pass: format, warnings as errors with gcc and clang, unit tests, simulation and fuzz targets under
# ASan+UBSan, those of what has threads under TSan, the models, and all tests end to end on real servers.
# Complete on a fresh Debian 12 or 13 as root: what is missing is installed; nothing of the system's own services is touched. Once
# that is there and npm has given what config/package.json lists, it needs no network.
# What computes (the sanitizers' builds and tests) goes on beside what waits (end to end). A test that fails runs once more, alone,
# when all others are done (again.py). In the end: the fault matrix, skipped tests, the slowest ones, those that passed only alone.
#   sh tests/run.sh            everything (BUILD=dir: where to build, JOBS=n: how many at once)
set -u
cd "$(dirname "$0")/.." || exit 1
# A session of its own: where the kernel shares processors between sessions (sched_autogroup), what else this machine does takes a
# part of them, not all.
if [ -z "${TALLYD_RUN:-}" ]; then
    TALLYD_RUN=1 setsid sh tests/run.sh &
    trap 'kill -- -$!' HUP INT TERM
    wait $!
    exit $?
fi
. config/packages.sh
run_began=$(date +%s)
# shellcheck disable=SC2086  # lists of names
packages_need $PACKAGES_BUILD $PACKAGES_SERVERS $PACKAGES_TESTS || exit 1
# Where no /etc/hosts names it, as in a directory that debootstrap made, selenium and certificates cannot do with it.
getent hosts localhost >/dev/null || packages_need libnss-myhostname || exit 1
# shellcheck disable=SC2086
command -v npm >/dev/null || packages_need $PACKAGES_NODE || exit 1

build=${BUILD:-$PWD/build}
jobs=${JOBS:-$(nproc)}
steps=$build/steps
rm -rf "$steps" "$build/red"
mkdir -p "$steps" || exit 1
# With TALLYD_RUN e2e/CTestCustom.cmake.in leaves the fault matrix to this script.
export TALLYD_RUN
faults=$build/gcc/tests/e2e/faults

# step LOG NAME COMMAND...: only its time when it passes; the end of what it said when not.
step() {
    log=$steps/$1.log
    name=$2
    shift 2
    began=$(date +%s)
    if "$@" >"$log" 2>&1; then
        echo "passed: $name ($(($(date +%s) - began)) s)"
    else
        echo "FAILED: $name ($(($(date +%s) - began)) s)"
        tail -n 60 "$log"
        echo "$name" >>"$build/red"
    fi
}

make_tree() { # directory, options of cmake
    directory=$build/$1
    shift
    cmake -S . -B "$directory" -G Ninja "$@"
}

make_build() { # directory, options of cmake
    make_tree "$@" && ninja -C "$build/$1" -j "$jobs"
}

# Of this tree nothing but the tests of the threads is run, so nothing else is built.
make_threads() {
    make_tree tsan -DSANITIZE=thread && ninja -C "$build/tsan" -j "$jobs" unit_threads
}

# tests DIRECTORY OPTIONS...: fails only when ctest itself does; failed tests are again.py's.
tests() {
    directory=$build/$1
    shift
    rm -f "$directory"/Testing/Temporary/LastTest*
    ctest --test-dir "$directory" --output-on-failure "$@" || [ -s "$directory/Testing/Temporary/LastTestsFailed.log" ]
}

# sim_rule_*: proofs that the simulator finds faults; they say nothing about memory, and take long under a sanitizer.
sanitizers() {
    step asan "clang, warnings as errors, ASan and UBSan" \
        make_build asan -DCMAKE_C_COMPILER=clang -DSANITIZE=address,undefined
    threads >"$steps/threads.log" &
    step asan_tests "unit tests, simulation and fuzz targets under ASan and UBSan" \
        tests asan -j "$((2 * jobs))" -L 'unit|sim|fuzz' -E '^sim_rule' -LE 'e2e|soak|compat|bench'
    wait
    cat "$steps/threads.log"
}

threads() {
    step gcc_units "gcc, warnings as errors, in unit tests and fuzz targets" ninja -C "$build/gcc" -j "$jobs" unit_sources
    step tsan "TSan build" make_threads
    step tsan_tests "unit tests of what has threads, under TSan" tests tsan -j "$jobs" -L threads
}

# How slow this machine is now: deadlines of end-to-end tests are that many times as long. A quiet one takes a second.
patience() {
    /usr/bin/python3 - "$jobs" <<'END'
import subprocess, sys, time
loop = "for i in range(45_000_000): pass"
began = time.monotonic()
for each in [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(int(sys.argv[1]))]:
    each.wait()
print(f"{max(1, time.monotonic() - began):.1f}")
END
}
TALLYD_PATIENCE=$(patience) || exit 1
export TALLYD_PATIENCE
echo "deadlines are $TALLYD_PATIENCE times as long as on a quiet machine"

packages_npm "$build/npm" >"$build/npm.log" 2>&1 &
npm=$!
# What users get: the package and the container are gcc's Release, whose warnings are others.
step gcc "gcc's Release, warnings as errors" make_build gcc -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DUNITS=OFF
# As the simulator and the models: behind what end-to-end tests need of a processor.
{
    renice -n 10 -p "$(exec sh -c 'echo $PPID')" >/dev/null
    sanitizers
} >"$steps/sanitizers.log" &
beside=$!
step format "format" sh config/format.sh --check

wait "$npm" || echo "npm gives nothing ($build/npm.log): what needs it is skipped"
export NODE_MODULES="$build/npm/node_modules"
rm -rf "$faults"
# End to end, tests wait more than they work.
began=$(date +%s)
tests gcc -j "$((4 * jobs))" -LE 'unit|soak|compat|bench' || echo "ctest of gcc's build" >>"$build/red"
echo "ended: end to end, simulation, models ($(($(date +%s) - began)) s)"
wait "$beside"
cat "$steps/sanitizers.log"
echo "all steps took $(($(date +%s) - run_began)) s"
times >"$steps/times" # not in a pipe, whose shell has used none
echo "of processors: $(tail -n 1 "$steps/times" | sed 's/ / and of the system /')"
/usr/bin/python3 -B tests/again.py "$build" "$faults" asan tsan gcc || echo "tests" >>"$build/red"
[ ! -s "$build/red" ] || {
    echo "failed: $(tr '\n' ';' <"$build/red")"
    exit 1
}
