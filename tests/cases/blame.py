"""More ways in which lowerings and passes go wrong: operations that are lost, merged, swapped, or of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from tests.cases.faults import (
    Fault,
    InFxPass,
    InLowering,
    InOnnxPass,
    Wrong,
    argument,
    scaled,
)


def in_lowering(model: str, target: str, number: int = 0, **faults: Wrong) -> tuple[Fault, ...]:
    op = overload(target)
    return tuple(Fault(kind.replace("_", " "), model, InLowering(op, number, wrong)) for kind, wrong in faults.items())


def in_fx_pass(
    model: str, target: str, number: int = 0, **faults: Callable[[torch.fx.Node], None]
) -> tuple[Fault, ...]:
    op = overload(target)
    return tuple(Fault(kind.replace("_", " "), model, InFxPass(op, number, change)) for kind, change in faults.items())


def in_onnx_pass(model: str, op_type: str, number: int = 0, **faults: Callable[[ir.Node], None]) -> tuple[Fault, ...]:
    return tuple(
        Fault(kind.replace("_", " "), model, InOnnxPass(op_type, number, change)) for kind, change in faults.items()
    )


def overload(name: str) -> Any:
    """ "sin" is aten.sin.default, "mul.Tensor" that overload, "fxport::fft_r2c" an operator of another namespace."""
    space, _, rest = name.rpartition("::")
    packet, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space or "aten"), packet), kind or "default")


# How lowerings go wrong -----------------------------------------------------------------------------------------------


def of_result(change: Callable[[Any, Any], Any]) -> Wrong:
    """The first result is changed by a function of (op, value)."""

    def wrong(op: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        results = right(op, *args, **kwargs)
        if isinstance(results, ir.Value):
            return change(op, results)
        return (change(op, results[0]), *results[1:])

    return wrong


def operand(index: int = 0) -> Wrong:
    """The operation is lost: its operand is taken for its result."""
    return lambda op, right, *args, **kwargs: args[index]


def swapped_operands(op: Any, right: Any, x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
    return right(op, y, x, *rest, **kwargs)


def at(index: int, value: Any) -> Wrong:
    return argument(index, lambda _: value)


def times(index: int, factor: float) -> Wrong:
    return argument(index, lambda value: value * factor)


FACTOR, SIGN, LOST = scaled(1.3), scaled(-1.0), operand()
OFFSET = of_result(lambda op, y: op.Add(y, op.const(0.2, like=y)))
ONE_MORE = of_result(lambda op, y: op.Add(y, op.const(1, like=y)))
COARSE = of_result(lambda op, y: op.Div(op.Floor(op.Mul(y, 64.0)), 64.0))
CLIPPED = of_result(lambda op, y: op.Clip(y, op.const(-0.2, like=y), op.const(0.2, like=y)))
NEGATED = of_result(lambda op, y: op.Not(y))
FLAT = of_result(lambda op, y: op.Reshape(y, op.const([-1])))

# How FX passes go wrong -----------------------------------------------------------------------------------------------


def fx_lost(node: torch.fx.Node) -> None:
    """Its operand is read in its place, and it is gone."""
    source = node.args[0]
    assert isinstance(source, torch.fx.Node)
    node.replace_all_uses_with(source)
    node.graph.erase_node(node)


def fx_merged(node: torch.fx.Node) -> None:
    """It is taken for equal to the first node of its operator, and it is gone."""
    first = next(other for other in node.graph.nodes if other.target is node.target)
    node.replace_all_uses_with(first)
    node.graph.erase_node(node)


def fx_swapped(node: torch.fx.Node) -> None:
    node.args = (node.args[1], node.args[0], *node.args[2:])


# How ONNX passes go wrong ---------------------------------------------------------------------------------------------


def onnx_lost(node: ir.Node) -> None:
    """The node's operand is read in the place of its result."""
    replaced(node, node.inputs[0])


def onnx_merged(node: ir.Node) -> None:
    """The node is taken for equal to the first one of its operator."""
    assert node.graph is not None
    replaced(node, next(other for other in node.graph if other.op_type == node.op_type).outputs[0])


def replaced(node: ir.Node, by: ir.Value | None) -> None:
    """All reads of a node's result are reads of another value, which is the graph's output if the result was."""
    assert by is not None
    result = node.outputs[0]
    if result.is_graph_output():
        name, result.name = result.name, None
        result.replace_all_uses_with(by, replace_graph_outputs=True)
        by.name = name
    result.replace_all_uses_with(by)
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def onnx_swapped(node: ir.Node) -> None:
    first, second = node.inputs[:2]
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)


def onnx_constant(node: ir.Node) -> None:
    """A number among its operands, or a weight, is another one."""
    index = next(i for i, value in enumerate(node.inputs) if value is not None and value.const_value is not None)
    old = node.inputs[index]
    assert old is not None
    assert old.const_value is not None
    assert node.graph is not None
    array = old.const_value.numpy()
    new = ir.Value(name=f"{old.name}.other", type=old.type, shape=old.shape, const_value=ir.tensor(array * 2))
    node.graph.register_initializer(new)
    node.replace_input_with(index, new)


def onnx_operator(op_type: str) -> Callable[[ir.Node], None]:
    return lambda node: setattr(node, "op_type", op_type)


def set_ints(name: str, *values: int) -> Callable[[ir.Node], None]:
    return lambda node: node.attributes.__setitem__(name, ir.AttrInt64s(name, values))
