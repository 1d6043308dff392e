"""Inputs and outputs of scans that nothing needs, and carried values that stay what they are."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call
from fxport.fx_passes.scans import BodyInput, Scan, scans_of
from fxport.fx_passes.sizes import size_of, sizes_of


@fx_pass
def trim_scans(gm: GraphModule, log: Log) -> bool:
    """A scan carries what changes, and has the inputs and outputs that are used.

    Given:   %a, %b, %ys = scan(body, init=[a, b], xs=[x, y], additional=[c, c]) with %b and %ys unused, where the
             body has return (%a, %b + %y, %c_1 + %c_2 + %a + %x)
    Result:  nothing carried is left but what the results need: here none, and %a is the node before the scan

    One operand of `xs` stays, since it tells how many iterations there are.
    """
    changed = False
    for scan in scans_of(gm):
        trimmed = _unchanged_outside(scan)
        trimmed |= _sizes_outside(scan)
        trimmed |= _without_unused(scan)
        trimmed |= _without_doubles(scan)
        if trimmed:
            scan.commit()
            changed = True
    return changed


def _unchanged_outside(scan: Scan) -> bool:
    """Gives the body as an additional input what no iteration changes."""
    unchanged = [each for each in scan.carried if each.is_unchanged]
    for each in unchanged:
        for user in each.end.users:
            user.replace_all_uses_with(each.start.operand)
            user.graph.erase_node(user)
        scan.carried.remove(each)
        scan.additional.append(each.start)
    return bool(unchanged)


def _sizes_outside(scan: Scan) -> bool:
    """Asks for sizes the tensors around the body: what is asked for one in the body is then not needed for it."""
    inputs = [*scan.additional, *(each.start for each in scan.carried), *scan.xs]
    places: dict[object, tuple[Node, int]] = {}
    for each in inputs:
        val = each.operand.meta["val"] if isinstance(each.operand, Node) else None
        for dim, size in enumerate(sizes_of(val) if isinstance(val, torch.Tensor) else ()):
            places.setdefault(size, (each.operand, dim))
    given = {each.placeholder for each in scan.additional}
    found = [
        node
        for node in scan.body.graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int)
        if node.args[0] not in given and size_of(node.meta["val"]) in places
    ]
    for node in found:
        operand, dim = places[size_of(node.meta["val"])]
        with node.graph.inserting_before(node):
            inside = (scan.add_whole(operand, node), dim)
            scan.replace(node, call(node, torch.ops.aten.sym_size.int, inside, val=node.meta["val"]))
    return bool(found)


def _without_unused(scan: Scan) -> bool:
    """Drops the outputs without users, what is carried for them alone, and the inputs that are then not read."""
    for output in scan.outputs:
        for user in [each for each in output.users if not each.users]:
            user.graph.erase_node(user)
            output.users.remove(user)
    stacked = [each for each in scan.stacked if each.users]
    carried = [each for each in scan.carried if each.end.users]
    while True:
        read = _read_by([output.value for output in (*(each.end for each in carried), *stacked)])
        needed = [each for each in scan.carried if each in carried or each.start.placeholder in read]
        if len(needed) == len(carried):
            break
        carried = needed
    xs = [each for each in scan.xs if each.placeholder in read] or scan.xs[:1]
    additional = [each for each in scan.additional if each.placeholder in read]
    before = (scan.carried, scan.stacked, scan.xs, scan.additional)
    after = (carried, stacked, xs, additional)
    scan.carried, scan.stacked, scan.xs, scan.additional = after
    return [len(each) for each in before] != [len(each) for each in after]


def _read_by(values: list[object]) -> set[Node]:
    """The nodes of the body that these are computed from."""
    found: set[Node] = set()
    left = [each for each in values if isinstance(each, Node)]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def _without_doubles(scan: Scan) -> bool:
    """Gives the body each node once."""
    changed = False
    for inputs in (scan.xs, scan.additional):
        first: dict[Node, BodyInput] = {}
        for each in list(inputs):
            if isinstance(each.operand, Node):
                kept = first.setdefault(each.operand, each)
                if kept is not each:
                    scan.replace(each.placeholder, kept.placeholder)
                    inputs.remove(each)
                    changed = True
    return changed
