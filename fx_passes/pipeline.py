"""The order of the passes, and why each stands where it does."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from fxport.diagnostics import Log
from fxport.fx_passes import spec
from fxport.fx_passes.base import Observer, run_passes
from fxport.fx_passes.decompose import decompose
from fxport.fx_passes.passes.complex_to_real import ROWS, complex_to_real, is_complex
from fxport.fx_passes.passes.drop_asserts import drop_asserts
from fxport.fx_passes.passes.drop_copies import drop_copies
from fxport.fx_passes.passes.expand_flex_attention import expand_flex_attention
from fxport.fx_passes.passes.factor_again import factor_again
from fxport.fx_passes.passes.functionalize import functionalize
from fxport.fx_passes.passes.fuse_gelu import fuse_gelu
from fxport.fx_passes.passes.fuse_rms_norm import fuse_rms_norm
from fxport.fx_passes.passes.inline_regions import inline_regions
from fxport.fx_passes.passes.promote_types import promote_types
from fxport.fx_passes.passes.rebase_strides import rebase_strides
from fxport.fx_passes.passes.rows_as_scan_inputs import rows_as_scan_inputs
from fxport.fx_passes.passes.rows_outside_bodies import rows_outside_bodies
from fxport.fx_passes.passes.shorten_gelu import shorten_gelu
from fxport.fx_passes.passes.trim_scans import trim_scans
from fxport.fx_passes.passes.writes_as_scan_outputs import writes_as_scan_outputs
from fxport.fx_passes.program import Program
from fxport.fx_passes.python_numbers import numbers_as_python
from fxport.fx_passes.randomness import report_randomness

PREPARE = (
    inline_regions,  # first: what is inside a region is then seen by every pass
    expand_flex_attention,  # early: what made its block mask is then dead, and its nodes are seen by every pass
    drop_asserts,  # before decomposition: asserts hold sizes alive that nothing else needs
    factor_again,  # early: while the nodes of a gradient are as autograd made them
    functionalize,  # before any pass that moves or drops nodes: only here does the order of writes matter
    rebase_strides,  # after functionalize, which needs views as they are; before drop_copies: a copy sets strides
    drop_copies,  # after functionalize: until then a copy is what protects a value from a later write
    rows_outside_bodies,  # after functionalize, before what looks for rows in the bodies of scans alone
    trim_scans,  # after drop_copies: only then is a carried value seen to be what it was before
    rows_as_scan_inputs,  # after trim_scans, which tells what no iteration changes
    writes_as_scan_outputs,  # after functionalize, which makes writes values
    trim_scans,  # again: where rows go in and out, the wholes and the numbers are unused
)

REAL = (
    complex_to_real,  # before decomposition, whose rules and kept ops are about real numbers from here on
)

NORMALIZE = (
    drop_asserts,  # decompositions bring asserts of their own
    promote_types,  # after decomposition, which leaves mixed dtypes; before drop_copies: it may cast to what is
    drop_copies,  # decompositions clone; fewer nodes to lower
    fuse_rms_norm,  # after promote_types and drop_copies: only then do casts show that change something
    fuse_gelu,  # likewise
    shorten_gelu,  # likewise, and after fuse_gelu: what is left has a gradient
)

DEPTH = 2
"""Number of passes over complex numbers: the decomposition of an op on real numbers may bring them in again."""

DUMPS = ("1-prepare", "2-complex", "3-decompose", "4-normalize")


@numbers_as_python()  # decompositions compute sizes, too
def normalize(
    program: Program, keep: Collection[Any], log: Log, dump: Path | None = None, observe: Observer | None = None
) -> Program:
    """Rewrites a captured program into one that can be lowered, in place.

    `keep` are the targets that have a lowering: nothing in it is decomposed. What has neither a lowering nor a
    decomposition stays in the graph, for the lowering stage to report. `observe` sees the program after each step.
    """
    before, numbers, between, after = (dump / name if dump else None for name in DUMPS)
    program = run_passes(program, PREPARE, log, before, observe)
    for _ in range(DEPTH):
        decompose(program.graph_module, ROWS, only=is_complex)
        program = run_passes(program, REAL, log, numbers, observe)
        decompose(program.graph_module, keep, between)
        if observe is not None:
            observe("decompose", program)
        if not any(is_complex(node) for node in program.graph_module.graph.nodes):
            break
    program = run_passes(program, NORMALIZE, log, after, observe)
    spec.check(program.graph_module)
    report_randomness(program.graph_module, log)
    return program
