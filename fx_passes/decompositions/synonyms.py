"""Operators that are others by another name or in one step, as PyTorch's fast paths and newer kernels have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def add_relu(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    return torch.relu(aten.add(x, other, alpha=alpha))


def trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The sum of a product over some axes; `expand` are the axes of the product that an operand lacks."""
    operands = []
    for x, missing in ((a, expand1), (b, expand2), (c, expand3)):
        for dim in sorted(missing):
            x = x.unsqueeze(dim)
        operands.append(x)
    product = operands[0] * operands[1] * operands[2]
    return product.sum(list(sumdim)) if sumdim else product


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of [time, batch, channels] by [width, channels, channels]."""
    return aten.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, [1], [pad]).permute(2, 0, 1)


def convolution(*arguments: Any) -> Tensor:
    """The last arguments choose among kernels of one device."""
    return aten.convolution(*arguments[:9])


def weight_int8pack_mm(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """x @ (weight · scales).T, where each row of INT8 weights has a scale."""
    return torch.mm(x, weight.to(x.dtype).t()) * scales


def scaled_mm(
    x: Tensor,
    other: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """A product of FLOAT8 matrices that are scaled as a whole, or by rows and columns, summed in FLOAT."""
    y = torch.mm(x.float() * scale_a, other.float() * scale_b)
    y = y if bias is None else y + bias.float()
    return (y if scale_result is None else y * scale_result).to(out_dtype or x.dtype)


def product_in(x: Tensor, other: Tensor, out_dtype: torch.dtype) -> Tensor:
    return torch.matmul(x.to(out_dtype), other.to(out_dtype))


def fake_quantize_per_tensor(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """With a scale and a zero point that are learned: the zero point is rounded first."""
    zero = _rounded(zero_point, quant_min, quant_max)
    return aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        x, scale, zero, torch.ones(1, dtype=torch.int32, device=x.device), quant_min, quant_max
    )[0]


def fake_quantize_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    zero = _rounded(zero_point, quant_min, quant_max)
    return aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, axis, quant_min, quant_max)[0]


def _rounded(zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    return zero_point.round().clamp(quant_min, quant_max).to(torch.int32)


def reduced(target: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A `prims` reduction, which names all axes that it reduces and the dtype of its result."""

    def reduce(x: Tensor, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None = None) -> Tensor:
        axes = list(range(x.dim())) if dims is None else list(dims)
        y = target(x, axes) if axes else x
        return y if output_dtype is None else y.to(output_dtype)

    return reduce


def narrow(x: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    """From a place on that only the data tells; a negative one counts from the end."""
    places = start.to(torch.int64) + torch.arange(length, device=x.device)
    return x.index_select(dim, torch.where(start < 0, places + x.shape[dim], places))


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [length, …], whose lengths may be data, as one tensor: padding stands behind or before each."""
    longest: Any = reduce(torch.sym_max, (each.shape[0] for each in sequences))
    is_known, is_behind = isinstance(longest, int), padding_side == "right"
    padded = []
    for each in sequences:
        missing = longest - each.shape[0] if is_known else longest  # more than enough, so that no sizes are compared
        rows = [each, each.new_full((missing, *each.shape[1:]), padding_value)]
        whole = torch.cat(rows if is_behind else rows[::-1])
        if not is_known:
            places = torch.arange(longest, device=each.device)
            whole = whole.index_select(0, places if is_behind else places + each.shape[0])
        padded.append(whole)
    return torch.stack(padded, 0 if batch_first else 1)


def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    return aten._unique2(x, sorted, return_inverse)[:2]


RULES: Mapping[str, Callable[..., Any]] = {
    "aten._unique.default": unique,
    "aten._is_all_true.default": torch.all,
    "aten._is_any_true.default": torch.any,
    "aten.narrow.Tensor": narrow,
    "aten.pad_sequence.default": pad_sequence,
    "aten._add_relu.Tensor": add_relu,
    "aten._add_relu.Scalar": add_relu,
    "aten._trilinear.default": trilinear,
    "aten.conv_tbc.default": conv_tbc,
    "aten._convolution.default": convolution,
    "aten._convolution.deprecated": convolution,
    "aten._weight_int8pack_mm.default": weight_int8pack_mm,
    "aten._scaled_mm.default": scaled_mm,
    "aten.mm.dtype": product_in,
    "aten.bmm.dtype": product_in,
    "aten._fake_quantize_learnable_per_tensor_affine.default": fake_quantize_per_tensor,
    "aten._fake_quantize_learnable_per_channel_affine.default": fake_quantize_per_channel,
    "prims.amax.default": reduced(torch.amax),
    "prims.amin.default": reduced(torch.amin),
    "prims.sum.default": reduced(torch.sum),
}
