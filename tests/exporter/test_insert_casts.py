"""Types for which ONNX Runtime's CPU provider has no kernel: the model computes in another, and gives the same."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest
import torch

from fxport import export
from fxport.diagnostics import Log, rules
from fxport.exporter.lowering.ir_passes.insert_casts import InsertCasts
from fxport.exporter.lowering.kernels import has_kernel
from tests.running import assert_same, run_session, session_of

BF16, F32, F64, BOOL = ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL


def test_table_knows_what_the_runtime_has() -> None:
    assert has_kernel("cpu", "MatMul", 20, {"T": F32})
    assert not has_kernel("cpu", "MatMul", 20, {"T": BF16})
    assert not has_kernel("cpu", "Where", 20, {"B": BOOL, "T": BOOL})
    assert has_kernel("cpu", "Attention", 23, {"T1": F32, "T2": F32})
    assert not has_kernel("cpu", "Attention", 23, {"T1": F64, "T2": F64})


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (torch.matmul, (torch.randn(3, 4).bfloat16(), torch.randn(4, 5).bfloat16())),
        (torch.add, (torch.tensor([True, False]), torch.tensor([True, True]))),
        (torch.add, (torch.tensor([200], dtype=torch.uint8), torch.tensor([100], dtype=torch.uint8))),
        (lambda x: x.bfloat16() @ x.bfloat16().t() + 1, (torch.randn(3, 4),)),
    ],
    ids=["bfloat16 product", "sum of truth values", "uint8 wraps", "inside a graph"],
)
def test_computes_the_same(function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> None:
    model = Function(function)
    program = export(model, inputs)
    tolerance = (1.6e-2, 1e-2) if model(*inputs).dtype == torch.bfloat16 else None
    assert_same(run_session(session_of(program), program, inputs), [model(*inputs)], tol=tolerance)


def test_a_value_that_shares_the_object_of_its_type_keeps_its_type() -> None:
    x, weight = ir.val("x", BF16, [2, 2]), ir.val("w", BF16, [2, 2])
    product, same = ir.node("MatMul", [x, weight], name="product"), ir.node("Identity", [x], name="same")
    product.outputs[0].type = same.outputs[0].type = ir.TensorType(BF16)
    graph = ir.Graph(
        [x, weight], [product.outputs[0], same.outputs[0]], nodes=[product, same], opset_imports={"": 20}, name="g"
    )
    InsertCasts(Log())(ir.Model(graph, ir_version=10))
    assert same.outputs[0].dtype == BF16
    assert product.outputs[0].dtype == F32


def test_a_kernel_of_one_of_several_providers_is_enough() -> None:
    """CUDA multiplies in bfloat16; of cosines neither it nor the CPU has a kernel."""
    x = ir.val("x", BF16, [2, 2])
    product, cosine = ir.node("MatMul", [x, x], name="product"), ir.node("Cos", [x], name="cosine")
    product.outputs[0].type, cosine.outputs[0].type = ir.TensorType(BF16), ir.TensorType(BF16)
    outputs = [product.outputs[0], cosine.outputs[0]]
    graph = ir.Graph([x], outputs, nodes=[product, cosine], opset_imports={"": 20}, name="g")
    InsertCasts(Log(), ("cuda", "cpu"))(ir.Model(graph, ir_version=10))
    assert [node.op_type for node in graph] == ["MatMul", "Cast", "Cos", "Cast"]


def test_lost_precision_is_said_once() -> None:
    log = Log()
    x = ir.val("x", BF16, [2])
    double = ir.val("d", F64, [2])
    nodes = [ir.node("Attention", [double, double, double], name=f"a{i}") for i in range(2)]
    for node in nodes:
        node.outputs[0].dtype = F64
    graph = ir.Graph([x, double], [node.outputs[0] for node in nodes], nodes=nodes, opset_imports={"": 23})
    result = InsertCasts(log)(ir.Model(graph, ir_version=11))
    assert result.modified
    assert [node.op_type for node in graph].count("Cast") == 8
    (finding,) = log.findings
    assert finding.rule is rules.PRECISION_LOWERED
    assert finding.count == 2
