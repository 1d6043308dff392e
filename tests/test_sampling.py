"""Test that the usual run takes the rows that its rule names."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

import pytest

from tests import sampling
from tests.notes import NOTE, Noted, blocks
from tests.sampling import Reach, chosen, left_out, sampled, write_left_out

ROOT = Path(__file__).resolve().parents[1]


def reach(seconds: float, blocks: str) -> Reach:
    return Reach(seconds, frozenset(blocks))


def test_each_kind_has_a_row_and_a_new_row_changes_no_other_lot() -> None:
    rows = [f"row {number}" for number in range(200)]
    kinds = lambda row: [row[-1]]  # noqa: E731
    taken = [row for row, is_taken in zip(rows, sampled(rows, str, kinds, one_in=10), strict=True) if is_taken]
    assert {row[-1] for row in taken} == set("0123456789")
    assert 10 <= len(taken) < 40
    more = ["a new one 1", *rows]
    again = [row for row, is_taken in zip(more, sampled(more, str, kinds, one_in=10), strict=True) if is_taken]
    assert {*again} - {"a new one 1"} == {*taken}


def test_all_blocks_are_reached_by_quick_rows() -> None:
    rows = {"long": reach(9.0, "abc"), "a": reach(0.1, "ab"), "b": reach(0.1, "bc"), "again": reach(0.1, "b")}
    assert {*chosen(rows)} == {"a", "b"}


def test_what_only_one_row_reaches_keeps_it() -> None:
    rows = {"long": reach(9.0, "abcd"), "a": reach(0.1, "ab"), "b": reach(0.1, "c")}
    assert {*chosen(rows)} == {"long"}, "what it reaches makes the quick ones needless"


def test_quick_rows_are_taken_first() -> None:
    rows = {"long": reach(9.0, "ab"), "middle": reach(2.0, "bc"), "quick": reach(0.1, "a"), "again": reach(0.1, "a")}
    assert {*chosen(rows, quick=1.0)} == {"quick", "again", "middle"}


SOURCE = """
def f(a, b):
    return [each for each in (4,) if each > a], (1 if a else 2), a and b or 3
"""


def test_parts_of_expressions_are_noted_and_keep_their_values() -> None:
    seen: set[str] = set()
    plain, noted = {}, {NOTE: lambda number: seen.add(blocks[number])}
    exec(SOURCE, plain)
    exec(compile(Noted("x").visit(ast.parse(SOURCE)), "x", "exec"), noted)
    parts = {"each": "x:3:12", "if not": "x:3:37 not", "1": "x:3:49", "2": "x:3:61", "b": "x:3:71", "3": "x:3:76"}
    ways = {(0, 0): ["each", "2", "3"], (9, 0): ["if not", "1", "b", "3"], (1, 7): ["each", "1", "b"]}
    for given, evaluated in ways.items():
        seen.clear()
        assert noted["f"](*given) == plain["f"](*given)
        assert seen == {"x:3", *(parts[each] for each in evaluated)}


def test_the_table_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {"tests/test_x.py::test_a[one: two]", "tests/test_x.py::test_a[x[0]]", "tests/test_y.py::test_b[1-2]"}
    monkeypatch.setattr(sampling, "LEFT_OUT", tmp_path / "left_out.txt")
    write_left_out(ids)
    assert left_out.__wrapped__() == ids


def test_the_table_names_tests_that_there_are() -> None:
    ids = sorted(left_out())
    assert ids
    for path, of_file in groupby(ids, key=lambda each: each.split("::")[0]):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {each.split("::")[1].split("[")[0] for each in of_file} <= functions
