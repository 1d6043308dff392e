"""Scaled dot-product attention: ONNX's Attention where it says the same, and its parts elsewhere.

ONNX Runtime 1.31 computes Attention (opset 23 and 24) on the CPU as fast as its parts; docs/decisions/attention.md has
the figures. It is one node instead of six to ten, and the node that GPU providers have fused kernels for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch._ops import OpOverload

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import float_range
from fxport.exporter.lowering.lower.registry import Lowering, lowering
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.reduce import may_be_empty

aten = torch.ops.aten

WHOLE_FROM = 23
"""The opset that brought Attention."""

WHOLE_DTYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""No kernel of any provider computes Attention in DOUBLE."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: query [..., heads, l, e], key [..., heads, s, e] and value [..., heads, s, v].

    The mask is BOOL (True: take part) or added to the scores; it broadcasts to [..., heads, l, s]. With `grouped`, key
    and value may have fewer heads than the query, each standing for a group of the query's.
    """

    query: Value
    key: Value
    value: Value
    mask: Value | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: Scalar | None = None
    grouped: bool = False


@lowering(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    op: Op,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
    enable_gqa: bool = False,
) -> Value:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""  # noqa: E501
    return attend(op, Attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa))


def _fused(target: OpOverload) -> Lowering:
    """The lowering of a backend's own attention, which a trace below autograd holds instead of the general one.

    Their arguments differ in order only. What they return for the backward pass is not given.
    """
    names = [argument.name for argument in target._schema.arguments]
    others = (None,) * (len(target._schema.returns) - 1)

    def fused(op: Op, query: Value, key: Value, value: Value, *rest: Any, **options: Any) -> tuple[Value | None, ...]:
        given = dict(zip(names[3:], rest, strict=False)) | options
        mask = given.get("attn_mask", given.get("attn_bias"))
        dropout, causal = given.get("dropout_p", 0.0), given.get("is_causal", False)
        return attend(op, Attention(query, key, value, mask, dropout, causal, given.get("scale"))), *others

    fused.__doc__ = str(target._schema).removeprefix("aten::")
    return Lowering((target,), fused)


LOWERINGS = tuple(
    map(
        _fused,
        (
            aten._scaled_dot_product_cudnn_attention.default,
            aten._scaled_dot_product_efficient_attention.default,
            aten._scaled_dot_product_flash_attention.default,
            aten._scaled_dot_product_flash_attention_for_cpu.default,
            aten._scaled_dot_product_fused_attention_overrideable.default,
        ),
    )
)


def attend(op: Op, it: Attention) -> Value:
    """The result of an attention, [..., heads, l, v]. A row that the mask closes everywhere gives 0, as in PyTorch."""
    return _whole(op, it) if _can_be_whole(op, it) else _by_parts(op, it)


# As one operator ------------------------------------------------------------------------------------------------


def _can_be_whole(op: Op, it: Attention) -> bool:
    """Return True if ONNX Runtime's Attention takes these operands: four axes each, none of them empty."""
    operands = (it.query, it.key, it.value)
    if op.opset < WHOLE_FROM or it.query.dtype not in WHOLE_DTYPES or it.dropout:
        return False
    if it.scale is not None and (is_symbolic(it.scale) or it.scale <= 0):  # ONNX Runtime's takes a positive number
        return False
    if any(op.rank(operand) != 4 or any(map(may_be_empty, op.sizes(operand))) for operand in operands):
        return False
    batches, heads = ([op.sizes(operand)[axis] for operand in operands] for axis in (0, 1))
    if batches[1:] != batches[:1] * 2 or heads[1] != heads[2] or (heads[0] != heads[1] and not it.grouped):
        return False
    return it.mask is None or _mask_fits(op.sizes(it.mask), (batches[0], heads[0]))


def _mask_fits(mask: tuple[Size, ...], outer: tuple[Size, Size]) -> bool:
    """Return True if a mask's axes before the last two are at most batch and heads, each of that size or 1."""
    leading = mask[:-2]
    return len(leading) <= 2 and all(
        size in (1, full) for size, full in zip(reversed(leading), reversed(outer), strict=False)
    )


def _whole(op: Op, it: Attention) -> Value:
    operands = [it.query, it.key, it.value]
    if it.mask is not None:
        operands.append(_full_mask(op, it, it.mask))
    scale = None if it.scale is None else float(it.scale)  # type: ignore[arg-type]  # not symbolic here
    return op.Attention(*operands, is_causal=1 if it.causal else None, scale=scale)


def _full_mask(op: Op, it: Attention, mask: Value) -> Value:
    """The mask as ONNX Runtime takes it: its last two axes do not broadcast, and it is BOOL or of the query's dtype.

    ONNX Runtime takes a row of nothing but the lowest finite number for closed, where PyTorch weighs all keys alike;
    half that number closes as well as the lowest does, unless the whole row has it.
    """
    dtype = it.query.dtype
    if mask.dtype != ir.DataType.BOOL and dtype is not None:
        mask = op.cast(mask, dtype)
        lowest = float_range(dtype)[0]
        mask = op.typed(op.Where(op.Equal(mask, lowest), op.const(lowest / 2, like=mask), mask), op.sizes(mask))
    return _expanded(op, mask, (op.sizes(it.query)[-2], op.sizes(it.key)[-2]))


def _expanded(op: Op, mask: Value, last: tuple[Size, Size]) -> Value:
    sizes = (1,) * (2 - op.rank(mask)) + op.sizes(mask)
    if sizes[-2:] == last or not any(has == 1 != wants for has, wants in zip(sizes[-2:], last, strict=True)):
        return mask
    target = (*sizes[:-2], *last)
    return op.typed(op.Expand(mask, op.shape(target)), target)


# By parts -------------------------------------------------------------------------------------------------------


def _by_parts(op: Op, it: Attention) -> Value:
    """softmax(scale · q kᵀ + bias) v, with the scale on the query: in half precision nothing then overflows early."""
    key, value = (_repeated(op, it, each) for each in (it.key, it.value))
    rank = op.rank(it.key)
    swapped = op.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = op.MatMul(_scaled(op, it), swapped)
    bias = _bias(op, it)
    if bias is not None:
        scores = op.Add(scores, bias)
    weights = op.Softmax(scores, axis=-1)
    if it.dropout:
        weights = op.Dropout(weights, it.dropout, True, outputs=2)[0]
    result = op.MatMul(weights, value)
    if it.mask is None or op.sizes(it.key)[-2] == 0:
        return result
    closed = op.Equal(op.ReduceMax(bias, [-1], keepdims=1), -math.inf)
    return op.Where(closed, op.const(0.0, like=result), result)


def _scaled(op: Op, it: Attention) -> Value:
    """The query times the scale, which is 1/√e unless one is given."""
    width = op.sizes(it.query)[-1]
    if it.scale is not None:
        return op.Mul(it.query, op.const(it.scale, like=it.query))
    if is_symbolic(width):
        return op.Div(it.query, op.Sqrt(op.const(width, like=it.query)))
    return op.Mul(it.query, 1 / math.sqrt(width) if width else math.inf)  # type: ignore[arg-type]  # a plain number


def _repeated(op: Op, it: Attention, x: Value) -> Value:
    """Keys or values with every head as often as the query has heads for it."""
    if not it.grouped or op.sizes(x)[-3] == op.sizes(it.query)[-3]:
        return x
    *outer, heads, length, width = op.sizes(x)
    times = op.sizes(it.query)[-3] // heads
    spread = op.Expand(op.Unsqueeze(x, [-3]), op.shape([*outer, heads, times, length, width]))
    return op.reshape(spread, [*outer, heads * times, length, width])


def _bias(op: Op, it: Attention) -> Value | None:
    """Build the bias of the scores: the mask, -inf where it is False or above the diagonal; None for nothing."""
    if it.causal:
        length, keys = op.sizes(it.query)[-2], op.sizes(it.key)[-2]
        rows = op.Unsqueeze(op.Range(0, op.const(length, dtype=ir.DataType.INT64), 1), [1])
        keep = op.GreaterOrEqual(rows, op.Range(0, op.const(keys, dtype=ir.DataType.INT64), 1))
    elif it.mask is None or it.mask.dtype != ir.DataType.BOOL:
        return None if it.mask is None else op.const(it.mask, like=it.query)
    else:
        keep = it.mask
    return op.Where(keep, op.const(0.0, like=it.query), op.const(-math.inf, like=it.query))
