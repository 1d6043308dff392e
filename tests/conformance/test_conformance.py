"""The operator database as tests: a sample of it by default, the whole with --slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from tests.conformance.pool import run
from tests.conformance.samples import SAMPLES, keys
from tests.conformance.trial import LEFT_OUT

EVERY = 20
KNOWN_GAPS = Path(__file__).with_name("known_gaps.tsv")


def known_gaps() -> Mapping[str, str]:
    """Rows "operator, dtype, reason": the operators of which some sample is known to fail."""
    rows = (line.split("\t") for line in KNOWN_GAPS.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {f"{op}|{dtype}": reason for op, dtype, reason in rows}


def held_against_gaps(names: list[str], dtype: torch.dtype) -> None:
    gaps, failed, passed = known_gaps(), set(), set()
    complaints = []
    for outcome in run(names, dtype, "fxport"):
        row = f"{outcome.key.op}|{outcome.key.dtype}"
        if outcome.status in LEFT_OUT:
            continue
        (passed if outcome.status == "pass" else failed).add(row)
        if outcome.status != "pass" and row not in gaps:
            complaints.append(f"{outcome.key.text}: {outcome.status}: {outcome.detail}")
    complaints += [f"{row} passes: delete its row in known_gaps.tsv" for row in (passed - failed) & gaps.keys()]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_sample_of_the_operators(dtype: torch.dtype) -> None:
    held_against_gaps(keys(dtype)[::EVERY], dtype)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", SAMPLES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_operator(dtype: torch.dtype) -> None:
    held_against_gaps(keys(dtype), dtype)
