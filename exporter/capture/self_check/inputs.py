"""Calls at which a capture is checked: the example, other sizes of its dynamic dimensions, and drawn values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.strides import laid_out_as
from fxport.exporter.capture.eager import copied
from fxport.exporter.capture.sizes.promises import sized_inputs
from fxport.exporter.capture.sizes.resizing import at_chosen, at_hard_sizes, resized
from fxport.exporter.capture.sizes.shapes import Request
from fxport.fx_passes.program import Program
from fxport.fx_passes.sizes import size_of

Call = tuple[Any, Any]

Sizes = Mapping[Request, int]
"""Sizes of dynamic dimensions."""

DRAWS = 24
"""Drawn calls, at most: they end when every body of control flow has run."""

LEAST = 6
"""Drawn calls, at least."""

FLOATS = ((0.0, 1.0), (0.5, 1.0), (-0.5, 1.0), (0.0, 3.0), (2.0, 0.3), (-2.0, 0.3), (0.0, 0.1))
"""Mean and spread of drawn fractions, one pair for a call."""


def at_sizes(module: torch.nn.Module, call: Call, program: Program) -> Iterator[tuple[str, Call]]:
    """Yield (words, call) at other sizes that the program allows."""
    other = resized(module, call, program)
    if other is not None:
        yield "the example at another size", other
    yield from ((f"the example at the {label} size", found) for label, found in at_hard_sizes(module, call, program))


def at_given(
    module: torch.nn.Module, call: Call, program: Program, several: Iterable[Sizes]
) -> Iterator[tuple[str, Call]]:
    """Yield (words, call) at these sizes."""
    symbols = {position: size_of(size) for position, size in sized_inputs(program)}
    for sizes in several:
        chosen = {symbols[each.input, each.axis]: size for each, size in sizes.items()}
        words = " and ".join(f"{each.label} = {size}" for each, size in sizes.items())
        yield f"the example at {words}", at_chosen(module, call, program, chosen)


def drawn(calls: list[Call]) -> Iterator[tuple[str, Call]]:
    """Yield (words, call) with the sizes of the calls, one after the other, and values drawn anew from fixed seeds."""
    for seed in range(DRAWS):
        generator = torch.Generator().manual_seed(seed)
        mean, spread = FLOATS[seed % len(FLOATS)]

        def values(tensor: Tensor, g: torch.Generator = generator, at: tuple[float, float] = (mean, spread)) -> Tensor:
            return _drawn(tensor, g, *at)

        yield f"values drawn with seed {seed}", pytree.tree_map_only(Tensor, values, copied(calls[seed % len(calls)]))


def _drawn(tensor: Tensor, generator: torch.Generator, mean: float, spread: float) -> Tensor:
    """Draw values for a tensor, which lie in memory as its own do."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    return laid_out_as(tensor, _values(tensor, generator, mean, spread).to(tensor.device, tensor.dtype))


def _values(tensor: Tensor, generator: torch.Generator, mean: float, spread: float) -> Tensor:
    """Draw whole numbers, and fractions that are probabilities, within the range that a tensor has."""
    if tensor.dtype is torch.bool:
        share = torch.rand((), generator=generator)
        return torch.rand(tensor.shape, generator=generator) < share
    if tensor.is_floating_point() or tensor.is_complex():
        values = torch.randn(tensor.shape, generator=generator, dtype=torch.promote_types(tensor.dtype, torch.float32))
        return values * spread + mean
    low, high = int(tensor.min()), int(tensor.max())
    if low == high:  # a lone number, or a mask without effect
        low, high = (0, max(high, 1)) if low >= 0 else (low, 0)
    high = min(high, low + torch.iinfo(torch.int32).max, torch.iinfo(torch.int64).max - 1)
    return torch.randint(low, high + 1, tensor.shape, generator=generator)
