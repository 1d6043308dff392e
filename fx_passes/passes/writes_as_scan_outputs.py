"""Carried tensors of which each iteration of a scan writes only the row at its own number."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call
from fxport.fx_passes.iterations import Place, place_of
from fxport.fx_passes.row_chains import RowChain, row_chain
from fxport.fx_passes.rows import Row, place_of_row, rows_at, with_rows, written_row
from fxport.fx_passes.scans import Carried, Scan, scans_of

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
            found = _chain_of(scan, each)
            if found is not None:
                _write_behind(scan, each, *found)
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
    """Return the tensor before rows of it were written."""
    while (row := written_row(node)) is not None:
        node = row.x
    return node


def _chain_of(scan: Scan, carried: Carried) -> tuple[RowChain, Place] | None:
    """The writes to a row of a carried tensor and the reads of it, if they are all that happens to the tensor."""
    row = written_row(carried.end.value) if isinstance(carried.end.value, Node) else None
    place = None if row is None else place_of_row(scan, row)
    if row is None or place is None:
        return None
    dim = row.dim

    def is_same(other: Row) -> bool:
        found = place_of_row(scan, other) if other.dim == dim else None
        return found is not None and found.is_same(place)

    chain = row_chain(carried.start.placeholder, carried.end.value, is_same)
    if chain is None:
        return None
    versions = {chain.tensor, *(write for write, _ in chain.writes)}
    returned = [output.value for output in scan.outputs if output.value in versions]
    return (chain, place) if returned == [carried.end.value] else None


def _write_behind(scan: Scan, carried: Carried, chain: RowChain, place: Place) -> None:
    """Makes the rows an output of the body, and the tensor that they are written to a value behind the scan."""
    whole, dim = carried.start.operand, chain.last.dim
    rows: list[Node] = []

    def before(node: Node) -> Node:
        if not rows:
            with scan.node.graph.inserting_before(scan.node):
                rows.append(scan.add_row(rows_at(scan, whole, dim, place), node))
        return rows[0]

    last = chain.take(before, scan.replace)
    scan.carried.remove(carried)
    with scan.node.graph.inserting_before(scan.node.next):
        stacked = scan.add_stacked(last)
        written = with_rows(scan, whole, dim, place, stacked.users[0])
    for user in carried.end.users:
        user.replace_all_uses_with(written)
        user.graph.erase_node(user)
