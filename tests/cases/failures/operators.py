"""Operators without a fake kernel, without a lowering, or not for these types; types that ONNX lacks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)


@torch.library.custom_op("fxport_failures::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


class NoFakeKernel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return opaque(y)


@torch.library.custom_op("fxport_failures::shaped", mutates_args=())
def shaped(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().copy())


@shaped.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class NoLowering(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = shaped(x)
        return y * 2


class NoLoweringInBlocks(nn.Module):
    """The same op in two equal layers is one finding."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([NoLowering(), NoLowering()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return shaped(x) * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class OwnFunction(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(x)


class SparseProduct(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        square = x @ x.T
        return square.to_sparse() @ x


class SparseOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse() * 2


class SparseInput(nn.Module):
    def forward(self, edges: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(edges, x)


ASM = "neg.f32 $0, $1;"


class Assembly(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.higher_order.inline_asm_elementwise(x, asm_str=ASM, constraints="=f,f", dtype=torch.float32)


class UnlikeBranches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sum(), (x,))


class NoSuchType(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(torch.bits8)


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 0).to(torch.int64)
        return (1.0 - mask) * x


class MixedTensors(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = x.argmax(-1, keepdim=True)
        return x * counts


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return F.gelu(y)


class QuantizedLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quantize = torch.ao.nn.quantized.Quantize(0.1, 0, torch.quint8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.quantize(x)
        return q.dequantize()


class WrongShapes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + 1
        return z @ y


class WrongDtypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.half()
        return self.linear(y)


class WrongLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


class NoMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(6, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def _refusing(op: Any, x: Any, *, approximate: str = "none") -> Any:
    from fxport import Unsupported

    raise Unsupported("only on Sundays")


def _of_another_dtype(op: Any, x: Any, *, approximate: str = "none") -> Any:
    return op.Less(x, 0.0)


def _raising(op: Any, x: Any, *, approximate: str = "none") -> Any:
    raise RuntimeError("no idea")


def _custom(op: Any, x: Any) -> Any:
    return op.custom("fxport.failures", "Shaped", x)


def _late() -> dict[Any, Any]:
    from fxport.exporter.lowering.lower.registry import Lowering

    gelu = torch.ops.aten.gelu.default
    return {gelu: Lowering((gelu,), lambda op, x, *, approximate="none": op.Identity(x), since=24)}


GELU = torch.ops.aten.gelu.default
SHAPED = torch.ops.fxport_failures.shaped.default

CASES = (
    FailureCase("custom op without fake kernel", "fake kernel", "FXP1009", "return «opaque(y)»", NoFakeKernel, (X,)),
    FailureCase("no lowering", "lowering", "FXP3001", "y = «shaped(x)»", NoLowering, (X,)),
    FailureCase(
        "an autograd function of one's own", "autograd function", "FXP3001", "return «shaped(x)» * 2", OwnFunction, (X,)
    ),
    FailureCase("sparse product", "lowering", "FXP3001", "return «square.to_sparse()» @ x", SparseProduct, (X,)),
    FailureCase("sparse output", "sparse", "FXP3001", "«x.to_sparse()» * 2", SparseOutput, (X,)),
    FailureCase(
        "a sparse tensor among the inputs",
        "tensor form",
        "FXP1011",
        "«def forward(self, edges: torch.Tensor, x: torch.Tensor) -> torch.Tensor:»",
        SparseInput,
        (X.to_sparse(), torch.randn(6, 2)),
    ),
    FailureCase(
        "lowering refuses",
        "lowering",
        "FXP3002",
        "return «F.gelu(y)»",
        Gelu,
        (X,),
        {},
        {"lowerings": {GELU: _refusing}},
    ),
    FailureCase(
        "lowering needs a newer opset", "opset", "FXP3003", "return «F.gelu(y)»", Gelu, (X,), {}, {"lowerings": _late()}
    ),
    FailureCase(
        "lowering raises", "lowering", "FXP3004", "return «F.gelu(y)»", Gelu, (X,), {}, {"lowerings": {GELU: _raising}}
    ),
    FailureCase(
        "lowering gives another dtype",
        "lowering",
        "FXP3004",
        "return «F.gelu(y)»",
        Gelu,
        (X,),
        {},
        {"lowerings": {GELU: _of_another_dtype}},
    ),
    FailureCase(
        "custom node",
        "custom node",
        "FXP3006",
        "y = «shaped(x)»",
        NoLowering,
        (X,),
        {},
        {"lowerings": {SHAPED: _custom}},
    ),
    FailureCase(
        "higher-order op",
        "higher order",
        "FXP3007",
        "return «torch.ops.higher_order.inline_asm_elementwise("
        'x, asm_str=ASM, constraints="=f,f", dtype=torch.float32)»',
        Assembly,
        (torch.ones(3, 3),),
    ),
    FailureCase(
        "branches of unlike shapes",
        "cond",
        "FXP3008",
        "return «torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sum(), (x,))»",
        UnlikeBranches,
        (X,),
    ),
    FailureCase(
        "a type that ONNX lacks",
        "type",
        "FXP4003",
        "«x.view(torch.bits8)»",
        NoSuchType,
        (torch.ones(4, dtype=torch.uint8),),
    ),
    FailureCase("mixed types", "promotion", "FXP4001", "(«1.0 - mask») * x", Masked, (X,)),
    FailureCase("mixed tensors", "promotion", "FXP4001", "return «x * counts»", MixedTensors, (X,)),
    FailureCase("a quantized part", "quantized", "FXP1003", "q = «self.quantize(x)»", QuantizedLinear, (X,)),
    FailureCase("shapes that do not fit", "shape mismatch", "FXP1023", "return «z @ y»", WrongShapes, (X, X)),
    FailureCase("types that do not fit", "type mismatch", "FXP1023", "return «self.linear(y)»", WrongDtypes, (X,)),
    FailureCase(
        "a layer of another width", "shape mismatch", "FXP1023", "return «self.linear(x)».relu()", WrongLayer, (X,)
    ),
    FailureCase("a buffer without memory", "device", "FXP7014", "return «x * self.scale»", NoMemory, (X,)),
)
