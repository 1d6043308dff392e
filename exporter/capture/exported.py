"""A program that torch.export has captured before: what it has of the sizes that shall stay dynamic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from fxport.diagnostics import Fix, Level, Log, rules
from fxport.exporter.capture.arguments.inputs import arguments_of
from fxport.exporter.capture.functional import copied, functional
from fxport.exporter.capture.program import from_exported
from fxport.exporter.capture.sizes.dimensions import Comparison
from fxport.exporter.capture.sizes.shapes import Request, axes_of, requests_of
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.program import Program

ASK_BEFORE = Fix("Ask for it where the program is made: `torch.export.export(model, args, dynamic_shapes=…)`.")


def captured_before(
    model: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    options: Options,
    log: Log,
) -> Program:
    """Return the Program of an ExportedProgram, and report sizes that were asked to vary and are constants in it."""
    before = copied(model) if options.keep_exported_program else None
    sizes: Sequence[Request] = ()
    if dynamic_shapes is not None:
        args, kwargs = (args, kwargs) if args or kwargs else model.example_inputs or ((), {})
        module = model.module()
        axes = axes_of(module, args, kwargs, dynamic_shapes, options.input_names)
        sizes = requests_of(arguments_of(module, args, kwargs), axes)
    captured = from_exported(functional(model), None, sizes, model, options, log)
    compared = Comparison(captured, sizes, [], {}, {})
    for said in compared.said:
        constant, required = said.rule is rules.DIMENSION_SPECIALIZED, any(each.required for each in said.about)
        level = Level.NOTE if not required else Level.WARNING if constant and options.allow_specialization else None
        log.report(said.rule, at=said.place, level=level, fixes=(ASK_BEFORE,) if constant else (), **said.facts)
    return replace(captured, conditions=(*captured.conditions, *compared.conditions), exported=before)
