"""Fake quantization of quantization-aware training: observers in the graph, and the gradients of learned grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

SMALLEST = 6.1e-5
"""The smallest scale that PyTorch chooses; its reciprocal is a float16."""


def observed(
    x: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, ...]:
    """A moving average of the range, where that is switched on; a grid for it, and `x` in that grid, where this is.

    Returns:
        `x` in the grid; where its gradient passes; then the range, the scale and the zero point after this call.
    """
    watching = observer_on.reshape(-1)[:1] != 0
    rounding = fake_quant_on.reshape(-1)[:1].to(torch.int64)
    rows = x.movedim(ch_axis, 0).flatten(1) if per_row_fake_quant else x.reshape(1, -1)
    low = torch.where(watching, _moved(running_min, rows.amin(1), averaging_const), running_min.reshape(-1))
    high = torch.where(watching, _moved(running_max, rows.amax(1), averaging_const), running_max.reshape(-1))
    new_scale, new_zero = _grid(low, high, quant_min, quant_max, symmetric=symmetric_quant)
    scale = torch.where(rounding != 0, new_scale.to(scale.dtype), scale)
    zero_point = torch.where(rounding != 0, new_zero.to(zero_point.dtype), zero_point)
    shape = [-1 if per_row_fake_quant and axis == ch_axis % x.dim() else 1 for axis in range(x.dim())]
    steps, zero = scale.reshape(shape), zero_point.reshape(shape)
    place = zero + torch.round(x * (1 / steps))
    nearest = place.clamp(quant_min, quant_max)
    y = torch.where(rounding != 0, (nearest - zero) * steps, x)
    mask = (place == nearest) | (rounding == 0)
    return y, mask, low.reshape(running_min.shape), high.reshape(running_max.shape), scale, zero_point


def _moved(running: Tensor, found: Tensor, share: float) -> Tensor:
    """The moving average of a bound; the first one seen where there is none yet."""
    found, running = found.to(running.dtype), running.reshape(-1)
    return torch.where(torch.isinf(running), found, running + share * (found - running))


def _grid(low: Tensor, high: Tensor, quant_min: int, quant_max: int, *, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Scales and zero points by which 0 is on the grid, as `ChooseQuantizationParams` has them, in float64."""
    low, high = torch.clamp(low, max=0.0).double(), torch.clamp(high, min=0.0).double()
    centred = (low < 0) & (high > 0)
    if symmetric:
        half = (quant_max - quant_min) // 2
        widest = torch.maximum(low / -(half + 1), high / half)
        low, high = torch.where(centred, -(half + 1) * widest, low), torch.where(centred, half * widest, high)
        low, high = low.float().double(), high.float().double()
    steps = quant_max - quant_min
    scale = ((high - low) / steps).float().double()
    scale = torch.where((scale == 0) | torch.isinf(1 / scale.float()), 0.1, scale)
    small = scale < SMALLEST
    grown = SMALLEST / scale
    low = torch.where(small, torch.where(high == 0, -SMALLEST * steps, low * grown), low)
    high = torch.where(small, torch.where(low == 0, SMALLEST * steps, high * grown), high)
    scale = torch.where(small, SMALLEST, scale)
    by_low, by_high = quant_min - low / scale, quant_max - high / scale
    nearer = abs(quant_min) - (low / scale).abs() < abs(quant_max) - (high / scale).abs()
    zero = torch.where(nearer, by_low, by_high)
    if symmetric:
        zero = torch.where((low < 0) & (high > 0), (quant_min + quant_max) / 2, zero)
    return scale.float(), zero.clamp(quant_min, quant_max).round()


def learned_per_tensor(
    grad: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> tuple[Tensor, ...]:
    """By `x`, the scale and the zero point, of one grid for all of `x`."""
    zero = (zero_point + 0.5).clamp(quant_min, quant_max).trunc()  # PyTorch rounds it otherwise than in the forward
    by_x, by_scale, by_zero = _learned(grad, x, scale, zero, quant_min, quant_max, grad_factor)
    return by_x, by_scale.sum().reshape(1), by_zero.sum().reshape(1)


def learned_per_channel(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, ...]:
    """By `x`, the scales and the zero points, of a grid for each index of `axis`."""
    shape = [-1 if each == axis % x.dim() else 1 for each in range(x.dim())]
    others = [each for each in range(x.dim()) if each != axis % x.dim()]
    zero = zero_point.round().clamp(quant_min, quant_max)
    grids = scale.reshape(shape), zero.reshape(shape)
    by_x, by_scale, by_zero = _learned(grad, x, *grids, quant_min, quant_max, grad_factor)
    return by_x, by_scale.sum(others), by_zero.sum(others)


def _learned(
    grad: Tensor, x: Tensor, scale: Tensor, zero: Tensor, quant_min: int, quant_max: int, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients element by element: Esser et al., "Learned Step Size Quantization" (2020), with a zero point."""
    place = (x * (1 / scale) + zero).round()
    nearest = place.clamp(quant_min, quant_max)
    inside = place == nearest
    by_scale = torch.where(inside, ((nearest - zero) * scale - x) / scale, nearest - zero)
    by_zero = torch.where(inside, 0.0, -scale)
    return torch.where(inside, grad, 0.0), grad * by_scale * factor, grad * by_zero * factor


RULES: Mapping[str, Callable[..., Any]] = {
    "aten._fused_moving_avg_obs_fq_helper_functional.default": observed,
    "aten._fake_quantize_learnable_per_tensor_affine_backward.default": learned_per_tensor,
    "aten._fake_quantize_learnable_per_channel_affine_backward.default": learned_per_channel,
}
