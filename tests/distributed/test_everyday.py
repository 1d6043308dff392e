"""Sharded models as people have them: with hooks, nested inputs, caches, after training, of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.spawn import spawn

USUAL = ["nested", "recurrent", "named", "pieces", "packed", "trained", "compiled_in_place", "composable"]
ROUNDINGS = 8
LONG = ["llama_of_transformers", "llama_in_parallel", "llama_by_its_own_plan"]


@pytest.mark.parametrize("names", [USUAL, pytest.param(LONG, marks=pytest.mark.slow)])
def test_equal_to_eager(names: list[str], tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.everyday", "gaps", 2, str(tmp_path), names):
        assert outcome.code == 0, outcome.output
        for name in names:
            found = outcome.result[name]
            assert not isinstance(found, str), f"{name}: {found}"
            assert found < ROUNDINGS, f"{name}: {found}"
