"""Detection of nodes that draw random numbers, with one table of the kinds of ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log, Rule, rules
from fxport.fx_passes.graph import ORIGIN, bodies, place_of

aten = torch.ops.aten

UNTAGGED = frozenset(
    {
        aten.feature_dropout.default,
        aten.feature_alpha_dropout.default,
        aten.normal_functional.default,
        aten.random.default,
        aten.random.to,
        aten.rrelu.default,
        aten.scaled_dot_product_attention.default,
    }
)
"""Ops that draw random numbers, but do not have PyTorch's tag that says so."""

OFF: Mapping[str, object] = {"train": False, "training": False, "dropout": 0.0, "dropout_p": 0.0}
"""Arguments, by name, and the value with which an op draws nothing."""


def report_randomness(gm: GraphModule, log: Log, rule: Rule = rules.RANDOMNESS_CAPTURED) -> None:
    """Report the rule for each kind of random op in the graph and its bodies, at the first of them.

    The kind is the op that the user called, where decomposition made other ops of it.
    """
    drawn: dict[str, list[Node]] = {}
    for node in _nodes(gm):
        if is_random(node) and node.users:
            drawn.setdefault(str(node.meta.get(ORIGIN, node.target)), []).append(node)
    for kind, nodes in drawn.items():
        first, *others = map(place_of, nodes)
        related = [place for place in others if place is not None]
        log.report(rule, at=first, related=related, op=kind)


def draws_numbers(gm: GraphModule) -> bool:
    """Return True if the graph, or a body in it, draws random numbers that something uses."""
    return any(is_random(node) and node.users for node in _nodes(gm))


def is_random(node: Node) -> bool:
    """Return True if the values of a node are drawn at random: a dropout out of training draws none."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target not in UNTAGGED and torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    schema = target._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given |= dict(zip((a.name for a in schema), node.args, strict=False)) | node.kwargs
    return all(name not in given or given[name] != off for name, off in OFF.items())


def _nodes(gm: GraphModule) -> Iterator[Node]:
    yield from gm.graph.nodes
    for _, body in bodies(gm):
        yield from _nodes(body)
