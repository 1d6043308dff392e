"""docs/operators.md says what operators become; that it has all of them is a matter of test_tables.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.operators import FIX, PAGE, Line, lines, page

EVERY = 25
"""How many lines the usual run takes for each that it exports."""


@pytest.fixture(scope="module")
def found() -> Sequence[Line]:
    return lines()


def test_a_sample_of_the_lines_says_what_they_become(found: Sequence[Line]) -> None:
    written = set(PAGE.read_text(encoding="utf-8").splitlines())
    assert [line.text for line in found[::EVERY] if line.text not in written] == [], FIX


@pytest.mark.slow
def test_every_line_says_what_it_becomes(found: Sequence[Line]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(found), FIX
