"""Weights whose numbers fit in 4 bits share a byte in the file, where the model says so and they do."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import onnxruntime
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the ops
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from fxport import ExportError, OnnxProgram, Options, export
from tests.running import assert_same, run_session, session_of

quantized = torch.ops.quantized_decomposed
ROWS, COLUMNS, GROUP = 128, 256, 32
X = torch.randn(3, COLUMNS)
TOL = (1e-4, 1e-4)


class Grouped(nn.Module):
    """A weight with a scale and a zero point for each group of columns."""

    def __init__(self, low: int = -8, high: int = 7, zeros: int = 3, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        generator, groups = torch.Generator().manual_seed(0), (ROWS, COLUMNS // GROUP)
        weight = torch.randint(low, high + 1, (ROWS, COLUMNS), generator=generator)
        self.weight = nn.Buffer(weight.to(dtype))
        self.scales = nn.Buffer(torch.rand(groups, generator=generator) + 0.1)
        self.zeros = nn.Buffer(torch.randint(max(low, -zeros), zeros + 1, groups, generator=generator).to(torch.int32))
        self.bounds = (0, 15) if dtype == torch.uint8 else (-8, 7)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel_group(
            self.weight, self.scales, self.zeros, *self.bounds, self.dtype, GROUP, torch.float32
        )
        return x @ weight.t()


class ByRows(Grouped):
    """With one scale for a row, and a zero point that is a constant of the graph."""

    def forward(self, x: Tensor) -> Tensor:
        scales, zeros = self.scales[:, 0].clone(), torch.zeros(ROWS, dtype=torch.int64)
        weight = quantized.dequantize_per_channel(self.weight, scales, zeros, 0, *self.bounds, self.dtype)
        return F.linear(x, weight)


class AlsoElsewhere(Grouped):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.weight.float().sum()


def dtype_of(program: OnnxProgram) -> ir.DataType | None:
    return program.model.graph.initializers["weight"].dtype


@pytest.mark.parametrize(
    ("model", "opset", "dtype"),
    [
        (Grouped(), 23, ir.DataType.INT4),
        (Grouped(0, 15, dtype=torch.uint8), 21, ir.DataType.UINT4),
        (Grouped(), 26, ir.DataType.INT4),
        (ByRows(), 20, ir.DataType.INT8),  # the operator takes no 4 bits yet
        (Grouped(-8, 8), 23, ir.DataType.INT8),  # a number beyond what is declared
        (Grouped(zeros=9), 23, ir.DataType.INT8),
        (ByRows(), 23, ir.DataType.INT4),
        (AlsoElsewhere(), 23, ir.DataType.INT8),
    ],
)
def test_four_bits_where_they_suffice(model: nn.Module, opset: int, dtype: ir.DataType) -> None:
    program = export(model, (X,), options=Options(opset=opset))
    assert dtype_of(program) == dtype
    assert_same(run_session(session_of(program), program, (X,)), [model(X)], tol=TOL)


def test_the_file_has_half_of_the_bytes(tmp_path: Path) -> None:
    export(Grouped(), (X,)).save(tmp_path / "four.onnx")
    export(AlsoElsewhere(), (X,)).save(tmp_path / "eight.onnx")
    four, eight = (sum(f.stat().st_size for f in tmp_path.glob(f"{name}*")) for name in ("four", "eight"))
    assert four < eight - ROWS * COLUMNS // 2 + 2000
    session = onnxruntime.InferenceSession(tmp_path / "four.onnx", providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    assert_same([torch.from_numpy(y)], [Grouped()(X)], tol=TOL)


def test_weights_without_values_are_told_as_such() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model, x = Grouped(), mode.from_tensor(X)
    with pytest.raises(ExportError) as caught:
        export(model, (x,))
    assert {finding.rule.id for finding in caught.value.log.findings if finding.level == "error"} == {"FXP7014"}
