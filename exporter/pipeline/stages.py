"""The export on one page: its stages in order; each reports all its findings before it ends the run."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxport.diagnostics import Fix, Log, Stop, rules
from fxport.exporter.capture import capture
from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.keywords import in_order, known_signature, named_keywords
from fxport.exporter.capture.driver import CaptureError
from fxport.exporter.capture.eager import report_failure_in_eager
from fxport.exporter.capture.patches.attention import is_spread, masks_unread
from fxport.exporter.capture.patches.autocast_around import autocast_inside
from fxport.exporter.capture.patches.code_on_demand import code_on_demand
from fxport.exporter.capture.patches.quiet import quiet_pytorch
from fxport.exporter.capture.places import place_of_call
from fxport.exporter.capture.sizes.shapes import from_dynamic_axes
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.distributed import is_sharded
from fxport.exporter.lowering.ir_passes import passes_of, run_ir_passes
from fxport.exporter.lowering.lower import lower
from fxport.exporter.lowering.lower.registry import extend
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.garbage import rare_collections
from fxport.exporter.pipeline.options import Options
from fxport.exporter.pipeline.private import DISTRIBUTED
from fxport.exporter.provenance.notes import report_mutations, report_unknown_sizes
from fxport.exporter.provenance.parts import parts_of
from fxport.exporter.provenance.ways import Way
from fxport.exporter.weights import open_checkpoint
from fxport.exporter.weights.assign import owner_of, with_weights
from fxport.fx_passes import normalize
from fxport.fx_passes.graph import SizeError, operator_name, place_of
from fxport.fx_passes.private import verify
from fxport.fx_passes.program import Program, WeightSource


def run(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    dynamic_shapes: Any,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None,
    options: Options,
    log: Log,
) -> OnnxProgram:
    """Export a model by a call that was checked; what several ranks hold is put together first. Raises ExportError."""
    require_attention_alone(model, log)
    flow = partial(
        _exported,
        args=args,
        kwargs=kwargs,
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        options=options,
        log=log,
    )
    if not is_sharded(model):
        with rare_collections():
            return flow(model, {})
    verify(DISTRIBUTED)
    from fxport.exporter.distributed.asked import asked_of
    from fxport.exporter.distributed.export import export_sharded

    asked = asked_of(args, kwargs, dynamic_shapes, options)
    return export_sharded(model, flow, asked, options.rank_timeout, log)


def _exported(
    model: Any,
    sources: Mapping[str, WeightSource],
    *,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None,
    options: Options,
    log: Log,
) -> OnnxProgram:
    """The stages in their order. `sources` are of weights that are only shapes in the model, by their names."""
    checkpoint = None if options.weights is None else open_checkpoint(options.weights)
    table = extend(LOWERINGS, options.lowerings)
    register_caches()
    model = unwrapped(model)
    way = Way(log, options.dump)
    try:
        with known_signature(model, args), autocast_inside(model), code_on_demand():
            kwargs = in_order(model, kwargs)
            with log.stage("capture"), named_keywords(model, kwargs), masks_unread():
                if dynamic_axes and dynamic_shapes is None:
                    dynamic_shapes = shapes_of_axes(model, args, kwargs, dynamic_axes, options)
                accepts = partial(_can_be_lowered, table=table, options=options)
                program = capture(model, args, kwargs, dynamic_shapes, options, log, accepts=accepts)
                way.captured(program.graph_module)
        if checkpoint is not None:
            with log.stage("weights"):
                program = with_weights(program, owner_of(model), checkpoint, log)
        program = replace(program, sources={**sources, **program.sources})
        with log.stage("normalize"), code_on_demand(), quiet_pytorch():
            program = normalize(program, table, log, options.dump)
            way.normalized(program.graph_module)
            leaves = tree_leaves((args, kwargs))
            report_mutations(program, log, [each for each in leaves if isinstance(each, torch.Tensor)])
        with log.stage("lower"):
            onnx = lower(program, table, options, log)
            report_unknown_sizes(onnx, program, log)
        with log.stage("finish"):
            onnx = run_ir_passes(
                onnx, passes_of(options), log, options.dump, functions=options.functions, kernels=options.kernels
            )
            way.finished(onnx)
            log.parts = parts_of(onnx)
    except (Stop, CaptureError, SizeError) as stop:
        if isinstance(stop, SizeError):
            _report_size(stop, log)
        report_failure_in_eager(unwrapped(model), args, kwargs, log)
        raise ExportError(log, str(stop)) from None  # PyTorch's own words, page after page, are in its context
    return OnnxProgram(onnx, program, log, export_options=options)


def _can_be_lowered(program: Program, *, table: Mapping[Any, Any], options: Options) -> bool:
    """Return whether a captured program, which stays as it is, goes through the stages up to ONNX."""
    trial, program = Log(), replace(program, graph_module=copy.deepcopy(program.graph_module))
    try:
        with trial.stage("normalize"), code_on_demand(), quiet_pytorch():
            program = normalize(program, table, trial)
        with trial.stage("lower"):
            lower(program, table, options, trial)
    except (Stop, SizeError):
        return False
    return True


def _report_size(error: SizeError, log: Log) -> None:
    """Report the operator that a pass can rewrite for some of its sizes only."""
    node = error.node
    at, op = (None, "?") if node is None else (place_of(node), operator_name(node))
    log.report(rules.NO_MATCHING_OVERLOAD, at=at, fixes=(Fix(SizeError.cure),), op=op, detail=str(error))


def require_attention_alone(model: Any, log: Log) -> None:
    """Refuses to export inside of context parallelism: all ranks are in it, and each of them raises ExportError."""
    if is_spread():
        name = type(model).__name__
        raise ExportError(log, log.report(rules.ATTENTION_SPREAD, at=place_of_call(), name=name).message)


def shapes_of_axes(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_axes: Mapping[str, Any], options: Options
) -> dict[str, Mapping[int, Any]]:
    """`dynamic_axes` of torch.onnx as `dynamic_shapes`. Raises ShapesError for a name of no input and no output."""
    leaves = leaves_of(arguments_of(model, args, kwargs))
    return from_dynamic_axes(leaves, options.input_names, dynamic_axes, options.output_names or ())
