"""`grid_sampler` in two and three dimensions by plain arithmetic and one gather, so that it has a derivative."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
SHARPNESS = -0.75
"""PyTorch's coefficient of cubic convolution (Keys, 1981)."""

Neighbours = list[tuple[Tensor, Tensor]]
"""Of one axis: whole places with their weights."""


def sampled(x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> Tensor:
    """[n, c, *out] from the pictures [n, c, *sizes] at the places [n, *out, axes] in -1 to 1, the last axis first."""
    sizes = x.shape[2:]
    axes: list[Neighbours] = []
    for axis, size in enumerate(sizes):
        place = _unnormalized(grid[..., len(sizes) - 1 - axis], size, align_corners)
        if interpolation != CUBIC:  # of a cubic, each neighbour is brought into the picture by itself
            place = _inside(place, size, padding, align_corners)
        axes.append(_neighbours(place, interpolation))
    y: Any = 0
    for corner in itertools.product(*axes):
        weight = torch.ones_like(grid[..., 0])
        places = []
        for (place, part), size in zip(corner, sizes, strict=True):
            place = _inside(place, size, padding, align_corners) if interpolation == CUBIC else place
            held = (place >= 0) & (place <= size - 1)
            weight = torch.where(held, weight * part, 0.0)
            places.append(torch.where(held, place, 0.0).to(torch.int64))
        y = y + _gathered(x, places) * weight.unsqueeze(1)
    return y


def _gathered(x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """[n, c, *out] of [n, c, *sizes] at the places [n, *out] of each axis."""
    flat = places[0]
    for size, place in zip(x.shape[3:], places[1:], strict=True):
        flat = flat * size + place
    index = flat.reshape(x.shape[0], 1, -1).expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, index).reshape(*x.shape[:2], *places[0].shape[1:])


def _unnormalized(place: Tensor, size: Any, align_corners: bool) -> Tensor:
    return (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) / 2


def _inside(place: Tensor, size: Any, padding: int, align_corners: bool) -> Tensor:
    """A place brought into the picture, as the padding asks; with zeros it stays where it is."""
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return torch.zeros_like(place)
        away = (place - low).abs()
        rest = away - (away / span).detach().floor() * span
        turns = (away / span).detach().floor()
        place = torch.where(turns.remainder(2) == 0, rest + low, span - rest + low)
    return place if padding == ZEROS else place.clamp(0, size - 1)


def _neighbours(place: Tensor, interpolation: int) -> Neighbours:
    if interpolation == NEAREST:
        return [(place.detach().round(), torch.ones_like(place))]
    below = place.detach().floor()
    t = place - below
    if interpolation == LINEAR:
        return [(below, 1 - t), (below + 1, t)]
    return [(below + step, _cubic((t - step).abs(), far=step in (-1, 2))) for step in (-1, 0, 1, 2)]


def _cubic(distance: Tensor, far: bool) -> Tensor:
    a, d = SHARPNESS, distance
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if far else ((a + 2) * d - (a + 3)) * d * d + 1
