"""`fxport validate MODEL --against SOURCE`: a file that exists already, against the model that it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.output import require_folder
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.dynamic import with_dynamic
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import init_of, load, require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import ignore
from fxport.exporter.validation.attribution import Attribution
from fxport.exporter.validation.model_file import model_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from fxport.ort_runner import Samples


@reports()
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    against: Annotated[str, typer.Option("--against", metavar="SOURCE", help="The model in PyTorch, as for export.")],
    trust: arguments.Trust = False,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    init: arguments.Init = None,
    input: arguments.Input = None,
    inputs: arguments.SampleFiles = None,
    dynamic: arguments.Dynamic = None,
    provider: arguments.Provider = "auto",
    runtime: arguments.Runtimes = None,
    bisect: arguments.Bisect = True,
    repro: arguments.Repro = None,
    adversarial: arguments.Adversarial = False,
    plugin: arguments.Plugin = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Compare an ONNX model with the PyTorch model that it came from.

    The file's inputs and outputs are matched with those of SOURCE in their order, so it may be another exporter's.
    Exit codes are those of `fxport export`.
    """
    require_file(model)
    if repro is not None:
        require_folder(repro, "--repro")
    asked = Comparison(
        model,
        against,
        input or (),
        inputs or (),
        dynamic or (),
        provider,
        plugin or (),
        bisect,
        repro,
        adversarial,
        init=init or (),
        trust=trust,
        runtimes=runtime or (),
    )
    raise typer.Exit(run(lambda log: compare(asked, log), reporting.resolved("validate", against)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A command line of `fxport validate` or `fxport bisect`. `told` is given the origin of a difference."""

    path: Path
    against: str
    input: Sequence[str]
    inputs: Sequence[Path]
    dynamic: Sequence[str]
    provider: str
    plugin: Sequence[str] = ()
    bisect: bool = True
    repro: Path | None = None
    adversarial: bool = False
    told: Callable[[Attribution], None] = ignore
    init: Sequence[str] = ()
    trust: bool = False
    runtimes: Sequence[str] = ()


def compare(asked: Comparison, log: Log) -> str:
    """Capture SOURCE for its names and sizes, run it, and hold the file against it; returns the summary."""
    from fxport.exporter.pipeline.options import Options
    from fxport.exporter.validation.against_eager import require_provider, require_runtimes, validation_of
    from fxport.exporter.validation.repro import repro_of
    from fxport.exporter.validation.request import exported, lowerings_of
    from fxport.exporter.validation.summary import comparison_of

    require_provider(asked.provider)
    require_runtimes(asked.runtimes)
    model = model_of(asked.path)
    with log.stage("load"):
        loaded = load(asked.against, init_of(asked.init), trust=asked.trust)
        source = with_dynamic(with_inputs(loaded, asked.input, asked.inputs), asked.dynamic)
        options = Options(lowerings=lowerings_of(asked.plugin))
    program = exported(source, options, log)

    def as_in_the_file(samples: Samples) -> Samples:
        return renamed(samples, model, asked.against)

    lines: list[str] = []
    tellers = [asked.told]
    if asked.repro is not None:
        tellers.append(repro_of(asked.repro, asked.path, asked.provider, lines))

    def told(found: Attribution) -> None:
        for tell in tellers:
            tell(found)

    wanted = options if asked.bisect or asked.repro is not None else None
    validation = validation_of(
        asked.path,
        source,
        program,
        asked.provider,
        log,
        as_in_the_file,
        options=wanted,
        told=told,
        hard=asked.adversarial,
        runtimes=asked.runtimes,
    )
    return "\n".join([comparison_of(validation, log), *lines])


def renamed(samples: Samples, model: ir.Model, against: str) -> Samples:
    """The samples under the file's names, matched by their order."""
    state = [entry for entry in model.graph.inputs if entry.is_initializer() and entry.name in samples.inputs]
    needed = [entry for entry in model.graph.inputs if not entry.is_initializer()]
    inputs = matched(samples.inputs, [*needed, *state], f"inputs of '{against}'")
    outputs = matched(samples.outputs, model.graph.outputs, f"outputs of '{against}'")
    new = dict(zip(samples.outputs, outputs, strict=True))

    def moved(arrays: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
        return None if arrays is None else {new[name]: array for name, array in arrays.items()}

    exact, draws, again = moved(samples.exact), moved(samples.draws), samples.roundings
    roundings = None if again is None else lambda: moved(again()) or {}
    return replace(samples, inputs=inputs, outputs=outputs, exact=exact, draws=draws, roundings=roundings)


def matched(arrays: Mapping[str, np.ndarray], entries: Sequence[ir.Value], what: str) -> dict[str, np.ndarray]:
    """Arrays by the names of a graph's values; all of them or none."""
    names = [entry.name or "" for entry in entries]
    if len(names) != len(arrays):
        raise UsageError(
            f"The {len(arrays)} {what} ({', '.join(arrays)}) are not the {len(names)} of the file "
            f"({', '.join(names)}); give the inputs that the file was exported with."
        )
    return dict(zip(names, arrays.values(), strict=True))
