"""What an export from a checkpoint adds to memory, measured by benchmarks/checkpoint_memory.py on a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "checkpoint_memory.py"
LARGEST_MB = 67.1
OVERHEAD_MB = 30


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux only")
def test_two_tensors_at_most_are_in_memory(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--gigabytes", "0.54", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SCRIPT.parents[1])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[4:]]
    assert [row[0] for row in rows] == ["memory", "safetensors", "in place", "torch.save", "dcp", "dcp in pieces"]
    peaks = {row[0]: float(row[2]) for row in rows}
    assert peaks["memory"] < LARGEST_MB + OVERHEAD_MB
    assert peaks["in place"] < OVERHEAD_MB
    assert max(peaks.values()) < 2 * LARGEST_MB + OVERHEAD_MB
    assert float(rows[2][3]) < 1
