"""Lists that the model sorts by floats of the data: for NaN, Python's order is its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from torch.fx import GraphModule, Node
from torch.fx.traceback import annotate

from fxport.diagnostics import Log, rules
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.program import Program

SORTED = "fxport_sorted"
"""Key of `node.meta` on the nodes that compute the order of a list."""


def marked_as_sorted() -> AbstractContextManager[object]:
    """Meanwhile nodes compute the order of a list by floats."""
    return annotate({SORTED: True})


def report_sorted_lists(program: Program, log: Log) -> None:
    """Report FXP1040 at each line that sorts a list by floats."""
    for place in dict.fromkeys(place_of(node) for node in _sorting(program.graph_module)):
        log.report(rules.SORT_KEYS_MAY_BE_NAN, at=place)


def _sorting(gm: GraphModule) -> Iterator[Node]:
    yield from (node for node in gm.graph.nodes if SORTED in node.meta)
    for _, body in bodies(gm):
        yield from _sorting(body)
