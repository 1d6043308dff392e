"""The order of the ONNX passes, and why each stands where it does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from fxport.diagnostics import Log
from fxport.diagnostics.paths import write_whole
from fxport.exporter.lowering.ir_passes.avoid_faults import AvoidFaults
from fxport.exporter.lowering.ir_passes.batch_scalars import BatchScalars
from fxport.exporter.lowering.ir_passes.check import check
from fxport.exporter.lowering.ir_passes.compose_transposes import ComposeTransposes
from fxport.exporter.lowering.ir_passes.drop_expands import DropExpands
from fxport.exporter.lowering.ir_passes.drop_identities import DropIdentities
from fxport.exporter.lowering.ir_passes.fold_arrangements import FoldArrangements
from fxport.exporter.lowering.ir_passes.fold_batch_norm import FoldBatchNorm
from fxport.exporter.lowering.ir_passes.fold_constants import FoldConstants
from fxport.exporter.lowering.ir_passes.fold_transposes import FoldTransposes
from fxport.exporter.lowering.ir_passes.full_rank_scalars import FullRankScalars
from fxport.exporter.lowering.ir_passes.fuse_rotary import FuseRotary
from fxport.exporter.lowering.ir_passes.insert_casts import InsertCasts
from fxport.exporter.lowering.ir_passes.merge_heads import MergeHeads
from fxport.exporter.lowering.ir_passes.move_scalars import MoveScalars
from fxport.exporter.lowering.ir_passes.older_opset import OlderOpset
from fxport.exporter.lowering.ir_passes.outline_regions import OutlineRegions
from fxport.exporter.lowering.ir_passes.share_equal_nodes import ShareEqualNodes
from fxport.exporter.lowering.ir_passes.small_sigmoids import SmallSigmoids
from fxport.exporter.lowering.ir_passes.store_four_bits import StoreFourBits
from fxport.exporter.lowering.ir_passes.transposed_products import TransposedProducts
from fxport.exporter.lowering.ir_passes.unflatten_products import UnflattenProducts
from fxport.exporter.pipeline.options import Options

FINISH: tuple[ir.passes.PassBase, ...] = (
    RemoveUnusedNodesPass(),  # first: what nothing uses need not be looked at again
    DropIdentities(),  # before the search for equal nodes, which compares operands
    FoldConstants(),  # before it, too: equal constants make equal nodes
    ShareEqualNodes(),  # masks, rotary tables and shapes are computed by every layer alike
    DropExpands(),  # after equal nodes are shared: one Expand may then have several uses
    FuseRotary(),  # after equal nodes are shared: the tables that it looks for are then the same values
    MergeHeads(),  # after FuseRotary: a rotation stands between the heads and their attention
    UnflattenProducts(),  # likewise on shared values
    FoldBatchNorm(),  # after DropIdentities: the normalization must follow its convolution directly
    FoldTransposes(),  # after the search for equal nodes: a weight used by several equal Transposes has only one now
    FoldArrangements(),  # likewise, and after transposes: it takes weights that serve one node
    ComposeTransposes(),  # after those that look for heads and for transposed weights, before products read through one
    StoreFourBits(),  # after those that store weights in another order
    TransposedProducts(),  # after both: a weight that is stored transposed needs no flag
    MoveScalars(),  # before BatchScalars, which takes the new products of scalars together
    BatchScalars(),  # after the search for equal nodes: the same number twice is no vector
    FullRankScalars(),  # after all that look for scalars, and after BatchScalars, whose parts have one axis
    RemoveUnusedNodesPass(),  # last: what the others left behind
)

REWRITE_WEIGHTS = (FoldBatchNorm, FoldTransposes, FoldArrangements, StoreFourBits)
"""Passes that change values or order of weights: left out where weights are to stay in the files they are in."""


def passes_of(options: Options) -> tuple[ir.passes.PassBase, ...]:
    """The passes of one export, the user's own after ours."""
    ours = FINISH if options.optimize else FINISH[-1:]
    if options.weights_in_place:
        ours = tuple(each for each in ours if not isinstance(each, REWRITE_WEIGHTS))
    chosen = (OlderOpset(),) if options.opset is None else ()  # an opset that was asked for stays
    return ours + options.ir_passes + chosen


def run_ir_passes(
    model: ir.Model,
    passes: Sequence[ir.passes.PassBase],
    log: Log,
    dump: Path | None = None,
    *,
    functions: bool = False,
    kernels: Sequence[str] = ("cpu",),
) -> ir.Model:
    """Runs the passes in order and checks the result. With `functions`, repeated regions become functions.

    Nodes for whose types none of the providers `kernels` has a kernel are cast.

    With `dump`, each result is written as text to `<dump>/4-finish/<number>-<pass>.onnx.txt`.
    """
    # Behind all others: fewer nodes to look at, and the last of them after new casts.
    of_kernels = (SmallSigmoids(), InsertCasts(log, kernels), AvoidFaults())
    last = (OutlineRegions(),) if functions else ()  # behind all, also a user's: those see each call's own nodes
    for number, each in enumerate((*passes, *of_kernels, *last)):
        result = each(model)
        model = result.model
        if dump is not None and result.modified:
            write_dump(model, dump / "4-finish" / f"{number:02}-{type(each).__name__}.onnx.txt")
    check(model, log)
    return model


def write_dump(model: ir.Model, path: Path) -> None:
    """Writes the graph and the functions as text, one node a line with its types."""
    write_whole(path, "\n".join(map(str, (model.graph, *model.functions.values()))))
