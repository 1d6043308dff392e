"""Samples with dynamic sizes, and their inputs at other sizes of the dimensions that an export keeps dynamic."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir
import torch

from tests.conformance.samples import Sample

GROWN_BY = (1, 3)
"""By how much the sizes of the example are made larger: from even to odd, and further than most windows reach."""


def with_dynamic_sizes(sample: Sample) -> Sample:
    """The sample with every size of 2 or more dynamic, as far as the operator lets it be."""
    auto = torch.export.Dim.AUTO
    sizes = ({axis: auto for axis, size in enumerate(tensor.shape) if size > 1} for tensor in sample.tensors)
    sample.dynamic_shapes = {"tensors": tuple(sizes)} if sample.tensors else None
    return sample


def at_other_sizes(
    inputs: tuple[torch.Tensor, ...], model: ir.Model, limited: Collection[str]
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the inputs with other sizes of the dynamic dimensions, their elements drawn from those of the example.

    Args:
        inputs: The example.
        model: The exported model, in which dimensions that are tied have one name.
        limited: Names of dimensions that keep their size: the export has told that not all others are right.
    """
    shapes = [value.shape for value in model.graph.inputs if not value.is_initializer()]
    names = [[dim.value if isinstance(dim, ir.SymbolicDim) else None for dim in shape or ()] for shape in shapes]
    named = {name for each in names for name in each if name is not None}
    if not named - set(limited) or not all(map(_is_plain, named)):  # a formula is a size of its own to solve for
        return
    for seed, grown in enumerate(GROWN_BY):
        sizes: dict[str, int] = {}
        for tensor, each in zip(inputs, names, strict=True):
            for name, size in zip(each, tensor.shape, strict=False):
                if name is not None:
                    sizes.setdefault(name, size if name in limited else size + grown)
        generator = torch.Generator().manual_seed(seed)
        yield tuple(
            # the input of a complex tensor may have an axis more, for two numbers
            _drawn(
                tensor, [sizes.get(name or "", size) for name, size in zip(each, tensor.shape, strict=False)], generator
            )
            for tensor, each in zip(inputs, names, strict=True)
        )


def _is_plain(name: str) -> bool:
    return all(part.isalnum() or part.isidentifier() for part in name.split("."))


def _drawn(tensor: torch.Tensor, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    """Elements of a tensor at random: indices and probabilities stay such, and no two floats are equal."""
    if list(tensor.shape) == shape:
        return tensor
    if not tensor.numel():
        return tensor.new_zeros(shape)
    drawn = tensor.reshape(-1)[torch.randint(tensor.numel(), shape, generator=generator)]
    if not drawn.is_floating_point():
        return drawn
    return drawn * (1 - 1e-5 * torch.arange(drawn.numel(), dtype=drawn.dtype).reshape(shape))
