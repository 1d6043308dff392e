"""An ONNX file that exists already, compared with the PyTorch model that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log
from fxport.exporter.sources.dynamic import with_dynamic
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import init_of, load
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import Tolerances, ignore, validation_of
from fxport.exporter.validation.attribution import Attribution
from fxport.exporter.validation.choices import require_provider, require_runtimes
from fxport.exporter.validation.model_file import model_of
from fxport.exporter.validation.repro import repro_of
from fxport.exporter.validation.request import exported, lowerings_of
from fxport.exporter.validation.summary import comparison_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from fxport.ort_runner import Samples
    from fxport.ort_runner.samples import Arrays, Choices


@dataclass(frozen=True, slots=True)
class Comparison:
    """A file to compare with the model that it came from, as `fxport validate` and `fxport bisect` are asked to.

    Attributes:
        path: The ONNX file.
        against: SOURCE of the PyTorch model, with `init`, `trust`, `plugin`, `input`, `inputs` and `dynamic` as for
            an export.
        provider: The execution provider of ONNX Runtime, or "auto".
        bisect: Whether the origin of a difference is sought.
        repro: The folder for the smallest part that differs.
        adversarial: Whether hard values are tried, too.
        told: It is given the origin of a difference.
        runtimes: Further runtimes that run the same samples.
        atol: With `rtol`, what replaces the error budget: see `Tolerances`.
        rtol: See there.
    """

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
    atol: float | None = None
    rtol: float | None = None


def compare(asked: Comparison, log: Log) -> str:
    """Capture SOURCE for its names and sizes, run it, and hold the file against it; returns the summary."""
    from fxport.exporter.pipeline.options import Options

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
        tolerances=Tolerances(asked.atol, asked.rtol),
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
    choices = None if samples.choices is None else partial(_renamed_choices, samples.choices, moved)
    same = replace(samples, inputs=inputs, outputs=outputs, exact=exact, draws=draws)
    return replace(same, roundings=roundings, choices=choices)


def _renamed_choices(
    choices: Choices, moved: Callable[[Arrays | None], Arrays | None]
) -> Iterator[tuple[str, Arrays, Arrays | None]]:
    yield from ((which, moved(outputs) or {}, moved(exact)) for which, outputs, exact in choices())


def matched(arrays: Mapping[str, np.ndarray], entries: Sequence[ir.Value], what: str) -> dict[str, np.ndarray]:
    """Arrays by the names of a graph's values; all of them or none."""
    names = [entry.name or "" for entry in entries]
    if len(names) != len(arrays):
        raise UsageError(
            f"The {len(arrays)} {what} ({', '.join(arrays)}) are not the {len(names)} of the file "
            f"({', '.join(names)}); give the inputs that the file was exported with."
        )
    return dict(zip(names, arrays.values(), strict=True))
