"""Shared parts of convolutions and pools: arguments as numbers, inputs without a batch, windows written out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch.utils._sympy.functions import FloorDiv, Min

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import Unsupported
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic, plain
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.reduce import may_be_empty

SPATIAL = re.compile(r"([123])d")


def spatial_axes(op: Op) -> int:
    """The spatial axes of the ATen overload that is lowered, from its name: 2 of `aten.max_pool2d.default`."""
    return int(SPATIAL.findall(op.target.__name__)[0])


def numbers(values: Sequence[Size] | Size, axes: int, what: str) -> tuple[int, ...]:
    """One number for each spatial axis, from a list of so many, of one, or from a single number.

    Raises `Unsupported` for a symbolic one: ONNX has them in attributes.
    """
    listed = list(values) if isinstance(values, Sequence) else [values]
    for value in listed:
        if is_symbolic(value):
            raise Unsupported(f"its {what} depends on an input size ({value}), which ONNX has as a constant attribute")
    plain = tuple(int(value) for value in listed)  # type: ignore[arg-type]  # no expression is left
    return plain * axes if len(plain) == 1 else plain


def batched(op: Op, x: Value, axes: int) -> Value:
    """`x` with a batch axis, which ONNX always has, before its channels and `axes` spatial axes."""
    if op.rank(x) == axes + 2:
        return x
    return op.typed(op.Unsqueeze(x, [0]), (1, *op.sizes(x)))


def unbatched(op: Op, y: Value, x: Value, axes: int) -> Value:
    """A result as `x` was given: without the batch axis if `x` has none."""
    return y if op.rank(x) == axes + 2 else op.Squeeze(y, [0])


def unless(values: Sequence[int], default: int) -> list[int] | None:
    """Numbers for an attribute; None where all of them are its default."""
    return None if all(value == default for value in values) else list(values)


def number_of_windows(size: Size, extent: Size, step: int, padding: int, ceil_mode: bool) -> Size:
    """Return the number of windows along a padded axis. Rounded up, the last one begins before the padding."""
    span = size + 2 * padding - extent
    if not ceil_mode:
        return divided(span, step) + 1
    return plain(Min(divided(span + step - 1, step) + 1, divided(size + padding + step - 1, step)))


def divided(size: Size, by: Size) -> Size:
    """`size // by`, also of expressions, for which Python would make a division of floats."""
    return plain(FloorDiv(size, by))


def taps(op: Op, count: Size, stride: int, kernel: Size, dilation: int = 1) -> Value:
    """The places that each of `count` windows along an axis looks at: INT64 [count, kernel]."""
    starts = op.Mul(op.Range(0, op.const(count), 1), stride)
    places = op.Range(0, op.const(kernel), 1)
    return op.Add(op.Unsqueeze(starts, [1]), places if dilation == 1 else op.Mul(places, dilation))


def windows(op: Op, x: Value, tables: Sequence[Value]) -> Value:
    """Gather the windows of `x`, [*lead, *sizes], by one table [out, kernel] for each of its last axes.

    Returns [*lead, *outs, *kernels].
    """
    axes = len(tables)
    lead = op.rank(x) - axes
    for axis, table in enumerate(tables):
        x = op.Gather(x, table, axis=lead + 2 * axis)
    outs, kernels = range(lead, lead + 2 * axes, 2), range(lead + 1, lead + 2 * axes, 2)
    return x if axes == 1 else op.Transpose(x, perm=[*range(lead), *outs, *kernels])


def contracted(op: Op, x: Value, matrix: Value, axis: int) -> Value:
    """`x` with one axis, counted from the end, multiplied by a matrix [out, in].

    Where there may be no element, rows are multiplied: ONNX Runtime multiplies no matrix by an empty batch.
    """
    sizes = [*op.sizes(x)]
    out = op.sizes(matrix)[0]
    if 0 in sizes:
        sizes[axis] = out
        return op.typed(op.Expand(op.const(0.0, like=x), op.shape(sizes)), sizes)
    if any(map(may_be_empty, sizes)):
        order = [*range(len(sizes))]
        order[axis], order[-1] = order[-1], order[axis]
        *lead, size = (sizes[each] for each in order)
        turned = x if axis == -1 else op.Transpose(x, perm=order)
        rows = op.MatMul(op.reshape(turned, [product(lead), size]), op.Transpose(matrix, perm=[1, 0]))
        y = op.reshape(op.typed(rows, [product(lead), out]), [*lead, out])
        y = y if axis == -1 else op.Transpose(y, perm=order)
    elif axis == -1:
        y = op.MatMul(x, op.Transpose(matrix, perm=[1, 0]))
    elif axis == -2:
        y = op.MatMul(matrix, x)
    else:
        lead, inner = sizes[:axis], sizes[axis + 1 :]
        merged = op.MatMul(matrix, op.reshape(x, [*lead, sizes[axis], product(inner)]))
        y = op.reshape(op.typed(merged, [*lead, out, product(inner)]), [*lead, out, *inner])
    sizes[axis] = out
    return op.typed(y, sizes)


def cropped(op: Op, x: Value, before: Sequence[int], sizes: Sequence[Size]) -> Value:
    """The last axes of `x` from `before` on, at these sizes; where `x` ends earlier, zeros."""
    lead = op.sizes(x)[: -len(sizes)]
    after = [size + begin - old for size, begin, old in zip(sizes, before, op.sizes(x)[-len(sizes) :], strict=True)]
    none = [0] * len(lead)
    return op.typed(op.Pad(x, op.shape([*none, *[-begin for begin in before], *none, *after])), [*lead, *sizes])
