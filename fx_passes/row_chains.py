"""A tensor of which a body writes one row, and reads no other: the row can take its place in the body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Node

from fxport.fx_passes.graph import call, size_nodes
from fxport.fx_passes.rows import Row, read_row, written_row
from fxport.fx_passes.sizes import sizes_of

aten = torch.ops.aten


@dataclass(frozen=True)
class RowChain:
    """Uses of one row by a body: the writes to it, each to the result of the one before, and the reads."""

    tensor: Node
    writes: list[tuple[Node, Row]]
    reads: list[tuple[Node, Row]]

    @property
    def last(self) -> Row:
        """The last write."""
        return self.writes[-1][1]

    def take(self, before: Callable[[Node], Node], replace: Callable[[Node, Node], None]) -> Node:
        """Makes the reads those of the row alone.

        Args:
            before: Gives the row before the first write, for a node that needs it.
            replace: Puts one node of the body in the place of another.

        Returns:
            The row after the last write. It may have yet to be broadcast, as the value that was written.
        """
        values = {write: _without_axis(write, row) for write, row in self.writes}
        for node, row in self.reads:
            value = before(node) if row.x is self.tensor else values[row.x]
            replace(node, with_axes(node, row, broadcast_to(row.x, row.dim, value, before, node)))
        return values[self.writes[-1][0]]


def row_chain(start: Node, end: object, is_same: Callable[[Row], bool]) -> RowChain | None:
    """The writes that lead from one tensor to another, if they and all reads in between are of one row.

    Args:
        start: The tensor as the body is given it.
        end: The tensor as the body returns it. Who calls has to see that it is returned once.
        is_same: Whether a row is the one in question.
    """
    writes: list[tuple[Node, Row]] = []
    node = end
    while node is not start:
        row = written_row(node) if isinstance(node, Node) else None
        if row is None or row.value is None or row.rank > 1 or not is_same(row):
            return None
        writes.insert(0, (node, row))  # type: ignore[arg-type]  # a node, as just seen
        node = row.x
    versions = [start, *(write for write, _ in writes)]
    if any(row.value in versions for _, row in writes):
        return None
    reads: list[tuple[Node, Row]] = []
    for version in versions:
        for user in version.users:
            read = read_row(user)
            if read is not None and read.x is version and is_same(read):
                reads.append((user, read))
            elif user not in versions and user.op != "output":
                return None
    return RowChain(start, writes, reads) if writes else None


def with_axes(like: Node, row: Row, value: Node) -> Node:
    """A row with the axes of size 1 that a node reads it with, made before that node."""
    with like.graph.inserting_before(like):
        for _ in range(row.rank):
            value = call(like, aten.unsqueeze.default, (value, row.dim))
    return value


def broadcast_to(tensor: Node, dim: int, value: Node, before: Callable[[Node], Node], like: Node) -> Node:
    """Broadcast a value that was written to a row of a tensor to the row's sizes, before the node `like`."""
    sizes = sizes_of(tensor.meta["val"])
    if sizes_of(value.meta["val"]) == (*sizes[:dim], *sizes[dim + 1 :]):
        return value
    row = before(like)
    with like.graph.inserting_before(like):
        return call(like, aten.expand.default, (value, size_nodes(like, row)), val=row.meta["val"])


def _without_axis(write: Node, row: Row) -> Node:
    """Return the written value without the axis of size 1 that stands for the row, in the tensor's dtype."""
    value, whole = row.value, write.meta["val"]
    assert value is not None, "a write has a value"
    with write.graph.inserting_before(write):
        axis = value.meta["val"].dim() + row.dim - whole.dim()
        if row.rank and axis >= 0:
            value = call(write, aten.squeeze.dim, (value, axis))
        if value.meta["val"].dtype != whole.dtype:
            value = call(write, aten._to_copy.default, (value,), {"dtype": whole.dtype})
    return value
