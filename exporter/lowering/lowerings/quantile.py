"""Quantiles, which lie between two places of the ascending order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, flat
from fxport.exporter.lowering.lowerings.reduce import reduced
from fxport.exporter.lowering.lowerings.sort import ranked

aten = torch.ops.aten


@lowering(aten.quantile.default, aten.quantile.scalar)
def quantile(
    op: Op, x: Value, q: Value | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor

    NaN where there is any: the place is then that of the last element.
    """
    return _quantile(op, x, q, dim, interpolation, over_nan=False)


@lowering(aten.nanquantile.default, aten.nanquantile.scalar)
def nanquantile(
    op: Op, x: Value, q: Value | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor"""
    return _quantile(op, x, q, dim, interpolation, over_nan=True)


def _quantile(op: Op, x: Value, q: Value | float, dim: int | None, interpolation: str, *, over_nan: bool) -> Value:
    rows = _as_rows(op, x, dim)
    several = isinstance(q, ir.Value) and op.rank(q) == 1
    wanted = op.reshape(op.const(q, like=x), [op.sizes(q)[0] if several else 1])  # type: ignore[arg-type]  # a Value
    last = op.rank(rows) - 1
    values, _ = ranked(op, rows, op.sizes(rows)[last], last, largest=False)
    found = INTERPOLATIONS[interpolation](op, values, _ranks(op, rows, wanted, over_nan=over_nan), last)
    if several:
        found = op.Transpose(found, perm=[last, *range(last)])
    return op.reshape(found, op.out.sizes)


def _as_rows(op: Op, x: Value, dim: int | None) -> Value:
    """`x` with the axis to reduce as its last."""
    rank = op.rank(x)
    if rank == 0:
        return op.reshape(x, [1])
    if dim is None:
        return flat(op, x)
    axis = axis_of(dim, rank)
    order = [*(each for each in range(rank) if each != axis), axis]
    return op.typed(op.Transpose(x, perm=order), [op.sizes(x)[each] for each in order])


def _ranks(op: Op, rows: Value, wanted: Value, *, over_nan: bool) -> Value:
    """The places in the order that the quantiles are at, with fractions; NaN stands last there."""
    last = op.rank(rows) - 1
    length = op.const(op.sizes(rows)[last], like=rows)
    nans = reduced(op, "ReduceSum", op.typed(op.CastLike(op.IsNaN(rows), rows), op.sizes(rows)), last, keepdim=True)
    if over_nan:
        return op.Max(op.Mul(wanted, op.Sub(op.Sub(length, nans), 1.0)), 0.0)
    end = op.Sub(length, 1.0)
    return op.Where(op.Equal(nans, 0.0), op.Mul(wanted, end), end)


def _at(op: Op, values: Value, ranks: Value, last: int) -> Value:
    return op.GatherElements(values, op.Cast(ranks, to=ir.DataType.INT64), axis=last)


def _linear(op: Op, values: Value, ranks: Value, last: int) -> Value:
    return _between(op, values, ranks, last, op.Sub(ranks, op.Floor(ranks)))


def _midpoint(op: Op, values: Value, ranks: Value, last: int) -> Value:
    return _between(op, values, ranks, last, op.const(0.5, like=ranks))


def _between(op: Op, values: Value, ranks: Value, last: int, weight: Value) -> Value:
    """From the end that is nearer, as `torch.lerp` has it."""
    below, above = (_at(op, values, op.call(rounding, ranks), last) for rounding in ("Floor", "Ceil"))
    step = op.Sub(above, below)
    from_above = op.Sub(above, op.Mul(step, op.Sub(1.0, weight)))
    return op.Where(op.Less(weight, 0.5), op.Add(below, op.Mul(step, weight)), from_above)


def _rounded(rounding: str) -> Callable[[Op, Value, Value, int], Value]:
    return lambda op, values, ranks, last: _at(op, values, op.call(rounding, ranks), last)


INTERPOLATIONS: Mapping[str, Callable[[Op, Value, Value, int], Value]] = {
    "linear": _linear,
    "midpoint": _midpoint,
    "lower": _rounded("Floor"),
    "higher": _rounded("Ceil"),
    "nearest": _rounded("Round"),
}
"""(sorted values, places, axis) → what is there; by ATen's names."""
