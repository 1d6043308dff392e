"""Edits as text: applied, refused, shown, followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxport.diagnostics import Edit
from fxport.diagnostics.edits import EditError, applied, diff, meet, moved

TEXT = 'a = "é😀"; b = 1\nc = 2\nd = 3\n'


def edit(line: int, column: int, end_line: int, end_column: int, text: str) -> Edit:
    return Edit("m.py", line, column, end_line, end_column, text)


def test_columns_are_utf16_units() -> None:
    assert applied(TEXT, [edit(1, 12, 1, 17, "B = 9")]) == 'a = "é😀"; B = 9\nc = 2\nd = 3\n'


def test_edits_of_several_lines_and_insertions_in_their_order() -> None:
    edits = [edit(3, 1, 3, 1, "x\n"), edit(1, 1, 2, 1, ""), edit(3, 1, 3, 1, "y\n"), edit(4, 1, 4, 1, "end\n")]
    assert applied(TEXT, edits) == "c = 2\nx\ny\nd = 3\nend\n"


def test_an_equal_edit_counts_once() -> None:
    assert applied(TEXT, [edit(2, 5, 2, 6, "7")] * 2) == TEXT.replace("c = 2", "c = 7")


@pytest.mark.parametrize(
    "edits",
    [
        [edit(2, 1, 2, 4, "x"), edit(2, 3, 2, 6, "y")],
        [edit(9, 1, 9, 1, "x")],
        [edit(2, 40, 2, 41, "x")],
    ],
    ids=["overlapping", "no such line", "no such column"],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(EditError):
        applied(TEXT, edits)


def test_fixes_that_touch_the_same_text_meet() -> None:
    one, far = edit(2, 1, 2, 4, "x"), edit(3, 1, 3, 2, "y")
    assert meet([one], [edit(2, 4, 2, 5, "z")])
    assert not meet([one], [far])
    assert not meet([one], [one])  # the same edit, asked for twice


def test_a_diff_is_one_that_git_applies() -> None:
    end = "\\ No newline at end of file\n"
    assert diff("a\nb", "a\nc", "m.py") == f"--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n a\n-b\n{end}+c\n{end}"
    assert diff("a\n", "a\n", "m.py") == ""


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 3),
    st.lists(st.sampled_from(["p", "q"]), max_size=3),
    st.data(),
)
def test_a_line_is_found_again(line: int, first: int, length: int, added: list[str], data: st.DataObject) -> None:
    """Whole lines are replaced by others: a line that stays is where `moved` says, one that goes is among the new."""
    text = "".join(f"line {number}\n" for number in range(1, 7))
    last = min(7, first + length)
    new = "".join(f"{each}\n" for each in added)
    after = applied(text, [edit(first, 1, last, 1, new)]).splitlines()
    start, end = moved(line, [edit(first, 1, last, 1, new)])
    if first <= line < last:
        assert start == first
    else:
        assert start == end
        assert after[start - 1] == f"line {line}"
