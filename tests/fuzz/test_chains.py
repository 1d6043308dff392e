"""Chains of operators from seeds: each is right in ONNX Runtime, or refused."""

from __future__ import annotations

import pytest

from tests.fuzz.chains.chain import chain_of
from tests.fuzz.chains.judging import Fault, faults

TOGETHER = 20
"""Chains of one export."""

USUAL = 20
"""Seeds of the usual run."""

MANY = 2_000

NAN = ("max_pool", "interpolate", "scaled_dot_product_attention")
"""Operators within which NaN and infinities are not PyTorch's; docs/validation.md says so."""


def _parameters() -> list[object]:
    firsts = range(0, MANY, TOGETHER)
    return [pytest.param(first, marks=[] if first < USUAL else [pytest.mark.slow]) for first in firsts]


@pytest.mark.parametrize("first", _parameters())
def test_chains(first: int) -> None:
    seeds = range(first, first + TOGETHER)
    found = [fault for fault in faults(seeds) if fault.kind != "refused" and not _is_known(fault)]
    assert not found, "\n\n".join(f"{fault.kind}: {fault.detail}\n{fault.chain.shown()}" for fault in found)


def _is_known(fault: Fault) -> bool:
    return fault.of_nan and any(name in fault.chain.source for name in NAN)


def test_a_seed_is_one_chain() -> None:
    assert chain_of(7).shown() == chain_of(7).shown()
    assert len({chain_of(seed).source for seed in range(60)}) > 50
