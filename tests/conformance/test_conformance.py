"""The operator database as tests: a sample of it by default, the whole with --slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import torch

from tests.conformance import gradients
from tests.conformance.pool import GRADIENTS, run
from tests.conformance.samples import SAMPLES, Key, keys
from tests.conformance.trial import LEFT_OUT, Outcome

EVERY = 20
HERE = Path(__file__).parent


def known_gaps(file: str) -> Mapping[str, str]:
    """Rows "operator, reason", or "operator, dtype, reason": the operators of which some sample is known to fail."""
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if line[:1] != "#")
    return {"|".join(row[:-1]): row[-1] for row in rows}


def held_against_gaps(outcomes: Iterable[Outcome], gaps: Mapping[str, str], name: Callable[[Key], str]) -> None:
    failed, passed, complaints = set(), set(), []
    for outcome in outcomes:
        row = name(outcome.key)
        if outcome.status in LEFT_OUT:
            continue
        (passed if outcome.status == "pass" else failed).add(row)
        if outcome.status != "pass" and row not in gaps:
            complaints.append(f"{outcome.key.text}: {outcome.status}: {outcome.detail}")
    complaints += [f"{row} passes: delete its row among the known gaps" for row in (passed - failed) & gaps.keys()]
    assert not complaints, "\n".join(complaints)


def values_hold(names: list[str], dtype: torch.dtype) -> None:
    held_against_gaps(run(names, dtype, "fxport"), known_gaps("known_gaps.tsv"), lambda key: f"{key.op}|{key.dtype}")


def gradients_hold(names: list[str], count: int) -> None:
    outcomes = run(names, torch.float32, "fxport", of=GRADIENTS, count=count)
    held_against_gaps(outcomes, known_gaps("known_gradient_gaps.tsv"), lambda key: key.op)


@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_sample_of_the_operators(dtype: torch.dtype) -> None:
    values_hold(keys(dtype)[::EVERY], dtype)


def test_a_sample_of_the_gradients() -> None:
    gradients_hold(gradients.keys(torch.float32)[::EVERY], count=1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_operator(dtype: torch.dtype) -> None:
    values_hold(keys(dtype), dtype)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_gradients_of_every_operator() -> None:
    gradients_hold(gradients.keys(torch.float32), count=0)
