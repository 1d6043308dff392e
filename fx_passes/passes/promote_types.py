"""Type promotion made explicit: after this pass, operands that must agree in ONNX agree in dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log, rules
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, fake, operator_name, place_of, replace

aten = torch.ops.aten

NOT_OPERANDS = frozenset({"condition", "mask", "out_int32"})
"""Schema argument names of pointwise ops that keep a dtype of their own."""

LOGICAL = frozenset(
    {aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default, aten.logical_not.default}
)
"""Each operand becomes a truth value by itself; there is nothing to promote."""

UNPROMOTED = frozenset(
    {
        aten.copy.default,
        aten.ldexp.Tensor,
        aten.masked_fill.Tensor,
        aten.masked_fill.Scalar,
        aten._to_copy.default,
    }
)
"""Pointwise by tag, but the dtype of an argument decides; their lowerings convert the others."""

BY_NUMBER = frozenset({aten.mul.Tensor, aten.div.Tensor, aten.div.Tensor_mode})
"""Ops whose kernels for half numbers take a second operand of one number, on the CPU, as float32, and round once."""

LISTS = frozenset({aten.cat.default, aten.stack.default, aten.hstack.default, aten.vstack.default, aten.dstack.default})
"""Ops on a list of tensors that are promoted together."""


@fx_pass
def promote_types(gm: GraphModule, log: Log) -> bool:
    """Operands of different dtypes meet in the dtype in which PyTorch computes.

    Given:   %c = mul(%a: i64, %b: f32)
    Result:  %d = _to_copy(%a, dtype=f32); %c = mul(%d, %b)
    """
    changed = False
    for node in list(gm.graph.nodes):
        if _is_by_number(node):
            _compute_in_float32(node)
            changed = True
            continue
        dtype = _operand_dtype(node)
        if dtype is None:
            continue
        for operand in dict.fromkeys(_operands(node)):  # each once, in the same order in each run
            if operand.meta["val"].dtype != dtype:
                source, target = (str(each).removeprefix("torch.") for each in (operand.meta["val"].dtype, dtype))
                log.report(
                    rules.IMPLICIT_TYPE_PROMOTION,
                    at=place_of(node),
                    op=operator_name(node),
                    source=source,
                    target=target,
                    operand=node.args.index(operand) if operand in node.args else None,
                )
                with gm.graph.inserting_before(node):
                    cast = _cast(node, operand, dtype)
                node.replace_input_with(operand, cast)
                changed = True
    return changed


def _is_by_number(node: Node) -> bool:
    """Return whether a half number is multiplied with, or divided by, one wider number, which is not rounded first."""
    values = fake(node.args) if node.target in BY_NUMBER else ()
    if not values or not all(isinstance(each, torch.Tensor) for each in values):
        return False
    one, number = values
    is_wider = number.dtype.is_floating_point and number.dtype.itemsize > one.dtype.itemsize
    return one.dtype in HALVES and one.dim() > 0 and number.dim() == 0 and is_wider and number.device.type == "cpu"


HALVES = (torch.float16, torch.bfloat16)


def _compute_in_float32(node: Node) -> None:
    with node.graph.inserting_before(node):
        operands = [_cast(node, operand, torch.float32) for operand in _operands(node)]
        result = call(node, node.target, tuple(operands), dict(node.kwargs))
        replace(node, _cast(node, result, node.meta["val"].dtype))


def _cast(like: Node, operand: Node, dtype: torch.dtype) -> Node:
    if operand.meta["val"].dtype == dtype:
        return operand
    return call(like, aten._to_copy.default, (operand,), {"dtype": dtype})


def _operand_dtype(node: Node) -> torch.dtype | None:
    """The dtype that all operands of this node shall have; None where the operands may stay as they are."""
    result = node.meta.get("val")
    if node.target in LISTS and isinstance(result, torch.Tensor):
        return result.dtype
    if not isinstance(node.target, torch._ops.OpOverload) or node.target in UNPROMOTED:
        return None
    if torch.Tag.pointwise not in node.target.tags or not isinstance(result, torch.Tensor):
        return None
    if result.dtype != torch.bool:
        return None if result.dtype.is_floating_point and _any_complex(node) else result.dtype
    if node.target in LOGICAL:
        return None
    values = [operand.meta["val"] for operand in _operands(node)] + list(_scalars(node))
    if len(values) < 2:
        return None
    promoted, _ = elementwise_dtypes(*values, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH)
    return promoted


def _any_complex(node: Node) -> bool:
    return any(operand.meta["val"].dtype.is_complex for operand in _operands(node))


def _operands(node: Node) -> Iterator[Node]:
    """The tensor arguments of a node that take part in promotion."""
    for argument in _promoted(node):
        entries = argument if isinstance(argument, (list, tuple)) else (argument,)
        for entry in entries:
            if isinstance(entry, Node) and isinstance(entry.meta.get("val"), torch.Tensor):
                yield entry


def _scalars(node: Node) -> Iterator[Any]:
    """The Python numbers and symbolic numbers among the promoted arguments."""
    for argument in _promoted(node):
        value = argument.meta.get("val") if isinstance(argument, Node) else argument
        if isinstance(value, (bool, int, float, complex, torch.SymInt, torch.SymFloat)):
            yield value


def _promoted(node: Node) -> Iterator[Any]:
    schema = node.target._schema.arguments  # type: ignore[union-attr]  # callers hold an OpOverload
    for argument, value in zip(schema, node.args, strict=False):
        if argument.name not in NOT_OPERANDS:
            yield value
