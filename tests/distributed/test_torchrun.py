"""The command line under a launcher: every rank runs it, rank 0 speaks, and all exit alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from fxport.diagnostics import rules
from tests.distributed.models import Mlp
from tests.distributed.spawn import free_port

SOURCES = Path(__file__).with_name("sources.py")
LIMIT = 300.0


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def launch(name: str, output: Path, *options: str, ranks: int = 2) -> Sequence[Ended]:
    """`fxport export SOURCE:name -o output` on each rank, with the environment that torchrun gives."""
    command = [sys.executable, "-m", "fxport", "export", f"{SOURCES}:{name}", "-o", str(output), *options]
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **given, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        told = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
    return [Ended(process.returncode, *texts) for process, texts in zip(started, told, strict=True)]


def test_a_sharded_model_is_exported_and_validated(tmp_path: Path) -> None:
    first, second = launch("sharded", tmp_path / "model.onnx")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "equal to PyTorch on cpu" in first.out
    assert "resized" in first.out
    assert second.out == second.err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tensor_parallel", 0, "equal to PyTorch on cpu"),
        ("replicated", 0, "equal to PyTorch on cpu"),
        ("drifting", 1, rules.OUTPUT_DRIFT.id),
        ("disagreeing", 1, rules.RANKS_DISAGREE.id),
        ("raising", 2, ""),
    ],
)
def test_all_ranks_exit_as_rank_0_does(name: str, code: int, said: str, tmp_path: Path) -> None:
    ended = launch(name, tmp_path / "model.onnx", "--sarif", str(tmp_path / "model.sarif"))
    assert [each.code for each in ended] == [code, code], "\n".join(each.err for each in ended)
    assert said in ended[0].out
    assert ended[1].out == ""


@pytest.mark.slow
def test_weights_of_a_checkpoint_are_not_those_that_the_ranks_run_with(tmp_path: Path) -> None:
    checkpoint = tmp_path / "weights.pt"
    torch.save(Mlp().state_dict(), checkpoint)
    ended = launch("sharded", tmp_path / "model.onnx", "--weights", str(checkpoint))
    assert [each.code for each in ended] == [0, 0], ended[0].err
    assert rules.VALIDATION_SKIPPED.id in ended[0].out
    graph = onnx.load(tmp_path / "model.onnx").graph
    written = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    np.testing.assert_array_equal(written["up.bias"], torch.load(checkpoint)["up.bias"].numpy())


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "-m", "fxport"]
    command += ["export", f"{SOURCES}:sharded", "-o", str(tmp_path / "model.onnx")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("equal to PyTorch on cpu") == 1
