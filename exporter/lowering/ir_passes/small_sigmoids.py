"""Sigmoids that are computed relatively exactly where a logarithm or a quotient shows how small they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import (
    before,
    constant_before,
    constant_of,
    nodes_of,
    put_in_place,
    remove_unused,
)
from fxport.exporter.lowering.lower.producers import made_by

DTYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})
"""The types whose numbers are small enough; a half is rounded to 0 where the error begins to count."""

MAGNIFY: Mapping[str, int] = {"Log": 0, "Reciprocal": 0, "Sqrt": 0, "Div": 1, "Pow": 0}
"""The operand for which an operator makes a small error of a small number a large one."""

CARRY = frozenset(
    {
        *("Abs", "Add", "Cast", "Clip", "Concat", "Div", "Expand", "Gather", "GatherElements", "GatherND", "Identity"),
        *("Max", "Mean", "Min", "Mul", "Neg", "Pad", "ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where"),
    }
)
"""Operators through which a small number may stay small."""


class SmallSigmoids(ir.passes.InPlacePass):
    """Writes a sigmoid by the exponential where what follows magnifies its error.

    On the CPU, ONNX Runtime's Sigmoid is within 4e-8 of the truth, but is 0 below -18, where PyTorch's is 1.5e-8:
    `log(x.sigmoid())` would be minus infinity. The exponential takes 1.6 times as long, so it is left to these uses.

    Given:   %p = Sigmoid(%x); %y = Log(%p)
    Result:  %n = Neg(%x); %e = Exp(%n); %s = Add(%e, 1); %p = Reciprocal(%s); %y = Log(%p)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        nodes = nodes_of(model)
        waiting = [value for node in nodes for value in _magnified(node)]
        found: dict[ir.Node, None] = {}
        seen: set[ir.Node] = set()
        while waiting:
            node = waiting.pop().producer()
            if node is None or node in seen or node.domain:
                continue
            seen.add(node)
            if node.op_type == "Sigmoid":
                found[node] = None
            elif node.op_type in CARRY and not _is_swish(node):
                waiting += filter(None, node.inputs)
        changed = [_by_exponential(node) for node in found if node.outputs[0].dtype in DTYPES]
        return ir.passes.PassResult(model, any(changed))


def _magnified(node: ir.Node) -> Iterator[ir.Value]:
    """The operand whose errors a node magnifies."""
    if node.domain or node.op_type not in MAGNIFY:
        return
    value = node.inputs[MAGNIFY[node.op_type]]
    exponent = constant_of(node.inputs[1]) if node.op_type == "Pow" else None
    if value is not None and (exponent is None or bool((exponent < 1).any())):
        yield value


def _is_swish(product: ir.Node) -> bool:
    """Return True for `x * sigmoid(x)`, which models normalize: there the quotient is of sums."""
    sides = product.inputs
    return product.op_type == "Mul" and any(
        gate is not None and gate.inputs[0] is other
        for gate, other in zip((made_by(each, "Sigmoid") for each in sides), reversed(sides), strict=True)
    )


def _by_exponential(sigmoid: ir.Node) -> bool:
    x, old = sigmoid.inputs[0], sigmoid.outputs[0]
    assert x is not None
    assert old.dtype is not None
    one = constant_before(sigmoid, np.ones((1,) * len(old.shape or ()), old.dtype.numpy()))
    power = before(sigmoid, "Exp", [before(sigmoid, "Neg", [x], like=old)], like=old)
    new = before(sigmoid, "Reciprocal", [before(sigmoid, "Add", [power, one], like=old)], like=old)
    done = put_in_place(old, new)
    remove_unused(sigmoid)
    return done
