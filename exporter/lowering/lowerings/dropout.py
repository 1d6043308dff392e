"""Dropout in training mode, and the other ops that are random only there."""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.activation import leaky_relu
from fxport.exporter.lowering.lowerings.random_bits import coins, uniform01

aten = torch.ops.aten

SATURATION = 1.7580993408473766
"""Minus the value that SELU tends to below: what alpha dropout sets elements to."""


@lowering(aten.dropout.default)
def dropout(op: Op, x: Value, p: float, train: bool) -> Value:
    """dropout(Tensor input, float p, bool train) -> Tensor"""
    return native_dropout(op, x, p, train)[0]


@lowering(aten.native_dropout.default)
def native_dropout(op: Op, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)

    By the mask: ONNX Runtime drops a Dropout whose mask nobody reads, in training mode too. Its ratio is below 1.
    """
    if train is False or p == 0:
        return x, op.ConstantOfShape(op.shape(op.sizes(x)), value=np.array([True]))
    if p == 1:
        return op.Mul(x, 0), op.ConstantOfShape(op.shape(op.sizes(x)), value=np.array([False]))
    mask = coins(op, op.sizes(x), 1.0 - p)
    return op.Mul(x, op.Div(op.Cast(mask, to=x.dtype), 1.0 - p)), mask


@lowering(aten.feature_dropout.default)
def feature_dropout(op: Op, x: Value, p: float, train: bool) -> Value:
    """feature_dropout(Tensor input, float p, bool train) -> Tensor"""
    if not train or p == 0:
        return x
    kept = op.Cast(_features(op, x, p), to=x.dtype)
    return op.Mul(x, kept) if p == 1 else op.Mul(x, op.Div(kept, 1.0 - p))


@lowering(aten.alpha_dropout.default)
def alpha_dropout(op: Op, x: Value, p: float, train: bool) -> Value:
    """alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _saturated(op, x, coins(op, op.sizes(x), 1.0 - p), p) if train and p else x


@lowering(aten.feature_alpha_dropout.default)
def feature_alpha_dropout(op: Op, x: Value, p: float, train: bool) -> Value:
    """feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _saturated(op, x, _features(op, x, p), p) if train and p else x


def _features(op: Op, x: Value, p: float) -> Value:
    """Draw the mask of the channels that are kept, to be multiplied with `x`."""
    sizes = op.sizes(x)
    return coins(op, [*sizes[:2], *(1 for _ in sizes[2:])], 1.0 - p)


def _saturated(op: Op, x: Value, kept: Value, p: float) -> Value:
    """Dropped elements take the value that SELU saturates at; mean and variance are kept (Klambauer et al., 2017)."""
    if p == 1:
        return op.Mul(x, 0)
    scale = 1.0 / sqrt((SATURATION**2 * p + 1.0) * (1.0 - p))
    shift = SATURATION * scale * p
    return op.Where(kept, op.Add(op.Mul(x, scale), shift), op.const(shift - SATURATION * scale, like=x))


@lowering(aten.rrelu.default)
def rrelu(op: Op, x: Value, lower: Scalar = 0.125, upper: Scalar = 1 / 3, training: bool = False) -> Value:
    """rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, \
Generator? generator=None) -> Tensor"""
    return _sloped(op, x, lower, upper, training)[0]


@lowering(aten.rrelu_with_noise_functional.default)
def rrelu_with_noise(
    op: Op, x: Value, noise: Value, lower: Scalar = 0.125, upper: Scalar = 1 / 3, training: bool = False
) -> tuple[Value, Value]:
    """rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, \
bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)

    The noise is the slope of each element.
    """
    result, slopes = _sloped(op, x, lower, upper, training)
    return result, noise if slopes is None else slopes


def _sloped(op: Op, x: Value, lower: Scalar, upper: Scalar, training: bool) -> tuple[Value, Value | None]:
    if not training:
        return leaky_relu(op, x, (float(lower) + float(upper)) / 2), None
    random = op.Add(op.Mul(uniform01(op, op.sizes(x), op.out.dtype), upper - lower), lower)
    slopes = op.Where(op.LessOrEqual(x, 0.0), random, op.const(1.0, like=x))
    return op.Mul(x, slopes), slopes
