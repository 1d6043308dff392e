"""Bodies of control flow that read a tensor twice, as a weight and its transpose, or a row of a map and all rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch._dynamo.output_graph import AliasingInfo, SubgraphTracer
from torch._export import utils
from torch.fx import GraphModule, Node

READS = "Input-to-input"
"""Beginning of PyTorch's message on a body that reads one storage twice."""


@contextmanager
def shared_reads_allowed() -> Iterator[None]:
    """Allow bodies with views, which PyTorch refuses, although only a write could make a difference.

    Writes, and results that share storage, it refuses as before. The parameters of a body it calls as the operands of
    the map are, so that those of one operand would be one: such a body keeps its own names.
    """
    found, named = SubgraphTracer.has_aliasing, utils._name_hoo_subgraph_placeholders

    def has_aliasing(tracer: SubgraphTracer, **allowing: bool) -> AliasingInfo:
        info = found(tracer, **dict.fromkeys(allowing, True))  # PyTorch 2.15 can be told: allow_input_input_aliasing
        return AliasingInfo(False, "") if info.msg.startswith(READS) else info

    def name_placeholders(gm: GraphModule) -> None:
        if not any(map(_reads_twice, gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.map_impl))):
            named(gm)

    with (
        mock.patch.object(SubgraphTracer, "has_aliasing", has_aliasing),
        mock.patch.object(utils, "_name_hoo_subgraph_placeholders", name_placeholders),
    ):
        yield


def _reads_twice(node: Node) -> bool:
    operands = [*node.args[1], *node.args[2]]  # type: ignore[misc]  # (body, xs, pos_args)
    return len(set(operands)) < len(operands)
