"""Carried tensors of which each iteration of a scan writes only the row at its own number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from diagnostics import Log
from fx_passes.base import fx_pass
from fx_passes.graph import call, size_nodes
from fx_passes.iterations import Place, place_of
from fx_passes.passes.rows_as_scan_inputs import replace_read
from fx_passes.rows import Row, place_of_row, read_row, rows_at, with_rows, written_row
from fx_passes.scans import Carried, Scan, scans_of
from fx_passes.sizes import sizes_of

aten = torch.ops.aten


@fx_pass
def writes_as_scan_outputs(gm: GraphModule, log: Log) -> bool:
    """A row that each iteration of a scan writes at its own number is an output of the scan, written behind it.

    Given:   %whole, = scan(body, init=[out], xs=[arange(n)]), where the body has
             %t = item(%number); %new = select_scatter(%out, %y, 0, %t); return (%new,)
    Result:  %rows, = scan(body, init=[], xs=[arange(n)]), where the body has return (%y,);
             %whole = slice_scatter(out, %rows, 0, 0, n), or %rows where these are all

    The body may read the row that it writes, before and after: before, it has its first value, since no other iteration
    writes it. A tensor of which the body reads anything else stays as it is.
    """
    changed = False
    for scan in scans_of(gm):
        if _rows_first(scan):
            scan.commit()
            changed = True
        for each in list(scan.carried):
            found = _row_writes(scan, each)
            if found is not None:
                _write_behind(scan, found)
                scan.commit()
                changed = True
    return changed


def _rows_first(scan: Scan) -> bool:
    """Makes `out[0][t]` of a carried tensor `out[:, t][0]`, which reads a row of it."""
    starts = {each.start.placeholder for each in scan.carried}
    changed = False
    for node in scan.body.graph.find_nodes(op="call_function", target=aten.select.int):
        outer: Any = node.args
        part, dim, index = outer
        inner: Any = part.args
        if part.target is not aten.select.int or _base(inner[0]) not in starts:
            continue
        x, first, at = inner
        dim, first = dim % part.meta["val"].dim(), first % x.meta["val"].dim()
        if place_of(scan, index) is None or place_of(scan, at) is not None:
            continue
        with node.graph.inserting_before(node):
            row = call(node, aten.select.int, (x, dim + (dim >= first), index))
            scan.replace(node, call(node, aten.select.int, (row, first - (dim < first), at)))
        changed = True
    return changed


def _base(node: Node) -> Node:
    """What a tensor was before rows of it were written."""
    while (row := written_row(node)) is not None:
        node = row.x
    return node


@dataclass(frozen=True)
class _RowWrites:
    """The writes of one iteration to its row of a carried tensor.

    `versions` are the tensor at first and after each write, each with what its row then is (None at first), and `reads`
    the nodes that read the row of one of them.
    """

    carried: Carried
    dim: int
    place: Place
    versions: Mapping[Node, Node | None]
    reads: list[tuple[Node, Row]]


def _row_writes(scan: Scan, carried: Carried) -> _RowWrites | None:
    """The writes, if they are all that happens to a carried tensor."""
    chain = _chain(scan, carried)
    if chain is None:
        return None
    dim, place, versions = chain
    reads: list[tuple[Node, Row]] = []
    for version in versions:
        for user in version.users:
            read = read_row(user)
            if user in versions or user.op == "output":
                continue
            if read is None or read.x is not version or read.dim != dim or not _is_at(scan, read, place):
                return None
            reads.append((user, read))
    given = [output.value for output in scan.outputs if output.value in versions]
    if given != [carried.end.value]:
        return None
    return _RowWrites(carried, dim, place, versions, reads)


def _chain(scan: Scan, carried: Carried) -> tuple[int, Place, dict[Node, Node | None]] | None:
    """The axis, the place, and the versions of the tensor from the carried one to what is carried on."""
    node, links, place = carried.end.value, [], None
    while node is not carried.start.placeholder:
        row = written_row(node) if isinstance(node, Node) else None
        if row is None or row.value is None or row.rank > 1:
            return None
        place = place or place_of_row(scan, row)
        if place is None or row.dim != (links[0][1].dim if links else row.dim) or not _is_at(scan, row, place):
            return None
        links.append((node, row))
        node = row.x
    if place is None:
        return None
    versions: dict[Node, Node | None] = {carried.start.placeholder: None}
    versions |= {written: row.value for written, row in reversed(links)}
    return (links[0][1].dim, place, versions) if not set(versions) & set(versions.values()) else None


def _is_at(scan: Scan, row: Row, place: Place) -> bool:
    other = place_of_row(scan, row)
    return other is not None and other.is_same(place)


def _write_behind(scan: Scan, found: _RowWrites) -> None:
    """Makes the rows an output of the body, and the tensor that they are written to a value behind the scan."""
    carried, dim, place = found.carried, found.dim, found.place
    whole: Node = carried.start.operand
    values = {
        version: None if value is None else _without_axis(version, value) for version, value in found.versions.items()
    }
    for node, row in found.reads:
        value = values[row.x]
        if value is None:
            with scan.node.graph.inserting_before(scan.node):
                value = values[row.x] = scan.add_row(rows_at(scan, whole, dim, place), node)
        replace_read(scan, node, row, _spread(scan, node, value, whole, dim))
    scan.carried.remove(carried)
    last = values[carried.end.value]
    assert last is not None, "the last version is that of a write"
    with scan.node.graph.inserting_before(scan.node.next):
        rows = scan.add_stacked(last)
        written = with_rows(scan, whole, dim, place, rows.users[0])
    for user in carried.end.users:
        user.replace_all_uses_with(written)
        user.graph.erase_node(user)


def _without_axis(write: Node, value: Node) -> Node:
    """What is written, without the axis of size 1 that stands for the row, and in the type of the tensor."""
    row = written_row(write)
    assert row is not None, "a version is a write"
    with write.graph.inserting_before(write):
        axis = value.meta["val"].dim() + row.dim - write.meta["val"].dim()
        if row.rank and axis >= 0:
            value = call(write, aten.squeeze.dim, (value, axis))
        if value.meta["val"].dtype != write.meta["val"].dtype:
            value = call(write, aten._to_copy.default, (value,), {"dtype": write.meta["val"].dtype})
    return value


def _spread(scan: Scan, node: Node, value: Node, whole: Node, dim: int) -> Node:
    """What was written, broadcast to the row that a node reads."""
    sizes = sizes_of(whole.meta["val"])
    if sizes_of(value.meta["val"]) == (*sizes[:dim], *sizes[dim + 1 :]):
        return value
    with node.graph.inserting_before(node):
        wanted = size_nodes(node, scan.add_whole(whole, node))
        return call(node, aten.expand.default, (value, [*wanted[:dim], *wanted[dim + 1 :]]))
