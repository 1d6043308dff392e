"""`fxport bench MODEL`: how long a run takes in ONNX Runtime, beside eager PyTorch and torch.compile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.amounts import size
from fxport.diagnostics.limits import METADATA, json_of
from fxport.diagnostics.messages import error_line
from fxport.diagnostics.report import Report
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.validate import matched
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import Source, init_of, load, require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import require_provider
from fxport.exporter.validation.model_file import model_of

if TYPE_CHECKING:
    import numpy as np

    from fxport.exporter.training.timing import TimedStep
    from fxport.ort_runner import Latency

TRAINING = "fxport.training"
"""Key of a model's metadata that only a training step has."""

EAGER, COMPILED = "PyTorch, eager", "PyTorch, compiled"
UNSTEADY = 2.0
"""A 90th percentile of so many medians says that something else ran."""
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="SOURCE",
            help="The model as for export, or the step as for train-step: timed beside it in PyTorch.",
        ),
    ],
    init: arguments.Init = None,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    input: arguments.Input = None,
    inputs: arguments.Inputs = None,
    provider: arguments.Provider = "auto",
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs that are timed.")] = 50,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Runs before them.")] = 5,
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads of each side; 0: as many as cores.")] = 0,
    compile: Annotated[
        bool, typer.Option("--compile", help="Also time what torch.compile makes of the model.")
    ] = False,
) -> None:
    """Time an ONNX model in ONNX Runtime beside the PyTorch model that it came from, on the same inputs.

    ONNX Runtime has a process of its own; inputs and outputs are bound once. Exit codes are those of `fxport export`.
    """
    require_file(model)
    require_provider(provider)
    asked = Bench(model, against, input or (), inputs, provider, runs, warmup, threads, compile, init or ())
    raise typer.Exit(run(lambda log: bench(asked, log), Report(against, run="bench")))


@dataclass(frozen=True, slots=True)
class Bench:
    """A command line of `fxport bench`."""

    path: Path
    against: str
    input: Sequence[str]
    inputs: Path | None
    provider: str
    runs: int
    warmup: int
    threads: int
    compiled: bool
    init: Sequence[str] = ()


def bench(asked: Bench, log: Log) -> str:
    """Time each of them; returns the table."""
    from fxport.diagnostics import Stop
    from fxport.ort_runner import latency_alone
    from fxport.ort_runner.failures import Failure

    with log.stage("load"):
        subject, fed = _subject(asked)
    rows: dict[str, Latency | str] = {}
    with log.stage("onnxruntime"):
        try:
            found = latency_alone(
                asked.path, fed, asked.provider, runs=asked.runs, warmup=asked.warmup, threads=asked.threads
            )
        except Failure as failure:
            log.report(failure.rule, **failure.facts)
            raise Stop(log, "onnxruntime") from failure
        except ValueError as error:
            raise UsageError(f"--provider: {error}; choose another.") from error
        rows[f"ONNX Runtime, {found.provider}"] = found
    with log.stage("eager"):
        rows[EAGER] = of_pytorch(asked, subject, found.provider, compiled=False)
    if asked.compiled:
        with log.stage("compiled"):
            rows[COMPILED] = of_pytorch(asked, subject, found.provider, compiled=True)
    return "\n".join(table(rows, found))


def _subject(asked: Bench) -> tuple[Source | TimedStep, dict[str, np.ndarray]]:
    """Return what PyTorch is timed with, and the inputs of the file: for a training step those that it begins with."""
    model = model_of(asked.path)
    described = model.metadata_props.get(TRAINING)
    if described is None:
        source = with_inputs(
            load(asked.against, init_of(asked.init)), asked.input, [asked.inputs] if asked.inputs else []
        )
        return source, inputs_of(asked.path, source, asked.against)
    if asked.input or asked.inputs or asked.init:
        raise UsageError("A training step is timed with the batch of its SOURCE; leave --input, --inputs and --init.")
    return _step(asked, [str(entry.name) for entry in model.graph.inputs], described)


def _step(asked: Bench, names: Sequence[str], described: str) -> tuple[TimedStep, dict[str, np.ndarray]]:
    from fxport.exporter.cli.train_step import parts_of
    from fxport.exporter.training.step import Parts
    from fxport.exporter.training.timing import TimedStep

    model, optimizer, loss_fn, batch, *_ = parts_of(asked.against)
    try:
        settings = json_of(described, METADATA)
        steps, accumulate = (int(settings.get(key, 1)) for key in ("steps", "accumulate"))
        limit = settings.get("clip_grad_norm")
        norm = None if limit is None else float(limit)
        step = TimedStep(Parts(model, optimizer, loss_fn), batch, steps, accumulate, norm)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"'{asked.path}' describes no training step: {error}; export the step again.") from error
    try:
        return step, step.inputs(names)
    except KeyError as error:
        raise UsageError(
            f"'{asked.path}' takes {error}, which the step of '{asked.against}' does not have; name the SOURCE that it "
            "was exported from."
        ) from error


def inputs_of(path: Path, source: Source, against: str) -> dict[str, np.ndarray]:
    """The example inputs of SOURCE under the names of the file, matched by their order."""
    import torch
    from torch import nn

    from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
    from fxport.exporter.capture.wrappers import unwrapped
    from fxport.exporter.weights.arrays import as_array

    if not isinstance(source.model, nn.Module):
        raise UsageError(f"'{against}' is no nn.Module, so PyTorch cannot be timed; name the model itself.")
    model = model_of(path)
    leaves = leaves_of(arguments_of(unwrapped(source.model), source.args or (), source.kwargs))
    values = {leaf.path: as_array(torch.as_tensor(leaf.value)) for leaf in leaves if leaf.value is not None}
    needed = [entry for entry in model.graph.inputs if not entry.is_initializer()]
    return matched(values, needed, f"inputs of '{against}'")


def of_pytorch(asked: Bench, subject: Source | TimedStep, provider: str, *, compiled: bool) -> Latency | str:
    """The figures of eager PyTorch, or of torch.compile; the reason where it does not run."""
    import torch
    from torch import nn

    from fxport.exporter.validation.timing import seconds_of
    from fxport.ort_runner import PROVIDERS, Latency

    device = PROVIDERS[provider].device
    threads = torch.get_num_threads()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    try:
        how: dict[str, Any] = {"runs": asked.runs, "warmup": max(asked.warmup, 1), "device": device}
        if isinstance(subject, Source):
            assert isinstance(subject.model, nn.Module)
            seconds = seconds_of(subject.model, subject.args or (), subject.kwargs, compiled=compiled, **how)
        else:
            seconds = subject.seconds(compiled=compiled, **how)
    except Exception as error:  # noqa: BLE001  # the user's code and the compiler raise what they like
        return f"not timed: {error_line(error)}"
    finally:
        torch.set_num_threads(threads)
    return Latency.of(seconds, device, asked.threads)


def table(rows: Mapping[str, Latency | str], first: Latency) -> Iterator[str]:
    """A line for each, with the median of the `first` in parts of its own."""
    width = max(map(len, rows))
    yield f"{'':<{width}}  {'median':>9}  {'p90':>9}  {'runs/s':>9}  {'memory':>9}  {'ratio':>6}"
    for name, found in rows.items():
        if isinstance(found, str):
            yield f"{name:<{width}}  {found}"
            continue
        memory = size(found.memory) if found.memory is not None else "–"
        figures = (duration(found.median), duration(found.p90), f"{1 / found.mean:.4g}", memory)
        ratio = f"{first.median / found.median:.2f}"
        yield f"{name:<{width}}  {'  '.join(f'{each:>9}' for each in figures)}  {ratio:>6}"
    yield f"{first.runs} runs of each; ratio: ONNX Runtime's median in parts of the row's"
    timed = {name: found for name, found in rows.items() if not isinstance(found, str)}
    if unsteady := [name for name, found in timed.items() if found.p90 > UNSTEADY * found.median]:
        yield f"unsteady: p90 of {', '.join(unsteady)} is over {UNSTEADY:g} medians, since other work ran; time again"
    if COMPILED not in rows:
        yield "torch.compile was not timed, since compiling takes a while; --compile times it, too"


def duration(seconds: float) -> str:
    """Seconds in the unit that gives at least one digit before the point."""
    factor, unit = next(((factor, unit) for factor, unit in UNITS if seconds >= factor), UNITS[-1])
    return f"{seconds / factor:.3g} {unit}"
