"""Reads of the row at the iteration's number, from what the body of a scan is given whole."""

from __future__ import annotations

import sympy
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.row_chains import with_axes
from fxport.fx_passes.rows import place_of_row, read_row, rows_at
from fxport.fx_passes.scans import Scan, scans_of


@fx_pass
def rows_as_scan_inputs(gm: GraphModule, log: Log) -> bool:
    """A row that each iteration of a scan reads at its own number is an input of the scan.

    Given:   scan(body, init, xs=[arange(n)], additional=[x]), where the body has
             %t = item(%number); %row = select(%x, 1, %t)
    Result:  scan(body, init, xs=[arange(n), permute(x, [1, 0])]), where the body has %row as a placeholder

    Nothing writes to what a body is given whole, since the graph is functional. A read stays as it is unless each
    index is known to be within the tensor: an index below 0 counts from the end.
    """
    changed = False
    for scan in scans_of(gm):
        changed |= _read_outside(scan)
    return changed


def _read_outside(scan: Scan) -> bool:
    known: dict[tuple[object, int, Node, sympy.Expr], Node] = {}
    changed = False
    for node in [node for node in scan.body.graph.nodes if read_row(node) is not None]:
        row = read_row(node)  # now: what it is a row of may be another node since
        place = place_of_row(scan, row) if row is not None else None
        if row is None or place is None or not place.invariants.covers(row.x):
            continue
        with scan.node.graph.inserting_before(scan.node):
            key = (place.invariants.form(row.x), row.dim, place.numbers.vector, place.expr)
            if key not in known:
                x = place.invariants.moved(row.x, place.invariants.emit)
                known[key] = scan.add_row(rows_at(scan, x, row.dim, place), node)
        scan.replace(node, with_axes(node, row, known[key]))
        changed = True
    if changed:
        scan.commit()
    return changed
