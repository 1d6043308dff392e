"""Reads and writes of one row of a tensor, whatever op they are made by, and the rows of all iterations at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fxport.fx_passes.graph import call, fake_mode_of, size_nodes
from fxport.fx_passes.iterations import Place, place_of
from fxport.fx_passes.scans import Scan
from fxport.fx_passes.sizes import same_sizes, size_of, sizes_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Row:
    """One row of `x` along an axis, as a node reads or writes it.

    `index` is a number, or a tensor of one number. `rank` is the number of axes of size 1 that the node has in the
    place of the axis. What is written is `value`, which may have yet to be broadcast.
    """

    x: Node
    dim: int
    index: Any
    rank: int
    value: Node | None = None


def read_row(node: Node) -> Row | None:
    """The row that a node of a functional graph reads, if it reads one."""
    row = READS[node.target](*node.args, **node.kwargs) if node.target in READS else None
    return row if row is not None and _is_one_row(node, row) else None


def written_row(node: Node) -> Row | None:
    """The row that a node of a functional graph writes, if it writes one."""
    return WRITES[node.target](*node.args, **node.kwargs) if node.target in WRITES else None


def _is_one_row(part: Node, row: Row) -> bool:
    """Return True if a part of a tensor is known to have the sizes of one row: a slice stops at the end of its axis."""
    sizes = sizes_of(part.meta["val"])
    whole = sizes_of(row.x.meta["val"])
    return sizes == (*whole[: row.dim], *[1] * row.rank, *whole[row.dim + 1 :])


def place_of_row(scan: Scan, row: Row) -> Place | None:
    """Return the index of a row in terms of the iteration's number; None unless it is known to be within the tensor."""
    place = place_of(scan, row.index)
    return place if place is not None and place.is_within(_size(row.x, row.dim)) else None


def _size(x: Node, dim: int) -> Any:
    return x.meta["val"].shape[dim]


# What reads and writes ------------------------------------------------------------------------------------------------


def _axis(x: Node, dim: int) -> int:
    return dim % x.meta["val"].dim()


def _select(x: Node, dim: int, index: Any) -> Row:
    return Row(x, _axis(x, dim), index, 0)


def _narrow(x: Node, dim: int, start: Any, length: Any) -> Row | None:
    return Row(x, _axis(x, dim), start, 1) if length == 1 else None


def _slice(x: Node, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Row | None:
    return Row(x, _axis(x, dim), start, 1) if _is_next(start, end) else None


def _is_next(start: Any, end: Any) -> bool:
    """Return True if one number follows the other, as in `t : t + 1`."""
    if not isinstance(start, Node) or not isinstance(end, Node):
        return False
    return bool(size_of(end.meta["val"]) - size_of(start.meta["val"]) == 1)


def _index_select(x: Node, dim: int, index: Node) -> Row:
    return Row(x, _axis(x, dim), index, 1)


def _index(x: Node, indices: list[Node | None], *_: Any) -> Row | None:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        return None
    ((dim, index),) = given
    return Row(x, dim, index, index.meta["val"].dim())


def _embedding(weight: Node, indices: Node, *_: Any) -> Row:
    return Row(weight, 0, indices, indices.meta["val"].dim())


def _select_scatter(x: Node, value: Node, dim: int, index: Any) -> Row:
    return Row(x, _axis(x, dim), index, 0, value)


def _slice_scatter(x: Node, value: Node, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Row | None:
    row = Row(x, _axis(x, dim), start, 1, value)
    return row if _is_next(start, end) and _is_one_row(value, row) else None


def _index_put(x: Node, indices: list[Node | None], value: Node, accumulate: bool = False) -> Row | None:
    row = _index(x, indices)
    return None if row is None or accumulate else Row(x, row.dim, row.index, row.rank, value)


READS: Mapping[Any, Callable[..., Row | None]] = {
    aten.select.int: _select,
    aten.narrow.default: _narrow,
    aten.slice.Tensor: _slice,
    aten.index_select.default: _index_select,
    aten.index.Tensor: _index,
    aten.embedding.default: _embedding,
}

WRITES: Mapping[Any, Callable[..., Row | None]] = {
    aten.select_scatter.default: _select_scatter,
    aten.slice_scatter.default: _slice_scatter,
    aten.index_put.default: _index_put,
}


# All rows at once -----------------------------------------------------------------------------------------------------


def rows_at(scan: Scan, x: Node, dim: int, place: Place) -> Node:
    """The rows of all iterations, as an operand of `xs`: made before the insertion point around the body."""
    part = x
    if not place.is_whole(_size(x, dim), scan.count):
        part = call(scan.node, aten.slice.Tensor, (x, dim, *_range(scan, place)), val=_resized(x, dim, scan.count))
    rank = part.meta["val"].dim()
    order = [dim, *(axis for axis in range(rank) if axis != dim)]
    moved = part if dim == 0 else call(scan.node, aten.permute.default, (part, order))
    return moved if place.is_ascending else call(scan.node, aten.flip.default, (moved, [0]))


def with_rows(scan: Scan, x: Node, dim: int, place: Place, rows: Node) -> Node:
    """`x` with the rows of all iterations, which are the first axis of `rows`, in their places.

    A row that has yet to be broadcast has fewer axes, or some of size 1.
    """
    val = x.meta["val"]
    ordered = rows if place.is_ascending else call(scan.node, aten.flip.default, (rows, [0]))
    for _ in range(val.dim() - ordered.meta["val"].dim()):
        ordered = call(scan.node, aten.unsqueeze.default, (ordered, 1))
    order = [*range(1, dim + 1), 0, *range(dim + 1, val.dim())]
    moved = ordered if dim == 0 else call(scan.node, aten.permute.default, (ordered, order))
    part = _resized(x, dim, scan.count)
    if not same_sizes(moved.meta["val"], part):
        sizes = size_nodes(scan.node, x)
        sizes[dim] = _count(scan)
        moved = call(scan.node, aten.expand.default, (moved, sizes), val=part)
    if place.is_whole(_size(x, dim), scan.count):
        return moved
    return call(scan.node, aten.slice_scatter.default, (x, moved, dim, *_range(scan, place)), val=val)


def _range(scan: Scan, place: Place) -> tuple[Any, Any, int]:
    """The start, the stop and the step of the places; where there is no iteration, start and stop are the same."""
    emit = place.invariants.emit
    start = place.lowest(emit)
    length = _count(scan)
    if place.stride != 1:
        length = emit(None, operator.mul, (length, place.stride))
    is_first = isinstance(start, int) and start == 0
    return start, length if is_first else emit(None, operator.add, (start, length)), place.stride


def _count(scan: Scan) -> Any:
    known = size_of(scan.count)
    return known if isinstance(known, int) else call(scan.node, aten.sym_size.int, (scan.xs[0].operand, 0))


def _resized(x: Node, dim: int, size: Any) -> torch.Tensor:
    """The fake tensor of a part of `x` along an axis."""
    val = x.meta["val"]
    with fake_mode_of(val):
        return val.new_empty([size if axis == dim else each for axis, each in enumerate(val.shape)])
