"""A part of a model that stands on its own: a few nodes with their weights, and PyTorch's operands and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import load_external_data_for_tensor
from onnx.reference import ReferenceEvaluator

from fxport.ort_runner.samples import Samples
from fxport.ort_runner.trials import differs

LARGEST_EVALUATED = 1 << 21
"""Elements of operands and weights up to which ONNX's evaluator in Python is asked: it is slow."""


@dataclass(frozen=True, slots=True)
class Part:
    """A model with the inputs and outputs that PyTorch has at its ends. All weights are in `model`."""

    model: onnx.ModelProto
    samples: Samples

    def elements(self) -> int:
        """Number of elements of the part's inputs and weights."""
        weights = sum(int(np.prod(tensor.dims, dtype=np.int64)) for tensor in self.model.graph.initializer)
        return weights + sum(array.size for array in self.samples.inputs.values())


def part_of(model: onnx.ModelProto, samples: Samples, folder: Path) -> Part:
    """The part with its weights read from the files in `folder`, and only the inputs that it has.

    Raises ValueError where the sample lacks one that has no value of its own, as a state has.
    """
    for tensor in model.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = tensor.DEFAULT
            del tensor.external_data[:]
    names = [value.name for value in model.graph.input]
    held = {tensor.name for tensor in model.graph.initializer}
    unknown = [name for name in names if name not in samples.inputs and name not in held]
    if unknown:
        raise ValueError(f"the sample has no value for input '{unknown[0]}'")
    inputs = {name: samples.inputs[name] for name in names if name in samples.inputs}
    return Part(model, Samples(samples.label, inputs, samples.outputs, samples.exact))


def kernel_is_wrong(part: Part) -> bool:
    """Return True if ONNX's reference evaluator gives PyTorch's values for the part, so that the kernel is wrong.

    False where ONNX's own evaluator cannot tell.
    """
    outputs = by_the_standard(part)
    exact = part.samples.exact or {}
    want = part.samples.outputs
    return outputs is not None and not any(differs(want[name], outputs[name], exact.get(name)) for name in want)


def by_the_standard(part: Part) -> Mapping[str, np.ndarray] | None:
    """The outputs by ONNX's evaluator; None for what it cannot do, or not in time."""
    if part.elements() > LARGEST_EVALUATED:
        return None
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(part.model).run(None, dict(part.samples.inputs))
    except Exception:  # noqa: BLE001 - it raises its own kinds, and numpy's, for operators and types that it lacks
        return None
    names = [value.name for value in part.model.graph.output]
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}
