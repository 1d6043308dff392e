"""Numbers of the data with which Python does what the graph does not: each is told, and none is refused."""

from __future__ import annotations

from fxport.diagnostics import Log
from fxport.exporter.capture.sizes.bits import report_numbers_beyond
from fxport.exporter.capture.sizes.signs import report_complex_powers
from fxport.exporter.capture.sorting import report_sorted_lists
from fxport.fx_passes.program import Program


def report_numbers(program: Program, log: Log) -> None:
    """Report FXP1037 (beyond 64 bits), FXP1039 (complex) and FXP1040 (NaN among the keys of a list)."""
    for report in (report_numbers_beyond, report_complex_powers, report_sorted_lists):
        report(program, log)
