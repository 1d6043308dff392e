"""Powers of numbers of the data that Python makes complex: those of a negative number with an exponent of a fraction.

The graph has NaN there, as a tensor of floats would. Numbers whose sign follows from the operators that compute them
are left out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import SymFloat
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.annotations import REAL
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.program import Program

aten, higher_order = torch.ops.aten, torch.ops.higher_order


def report_complex_powers(program: Program, log: Log) -> None:
    """Report FXP1039 at each power that may be complex in Python."""
    for node in _complex_powers(program.graph_module, ()):
        log.report(rules.POWER_MAY_BE_COMPLEX, at=place_of(node))


def _complex_powers(gm: GraphModule, given: Collection[Node]) -> Iterator[Node]:
    """Yield powers of what may be negative; `given` are the inputs of the graph that are not."""
    inner, known, followed = dict(bodies(gm)), set(given), set[Any]()
    for node in gm.graph.nodes:
        if node.target is operator.pow and _is_of_data(node) and not _is_whole(node.args[1]):
            if not _is_known(node.args[0], known) and REAL not in node.meta:
                yield node
        elif node.target is higher_order.cond:
            for name in (each.target for each in node.args[1:3]):
                inputs = zip(inner[name].graph.find_nodes(op="placeholder"), node.args[3], strict=False)
                yield from _complex_powers(inner[name], [x for x, read in inputs if _is_known(read, known)])
                followed.add(name)
        if _is_never_negative(node, known):
            known.add(node)
    for name in inner.keys() - followed:
        yield from _complex_powers(inner[name], ())


def _is_of_data(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, SymFloat) and bool(free_unbacked_symbols(value))


def _is_whole(exponent: Any) -> bool:
    if isinstance(exponent, Node):
        return exponent.target is torch.sym_float
    return float(exponent).is_integer()


def _is_known(value: Any, known: Collection[Node]) -> bool:
    return value in known if isinstance(value, Node) else isinstance(value, int | float) and value >= 0


def _is_never_negative(node: Node, known: Collection[Node]) -> bool:
    """Return whether an operator gives no number below zero, or none for such operands; NaN is not below it."""
    if node.target in SQUARES and node.args[0] is node.args[1]:
        return True
    if node.target in EVEN_POWERS and isinstance(node.args[1], int | float) and node.args[1] % 2 == 0:
        return True
    if (
        node.target in LOWER_BOUNDS
        and isinstance(least := dict(enumerate(node.args)).get(1), int | float)
        and least >= 0
    ):
        return True
    if node.target is aten.where.self and _is_call_of(node.args[0], aten.gt.Tensor, node.args[1:]):  # the larger one
        return any(_is_known(each, known) for each in node.args[1:])
    if node.target in NEVER_NEGATIVE or getattr(node.meta.get("val"), "dtype", None) in UNSIGNED:
        return True
    operands = node.args[: OPERANDS.get(node.target, 0)]
    return bool(operands) and all(_is_known(each, known) for each in operands)


def _is_call_of(node: Any, target: Any, operands: Sequence[Any]) -> bool:
    return isinstance(node, Node) and node.target is target and node.args == tuple(operands)


UNSIGNED = frozenset({torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64})
"""Types without numbers below zero."""

SQUARES = frozenset({aten.mul.Tensor, operator.mul})
"""Operators that give a square where both operands are one."""

EVEN_POWERS = frozenset({aten.pow.Tensor_Scalar, operator.pow})
"""Operators that give nothing below zero where the exponent is even."""

LOWER_BOUNDS = frozenset({aten.clamp.default, aten.clamp_min.default})
"""Operators that give nothing below their second operand."""

NEVER_NEGATIVE = frozenset(
    {
        *(aten.abs.default, aten.square.default, aten.exp.default, aten.exp2.default, aten.sqrt.default),
        *(aten.sigmoid.default, aten.relu.default, aten.softplus.default, aten.softmax.int, aten.cosh.default),
        *(aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.linalg_vector_norm.default, aten.linalg_norm.default),
        *(aten.var.correction, aten.std.correction, aten.var.default, aten.std.default, aten.rand.default),
        *(aten.mse_loss.default, aten.l1_loss.default, aten.argmax.default, aten.argmin.default, aten.ones.default),
        *(aten.cdist.default, aten.dist.default, aten.pairwise_distance.default, aten.count_nonzero.default),
        *(operator.abs, aten.sym_size.int, aten.sym_numel.default),
    }
)
"""Operators whose results are never below zero."""

OPERANDS = {
    **dict.fromkeys((aten.item.default, aten._local_scalar_dense.default, aten.scalar_tensor.default), 1),
    **dict.fromkeys((aten.select.int, aten.slice.Tensor, aten.view.default, aten.reshape.default, torch.sym_float), 1),
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.clone.default), 1),
    **dict.fromkeys((aten.max.default, aten.min.default, aten.amax.default, aten.amin.default, aten.to.dtype), 1),
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default, aten.detach.default, math.trunc, torch.sym_int), 1),
    **dict.fromkeys((aten.prod.default, aten.cumsum.default, aten.median.default, aten.trace.default), 1),
    **dict.fromkeys(
        (aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, operator.add, operator.mul, operator.truediv), 2
    ),
    **dict.fromkeys((torch.sym_min, aten.minimum.default, aten.maximum.default, aten.dot.default, aten.mm.default), 2),
}
"""Operators whose results are not below zero where these first operands are not, and how many they are."""
