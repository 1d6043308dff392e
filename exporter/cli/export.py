"""`fxport export SOURCE`: from a model in Python to a validated file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diagnostics import Log, Stop, rules
from exporter.cli import arguments, ranks
from exporter.cli.dynamic import with_dynamic
from exporter.cli.edge import FailOn, Format, Report, run
from exporter.cli.inputs import with_inputs
from exporter.cli.output import require_apart, require_folder, require_writable
from exporter.cli.policy import baseline_of, levels_of
from exporter.cli.source import Source, import_dotted, load, load_without_memory, named, one_line, where_raised
from exporter.cli.usage import UsageError

if TYPE_CHECKING:
    from exporter import OnnxProgram, Options


class ExternalData(StrEnum):
    """Where the weights go."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


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
    inputs: Path | None
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
    rank_timeout: float = 60.0


def command(
    source: arguments.Source,
    input: arguments.Input = None,
    inputs: arguments.Inputs = None,
    dynamic: arguments.Dynamic = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PATH", help="The ONNX file; NAME.onnx by default.")
    ] = None,
    opset: Annotated[int | None, typer.Option("--opset", help="The ai.onnx opset, 18 to 26.")] = None,
    provider: arguments.Provider = "auto",
    bisect: arguments.Bisect = True,
    repro: arguments.Repro = None,
    adversarial: arguments.Adversarial = False,
    predict: arguments.Predict = None,
    sarif: arguments.Sarif = None,
    fail_on: arguments.FailOnLevel = FailOn.ERROR,
    format: arguments.OutputFormat = Format.TEXT,
    baseline: arguments.Baseline = None,
    select: arguments.Select = None,
    ignore: arguments.Ignore = None,
    severity: arguments.Severity = None,
    no_validate: Annotated[bool, typer.Option("--no-validate", help="Do not run the model.")] = False,
    dump: Annotated[Path | None, typer.Option("--dump", metavar="DIR", help="Write the graph after each pass.")] = None,
    external_data: Annotated[
        ExternalData, typer.Option("--external-data", help="Weights in a file of their own; auto: above a threshold.")
    ] = ExternalData.AUTO,
    weights: arguments.Weights = None,
    fake: Annotated[
        bool, typer.Option("--fake", help="Make the model without memory for its weights; --weights has them.")
    ] = False,
    weights_in_place: Annotated[
        bool, typer.Option("--weights-in-place", help="Refer to weights in the files of --weights, without a copy.")
    ] = False,
    rank_timeout: Annotated[
        float, typer.Option("--rank-timeout", metavar="S", help="Under torchrun: how long one rank waits for another.")
    ] = 60.0,
    plugin: arguments.Plugin = None,
    allow_specialization: Annotated[
        bool, typer.Option("--allow-specialization", help="A dynamic dim that became a constant is only a warning.")
    ] = False,
    input_names: Annotated[
        str | None, typer.Option("--input-names", metavar="A,B", help="Names of the flattened inputs.")
    ] = None,
    output_names: Annotated[
        str | None, typer.Option("--output-names", metavar="A,B", help="Names of the flattened outputs.")
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Change the source where a fix was tried and found to help; show the changes.")
    ] = False,
) -> None:
    """Export a PyTorch model to ONNX and validate it in ONNX Runtime.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage, 3 a fault of fxport's.
    """
    request = Request(
        source=source,
        input=input or (),
        inputs=inputs,
        dynamic=dynamic or (),
        output=output or Path(f"{short_name(source)}.onnx"),
        opset=opset,
        plugin=plugin or (),
        allow_specialization=allow_specialization,
        input_names=input_names,
        output_names=output_names,
        provider=provider,
        validate=not no_validate,
        bisect=bisect,
        repro=repro,
        adversarial=adversarial,
        predict=predict,
        dump=dump,
        external_data=external_data,
        weights=weights,
        fake=fake,
        weights_in_place=weights_in_place,
        rank_timeout=rank_timeout,
    )
    if weights_in_place and weights is None and not Path(source).is_dir():
        raise UsageError("--weights-in-place leaves the weights in a checkpoint; name it with --weights.")
    written = {"--output": request.output} | ({"--sarif": sarif} if sarif else {})
    for option, path in written.items():
        require_writable(path, option)
    options = {"--inputs": inputs, "--weights": weights}
    read = {"SOURCE": Path(source.rpartition(":")[0] or source)} | {
        name: path for name, path in options.items() if path
    }
    require_apart(read | written)
    for option, folder in {"--dump": dump, "--repro": repro}.items():
        if folder is not None:
            require_folder(folder, option)
    if fix:
        from exporter.cli.fix import fix_source

        fix_source(request, fail_on)
    levels = levels_of(select or (), ignore or (), severity or ())
    report = Report(source, format, sarif, fail_on, levels, baseline_of(baseline))
    raise typer.Exit(ranks.agreed(lambda: run(lambda log: export_and_validate(request, log), report)))


def short_name(source: str) -> str:
    """`bert` for `bert.pt2` and a folder `bert`, `model` for `bert.py:model` and for `package.bert:parts.model`."""
    if Path(source).is_dir():
        return Path(source).resolve().name
    return Path(source).stem if source.endswith(".pt2") else source.rpartition(":")[2].rpartition(".")[2] or "model"


def export_and_validate(request: Request, log: Log) -> str:
    """The whole run, a stage a line; returns the summary."""
    from exporter.cli.prediction import require_table
    from exporter.cli.validation import require_provider

    require_provider(request.provider)
    if request.predict is not None:
        require_table(request.predict)
    with log.stage("load"):
        options, source = options_of(request), source_of(request)
    return "" if ranks.is_left_to_rank_0(source) else export_source(request, source, options, log)


def source_of(request: Request) -> Source:
    """The model with the inputs and the dynamic dims that were asked for."""
    streamed = request.fake or Path(request.source).is_dir()  # a folder has its weights beside the model
    made = load_without_memory(request.source) if streamed else load(request.source)
    return with_dynamic(with_inputs(made, request.input, request.inputs), request.dynamic)


def export_source(request: Request, source: Source, options: Options, log: Log) -> str:
    """All stages after the loading; returns the summary."""
    from exporter import ExportError
    from exporter.cli.prediction import prediction_of
    from exporter.cli.repro import repro_of
    from exporter.cli.summary import summary_of
    from exporter.cli.validation import ignore, validation_of
    from exporter.weights import CheckpointError

    if options.weights is None and source.weights is not None:
        options = replace(options, weights=source.weights)
    program = exported(source, options, log)
    try:
        files = program.save(request.output, external_data=EXTERNAL_DATA[request.external_data])
    except CheckpointError as error:
        raise UsageError(f"--weights {error}") from error
    except OSError as error:
        raise UsageError(f"'{request.output}' cannot be written: {one_line(error)}; name another place.") from error
    except ExportError as error:
        raise Stop(log, "save") from error
    with ranks.to_validate(program, source, log) if request.validate else nullcontext(source) as subject:
        if subject is None or ranks.follows():
            return ""
        lines = [prediction_of(program.model, request.predict)] if request.predict else []
        validation = None
        spread = subject is not source
        ready = with_weights_to_run(subject, program, log, spread=spread) if request.validate else None
        if ready is not None:
            told = repro_of(request.repro, request.output, request.provider, lines) if request.repro else ignore
            searched = (request.bisect or request.repro is not None) and not spread
            validation = validation_of(
                request.output,
                subject,
                ready,
                request.provider,
                log,
                options=options if searched else None,
                told=told,
                hard=request.adversarial,
            )
    return "\n".join([summary_of(program.model, files, validation, log), *lines])


def with_weights_to_run(source: Source, program: OnnxProgram, log: Log, *, spread: bool) -> OnnxProgram | None:
    """Gives the model and its program the weights of a checkpoint. None, with a finding, where that cannot be.

    `spread` says that the model runs on several ranks, which have weights of their own.
    """
    from exporter.capture.inference import unwrapped
    from exporter.cli.summary import size
    from exporter.weights import Stored
    from exporter.weights.fill import available_memory, fill, memory_to_run

    if not any(isinstance(each, Stored) for each in program.program.sources.values()):
        return program
    if spread:
        reason = "the ranks run the model with their own weights, and the file has those of the checkpoint"
        log.report(rules.VALIDATION_SKIPPED, reason=reason)
        return None
    needed, free = memory_to_run(program.program), available_memory()
    if free is not None and needed > free:
        reason = f"running it needs {size(needed)} of memory for its weights, and {size(free)} are free"
        log.report(rules.VALIDATION_SKIPPED, reason=reason)
        return None
    return replace(program, program=fill(unwrapped(source.model), program.program))


def options_of(request: Request) -> Options:
    """The exporter's options for the flags."""
    from exporter.options import DEFAULT_OPSET, Options

    try:
        return Options(
            opset=DEFAULT_OPSET if request.opset is None else request.opset,
            lowerings=lowerings_of(request.plugin),
            dump=request.dump,
            allow_specialization=request.allow_specialization,
            input_names=split(request.input_names),
            output_names=split(request.output_names),
            weights=request.weights,
            weights_in_place=request.weights_in_place,
            rank_timeout=request.rank_timeout,
        )
    except ValueError as error:
        raise UsageError(f"--{error}; leave it out for {DEFAULT_OPSET}.") from error


def split(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.strip() for name in names.split(","))


def lowerings_of(plugins: Sequence[str]) -> dict[Any, Callable[..., Any]]:
    """The `LOWERINGS` of all plugins, later ones over earlier ones."""
    merged: dict[Any, Callable[..., Any]] = {}
    for plugin in plugins:
        table = named(import_dotted(plugin), "LOWERINGS", plugin)
        if not isinstance(table, Mapping):
            raise UsageError(
                f"LOWERINGS of --plugin '{plugin}' is a {type(table).__name__}; make it a dict by ATen op."
            )
        merged |= table
    return merged


def exported(source: Source, options: Options, log: Log) -> OnnxProgram:
    """The model in memory. Raises Stop with its findings in the log, or UsageError for inputs that do not fit."""
    from exporter import ExportError, export
    from exporter.capture.program import NamesError
    from exporter.capture.shapes import ShapesError
    from exporter.weights import CheckpointError

    args, kwargs, shapes = source.args or (), dict(source.kwargs), source.dynamic_shapes
    try:
        return export(source.model, args, kwargs, dynamic_shapes=shapes, options=options, log=log)
    except ExportError as error:
        refuse_unfit(source)
        raise Stop(log, "export") from error
    except CheckpointError as error:
        raise UsageError(f"--weights {error}") from error
    except (NamesError, ShapesError) as error:
        raise UsageError(f"'{source.name}': {error}.") from error


def refuse_unfit(source: Source) -> None:
    """Called when an export has failed: if the model does not run in PyTorch either, that is what to tell."""
    from exporter.cli.validation import failure_in_eager

    if ranks.holds_a_part(source):
        return  # it runs on all ranks or on none
    if any(tensor.is_meta for tensor in source.model.parameters()):
        return  # made without memory, so that it never runs
    error = failure_in_eager(source)
    if error is not None:
        raise UsageError(
            f"'{source.name}' does not run in PyTorch with these inputs: {one_line(error)}{where_raised(error)}; "
            "change the inputs (--input, --inputs) or the model."
        ) from error
