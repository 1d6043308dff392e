"""Awkward programs from seeds: each is right at four inputs that take different ways, or refused at a line of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.fuzz.programs.__main__ import judged
from tests.fuzz.programs.grammar import program_of
from tests.fuzz.programs.tally import Tally

USUAL, FROM = 10, 1_000
"""Seeds of the usual run, taken from so many so that they have as many pieces of Python as they can."""

MANY, PARTS = 20_000, 100
"""Seeds of the whole, in parts that each keep within the time limit of a test."""


@cache
def usual_seeds() -> Sequence[int]:
    """Take the seed with the most pieces that no seed before has, until there are enough."""
    pieces = {seed: {*program_of(seed).features} for seed in range(FROM)}
    left, taken = set().union(*pieces.values()), []
    while len(taken) < USUAL:
        best = max(pieces, key=lambda seed: (len(pieces[seed] & left), -seed))
        left -= pieces.pop(best)
        taken.append(best)
    return taken


@pytest.mark.parametrize("place", range(USUAL))
def test_programs(place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(usual_seeds()[place : place + 1], tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_programs(part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = MANY // PARTS
    _judge(range(part * size, (part + 1) * size), tmp_path, capsys)


def test_a_seed_is_one_program() -> None:
    first, again = program_of(7), program_of(7)
    assert first == again
    assert len({program_of(seed).source for seed in range(200)}) == 200


def _judge(seeds: Iterable[int], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally, failures = Tally(), []
    for seed in seeds:
        program, verdict = judged(seed, folder, runtime=False)
        tally.add(program, verdict)
        if verdict.failed:
            failures.append(f"seed {seed}: {verdict.kind}: {verdict.detail}\n{program.source}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(tally.lines()) + "\n")
    assert not failures, "\n\n".join(failures)
