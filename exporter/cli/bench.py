"""`fxport bench MODEL`: how long a run takes in ONNX Runtime, beside eager PyTorch and torch.compile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.amounts import size
from fxport.diagnostics.report import Report
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.sources.dynamic import require_readable
from fxport.exporter.sources.source import require_file
from fxport.exporter.validation.choices import require_provider, require_runtime

if TYPE_CHECKING:
    from fxport.ort_runner import Latency

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
    require_runtime("bench")
    require_readable(input or ())

    from fxport.exporter.validation.bench import Bench, bench

    asked = Bench(model, against, input or (), inputs, provider, runs, warmup, threads, compile, init or ())

    def work(log: Log) -> str:
        return "\n".join(table(bench(asked, log), compiled=compile))

    raise typer.Exit(run(work, Report(against, run="bench")))


def table(rows: Mapping[str, Latency | str], *, compiled: bool) -> Iterator[str]:
    """A line for each, with the median of the first, ONNX Runtime's, in parts of its own."""
    first = next(found for found in rows.values() if not isinstance(found, str))
    width = max(map(len, rows))
    yield f"{'':<{width}}  {'median':>9}  {'p90':>9}  {'runs/s':>9}  {'memory':>9}  {'ratio':>6}"
    for name, found in rows.items():
        if isinstance(found, str):
            yield f"{name:<{width}}  {found}"
            continue
        memory = size(found.memory) if found.memory else "–"
        figures = (duration(found.median), duration(found.p90), f"{1 / found.median:,.0f}", memory)
        ratio = f"{first.median / found.median:.2f}"
        yield f"{name:<{width}}  {'  '.join(f'{each:>9}' for each in figures)}  {ratio:>6}"
    yield f"{first.runs} runs of each; ratio: ONNX Runtime's median in parts of the row's"
    timed = {name: found for name, found in rows.items() if not isinstance(found, str)}
    if unsteady := [name for name, found in timed.items() if found.p90 > UNSTEADY * found.median]:
        yield f"unsteady: p90 of {', '.join(unsteady)} is over {UNSTEADY:g} medians, since other work ran; time again"
    if not compiled:
        yield "torch.compile was not timed, since compiling takes a while; --compile times it, too"


def duration(seconds: float) -> str:
    """Seconds in the unit that gives at least one digit before the point."""
    factor, unit = next(((factor, unit) for factor, unit in UNITS if seconds >= factor), UNITS[-1])
    return f"{seconds / factor:.3g} {unit}"
