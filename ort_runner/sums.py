"""Error allowance for long sums: kernels of ONNX Runtime that add up one number after the other.

PyTorch adds in blocks, and its error hardly grows with the length n of a sum. ONNX Runtime's normalisation over space,
norms of long rows, reductions and cumulative sums keep a running total, whose rounding errors grow as sqrt(n): 39
rounding units for an instance norm over 50,000 pixels where PyTorch has 3 (1.31 on a CPU, float32, uniform values). No
fault of the export.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from fxport.ort_runner.model_file import ModelFile, read_shapes
from fxport.ort_runner.session import Dim, Port

UNITS_PER_ROOT = 0.5
SHORTEST = 1024  # the floor of the budget covers shorter sums
LONG_ROW = 8192  # of norms over rows, which keep several totals: the floor covers more of them

Shape = tuple[int, ...]
PartOfShape = tuple[int | None, ...]

ROW_NORMS = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})


def _ratio(before: Shape, after: Shape) -> int:
    return math.prod(before) // max(math.prod(after), 1)


def _space(before: Shape, _after: Shape) -> int:
    return math.prod(before[2:])


def _sample(before: Shape, _after: Shape) -> int:
    return math.prod(before[1:])


def _longest(before: Shape, _after: Shape) -> int:
    return max(before, default=1)


def _long_row(before: PartOfShape | None, scale: PartOfShape | None) -> int:
    """The length of the rows of a norm where it is long: the last dimension, or what its scale has; 0 if unknown."""
    lengths = (shape[-1] for shape in (before, scale) if shape)
    length = next((each for each in lengths if each is not None), 0)
    return length if length >= LONG_ROW else 0


# The length of the sums of a node, from the shapes of its first input and output.
LENGTHS: Mapping[str, Callable[[Shape, Shape], int]] = MappingProxyType(
    {
        "InstanceNormalization": _space,
        "GroupNormalization": _sample,
        "GlobalAveragePool": _ratio,
        "ReduceSum": _ratio,
        "ReduceMean": _ratio,
        "ReduceL1": _ratio,
        "ReduceL2": _ratio,
        "ReduceSumSquare": _ratio,
        "CumSum": _longest,
    }
)


def allowance(model: ModelFile, ports: tuple[Port, ...], inputs: Mapping[str, np.ndarray]) -> float:
    """Rounding units of float32 granted to a run of the model on these inputs.

    The errors of several sums are independent, so their squares add up. Where a shape is not declared, or has a name
    that no input gives a size, the sum is taken to be as long as the largest input; but a norm over rows, of which a
    model has one in each layer, is granted nothing then.
    """
    nodes = [node for node in model.nodes if node.op in LENGTHS.keys() | ROW_NORMS and node.inputs]
    if not nodes:
        return 0.0
    sizes = {
        dim: size
        for port in ports
        if port.name in inputs
        for dim, size in zip(port.shape, inputs[port.name].shape, strict=False)
        if isinstance(dim, str)
    }
    shapes = {port.name: port.shape for port in ports} | read_shapes(model.path)
    largest = max((array.size for array in inputs.values()), default=1)
    total = 0
    for node in nodes:
        if node.op in ROW_NORMS:
            length = _long_row(*(_sized(shapes.get(name), sizes) for name in (*node.inputs, "")[:2]))
        else:
            before, after = (_whole(_sized(shapes.get(name), sizes)) for name in (node.inputs[0], node.outputs[0]))
            length = largest if before is None or after is None else LENGTHS[node.op](before, after)
        total += length if length >= SHORTEST else 0
    return UNITS_PER_ROOT * math.sqrt(total)


def _sized(shape: tuple[Dim, ...] | None, sizes: Mapping[str, int]) -> PartOfShape | None:
    return None if shape is None else tuple(sizes.get(dim) if isinstance(dim, str) else dim for dim in shape)


def _whole(shape: PartOfShape | None) -> Shape | None:
    """Return a shape of which every dimension is known, else None."""
    known = tuple(dim for dim in shape or () if dim is not None)
    return known if shape is not None and len(known) == len(shape) else None
