"""A command line of `fxport export` and the work that it asks for: load, export, save, validate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxport.diagnostics import Finding, Fix, Log, Stop, rules
from fxport.exporter.sources.dynamic import require_readable, with_dynamic
from fxport.exporter.sources.inputs import numbers_given, with_inputs
from fxport.exporter.sources.source import Source, import_dotted, init_of, load, load_without_memory, named
from fxport.exporter.sources.usage import UsageError, unwritable
from fxport.exporter.validation import ranks
from fxport.exporter.validation.choices import require_provider, require_table

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.pipeline.options import Options


NUMBER_REFUSED = re.compile(r"'int' object|not int\b|\(int\b|\bint\)")
"""In errors of Python and PyTorch: a number stands where it cannot."""


class ExternalData(StrEnum):
    """Choice of the file for the weights: the model's own or external data."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


class SelfCheck(StrEnum):
    """Choice of the captures that are compared with the model in PyTorch; the values of `Options.self_check`."""

    REWRITTEN = "rewritten"
    ALWAYS = "always"
    NEVER = "never"


EXTERNAL_DATA: Mapping[ExternalData, Any] = {
    ExternalData.AUTO: "auto",
    ExternalData.YES: True,
    ExternalData.NO: False,
}


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport export`, as it was typed."""

    source: str
    input: Sequence[str]
    inputs: Sequence[Path]
    dynamic: Sequence[str]
    output: Path
    opset: int | None
    plugin: Sequence[str]
    allow_specialization: bool
    input_names: str | None
    output_names: str | None
    provider: str
    validate: bool
    bisect: bool
    repro: Path | None
    adversarial: bool
    predict: str | None
    dump: Path | None
    external_data: ExternalData
    weights: Path | None = None
    fake: bool = False
    weights_in_place: bool = False
    functions: bool = True
    custom_ops: bool = False
    reuse: bool = True
    rewrite: bool = True
    self_check: SelfCheck = SelfCheck.REWRITTEN
    rank_timeout: float = 45.0
    init: Sequence[str] = ()
    check_passes: bool = False
    trust: bool = False
    atol: float | None = None
    rtol: float | None = None


def export_and_validate(request: Request, log: Log) -> str:
    """The whole run, a stage a line; returns the summary."""
    require_provider(request.provider)
    if request.predict is not None:
        require_table(request.predict)
    require_readable(request.input, request.dynamic)
    log.revise(partial(vectors_advised, numbers_given(request.input)))
    with log.stage("load"):
        options, source = options_of(request), source_of(request)
    return "" if ranks.is_left_to_rank_0(source) else export_source(request, source, options, log)


def source_of(request: Request) -> Source:
    """The model with the inputs and the dynamic dims that were asked for."""
    streamed = request.fake or Path(request.source).is_dir()  # a folder has its weights beside the model
    init = init_of(request.init)
    made = load_without_memory(request.source, init) if streamed else load(request.source, init, trust=request.trust)
    return with_dynamic(with_inputs(made, request.input, request.inputs), request.dynamic)


def vectors_advised(numbers: Mapping[str, int], findings: Sequence[Finding]) -> Sequence[Finding]:
    """Of a model that fails on a number of Python's, say how a vector is given instead."""
    meant = tuple(
        Fix(f"'{name}' is the number {value}; write --input {name}={value}:float32 for a vector of {value}.")
        for name, value in numbers.items()
    )
    return [
        replace(each, fixes=(*meant, *each.fixes))
        if each.rule is rules.MODEL_FAILS and NUMBER_REFUSED.search(str(each.facts["error"]))
        else each
        for each in findings
    ]


def export_source(request: Request, source: Source, options: Options, log: Log) -> str:
    """All stages after the loading; returns the summary."""
    from fxport.exporter.validation.against_eager import Tolerances, ignore, validation_of
    from fxport.exporter.validation.prediction import prediction_of
    from fxport.exporter.validation.repro import repro_of
    from fxport.exporter.validation.summary import summary_of

    if options.weights is None and source.weights is not None:
        options = replace(options, weights=source.weights)
    program = exported(source, options, log)
    if request.check_passes:
        checked(source, options, log)
    try:
        files = saved(program, request.output, log, EXTERNAL_DATA[request.external_data])
    except OSError as error:
        raise unwritable(request.output, error) from error
    with ranks.to_validate(program, source, log) if request.validate else nullcontext(source) as subject:
        if subject is None or ranks.follows():
            return ""
        lines = [prediction_of(program.model, request.predict)] if request.predict else []
        validation = None
        ready = with_weights_to_run(subject, program, log) if request.validate else None
        if ready is not None:
            told = repro_of(request.repro, files[0], request.provider, lines) if request.repro else ignore
            searched = request.bisect or request.repro is not None
            validation = validation_of(
                files[0],  # not a link to it, through which ONNX Runtime loads no weights
                *ready,
                request.provider,
                log,
                tolerances=Tolerances(request.atol, request.rtol),
                options=options if searched else None,
                told=told,
                hard=request.adversarial,
            )
    return "\n".join([summary_of(program.model, files, validation, log), *lines])


def checked(source: Source, options: Options, log: Log) -> None:
    """Holds each pass against the model before it. A model without its source, or without weights, has no passes."""
    from torch.export import ExportedProgram

    from fxport.exporter.validation.pass_checks import check_passes
    from fxport.exporter.validation.stages import Call

    if isinstance(source.model, ExportedProgram) or options.weights is not None or source.whole is not None:
        reason = "passes are checked for a model of one process with its own weights"
        log.report(rules.VALIDATION_SKIPPED, reason=reason)
        return
    with log.stage("check passes"):
        check_passes(Call(source.model, source.args or (), source.kwargs, source.dynamic_shapes), options, log)


def saved(program: OnnxProgram, path: Path, log: Log, external_data: Any = "auto") -> Sequence[Path]:
    """Writes the model; returns its files. Raises UsageError for a checkpoint that cannot be read, Stop where a rank
    is lost, and OSError."""
    from fxport.exporter.pipeline.errors import ExportError
    from fxport.exporter.weights import CheckpointError

    try:
        return program.save(path, external_data=external_data)
    except ExportError as error:
        raise Stop(log, "save") from error
    except CheckpointError as error:
        raise UsageError(f"--weights: {error}") from error


def with_weights_to_run(source: Source, program: OnnxProgram, log: Log) -> tuple[Source, OnnxProgram] | None:
    """Gives the model and its program the weights of a checkpoint. None, with a finding, where that cannot be.

    Those that ranks hold together go to the model in one process; where memory is short, there is none.
    """
    from fxport.diagnostics.amounts import size
    from fxport.exporter.capture.wrappers import unwrapped
    from fxport.exporter.weights import Stored
    from fxport.exporter.weights.fill import available_memory, fill, memory_to_run

    stored = any(isinstance(each, Stored) for each in program.program.sources.values())
    if source.whole is None and not stored:
        return source, program
    if source.whole is not None and stored:
        reason = "the ranks run the model with their own weights, and the file has those of the checkpoint"
        log.report(rules.VALIDATION_SKIPPED, reason=reason)
        return None
    needed, free = memory_to_run(program.program), available_memory()
    if free is not None and needed > free:
        if source.whole is not None:
            return replace(source, whole=None), program
        reason = f"running it needs {size(needed)} of memory for its weights, and {size(free)} are free"
        log.report(rules.VALIDATION_SKIPPED, reason=reason)
        return None
    model = unwrapped(source.model) if source.whole is None else source.whole
    return source, replace(program, program=fill(model, program.program))


def options_of(request: Request) -> Options:
    """The exporter's options for the flags."""
    from fxport.exporter.pipeline.options import Options

    try:
        return Options(
            opset=request.opset,
            lowerings=lowerings_of(request.plugin),
            dump=request.dump,
            allow_specialization=request.allow_specialization,
            input_names=split(request.input_names),
            output_names=split(request.output_names),
            weights=request.weights,
            weights_in_place=request.weights_in_place,
            functions=request.functions,
            custom_ops=request.custom_ops,
            reuse=request.reuse,
            rewrite=request.rewrite,
            self_check=request.self_check.value,
            rank_timeout=request.rank_timeout,
        )
    except ValueError as error:
        raise UsageError(f"--{error}; leave it out for the default.") from error


def split(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.strip() for name in names.split(","))


def plugin_name(path: str) -> str:
    """The dotted name of a file, from the folder in which Python looks for it."""
    return ".".join(Path(path).with_suffix("").parts)


def lowerings_of(plugins: Sequence[str]) -> dict[Any, Callable[..., Any]]:
    """The `LOWERINGS` of all plugins, later ones over earlier ones."""
    merged: dict[Any, Callable[..., Any]] = {}
    for plugin in plugins:
        if plugin.endswith(".py"):
            raise UsageError(f"--plugin '{plugin}' is a file; name its module, '{plugin_name(plugin)}'.")
        table = named(import_dotted(plugin), "LOWERINGS", plugin)
        if not isinstance(table, Mapping):
            raise UsageError(
                f"LOWERINGS of --plugin '{plugin}' is a {type(table).__name__}; make it a dict by ATen op."
            )
        merged |= table
    return merged


def exported(source: Source, options: Options, log: Log) -> OnnxProgram:
    """The model in memory. Raises Stop with its findings in the log, or UsageError for names and sizes that do not fit.

    Inputs that the model cannot take are a finding, wherever they come from.
    """
    from fxport.exporter.capture.program import NamesError
    from fxport.exporter.capture.sizes.shapes import ShapesError
    from fxport.exporter.pipeline.calls import CallError
    from fxport.exporter.pipeline.errors import ExportError
    from fxport.exporter.pipeline.exporting import export
    from fxport.exporter.weights import CheckpointError

    args, kwargs, shapes = source.args or (), dict(source.kwargs), source.dynamic_shapes
    try:
        return export(source.model, args, kwargs, dynamic_shapes=shapes, options=options, log=log)
    except ExportError as error:
        raise Stop(log, "export") from error
    except CheckpointError as error:
        raise UsageError(f"--weights: {error}") from error
    except (CallError, NamesError, ShapesError) as error:
        raise UsageError(f"'{source.name}': {error}.") from error
