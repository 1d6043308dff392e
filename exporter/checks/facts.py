"""Facts of a checked model as plain JSON, for transfer between processes and for the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fxport.exporter.validation.differences import contract_of, operators_of

if TYPE_CHECKING:
    from fxport.exporter.validation.one import Checked
    from fxport.ort_runner import SampleResult


@dataclass(frozen=True, slots=True)
class Sample:
    """One comparison: the output that is worst for its budget, its error, and that in parts of the budget."""

    label: str
    passed: bool
    output: str
    error: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Facts:
    """A model that was made. `inputs` and `outputs` are its contract: name → "float32 [batch, 3]".

    `bytes` are those of the files, `weights` those of the weights in them. `modules` has the number of nodes by the
    path of the nn.Module that they come from, "" for the model itself. `latency` and `eager` are seconds of a run, in
    ONNX Runtime and in eager PyTorch; None where it was not timed.
    """

    opset: int
    nodes: int
    bytes: int
    weights: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    operators: Mapping[str, int]
    modules: Mapping[str, int]
    provider: str | None = None
    samples: Sequence[Sample] = field(default_factory=tuple)
    latency: float | None = None
    eager: float | None = None

    @property
    def error(self) -> float | None:
        """The largest error in parts of its budget."""
        return max((sample.ratio for sample in self.samples), default=None)

    @property
    def slowdown(self) -> float | None:
        """Time of a run in parts of eager PyTorch's."""
        return None if self.latency is None or not self.eager else self.latency / self.eager


def facts_of(checked: Checked, latency: float | None, eager: float | None) -> Facts:
    """Everything that reports show of a model."""
    from fxport.exporter.onnx_program.described import count_nodes
    from fxport.exporter.onnx_program.save import weight_bytes

    model, validation = checked.program.model, checked.validation
    return Facts(
        opset=model.opset_imports[""],
        nodes=count_nodes(model),
        bytes=sum(file.stat().st_size for file in checked.files),
        weights=weight_bytes(model),
        inputs=contract_of(model.graph.inputs),
        outputs=contract_of(model.graph.outputs),
        operators=dict(sorted(operators_of(model).items())),
        modules=dict(sorted(modules_of(checked).items())),
        provider=validation.provider if validation else None,
        samples=tuple(map(sample_of, steady(validation.samples))) if validation else (),
        latency=latency,
        eager=eager,
    )


def steady(samples: Sequence[SampleResult]) -> Sequence[SampleResult]:
    """Return the samples that every run has, and others only if they failed: a baseline holds the errors by name."""
    return [each for each in samples if not (each.is_extra and each.passed)]


def modules_of(checked: Checked) -> Counter[str]:
    """Nodes by the path of their nn.Module, from the provenance in the file."""
    from fxport.ort_runner.model_file import read_model_file

    file = read_model_file(checked.path)
    indices = [node.place for node in file.nodes]
    known = (file.places[index] if index is not None and index < len(file.places) else None for index in indices)
    return Counter((place.module or "") if place else "" for place in known)


def sample_of(result: SampleResult) -> Sample:
    name, gap = max(result.gaps.items(), key=lambda entry: entry[1].ratio, default=("", None))
    worst, ratio = (float(gap.worst), float(gap.ratio)) if gap else (0.0, 0.0)
    return Sample(result.label, result.passed, name, worst, ratio)


def from_json(data: Mapping[str, Any]) -> Facts:
    """Restore facts from the result of `dataclasses.asdict`. Raises TypeError for anything else."""
    return Facts(**{**data, "samples": tuple(Sample(**each) for each in data["samples"])})
