"""Indices of `x[...]`: None, integers and masks, as integer tensors by axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import onnx_ir as ir
import sympy

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lowerings.shape import expanded
from fxport.fx_passes.broadcasting import first_wide

INT64 = ir.DataType.INT64
MASKS = frozenset({ir.DataType.BOOL, ir.DataType.UINT8})
"""Dtypes of indices that say yes or no of each element."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """`x` with integer tensors that index some of its axes, all broadcasting to `sizes`."""

    x: Value
    by_axis: dict[int, Value]
    sizes: tuple[Size, ...]

    @property
    def axes(self) -> list[int]:
        return sorted(self.by_axis)

    @property
    def adjacent(self) -> bool:
        """True if no axis that is kept whole lies between indexed ones; if one does, the result begins with `sizes`."""
        return self.axes == list(range(self.axes[0], self.axes[-1] + 1))


def is_mask(index: Value) -> bool:
    return index.dtype in MASKS


def only_mask(indices: Sequence[Value | None]) -> tuple[int, Value] | None:
    """The one index and the axis it begins at, if it is a mask and the rest is None."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    return given[0] if len(given) == 1 and is_mask(given[0][1]) else None


def indexed(op: Op, x: Value, indices: Sequence[Value | None]) -> Indexed:
    """Integer indices by axis: a mask of rank k becomes k vectors, one for each of its axes.

    A mask of rank 0 indexes a new axis of size 1.
    """
    axis, by_axis = 0, {}
    for index in indices:
        if index is None:
            axis += 1
        elif not is_mask(index):
            by_axis[axis] = index
            axis += 1
        elif op.rank(index) == 0:
            sizes = op.sizes(x)
            x = op.typed(op.Unsqueeze(x, [axis]), [*sizes[:axis], 1, *sizes[axis:]])
            by_axis[axis] = nonzero_rows(op, op.reshape(index, [1]))[0]
            axis += 1
        else:
            for row in nonzero_rows(op, index):
                by_axis[axis] = row
                axis += 1
    return Indexed(x, by_axis, broadcast([op.sizes(index) for index in by_axis.values()]))


def nonzero_places(op: Op, mask: Value) -> Value:
    """Compute the indices of a tensor's non-zero elements, rank 1 or more: INT64 [rank, count], with a new symbol as
    count.

    Computed once for each tensor.
    """
    key = ("nonzero", mask)
    found = op.scope.lookup(key)
    if found is None:
        count = sympy.Symbol(op.unique("nonzero"), integer=True, nonnegative=True)
        found = op.typed(op.NonZero(op.cast(mask, ir.DataType.BOOL)), [op.rank(mask), count])
        op.symbols.bind_sizes(found, op.sizes(found))
        op.scope.remember(key, found)
    return found


def nonzero_rows(op: Op, mask: Value) -> list[Value]:
    """The same as one vector for each axis."""
    places = nonzero_places(op, mask)
    rank, count = op.sizes(places)
    return [op.typed(op.Gather(places, axis, axis=0), [count]) for axis in range(int(rank))]


def broadcast(shapes: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
    """The sizes that shapes broadcast to."""
    rank = max(map(len, shapes), default=0)
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    return tuple(map(_broadcast, zip(*padded, strict=True)))


def _broadcast(sizes: Iterable[Size]) -> Size:
    """The size that these broadcast to: a number, or the one that is not 1; counts of what data has may be 0."""
    wide = dict.fromkeys(size for size in sizes if size != 1)
    symbols = [size for size in wide if not isinstance(size, int)]
    if len(symbols) < len(wide):
        return next(size for size in wide if isinstance(size, int))
    if all(size.is_positive for size in symbols):
        return sympy.Max(*symbols) if symbols else 1
    return reduce(first_wide, symbols)


def stacked(op: Op, components: Sequence[Value], sizes: Sequence[Size]) -> Value:
    """Indices that broadcast to `sizes` as one INT64 tensor [*sizes, components], as GatherND and ScatterND take it."""
    parts: list[Value] = []
    for component in components:
        whole = expanded(op, op.cast(component, INT64), sizes)
        parts.append(op.Unsqueeze(whole, [len(sizes)]))
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=len(sizes))


def at_axis(op: Op, index: Value, first: int, rank: int) -> Value:
    """An index with axes of size 1 around it: its own axes begin at `first` of `rank`."""
    own = list(op.sizes(index))
    sizes = [*[1] * first, *own, *[1] * (rank - first - len(own))]
    return index if len(sizes) == len(own) else op.reshape(index, sizes)


def arange(op: Op, size: Size) -> Value:
    """0 … size - 1 as INT64."""
    return op.typed(op.Range(0, size, 1), [size])
