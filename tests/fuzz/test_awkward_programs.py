"""Awkward programs from seeds: each is right at four inputs that take different ways, or refused at a line of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fuzz.programs.__main__ import judged
from tests.fuzz.programs.grammar import program_of
from tests.fuzz.programs.tally import Tally

USUAL = 60
"""Seeds of the usual run."""

MANY, PARTS = 20_000, 100
"""Seeds of the whole, in parts that each keep within the time limit of a test."""


def test_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(range(USUAL), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_programs(part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = MANY // PARTS
    _judge(range(part * size, (part + 1) * size), tmp_path, capsys)


def test_a_seed_is_one_program() -> None:
    first, again = program_of(7), program_of(7)
    assert first == again
    assert len({program_of(seed).source for seed in range(200)}) == 200


def _judge(seeds: range, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally, failures = Tally(), []
    for seed in seeds:
        program, verdict = judged(seed, folder, runtime=False)
        tally.add(program, verdict)
        if verdict.failed:
            failures.append(f"seed {seed}: {verdict.kind}: {verdict.detail}\n{program.source}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(tally.lines()) + "\n")
    assert not failures, "\n\n".join(failures)
