"""Rows that bodies of control flow read, and that branches write, by an index that they are given."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, replace
from fxport.fx_passes.invariants import Invariants, is_within
from fxport.fx_passes.operands import Bodies, bodies_with_operands
from fxport.fx_passes.row_chains import RowChain, broadcast_to, row_chain
from fxport.fx_passes.rows import Row, read_row, written_row
from fxport.fx_passes.scans import BodyInput, BodyOutput, Carried, Scan, scans_of

aten = torch.ops.aten
CONDITION = torch.ops.higher_order.cond


@fx_pass
def rows_outside_bodies(gm: GraphModule, log: Log) -> bool:
    """A row is read before the operator whose body reads it, and written behind the condition whose branches write it.

    Given:   %new = cond(p, (x, out, t)), where one branch returns (select_scatter(%out, select(%x, 0, %t), 0, %t),)
             and the other (%out,)
    Result:  %row = cond(p, (select(x, 0, t), select(out, 0, t))), where the branches return one of these;
             %new = select_scatter(out, %row, 0, t)

    The bodies of control flow thus do not hide from a scan around them what they do with its rows. An index has to be
    known to be within the tensor, since a body may never run.
    """
    changed = False
    for scan in scans_of(gm):
        changed |= _carry_rows(scan)
    for each in bodies_with_operands(gm):
        did = _move_before(each, _reads_row)
        if each.node.target is CONDITION and any(_writes_rows(body) for body in each.bodies):
            did |= _move_before(each, _reads_size)  # for a size alone, a branch needs no tensor
            did |= _write_behind(each)
        if did:
            for body in each.bodies:
                body.graph.eliminate_dead_code()
                body.recompile()
            each.drop_unused()
            changed = True
    return changed


# Reads ----------------------------------------------------------------------------------------------------------------


def _move_before(bodies: Bodies, is_wanted: Callable[[Node], bool]) -> bool:
    """Computes such nodes before the operator, where they can be."""
    known: dict[object, list[Node]] = {}
    changed = False
    for position, body in enumerate(bodies.bodies):
        for node in list(body.graph.nodes):
            invariants = Invariants(bodies.node, bodies.whole[position])
            if not is_wanted(node) or not invariants.covers(node):
                continue
            form = invariants.form(node)
            if form not in known:
                with bodies.node.graph.inserting_before(bodies.node):
                    known[form] = bodies.add(invariants.moved(node, invariants.emit), node)
            replace(node, known[form][position])
            changed = True
    return changed


def _reads_row(node: Node) -> bool:
    """Return True if a node reads a row by an index that may differ at each run of the body."""
    row = read_row(node)
    return row is not None and isinstance(row.index, Node) and is_within(row.x, row.dim, row.index)


def _reads_size(node: Node) -> bool:
    return node.target is aten.sym_size.int and isinstance(node.meta["val"], torch.SymInt)


def _writes_rows(body: GraphModule) -> bool:
    return any(written_row(node) is not None for node in body.graph.nodes)


# Writes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Returned:
    """A tensor that a branch is given, by its position among the operands, and what is written to a row of it if any.

    `index` is that of the row, as it is computed around the branch.
    """

    position: int
    chain: RowChain | None = None
    index: object = None

    @property
    def row(self) -> tuple[int, object] | None:
        return None if self.chain is None else (self.chain.last.dim, self.index)


def _write_behind(bodies: Bodies) -> bool:
    changed = False
    for number in range(len(bodies.node.meta["val"])):
        found = [_returned(bodies, branch, number) for branch in range(len(bodies.bodies))]
        returned = [each for each in found if each is not None]
        rows = {each.row for each in returned} - {None}
        if len(returned) == len(found) and len(rows) == 1 and len({each.position for each in returned}) == 1:
            _return_row(bodies, number, returned)
            changed = True
    return changed


def _carry_rows(scan: Scan) -> bool:
    """Carries a row, where the body of a scan is given its index and uses nothing else of a carried tensor."""
    changed = False
    for position, carried in enumerate(scan.carried):
        invariants = Invariants(scan.node, scan.additional)
        end = carried.end
        chain = _chain(invariants, carried.start.placeholder, end.value, [each.value for each in scan.outputs])
        if chain is None:
            continue
        tensor, dim, graph = carried.start.operand, chain.last.dim, scan.node.graph
        with graph.inserting_before(scan.node):
            index = invariants.moved(chain.last.index, invariants.emit)
            before = call(scan.node, aten.select.int, (tensor, dim, index))
        row = scan.add_placeholder(f"{before.name}_row", chain.writes[-1][0], before.meta["val"])
        last = chain.take(lambda _, row=row: row, scan.replace)
        value = broadcast_to(chain.tensor, dim, last, lambda _, row=row: row, scan.body.graph.output_node())
        _write_back(end.users, tensor, dim, index, before.meta["val"])
        new = Carried(BodyInput(before, row), BodyOutput(value, end.users, before.meta["val"]))
        scan.carried[position] = new
        scan.commit()
        changed = True
    return changed


def _write_back(users: Sequence[Node], tensor: Node, dim: int, index: Any, row: Any) -> None:
    """Writes the row that these nodes take from an operator into the tensor, which they took before."""
    for user in users:
        whole, user.meta["val"] = user.meta["val"], row
        with user.graph.inserting_after(user):
            new = call(user, aten.select_scatter.default, (tensor, user, dim, index), val=whole)
        user.replace_all_uses_with(new, delete_user_cb=partial(operator.is_not, new))


def _returned(bodies: Bodies, branch: int, number: int) -> _Returned | None:
    """Describe what a branch returns, if that is one of its input tensors and the branch uses at most a row of it."""
    whole, results = bodies.whole[branch], _results(bodies.bodies[branch])
    start = node = results[number]
    while isinstance(start, Node) and (row := written_row(start)) is not None:
        start = row.x
    position = next((i for i, each in enumerate(whole) if each.placeholder is start), None)
    if position is None:
        return None
    if start is node:
        return _Returned(position) if len(node.users) == 1 and results.count(node) == 1 else None
    invariants = Invariants(bodies.node, whole)
    chain = _chain(invariants, start, node, results)
    return chain and _Returned(position, chain, invariants.form(chain.last.index))


def _chain(invariants: Invariants, start: Node, end: object, results: Sequence[object]) -> RowChain | None:
    """The writes to the row of a tensor at an index that the body is given, if they are all that happens to it."""
    last = written_row(end) if isinstance(end, Node) else None
    if last is None or not isinstance(last.index, Node) or not invariants.covers(last.index):
        return None
    index = invariants.form(last.index)

    def is_same(other: Row) -> bool:
        same = other.dim == last.dim and invariants.form(other.index) == index
        return same and is_within(other.x, other.dim, other.index)

    chain = row_chain(start, end, is_same)
    versions = () if chain is None else (chain.tensor, *(write for write, _ in chain.writes))
    return chain if [each for each in results if each in versions] == [end] else None


def _return_row(bodies: Bodies, number: int, returned: list[_Returned]) -> None:
    """Makes the branches return the row instead of the tensor, into which it is then written."""
    node = bodies.node
    branch, row = next((i, each.chain.last) for i, each in enumerate(returned) if each.chain is not None)
    tensor = bodies.whole[branch][returned[branch].position].operand
    invariants = Invariants(node, bodies.whole[branch])
    with node.graph.inserting_before(node):
        index = invariants.moved(row.index, invariants.emit)
        before = call(node, aten.select.int, (tensor, row.dim, index))
    places = bodies.add(before, row.index)
    for body, place, each in zip(bodies.bodies, places, returned, strict=True):
        results, output = _results(body), body.graph.output_node()
        results[number] = place if each.chain is None else _last_row(each.chain, place, output)
        output.args = (tuple(results),)
    node.meta["val"] = tuple(before.meta["val"] if i == number else val for i, val in enumerate(node.meta["val"]))
    users = [each for each in node.users if each.args[1] == number]
    _write_back(users, tensor, row.dim, index, before.meta["val"])


def _last_row(chain: RowChain, before: Node, output: Node) -> Node:
    """The row as a branch leaves it."""
    last = chain.take(lambda _: before, replace)
    return broadcast_to(chain.tensor, chain.last.dim, last, lambda _: before, output)


def _results(body: GraphModule) -> list[Any]:
    found: Any = body.graph.output_node().args[0]
    return list(found)
