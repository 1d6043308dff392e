"""The operator database as tests: a sample of it by default, the whole with --slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
import torch

from tests.conformance.pool import run
from tests.conformance.samples import SAMPLES, Key
from tests.conformance.suites import SUITES
from tests.conformance.trial import LEFT_OUT, Outcome, attempt

EVERY = 40
OF_PYTORCH = ("modules", "higher-order", "custom-operators", "autograd-functions", "export-cases")
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


def values_hold(names: Sequence[str], dtype: torch.dtype) -> None:
    outcomes = run(names, dtype, "fxport", suite="operators", count=SAMPLES[dtype])
    held_against_gaps(outcomes, known_gaps("known_gaps.tsv"), lambda key: f"{key.op}|{key.dtype}")


def gradients_hold(names: Sequence[str], count: int) -> None:
    outcomes = run(names, torch.float32, "fxport", suite="gradients", count=count)
    held_against_gaps(outcomes, known_gaps("known_gradient_gaps.tsv"), lambda key: key.op)


def dynamic_sizes_hold(names: Sequence[str], count: int) -> None:
    outcomes = run(names, torch.float32, "fxport", suite="dynamic-sizes", count=count)
    held_against_gaps(outcomes, gaps_of("dynamic-sizes"), lambda key: key.op)


def gaps_of(suite: str) -> Mapping[str, str]:
    rows = (row.split("|", 1) for row in known_gaps("known_suite_gaps.tsv"))
    reasons = known_gaps("known_suite_gaps.tsv")
    return {name: reasons[f"{of}|{name}"] for of, name in rows if of == suite}


@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_sample_of_the_operators(dtype: torch.dtype) -> None:
    values_hold(SUITES["operators"].names(dtype)[::EVERY], dtype)


def test_a_sample_of_the_operators_at_dynamic_sizes() -> None:
    dynamic_sizes_hold(SUITES["dynamic-sizes"].names(torch.float32)[::EVERY], count=1)


def test_a_sample_of_the_gradients() -> None:
    gradients_hold(SUITES["gradients"].names(torch.float32)[::EVERY], count=1)


@pytest.mark.parametrize("suite", OF_PYTORCH)
def test_a_sample_of_the_suites_in_pytorch(suite: str) -> None:
    whole = SUITES[suite]
    outcomes = [
        attempt(Key(name, "float32", 0), sample, "fxport")
        for name in whole.names(torch.float32)[::EVERY]
        for sample in whole.samples(name, torch.float32, 1)
    ]
    held_against_gaps(outcomes, gaps_of(suite), lambda key: key.op)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_operator(dtype: torch.dtype) -> None:
    values_hold(SUITES["operators"].names(dtype), dtype)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_operator_at_dynamic_sizes() -> None:
    dynamic_sizes_hold(SUITES["dynamic-sizes"].names(torch.float32), count=2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_gradients_of_every_operator() -> None:
    gradients_hold(SUITES["gradients"].names(torch.float32), count=3)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", OF_PYTORCH)
def test_the_suites_in_pytorch(suite: str) -> None:
    whole = SUITES[suite]
    outcomes = run(whole.names(torch.float32), torch.float32, "fxport", suite=suite, count=whole.counts[torch.float32])
    held_against_gaps(outcomes, gaps_of(suite), lambda key: key.op)
