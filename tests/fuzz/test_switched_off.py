"""Each check of the analysis is needed: without it a program of the generator is wrong, or fails, in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.programs.checks import CHECKS, Check, found_by, judged
from tests.fuzz.programs.grammar import program_of

LEAST, WITHIN = 15, 500

USUAL = frozenset({"added on one way", "writes to merged names", "variables"})
"""The checks that are switched off in the usual run."""

EACH = [pytest.param(check, id=check.name, marks=[] if check.name in USUAL else [pytest.mark.slow]) for check in CHECKS]


def test_there_are_enough() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) >= LEAST
    assert {check.name for check in CHECKS} > USUAL
    assert all({*check.pieces} & {*program_of(check.seed).features} for check in CHECKS)


@pytest.mark.parametrize("check", EACH)
def test_a_program_needs_the_check(check: Check, tmp_path: Path) -> None:
    program = program_of(check.seed)
    without = judged(check, program, tmp_path)
    assert without.kind in ("wrong", "fails"), without
    with_all = judged(None, program, tmp_path)
    assert not with_all.failed, with_all


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", [pytest.param(check, id=check.name) for check in CHECKS])
def test_the_generator_finds_it(check: Check, tmp_path: Path) -> None:
    """A program that needs the check is among 500 that follow each other."""
    first = check.seed // WITHIN * WITHIN
    assert found_by(check, range(first, first + WITHIN), tmp_path, WITHIN) is not None
