"""Planted faults: one node of a model goes wrong in one stage of the export, in a way that real exporters have shown.

A row names the model, the stage, and the node: the n-th of an ATen op for a lowering and an FX pass, the n-th of an
ONNX operator for an ONNX pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule

from fxport.diagnostics import Log
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.fx_passes.base import FxPass
from tests.cases import blame_models
from tests.cases.fault_models import decoder, numbers, reader
from tests.cases.models import Example, ids

aten = torch.ops.aten
D = ir.DataType


class Convolutions(nn.Module):
    """A small network with sizes, integers and NaN on its way. Returns class scores, a distance map, and indices."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=1)
        self.square = nn.Linear(8, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.stem(x)
        y = self.norm(y)
        y = F.relu(y)
        y = F.max_pool2d(y, 2)
        left, right = self.deep(y).chunk(2, dim=1)
        y = torch.cat([right, left], dim=1)
        y = y[:, :, 1:-1, 1:-1]
        mean = y.sum(dim=(2, 3)) / y.shape[2]
        mean = F.elu(self.square(mean))
        roots = torch.maximum(torch.sqrt(left - 0.2), right)
        cells = torch.div((mean * 7).to(torch.int64), 3, rounding_mode="floor")
        return F.log_softmax(self.head(mean), dim=-1), roots, cells


def convolutions() -> Example:
    model = Convolutions()
    nn.init.uniform_(model.norm.running_mean, -0.5, 0.5)
    nn.init.uniform_(model.norm.running_var, 0.2, 0.5)
    height, width = torch.export.Dim.DYNAMIC, torch.export.Dim.STATIC
    return Example(model, (torch.randn(2, 3, 16, 12),), dynamic_shapes=({2: height, 3: width},))


def bert() -> Example:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        use_cache=False,
        initializer_range=0.2,
    )
    return Example(BertModel(config), (ids(2, 7),))


def llama() -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        use_cache=False,
        initializer_range=0.2,
    )
    return Example(LlamaForCausalLM(config), (ids(2, 7),))


MODELS: Mapping[str, Callable[[], Example]] = {
    "cnn": convolutions,
    "bert": bert,
    "llama": llama,
    "decoder": decoder,
    "reader": reader,
    "numbers": numbers,
}


def build(name: str, seed: int = 0) -> Example:
    """A model of the table with weights of that seed, and biases and scales that are not at their start values."""
    torch.manual_seed(seed)
    example = {**MODELS, **blame_models.MODELS}[name]()
    with torch.no_grad():
        for parameter in example.model.eval().parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return example


Wrong = Callable[..., Any]
"""(op, the right lowering, *arguments) → a wrong result of the right type."""


@dataclass(frozen=True)
class InLowering:
    """The lowering of `target` goes wrong at the n-th node of that op."""

    target: Any
    number: int
    wrong: Wrong

    def lowerings(self, names: list[str]) -> dict[Any, Callable[..., Any]]:
        """The lowering for `Options.lowerings`; `names` are those of the nodes of the op in the graph."""
        right, chosen = registered(LOWERINGS)[self.target], names[self.number]

        def planted(op: Any, *args: Any, **kwargs: Any) -> Any:
            return self.wrong(op, right, *args, **kwargs) if op.prefix == chosen else right(op, *args, **kwargs)

        return {self.target: planted}


@dataclass(frozen=True)
class InFxPass:
    """An FX pass rewrites the n-th call of `target` in a way that changes what it computes."""

    target: Any
    number: int
    change: Callable[[torch.fx.Node], None]

    def fx_pass(self, names: list[str]) -> FxPass:
        """A pass that does its harm once."""
        chosen = names[self.number]

        def run(gm: GraphModule, log: Log) -> bool:
            found = [node for node in gm.graph.nodes if node.name == chosen and "harmed" not in node.meta]
            for node in found:
                node.meta["harmed"] = True
                self.change(node)
            return bool(found)

        return FxPass("rewrite_badly", run)


@dataclass(frozen=True)
class InOnnxPass:
    """An ONNX pass changes the n-th node of an operator in a way that changes what it computes."""

    op_type: str
    number: int
    change: Callable[[ir.Node], None]

    def ir_pass(self) -> ir.passes.PassBase:
        """A pass for `Options.ir_passes`."""
        return RewriteBadly(self)


class RewriteBadly(ir.passes.InPlacePass):
    """The broken pass of an `InOnnxPass`."""

    def __init__(self, fault: InOnnxPass) -> None:
        super().__init__()
        self.fault = fault

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        nodes = [node for node in model.graph if node.op_type == self.fault.op_type]
        self.fault.change(nodes[self.fault.number])
        return ir.passes.PassResult(model, modified=True)


@dataclass(frozen=True)
class Fault:
    """A row: the kind of fault, the model it is planted in, and where."""

    kind: str
    model: str
    where: InLowering | InFxPass | InOnnxPass

    @property
    def name(self) -> str:
        where = self.where
        target = where.op_type if isinstance(where, InOnnxPass) else str(where.target).removeprefix("aten.")
        return f"{self.model}-{self.kind}-{target}-{where.number}".replace(" ", "_")


# How lowerings go wrong -----------------------------------------------------------------------------------------------


def keyword(**changed: Any) -> Wrong:
    return lambda op, right, *args, **kwargs: right(op, *args, **(kwargs | changed))


def argument(index: int, change: Callable[[Any], Any]) -> Wrong:
    """One positional argument is another one."""

    def wrong(op: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        given[index] = change(given[index])
        return right(op, *given, **kwargs)

    return wrong


def without(index: int) -> Wrong:
    return argument(index, lambda value: None)


def swapped(*order: int) -> Wrong:
    """The results in another order, or the operands where there is one result."""

    def wrong(op: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        results = right(op, *args, **kwargs)
        return tuple(results[i] for i in order)

    return wrong


def through(dtype: ir.DataType) -> Wrong:
    """The operands pass through a smaller type on their way."""

    def wrong(op: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        return right(op, *(_rounded(op, each, dtype) for each in args), **kwargs)

    return wrong


def _rounded(op: Any, value: Any, dtype: ir.DataType) -> Any:
    if isinstance(value, ir.Value) and value.dtype == D.FLOAT:
        return op.cast(op.cast(value, dtype), D.FLOAT)
    return value


def accumulated_in_half(op: Any, right: Any, x: Any, weight: Any, *rest: Any) -> Any:
    """Two halves of the products, each rounded to float16 before they are added."""
    half = [op.cast(op.cast(each, D.FLOAT16), D.FLOAT) for each in (right(op, x, weight),)]
    return op.Add(half[0], rest[0]) if rest and rest[0] is not None else half[0]


def transposed(op: Any, right: Any, x: Any, weight: Any, *rest: Any) -> Any:
    """Only square weights go unnoticed by every check of shapes."""
    return right(op, x, op.typed(op.Transpose(weight, perm=[1, 0]), weight.meta[SIZES]), *rest)


def truncating(op: Any, right: Any, x: Any, other: Any, **kwargs: Any) -> Any:
    """Integer division of ONNX, which rounds toward zero where PyTorch was asked for the floor."""
    return op.Div(x, op.const(other, like=x))


def losing_nan(op: Any, right: Any, a: Any, b: Any) -> Any:
    return op.Where(op.Greater(a, b), a, b)


def scaled(factor: float) -> Wrong:
    def wrong(op: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        return op.Mul(right(op, *args, **kwargs), factor)

    return wrong


def shifted_slice(op: Any, right: Any, x: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """One element too early."""
    return right(op, x, dim, start - 1, end - 1, step)


def baked(size: int) -> Wrong:
    """The size of the example in the place of the size."""
    return lambda op, right, x, other: right(op, x, size)


# How FX passes go wrong -----------------------------------------------------------------------------------------------


def set_argument(index: int, value: Any) -> Callable[[torch.fx.Node], None]:
    def change(node: torch.fx.Node) -> None:
        node.args = (*node.args[:index], value, *node.args[index + 1 :])

    return change


def retarget(target: Any) -> Callable[[torch.fx.Node], None]:
    def change(node: torch.fx.Node) -> None:
        node.target = target
        node.args, node.kwargs = node.args[:1], {}

    return change


# How ONNX passes go wrong ---------------------------------------------------------------------------------------------


def set_float(name: str, value: float) -> Callable[[ir.Node], None]:
    return lambda node: node.attributes.__setitem__(name, ir.AttrFloat32(name, value))


def set_int(name: str, value: int) -> Callable[[ir.Node], None]:
    return lambda node: node.attributes.__setitem__(name, ir.AttrInt64(name, value))


def set_string(name: str, value: str) -> Callable[[ir.Node], None]:
    return lambda node: node.attributes.__setitem__(name, ir.AttrString(name, value))


def drop_input(index: int) -> Callable[[ir.Node], None]:
    return lambda node: node.resize_inputs(index)


FAULTS: tuple[Fault, ...] = (
    Fault("wrong epsilon", "bert", InLowering(aten.layer_norm.default, 3, argument(4, lambda eps: 1e-4))),
    Fault("wrong epsilon", "llama", InLowering(aten.rms_norm.default, 1, argument(3, lambda eps: 1e-5))),
    Fault("wrong epsilon", "cnn", InLowering(aten.batch_norm.default, 0, argument(7, lambda eps: 1e-3))),
    Fault("wrong axis", "cnn", InLowering(aten.log_softmax.int, 0, argument(1, lambda dim: 0))),
    Fault("swapped operands", "llama", InLowering(aten.cat.default, 2, argument(0, lambda parts: parts[::-1]))),
    Fault("truncating division", "cnn", InLowering(aten.div.Tensor_mode, 0, truncating)),
    Fault("dropped bias", "bert", InLowering(aten.linear.default, 4, without(2))),
    Fault("dropped bias", "cnn", InLowering(aten.conv2d.default, 1, without(2))),
    Fault("dropped bias", "cnn", InLowering(aten.linear.default, 1, without(2))),
    Fault("fp16 accumulation", "bert", InLowering(aten.linear.default, 5, accumulated_in_half)),
    Fault("fp16 accumulation", "llama", InLowering(aten.linear.default, 9, accumulated_in_half)),
    Fault("fp16 accumulation", "cnn", InLowering(aten.conv2d.default, 1, through(D.FLOAT16))),
    Fault("transposed weight", "bert", InLowering(aten.linear.default, 1, transposed)),
    Fault("transposed weight", "llama", InLowering(aten.linear.default, 10, transposed)),
    Fault("transposed weight", "cnn", InLowering(aten.linear.default, 0, transposed)),
    Fault("off-by-one slice", "cnn", InLowering(aten.slice.Tensor, 1, shifted_slice)),
    Fault("baked size", "cnn", InLowering(aten.div.Tensor, 0, baked(6))),
    Fault("lost NaN", "cnn", InLowering(aten.maximum.default, 0, losing_nan)),
    Fault("wrong dtype", "bert", InLowering(aten.gelu.default, 1, through(D.BFLOAT16))),
    Fault("wrong dtype", "llama", InLowering(aten.silu.default, 0, through(D.FLOAT16))),
    Fault("wrong dtype", "llama", InLowering(aten.cos.default, 0, through(D.FLOAT16))),
    Fault("swapped outputs", "cnn", InLowering(aten.chunk.default, 0, swapped(1, 0))),
    Fault("wrong approximation", "bert", InLowering(aten.gelu.default, 0, keyword(approximate="tanh"))),
    Fault("wrong scale", "bert", InLowering(aten.scaled_dot_product_attention.default, 1, keyword(scale=0.3))),
    Fault("wrong scale", "llama", InLowering(aten.scaled_dot_product_attention.default, 0, keyword(scale=0.3))),
    Fault("wrong sign", "llama", InLowering(aten.neg.default, 2, scaled(-1.0))),
    Fault("broken FX pass", "bert", InFxPass(aten.layer_norm.default, 2, set_argument(4, 1e-4))),
    Fault("broken FX pass", "bert", InFxPass(aten.gelu.default, 1, retarget(aten.relu.default))),
    Fault("broken FX pass", "llama", InFxPass(aten.silu.default, 1, retarget(aten.sigmoid.default))),
    Fault("broken FX pass", "cnn", InFxPass(aten.elu.default, 0, retarget(aten.relu.default))),
    Fault("broken ONNX pass", "bert", InOnnxPass("LayerNormalization", 1, set_float("epsilon", 1e-4))),
    Fault("broken ONNX pass", "bert", InOnnxPass("Gelu", 1, set_string("approximate", "tanh"))),
    Fault("broken ONNX pass", "llama", InOnnxPass("RMSNormalization", 2, set_float("epsilon", 1e-4))),
    Fault("broken ONNX pass", "cnn", InOnnxPass("Conv", 1, drop_input(2))),
    Fault("broken ONNX pass", "cnn", InOnnxPass("Elu", 0, set_float("alpha", 0.9))),
)
