"""The end of a run (tests/again.py): a test that is broken makes it red, one that fails once of two is named, and so is a test
tree that did not run."""
import os
import subprocess
import sys

import pytest

AGAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../again.py")
PROJECT = """cmake_minimum_required(VERSION 3.18)
project(few LANGUAGES NONE)
enable_testing()
add_test(NAME good COMMAND sh -c "true")
add_test(NAME once COMMAND sh -c "test -e {done} || {{ touch {done}; echo only the first time; false; }}")
"""
BROKEN = 'add_test(NAME broken COMMAND sh -c "echo it is broken; false")\n'


def run_all(directory, more):
    """ctest in BUILD/few, then what run.sh does behind it."""
    build = directory / "build"
    (directory / "CMakeLists.txt").write_text(PROJECT.format(done=directory / "done") + more)
    for command in (["cmake", "-S", directory, "-B", build / "few", "-G", "Ninja"], ["ctest", "--test-dir", build / "few"]):
        subprocess.run(command, capture_output=True, check=False)
    done = subprocess.run([sys.executable, "-B", AGAIN, build, directory / "faults", "few"], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout.splitlines()[-3:], build / "failed_first/few"


@pytest.mark.parametrize("more,code", [("", 0), (BROKEN, 1)])
def test_failed_once_and_twice(tmp_path, more, code):
    got, said, kept = run_all(tmp_path, more)
    assert got == code, said
    assert said[-1] == f"passed only alone: once (few) (what it said first is in {kept.parent})"
    assert "only the first time" in (kept / "once.log").read_text()
    if more:
        assert said[-3:-1] == ["2 passed, 1 failed", "failed: broken (few)"]
        assert "it is broken" in (kept / "broken.log").read_text()
    else:
        assert said[-2] == "2 passed, 0 failed"


def test_a_tree_that_did_not_run(tmp_path):
    done = subprocess.run([sys.executable, "-B", AGAIN, tmp_path, tmp_path / "faults", "few"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "failed: all tests of few, which did not run" in done.stdout
