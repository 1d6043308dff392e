"""Numbers of the data with which Python does what the graph does not: each is told, and none is refused."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import GraphModule, Node

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.annotations import SORTED
from fxport.exporter.capture.sizes.bits import report_numbers_beyond
from fxport.exporter.capture.sizes.signs import report_complex_powers
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.program import Program


def report_numbers(program: Program, log: Log) -> None:
    """Report FXP1037 (beyond 64 bits), FXP1039 (complex) and FXP1040 (NaN among the keys of a list)."""
    for report in (report_numbers_beyond, report_complex_powers, report_sorted_lists):
        report(program, log)


def report_sorted_lists(program: Program, log: Log) -> None:
    """Report FXP1040 at each line that sorts a list by floats."""
    for place in dict.fromkeys(place_of(node) for node in _sorting(program.graph_module)):
        log.report(rules.SORT_KEYS_MAY_BE_NAN, at=place)


def _sorting(gm: GraphModule) -> Iterator[Node]:
    yield from (node for node in gm.graph.nodes if SORTED in node.meta)
    for _, body in bodies(gm):
        yield from _sorting(body)
