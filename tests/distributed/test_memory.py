"""No rank holds more than one weight at a time beside its own part of the model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.distributed.spawn import spawn

OVERHEAD = 60_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("way", ["fsdp2", "fsdp1", "tensor"])
def test_one_weight_at_a_time(way: str, tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.memory", "peak", 2, str(tmp_path), way):
        assert outcome.code == 0, outcome.output
        used, largest = outcome.result
        assert used <= 1.3 * largest + OVERHEAD
    (data,) = tmp_path.glob(f"{way}.onnx.*.data")
    assert data.stat().st_size > 200_000_000
