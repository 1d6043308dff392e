"""The whole flow on one page: each line a room, each room a stage that ends the run only after all its findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir
import torch

from diagnostics import Level, Log, Stop, rules
from diagnostics.text import render
from exporter.calls import checked_args, checked_kwargs, checked_model
from exporter.capture import capture
from exporter.capture.arguments.caches import register_caches
from exporter.capture.arguments.inputs import arguments_of, leaves_of
from exporter.capture.arguments.keywords import in_order, known_signature, named_keywords
from exporter.capture.driver import CaptureError
from exporter.capture.eager import report_failure_in_eager
from exporter.capture.patches.attention import is_spread, masks_unread
from exporter.capture.patches.autocast_around import autocast_inside
from exporter.capture.places import place_of_call
from exporter.capture.sizes.shapes import from_dynamic_axes
from exporter.capture.wrappers import unwrapped
from exporter.distributed import is_sharded
from exporter.ir_passes import passes_of, run_ir_passes
from exporter.lower import lower
from exporter.lower.registry import extend
from exporter.lowerings import LOWERINGS
from exporter.notes import report_mutations, report_unknown_sizes
from exporter.options import Options
from exporter.parts import parts_of
from exporter.private import DISTRIBUTED
from exporter.save import save
from exporter.ways import Way
from exporter.weights import open_checkpoint
from exporter.weights.assign import owner_of, with_weights
from exporter.weights.stored import Stored, require_whole
from fx_passes import Program, normalize
from fx_passes.private import verify
from fx_passes.program import WeightSource


class ExportError(Exception):
    """The model could not be exported. `log` has every finding, at its place in the user's source.

    The text is that of the errors among them, as the command line prints them, under a headline; `reason` stands in
    where there is none.
    """

    def __init__(self, log: Log, reason: str, headline: str = "the model cannot be exported") -> None:
        errors = render(log, least=Level.ERROR).rstrip()
        super().__init__(f"{headline}\n\n{errors}" if errors else reason)
        self.log = log


@dataclass(frozen=True)
class OnnxProgram:
    """An exported model: the ONNX graph, the captured program it came from, and the log of the run.

    `weights_in_place` is that of the options: whether saving leaves weights in the files they are in.
    """

    model: ir.Model
    program: Program
    log: Log
    weights_in_place: bool = field(default=False, kw_only=True)

    def save(self, path: str | os.PathLike[str], external_data: Literal["auto"] | bool = "auto") -> list[Path]:
        """Writes the model, atomically; see `exporter.save.save`. Returns the files that it consists of.

        Raises OSError where that cannot be done, and CheckpointError where the files of its weights have changed.
        """
        with self.log.stage("save"):
            require_whole(each for each in self.program.sources.values() if isinstance(each, Stored))
            written = save(self.model, path, external_data, self.log.advance, weights_in_place=self.weights_in_place)
            for beside in written[1:]:
                self.log.report(rules.EXTERNAL_DATA_WRITTEN, name=beside.relative_to(written[0].parent).as_posix())
            return written


def export(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset_version: int | None = None,
    lowerings: Mapping[Any, Callable[..., Any]] | None = None,
    weights: str | os.PathLike[str] | None = None,
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> OnnxProgram:
    """Exports a PyTorch model to ONNX.

    `model` is an nn.Module, also one wrapped by DistributedDataParallel, or an ExportedProgram; `args` and `kwargs`
    are one example call; a lone tensor stands for the only argument. `dynamic_shapes` takes every form that
    torch.export takes, and plain strings as names of dimensions; `dynamic_axes`, `input_names`, `output_names` and
    `opset_version` are as in torch.onnx.export. `lowerings` are a user's own, by ATen overload. `weights` is a
    checkpoint whose tensors take the place of the model's, which may then be without memory. All other choices are
    `options`, which the four before it also hold. The file is written by `save` of the result.

    A model that several ranks hold (FSDP, tensor parallelism) is exported by all of them together: each calls `export`
    and `save`, rank 0 captures and writes; see docs/distributed.md.

    Raises ExportError when findings at error level stopped the export, CheckpointError for a checkpoint that cannot be
    read, and ValueError or TypeError when the arguments themselves make no sense.
    """
    log = log or Log()
    options = options.named(input_names, output_names, opset_version, lowerings, weights)
    model = checked_model(model)
    require_attention_alone(model, log)
    flow = partial(
        _exported,
        args=checked_args(args),
        kwargs=checked_kwargs(kwargs),
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        options=options,
        log=log,
    )
    if not is_sharded(model):
        return flow(model, {})
    verify(DISTRIBUTED)
    from exporter.distributed.asked import asked_of
    from exporter.distributed.export import export_sharded

    asked = asked_of(checked_args(args), checked_kwargs(kwargs), dynamic_shapes, options)
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
    """The rooms in their order. `sources` are of weights that are only shapes in the model, by their names."""
    checkpoint = None if options.weights is None else open_checkpoint(options.weights)
    table = extend(LOWERINGS, options.lowerings)
    register_caches()
    model = unwrapped(model)
    way = Way(log, options.dump)
    try:
        with known_signature(model, args), autocast_inside(model):
            kwargs = in_order(model, kwargs)
            with log.stage("capture"), named_keywords(model, kwargs), masks_unread():
                if dynamic_axes and dynamic_shapes is None:
                    dynamic_shapes = _shapes_of_axes(model, args, kwargs, dynamic_axes, options)
                program = capture(model, args, kwargs, dynamic_shapes, options, log)
                way.captured(program.graph_module)
        if checkpoint is not None:
            with log.stage("weights"):
                program = with_weights(program, owner_of(model), checkpoint, log)
        program = replace(program, sources={**sources, **program.sources})
        with log.stage("normalize"):
            program = normalize(program, table.keys(), log, options.dump)
            way.normalized(program.graph_module)
            report_mutations(program, log)
        with log.stage("lower"):
            onnx = lower(program, table, options, log)
            report_unknown_sizes(onnx, program, log)
        with log.stage("finish"):
            onnx = run_ir_passes(onnx, passes_of(options), log, options.dump, functions=options.functions)
            way.finished(onnx)
            log.parts = parts_of(onnx)
    except (Stop, CaptureError) as stop:
        report_failure_in_eager(unwrapped(model), args, kwargs, log)
        raise ExportError(log, str(stop)) from None  # PyTorch's own words, page after page, are in its context
    return OnnxProgram(onnx, program, log, weights_in_place=options.weights_in_place)


def require_attention_alone(model: Any, log: Log) -> None:
    """Refuses to export inside of context parallelism: all ranks are in it, and each of them raises ExportError."""
    if is_spread():
        name = type(model).__name__
        raise ExportError(log, log.report(rules.ATTENTION_SPREAD, at=place_of_call(), name=name).message)


def _shapes_of_axes(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_axes: Mapping[str, Any], options: Options
) -> Any:
    leaves = leaves_of(arguments_of(model, args, kwargs))
    return from_dynamic_axes(leaves, options.input_names, dynamic_axes, options.output_names or ())
