"""A scan with its body: what goes in and comes out, listed on both sides, so that passes can change it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.fx_passes.graph import PROVENANCE, call, fake_mode_of

SCAN = torch.ops.higher_order.scan


@dataclass(eq=False)
class BodyInput:
    """One input of the body: the `operand` in the graph around it, and the `placeholder` that stands for it.

    Operands of `xs` have the iterations as their first axis, and the body gets one row; the others it gets whole.
    """

    operand: Any
    placeholder: Node


@dataclass(eq=False)
class BodyOutput:
    """One output of the body: the `value` of an iteration, the nodes that take it from the scan, its fake value there.

    A node after the scan takes the last value of what is carried, and the stack of all values of what is not.
    """

    value: Any
    users: list[Node]
    fake: Any


@dataclass(eq=False)
class Carried:
    """A value from iteration to iteration."""

    start: BodyInput
    end: BodyOutput

    @property
    def is_unchanged(self) -> bool:
        return self.end.value is self.start.placeholder


@dataclass
class Scan:
    """A scan node taken apart. Passes change the lists and then call `commit`, which writes node and body anew."""

    node: Node
    body: GraphModule
    carried: list[Carried]
    stacked: list[BodyOutput]
    xs: list[BodyInput]
    additional: list[BodyInput]
    count: Any = field(init=False)
    """The number of iterations, symbolic where it is."""

    def __post_init__(self) -> None:
        self.count = self.xs[0].operand.meta["val"].shape[0]

    def add_row(self, operand: Node, like: Node) -> Node:
        """Adds an operand to `xs`.

        Args:
            operand: A node around the body, as long as there are iterations.
            like: The node of the body that the row is for; it lends its provenance.

        Returns:
            The placeholder of the row.
        """
        whole = operand.meta["val"]
        with fake_mode_of(whole):
            row = whole.new_empty(whole.shape[1:])
        self.xs.append(BodyInput(operand, self.add_placeholder(f"{operand.name}_row", like, row)))
        return self.xs[-1].placeholder

    def add_whole(self, operand: Node, like: Node) -> Node:
        """Adds an additional input, unless there is one of this operand, and returns its placeholder."""
        for each in self.additional:
            if each.operand is operand:
                return each.placeholder
        placeholder = self.add_placeholder(f"{operand.name}_whole", like, operand.meta["val"])
        self.additional.append(BodyInput(operand, placeholder))
        return placeholder

    def add_placeholder(self, name: str, like: Node, val: Any) -> Node:
        """Adds a placeholder to the body alone, which has to get into one of the lists."""
        with self.body.graph.inserting_before(next(iter(self.body.graph.nodes))):
            placeholder = self.body.graph.placeholder(name)
        placeholder.meta.update({key: like.meta[key] for key in PROVENANCE if key in like.meta})
        placeholder.meta["val"] = val
        return placeholder

    def add_stacked(self, value: Node) -> BodyOutput:
        """Adds an output that is stacked, and the node that takes it, before the insertion point around the body."""
        one = value.meta["val"]
        with fake_mode_of(one):
            whole = one.new_empty((self.count, *one.shape))
        taken = call(self.node, operator.getitem, (self.node, -1), val=whole)  # `commit` knows its position
        self.stacked.append(BodyOutput(value, [taken], whole))
        return self.stacked[-1]

    def replace(self, node: Node, by: Node) -> None:
        """Puts a node of the body in the place of another one, which is erased."""
        for output in self.outputs:
            output.value = by if output.value is node else output.value
        node.replace_all_uses_with(by)
        node.graph.erase_node(node)

    @property
    def outputs(self) -> list[BodyOutput]:
        """All outputs of the body, in their order."""
        return [*(each.end for each in self.carried), *self.stacked]

    def commit(self) -> None:
        """Writes the node's operands and results, and the body's placeholders and outputs, as the lists have them."""
        starts = [each.start for each in self.carried]
        outputs = self.outputs
        graph = self.body.graph
        graph.output_node().args = (tuple(each.value for each in outputs),)
        graph.eliminate_dead_code()
        self._order([each.placeholder for each in (*starts, *self.xs, *self.additional)])
        graph.lint()
        self.body.recompile()
        additional = tuple(each.operand for each in self.additional)
        operands = [each.operand for each in starts], [each.operand for each in self.xs], additional
        self.node.args = (self.node.args[0], *operands)
        self.node.meta["val"] = tuple(each.fake for each in outputs)
        for position, output in enumerate(outputs):
            for user in output.users:
                user.args = (self.node, position)

    def _order(self, placeholders: list[Node]) -> None:
        graph = self.body.graph
        for node in graph.find_nodes(op="placeholder"):
            if node not in placeholders:
                graph.erase_node(node)
        place = next(iter(graph.nodes))
        for node in placeholders:
            if node is place:
                place = place.next
            else:
                place.prepend(node)


def scans_of(gm: GraphModule) -> Iterator[Scan]:
    """The scans of a graph whose bodies are theirs alone, and whose results are taken one by one."""
    for node in gm.graph.find_nodes(op="call_function", target=SCAN):
        body = body_of(gm, node.args[0])
        if body is not None and node.users and all(user.target is operator.getitem for user in node.users):
            yield _parted(node, body)


def body_of(gm: GraphModule, name: Any) -> GraphModule | None:
    """The body that a node of a graph names; None if another node names it too."""
    named = [each for each in gm.graph.find_nodes(op="get_attr") if each.target == name.target]
    body = gm.get_submodule(name.target)
    return body if isinstance(body, GraphModule) and sum(len(each.users) for each in named) == 1 else None


def _parted(node: Node, body: GraphModule) -> Scan:
    init, xs, additional = (list(each) for each in (*node.args[1:], ())[:3])  # type: ignore[arg-type]  # lists
    names = iter(body.graph.find_nodes(op="placeholder"))
    values: Any = body.graph.output_node().args[0]
    users: list[list[Node]] = [[] for _ in values]
    for user in node.users:
        users[user.args[1]].append(user)  # type: ignore[index]  # a number
    outputs = [BodyOutput(*each) for each in zip(values, users, node.meta["val"], strict=True)]
    starts, rows, others = ([BodyInput(each, next(names)) for each in group] for group in (init, xs, additional))
    carried = [Carried(start, end) for start, end in zip(starts, outputs, strict=False)]
    return Scan(node, body, carried, outputs[len(init) :], rows, others)
