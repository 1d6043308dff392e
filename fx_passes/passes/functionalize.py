"""Writes become new values: the graph keeps its results and loses its in-place ops and its aliases."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg

from fxport.diagnostics import Log, rules
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import SizeError, bodies, call, fake, fake_mode_of, place_of
from fxport.fx_passes.passes.branch_writes import branches_of, changed_operands, return_new_values
from fxport.fx_passes.passes.view_inverses import INVERSES, is_invertible, overlaps
from fxport.fx_passes.passes.writes import functional_form, writes, written
from fxport.fx_passes.program import MUTATED


@fx_pass
def functionalize(gm: GraphModule, log: Log) -> bool:
    """An in-place op on a view becomes the functional op, written back through the view into what it looks at.

    Given:   %v = select(%x, 1, 0); %_ = fill_(%v, 1.0); %y = relu(%x)
    Result:  %f = full_like(%v, 1.0); %s = select_scatter(%x, %f, 1, 0); %y = relu(%s)

    A condition whose branches write returns what they leave behind. New values of placeholders are appended to the
    graph's results and listed under `MUTATED`. The result is what functionalization in AOTAutograd gives, without
    tracing the graph again.
    """
    if not any(written(node) or changed_operands(node) for node in gm.graph.nodes):
        return False
    _Storages(gm).rewrite(log)
    return True


def unsupported(gm: GraphModule) -> list[Node]:
    """Writes that this pass cannot rewrite in place: a graph with any of them must be traced again."""
    bad = _not_rewritten(gm) if any(writes(node) or branches_of(node) for node in gm.graph.nodes) else []
    branches = {id(branch) for node in gm.graph.nodes for branch in branches_of(node)}
    for _, body in bodies(gm):
        if id(body) not in branches:
            bad += _written_outside(body)
        bad += unsupported(body)
    return bad


def _not_rewritten(gm: GraphModule) -> list[Node]:
    storages, bad = _Storages(gm), []
    for node in gm.graph.nodes:
        if node.op == "call_function":
            targets = written(node)
            known = not writes(node) or (bool(targets) and functional_form(node) is not None)
            links = [link for target in [*targets, *written_by(node)] for link in storages.chain(target)]
            if not known or not all(is_invertible(link.op) for link in links):
                bad.append(node)
            storages.track(node, node.args)
    return bad


def _written_outside(body: GraphModule) -> list[Node]:
    """Return the nodes that write to an input of a body, directly or in branches: a loop cannot express such writes."""
    return [node for node, owner in _writes(body) if owner.op == "placeholder"]


def _writes(gm: GraphModule) -> Iterator[tuple[Node, Node]]:
    """(what writes, the owner of the storage), where the branches of a condition write to its operands."""
    storages = _Storages(gm)
    for node in gm.graph.nodes:
        if node.op == "call_function":
            yield from ((node, storages.owner(target)) for target in [*written(node), *written_by(node)])
            storages.track(node, node.args)


def written_by(node: Node) -> list[Node]:
    """The operands of a condition to which its branches write."""
    found: list[Node] = []
    for branch in branches_of(node):
        inside = {owner for _, owner in _writes(branch)}
        placeholders = branch.graph.find_nodes(op="placeholder")
        operands: Any = node.args[3]
        found += [operand for place, operand in zip(placeholders, operands, strict=True) if place in inside]
    return found


OVERLAPPING = "it writes through a view of which several elements lie in one place"


@dataclass(frozen=True, slots=True)
class _View:
    """`node` looks at a part of `parent` by the view op `op`; `op` is another node only where it returns a list."""

    node: Node
    op: Node
    parent: Node


class _Storages:
    """Storages of a graph: the nodes that view each one, and the node that holds a view's value at this point."""

    def __init__(self, gm: GraphModule) -> None:
        self.graph = gm.graph
        self.unwritten = _unwritten(gm.graph)
        self.views: dict[Node, _View] = {}
        self.lists: dict[Node, Node] = {}  # view ops that return a list → what they look at
        self.version: dict[Node, int] = {}  # of a storage, by the node that owns it
        self.held: dict[Node, tuple[Node, int]] = {}  # the node that holds the value, and at which version

    def rewrite(self, log: Log) -> None:
        for node in list(self.graph.nodes):
            if node.op == "output":
                self._append_mutations(node)
            elif node.op == "call_function":
                original: Any = node.args
                targets = written(node)
                self._report_overlaps(node, [*targets, *(original[3][place] for place in changed_operands(node))], log)
                with self.graph.inserting_before(node):
                    node.args, node.kwargs = map_arg((node.args, node.kwargs), self.now)
                    if targets:
                        self._make_functional(node, targets)
                    elif changed := changed_operands(node):
                        self._write_after(node, [original[3][place] for place in changed])
                    else:
                        self.track(node, original)

    def _report_overlaps(self, node: Node, targets: Sequence[Node], log: Log) -> None:
        if any(overlaps(link.op) for target in targets for link in self.chain(target)):
            log.report(rules.NO_MATCHING_OVERLOAD, at=place_of(node), op=str(node.target), detail=OVERLAPPING)

    def track(self, node: Node, args: tuple[Any, ...]) -> None:
        """Notes that a node is a view, if what it returns shares the storage of its first argument."""
        parent = args[0] if args else None
        if not isinstance(parent, Node) or node in self.unwritten:
            return
        if node.target is operator.getitem:
            if parent in self.lists:
                self._see(_View(node, parent, self.lists[parent]))
        elif shares_storage(node):
            if isinstance(node.meta["val"], torch.Tensor):
                self._see(_View(node, node, parent))
            else:
                self.lists[node] = parent

    def _see(self, view: _View) -> None:
        self.views[view.node] = view
        self.held[view.node] = (view.node, self.version.get(self.owner(view.node), 0))

    def chain(self, node: Node) -> list[_View]:
        """The views from a node up to the owner of its storage."""
        links: list[_View] = []
        while node in self.views:
            links.append(self.views[node])
            node = self.views[node].parent
        return links

    def owner(self, node: Node) -> Node:
        while node in self.views:
            node = self.views[node].parent
        return node

    def now(self, node: Node) -> Node:
        """The node that holds what `node` sees now; a view is taken anew if its storage was written to since."""
        version = self.version.get(self.owner(node), 0)
        held, at = self.held.get(node, (node, 0))
        if at == version:
            return held
        view = self.views[node]
        op = view.op
        again = call(op, op.target, (self.now(view.parent), *op.args[1:]), dict(op.kwargs), val=op.meta["val"])
        if view.node is not op:
            again = call(view.node, operator.getitem, (again, view.node.args[1]), val=view.node.meta["val"])
        self.held[node] = (again, version)
        return again

    def write(self, node: Node, value: Node) -> None:
        """From here on, `value` stands where `node` looks."""
        fresh = [(node, value)]
        for link in self.chain(node):
            value = INVERSES[link.op.target](link.op, link.node, self.now(link.parent), value)
            fresh.append((link.parent, value))
        owner = self.owner(node)
        self.version[owner] = self.version.get(owner, 0) + 1
        for seen, held in fresh:
            self.held[seen] = (held, self.version[owner])

    def _make_functional(self, node: Node, targets: list[Node]) -> None:
        form = functional_form(node)
        assert form is not None, f"unsupported() lets no graph pass that holds {node.format_node()}"
        for target, value in zip(targets, form(node), strict=True):
            self.write(target, value)
        if node.users:  # an in-place op returns what it wrote to
            node.replace_all_uses_with(targets[0])
        self.graph.erase_node(node)

    def _write_after(self, node: Node, operands: list[Node]) -> None:
        """A condition stays, and behind it stands what its branches leave in these operands."""
        values = return_new_values(node)
        with self.graph.inserting_before(values[-1].next):
            for operand, value in zip(operands, values, strict=True):
                self.write(operand, value)

    def _append_mutations(self, output: Node) -> None:
        with self.graph.inserting_before(output):
            results: Any = map_arg(output.args[0], self.now)
        changed = [
            node
            for node in self.graph.find_nodes(op="placeholder")
            if self.version.get(node, 0) and self.now(node) is not node
        ]
        if not changed:  # the graph of a decomposition may have one value as its result, and not a tuple
            output.args = (results,)
            return
        output.args = ((*results, *(self.now(node) for node in changed)),)
        output.meta[MUTATED] = (*output.meta.get(MUTATED, ()), *(node.name for node in changed))


def _unwritten(graph: Graph) -> set[Node]:
    """Return the nodes that share no storage with what is written to, even if all that may be views are: most of them.

    Which of them are views need not be asked.
    """
    owners: dict[Node, Node] = {}
    touched: set[Node] = set()
    for node in graph.nodes:
        targets = [*written(node), *(node.all_input_nodes if branches_of(node) else ())]
        touched.update(owners[target] for target in targets)
        parent = targets[0] if targets else node.args[0] if node.args else None  # an in-place op returns its operand
        looks = bool(targets) or node.target is operator.getitem or _may_be_view(node)
        owners[node] = owners[parent] if looks and isinstance(parent, Node) else node
    return {node for node, owner in owners.items() if owner not in touched}


def _may_be_view(node: Node) -> bool:
    """Return whether the schema of an op lets its result share the storage of an argument."""
    return isinstance(node.target, torch._ops.OpOverload) and any(
        result.alias_info is not None and not result.alias_info.is_write for result in node.target._schema.returns
    )


def shares_storage(node: Node) -> bool:
    """Return True if a view op's result really is a view: `reshape`, `to` and `contiguous` may or may not copy.

    The op runs once more on its fake arguments, which is cheap and asks PyTorch itself. Where that depends on a dynamic
    size, or on one that data decide, the capture has answered it, and its value says so.
    """
    op: Any = node.target
    if not _may_be_view(node):
        return False
    args, kwargs = fake(node.args), fake(node.kwargs)
    if not isinstance(args[0], torch.Tensor):
        return False
    try:
        with fake_mode_of(args), torch.no_grad():
            result = op(*args, **kwargs)
    except (GuardOnDataDependentSymNode, SizeError):
        result = node.meta["val"]
    first: Any = result[0] if isinstance(result, (list, tuple)) and result else result
    if not isinstance(first, torch.Tensor):
        return False
    return first.untyped_storage()._cdata == args[0].untyped_storage()._cdata
