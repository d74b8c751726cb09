"""The benchmark's arithmetic: rates with what is owed, the old method, the table."""
import json

import table
from table import Row
from window import Window, most, paid_s

PRINTED = """\
hits=130 errors=0 lost=0 seconds=10.000 hits_per_s=12.0 p50_us=900.5 p99_us=2000.0 p999_us=4000.0 max_us=5000.0
tenths=1,2,3,4,5,6
"""


def test_reads_what_load_prints():
    window = Window().read(PRINTED)
    assert (window.hits_per_s, window.seconds, window.p999_us) == (12, 10, 4000)
    assert window.tenths == [1, 2, 3, 4, 5, 6]
    assert Window().read("hits=0 seconds=0.000 hits_per_s=0\n" + "tenths=\n").tenths == []


def test_what_is_owed_counts_into_the_rate():
    assert Window(hits_per_s=300, seconds=10).rate == 300
    assert Window(hits_per_s=300, seconds=10, paid_s=5).rate == 200
    assert Window().rate == 0


def test_old_method_is_a_short_part_of_the_same_run():
    window = Window(tenths=[0, 0, 10, 20, 30, 1, 1])
    assert window.early(0.2, 0.3) == 200
    assert window.early(0.2, 0.01) == 100  # at least a tenth of a second
    assert window.early(5, 1) == 0


def test_what_stands_is_the_most_that_was_seen():
    assert most([{"journals": 3, "due": 0}, {"journals": 1, "due": 7}]) == {"journals": 3, "due": 7}
    assert most([]) == {}


def test_owed_until_each_kind_is_paid():
    found = iter([{"journals": 9, "due": 1}, {"journals": 3, "due": 2}, {"journals": 3, "due": 1}, None])
    assert paid_s(lambda: next(found), {"journals": 3, "due": 1}, every_s=0.01) >= 0.02
    assert next(found) is None


def test_what_stands_is_not_owed():
    assert paid_s(lambda: {"journals": 3}, {"journals": 3}) == 0
    assert paid_s(lambda: {"journals": 3}, {}) == 0


def test_patience_ends():
    assert 0.05 <= paid_s(lambda: {"due": 2}, {"due": 1}, patience_s=0.05, every_s=0.01) < 1


def test_table_has_rates_with_what_is_owed():
    ours = [Window(hits_per_s=3000, seconds=10, paid_s=5, p50_us=1000, p99_us=2500, p999_us=90000, tenths=[0, 500, 500])]
    theirs = [Window(hits_per_s=1000, seconds=10, tenths=[0, 100, 100])]
    row = table.compared("work", "peer", ours, theirs, 1.5, 3, early=(0.1, 0.2))
    assert (row.value, row.old, row.reached) == (2, 5, "yes")
    assert "| 2.00 |" in table.lines([row])[-1]
    assert "2,000; 1.00 / 2.50 / 90.00" in table.lines([row])[-1]
    assert table.compared("cost", "peer", ours, theirs, 1.5, 1, less=True, early=(0.1, 0.2)).value == 0.5


def test_rows_of_this_run_replace_those_of_one_before(tmp_path):
    path = str(tmp_path / "figures.json")
    table.keep([Row("a", "x", [1.0], 1, 2), Row("b", "x", [1.0], 1, 2)], {"date": "then"}, path)
    kept = table.merged([Row("b", "x", [2.0], 1, 2), Row("c", "x", [3.0], 1, 2)], path)
    assert [(row.work, row.value) for row in kept] == [("a", 1), ("b", 2), ("c", 3)]
    table.keep(kept, {"date": "now"}, path)
    with open(path, encoding="utf-8") as file:
        assert json.load(file)["about"] == {"date": "now"}
    assert table.moved([Row("b", "x", [3.0], 1, 2)], path)[1:] == ["  b / x: 2.00 -> 3.00 (+50 %, better)"]
