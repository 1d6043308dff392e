"""Models that torchao has quantized: their weights stay small, and ONNX Runtime gives PyTorch's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.exporter.validation.validated import export_and_validate
from tests.sampling import marks_of, sampled

ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")

D = ir.DataType
X = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
BOTH = ({0: "batch", 1: "length"},)
SHARE = 0.45
"""How much of the float32 weights' size a file with weights of 8 bits may have; half of it are nodes, not weights."""


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).eval()


WAYS: dict[str, tuple[Any, D]] = {
    "8 bits": (ao.Int8WeightOnlyConfig(), D.INT8),
    "8 bits by tensor": (ao.Int8WeightOnlyConfig(granularity=ao.PerTensor()), D.INT8),
    "8 bits by row": (ao.IntxWeightOnlyConfig(), D.INT8),
    "4 bits by group": (ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)), D.INT4),
    "float8": (ao.Float8WeightOnlyConfig(), D.FLOAT8E4M3FN),
    "8 bits, inputs too": (ao.Int8DynamicActivationInt8WeightConfig(), D.INT8),
    "8 bits by row, inputs too": (ao.Int8DynamicActivationIntxWeightConfig(weight_granularity=ao.PerAxis(0)), D.INT8),
}


def ways() -> Iterator[Any]:
    """Each way and each number of axes in the usual run; `--slow` has all pairs."""
    pairs = [(way, axes) for axes in ("matrix", "batch") for way in WAYS]
    taken = sampled(pairs, "-".join, lambda pair: pair, one_in=8)
    for (way, axes), is_taken in zip(pairs, taken, strict=True):
        yield pytest.param(way, {"matrix": X[0], "batch": X}[axes], id=f"{axes}-{way}", marks=marks_of(is_taken))


@pytest.mark.parametrize(("way", "x"), list(ways()))
def test_a_quantized_model(way: str, x: Tensor, tmp_path: Path) -> None:
    config, stored = WAYS[way]
    quantized, path = model(), tmp_path / "model.onnx"
    ao.quantize_(quantized, config)
    shapes = ({0: "rows"},) if x.dim() == 2 else BOTH
    checked = export_and_validate(quantized, x, path=path, dynamic_shapes=shapes, provider="cpu")
    weights = {name: value for name, value in checked.program.model.graph.initializers.items() if "qdata" in name}
    assert [value.dtype for name, value in weights.items() if not name.endswith("zero")] == [stored, stored]
    assert path.stat().st_size < SHARE * sum(4 * weight.numel() for weight in model().parameters())


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_input_of_a_row_is_rounded_as_in_pytorch(seed: int, tmp_path: Path) -> None:
    """It is 127.5 times the scale, up to the last bit."""
    quantized = model()
    ao.quantize_(quantized, ao.Int8DynamicActivationInt8WeightConfig())
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(seed))
    export_and_validate(quantized[:1], x, path=tmp_path / "model.onnx", provider="cpu")


def test_weights_by_row_are_restored_by_one_operator() -> None:
    quantized = model()
    ao.quantize_(quantized, ao.IntxWeightOnlyConfig())
    kinds = Counter(node.op_type for node in export(quantized, X, dynamic_shapes=BOTH).model.graph)
    assert kinds["DequantizeLinear"] == 2
    assert kinds["Gemm"] == 2  # by MatMul, ONNX Runtime would round the inputs to 8 bits as well
    assert not {"MatMul", "Mul", "Sub"} & set(kinds)


def test_a_quantized_weight_with_several_uses_is_there_once() -> None:
    layer = nn.Linear(64, 64)
    quantized = nn.Sequential(layer, nn.ReLU(), layer).eval()
    ao.quantize_(quantized, ao.IntxWeightOnlyConfig())
    names = export(quantized, X).model.graph.initializers
    assert sum(name.endswith("qdata") for name in names) == 1
