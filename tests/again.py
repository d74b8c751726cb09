#!/usr/bin/env python3
"""The end of a run of all tests (run.sh): each test that failed runs once more, alone, and the slowest tests are named.

  again.py BUILD FAULTS TREE ...     ctest has run in these directories of BUILD; FAULTS: the outcomes of the fault matrix

What a failed test said the first time is kept in BUILD/failed_first/TREE/TEST.log. Exit 0: every test passed, the first time or
alone, and every row of the matrix is proven. The last lines name those that passed only alone."""
import os
import re
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2e"))
import matrix  # noqa: E402

SLOWEST = 20
LAST = "Testing/Temporary/LastTest.log"


def logged(tree):
    """Of ctest's last run: {test: (seconds, what it said)}."""
    with open(os.path.join(tree, LAST), encoding="utf-8", errors="replace") as log:
        blocks = re.split(r"^\d+/\d+ Testing: ", log.read(), flags=re.M)[1:]
    tests = {}
    for block in blocks:
        name, _, said = block.partition("\n")
        seconds = re.findall(r"^Test time = +([\d.]+) sec", said, re.M)
        tests[name] = float(seconds[-1]) if seconds else 0.0, said
    return tests


def failed(tree):
    """By the list that ctest itself writes."""
    try:
        with open(os.path.join(tree, "Testing/Temporary/LastTestsFailed.log"), encoding="utf-8") as log:
            return [line.strip().partition(":")[2] for line in log if line.strip()]
    except FileNotFoundError:
        return []


def keep(directory, names, tests):
    os.makedirs(directory, exist_ok=True)
    for name in names:
        with open(os.path.join(directory, f"{name}.log"), "w", encoding="utf-8") as out:
            out.write(tests[name][1] if name in tests else "it did not run\n")


def alone(tree, name):
    command = ["ctest", "--test-dir", tree, "--output-on-failure", "-j", "1", "-R", f"^{re.escape(name)}$"]
    return subprocess.run(command, check=False).returncode == 0


def main():
    build, faults, trees = sys.argv[1], sys.argv[2], sys.argv[3:]
    kept = os.path.join(build, "failed_first")
    shutil.rmtree(kept, ignore_errors=True)
    ran, only_alone, red = [], [], []
    for name in trees:
        tree = os.path.join(build, name)
        if not os.path.exists(os.path.join(tree, LAST)):
            red.append(f"all tests of {name}, which did not run")
            continue
        tests, again = logged(tree), failed(tree)
        ran += [(took, f"{test} ({name})") for test, (took, _) in tests.items()]
        keep(os.path.join(kept, name), again, tests)
        for test in again:
            (only_alone if alone(tree, test) else red).append(f"{test} ({name})")
    red += [f"row {row} of the fault matrix" for row in matrix.report(faults)]
    print(f"the {SLOWEST} slowest tests, in seconds:")
    for took, test in sorted(ran, reverse=True)[:SLOWEST]:
        print(f"{took:8.1f}  {test}")
    print(f"{len(ran) - len(red)} passed, {len(red)} failed")
    for test in red:
        print(f"failed: {test}")
    for test in only_alone:
        print(f"passed only alone: {test} (what it said first is in {kept})")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
