"""Validation of sharded models on all ranks; functions here run in processes of their own."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from fxport import ExportError, Options
from fxport.diagnostics import Log
from fxport.exporter.sources.source import Source
from fxport.exporter.validation import ranks
from fxport.exporter.validation.against_eager import samples_of
from fxport.exporter.validation.request import exported, saved, with_weights_to_run
from fxport.exporter.validation.validated import export_and_validate
from tests.distributed.models import FULL, LOW, Mlp
from tests.plugin import PLUGIN

Told = tuple[str, list[tuple[str, str, str]]]
"""A headline, and of each finding its rule, its message and the line of code that it is at."""

TESTS = """
import torch
from torch.distributed.fsdp import fully_shard
from tests.distributed.models import Mlp
from tests.distributed.validations import Drifting

def test_right(onnx_check):
    checked = onnx_check(fully_shard(Mlp().eval()), torch.ones(3, 8), dynamic_shapes=({0: "batch"},))
    assert bool(checked.files) == (torch.distributed.get_rank() == 0)

def test_wrong(onnx_check):
    onnx_check(fully_shard(Drifting().eval()), torch.ones(3, 8))
"""


class Drifting(Mlp):
    """Gives other values in eager PyTorch than where it is captured."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y * 2 if torch.compiler.is_compiling() else y


class Gelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = nn.functional.gelu(hidden)
        return self.second(hidden)


def _twice(op: Any, x: Any, *, approximate: str = "none") -> Any:
    """A lowering that is wrong."""
    return op.Gelu(op.Add(x, x), approximate=approximate)


def validated(folder: str) -> tuple[dict[str, Told], list[str], tuple[int, str]]:
    """What every rank is told; see below."""
    return told(folder), exact(folder), checked_by_pytest(folder)


def told(folder: str) -> dict[str, Told]:
    """Of a model with a policy, of a graph that is wrong, and of a lowering that is."""
    torch.manual_seed(0)
    wrong = Options(lowerings={torch.ops.aten.gelu.default: _twice})
    return {
        "right": _told(Gelu(), Path(folder, "right.onnx"), Options(), LOW),
        "capture": _told(Drifting(), Path(folder, "capture.onnx"), Options()),
        "lowering": _told(Gelu(), Path(folder, "lowering.onnx"), wrong),
    }


def _told(model: nn.Module, path: Path, options: Options, policy: MixedPrecisionPolicy = FULL) -> Told:
    log = Log()
    headline = ""
    model = fully_shard(model.eval(), mp_policy=policy)
    try:
        checked = export_and_validate(model, (torch.randn(3, 8),), path=path, provider="cpu", options=options, log=log)
        assert bool(checked.files) == (dist.get_rank() == 0)
    except ExportError as error:
        headline = str(error)
    at = [finding.place for finding in log.findings]
    lines = [Path(place.path).read_text().splitlines()[place.line - 1].strip() if place else "" for place in at]
    return headline, [(f.rule.id, f.message, line) for f, line in zip(log.findings, lines, strict=True)]


def exact(folder: str) -> list[str]:
    """The outputs that were computed in float64 beside eager PyTorch's, by their names with the sample."""
    log = Log()
    x = torch.randn(3, 8)
    source = Source("mlp", fully_shard(Mlp().eval()), (x,), {}, ({0: "batch"},))
    program = exported(source, Options(), log)
    saved(program, Path(folder, "exact.onnx"), log)
    with ranks.to_validate(program, source, log) as subject:
        ready = None if subject is None else with_weights_to_run(subject, program, log)
        if ready is None:
            return []
        samples = samples_of(*ready, log)
        gaps = [float(abs(each.outputs["output"] - each.exact["output"]).max()) for each in samples if each.exact]
        assert max(gaps) < 1e-5
        return [f"{each.label} {array.dtype}" for each in samples if each.exact for array in each.exact.values()]


def checked_by_pytest(folder: str) -> tuple[int, str]:
    """pytest with the plugin, on every rank: its exit code and what it says."""
    file = Path(folder, f"test_of_rank_{dist.get_rank()}.py")
    file.write_text(TESTS)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main([str(file), "-q", *PLUGIN, "-p", "no:cacheprovider", f"--rootdir={folder}"])
    return int(code), said.getvalue()
