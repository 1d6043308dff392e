"""Comparison of the results of two ONNX files on the same inputs, for `fxport diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Level, Log, Place, rules
from fxport.diagnostics.amounts import allowed, plural
from fxport.exporter.sources.inputs import stored_inputs
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    import numpy as np

    from fxport.ort_runner.numerics import Change


@dataclass(frozen=True, slots=True)
class Numerics:
    """Two files to run, on samples or on generated inputs."""

    old: Path
    new: Path
    inputs: Sequence[Path]
    provider: str


def numerics_of(asked: Numerics, place: Place, log: Log) -> list[str]:
    """Report each output that is not what it was; returns the lines of the summary."""
    from fxport.ort_runner.failures import Failure
    from fxport.ort_runner.numerics import GENERATED, changes, generated
    from fxport.ort_runner.session import Runtime

    runtime = Runtime(asked.provider, optimize=True)
    try:
        samples = {str(path): arrays_of(path) for path in asked.inputs}
        if not samples:
            samples = {GENERATED: generated(asked.old, runtime)}
        found = list(changes(asked.old, asked.new, samples, runtime))
    except (Failure, ValueError) as error:
        if asked.inputs:
            raise UsageError(f"'{asked.old}' does not run on --inputs: {error}; give its inputs by name.") from error
        reason = f"'{asked.old}' does not run on generated inputs ({error}); give some with --inputs"
        log.report(rules.VALIDATION_SKIPPED, at=place, level=Level.NOTE, reason=reason)
        return ["results: not compared"]
    changed = [each for each in found if each.told]
    for each in changed:
        log.report(rules.NUMERICS_CHANGED, at=place, output=each.output, detail=each.told, sample=each.sample)
    count = plural(len(changed), "difference") if changed else "equal"
    return [f"results: {count}", *(worst_of(label, found) for label in samples)]


def arrays_of(path: Path) -> Mapping[str, np.ndarray]:
    """A file of inputs, by the names that the models have."""
    import torch

    from fxport.exporter.weights.arrays import as_array

    return {name: as_array(torch.as_tensor(value)) for name, value in stored_inputs(path).items()}


def worst_of(label: str, found: Sequence[Change]) -> str:
    """The output with the largest difference for its budget on one sample."""
    from fxport.ort_runner.numerics import ulp

    gaps = [(each.gap.ratio, each) for each in found if each.sample == label and each.gap]
    if not gaps:
        return f"  {label}  nothing compared"
    ratio, worst = max(gaps, key=lambda entry: entry[0])
    assert worst.gap is not None
    return f"  {label}  worst difference {worst.gap.worst:.2g} in {worst.output}, {ulp(worst.gap)}{allowed(ratio)}"
