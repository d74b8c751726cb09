"""The fault matrix has no gap: every row has a test of the normal run, or the reason why it cannot be done here. The table
that ctest ends with goes by what is found here."""
import io
import json
import os

import matrix
import pytest

RESULTS = os.environ.get("FAULT_RESULTS")


def test_every_row_has_a_test_or_a_reason(tmp_path):
    tests = matrix.write_collected(RESULTS or str(tmp_path))
    assert not [row.id for row in matrix.ROWS if not tests[row.id] and not row.reason], "rows that no test proves"
    assert not [row.id for row in matrix.ROWS if tests[row.id] and row.reason], "rows with a test, and a reason for none"


@pytest.mark.parametrize("outcome,shown", [("passed", None), ("failed", "FAILED"), (None, "NOT RUN"), ("none", "NO TEST")])
def test_report(outcome, shown, tmp_path):
    """One bad outcome of one test makes the report name its row; so do a test that did not run, and a row without any."""
    tests = {row.id: ["test_a.py::test_a[1]", "test_a.py::test_a[2]"] for row in matrix.ROWS}
    tests["sigterm"] = [] if outcome == "none" else ["test_a.py::test_a[1]", "test_b.py::test_b"]
    (tmp_path / "collected").write_text(json.dumps(tests))
    lines = [(name, "passed") for name in ("test_a.py::test_a[1]", "test_a.py::test_a[2]")]
    if outcome in ("passed", "failed"):
        lines.append(("test_b.py::test_b", outcome))
    (tmp_path / "test_a.outcomes").write_text("".join(json.dumps(line) + "\n" for line in lines))
    printed = io.StringIO()
    assert matrix.report(str(tmp_path), printed) == (["sigterm"] if shown else [])
    of_the_row = [line for line in printed.getvalue().splitlines() if line.startswith("SIGTERM ")]
    assert any(shown in line for line in of_the_row) if shown else all("passed" in line for line in of_the_row)


def test_report_of_what_cannot_be_done_here(tmp_path, monkeypatch):
    """A row with a reason instead of a test, and one whose test was skipped: shown, not counted as proven, and no failure."""
    monkeypatch.setattr(matrix, "ROWS", [matrix.Row("a", "fault a", "start", "-", "no such disk"),
                                         matrix.Row("b", "fault b", "start", "-")])
    (tmp_path / "collected").write_text(json.dumps({"a": [], "b": ["test_b.py::test_b"]}))
    (tmp_path / "test_b.outcomes").write_text(json.dumps(["test_b.py::test_b", "skipped: no right to mount"]) + "\n")
    printed = io.StringIO()
    assert matrix.report(str(tmp_path), printed) == []
    assert "cannot be done here: no such disk" in printed.getvalue() and "skipped: no right to mount" in printed.getvalue()
    assert "2 rows: 0 proven, 2 not done here, 0 not proven" in printed.getvalue()


def test_report_names_what_was_skipped(tmp_path):
    """Of a part of the tests, too."""
    (tmp_path / "test_b.skipped").write_text(json.dumps(["test_b.py::test_b", "no such browser"]) + "\n")
    printed = io.StringIO()
    assert matrix.report(str(tmp_path), printed) == []
    assert printed.getvalue() == "skipped: test_b.py::test_b: no such browser\n1 end-to-end tests were skipped\n"


@pytest.mark.parametrize("gathered", [False, True])
def test_report_of_a_part(tmp_path, gathered):
    """Some tests alone, or this file: no table, and no complaint of the others."""
    if gathered:
        (tmp_path / "collected").write_text(json.dumps({row.id: ["test_a.py::test_a"] for row in matrix.ROWS}))
    printed = io.StringIO()
    assert matrix.report(str(tmp_path), printed) == [] and not printed.getvalue()
