"""Batch normalization, with statistics that are given or computed from the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.axes import product

aten = torch.ops.aten

FLOAT, UINT8 = ir.DataType.FLOAT, ir.DataType.UINT8


@lowering(aten.batch_norm.default)
def batch_norm(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor

    Its updates of the running statistics, which the schema does not tell of, are made explicit before the lowering.
    """  # noqa: E501
    if 0 in op.sizes(x):
        return x  # of whatever rank, and whether the statistics fit or not
    if training or running_mean is None or running_var is None:
        return _normalize(op, x, weight, bias, _statistics(op, x), eps)
    return inference(op, x, weight, bias, running_mean, running_var, eps)


@lowering(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""  # noqa: E501
    if not training:
        kept = (op.cast(each, out.dtype) for each, out in zip((running_mean, running_var), op.outs[-2:], strict=True))
        return (*_given(op, x, weight, bias, running_mean, running_var, eps), *kept)
    batch = _statistics(op, x)
    return (
        _normalize(op, x, weight, bias, batch, eps),
        *_saved(op, batch, eps),
        *_updated(op, batch, running_mean, running_var, momentum),
    )


@lowering(aten.native_batch_norm.default)
def native_batch_norm(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)

    As with batch_norm, its updates of the running statistics are made explicit before.
    """  # noqa: E501
    if training or running_mean is None or running_var is None:
        return batch_norm_no_stats(op, x, weight, bias, True, momentum, eps)
    return _given(op, x, weight, bias, running_mean, running_var, eps)


@lowering(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return _given(op, x, weight, bias, running_mean, running_var, eps)


@lowering(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    op: Op, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, Value, Value]:
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    batch = _statistics(op, x)
    return (_normalize(op, x, weight, bias, batch, eps), *_saved(op, batch, eps))


@lowering(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)

    The fourth result is cuDNN's workspace, empty on the CPU.
    """  # noqa: E501
    y, mean, invstd, *running = batch_norm_functional(
        op, x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (y, mean, invstd, op.const([], dtype=UINT8), *running)


@lowering(aten._batch_norm_no_update.default)
def batch_norm_no_update(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    if running_mean is None or running_var is None:
        results = batch_norm_no_stats(op, x, weight, bias, False, momentum, eps)
    else:
        results = _given(op, x, weight, bias, running_mean, running_var, eps)
    return (*results, op.const([], dtype=UINT8))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a batch: mean and biased variance of each channel, [C], and how many elements they are taken over."""

    mean: Value
    var: Value
    count: Size


def _statistics(op: Op, x: Value) -> Statistics:
    """Halves are summed in float32, as PyTorch does.

    ONNX's BatchNormalization in training mode would give the variance biased, where PyTorch keeps it unbiased.
    """
    sizes = op.sizes(x)
    axes = [0, *range(2, len(sizes))]
    wide = op.cast(x, FLOAT) if x.dtype in HALVES else x
    mean = op.ReduceMean(wide, axes)
    centered = op.Sub(wide, mean)
    var = op.ReduceMean(op.Mul(centered, centered), axes, keepdims=0)
    return Statistics(op.reshape(mean, [sizes[1]]), var, product([sizes[axis] for axis in axes]))


def _normalize(op: Op, x: Value, weight: Value | None, bias: Value | None, batch: Statistics, eps: float) -> Value:
    return inference(op, x, weight, bias, batch.mean, batch.var, eps)


def inference(op: Op, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float) -> Value:
    """BatchNormalization by statistics as they are; ONNX Runtime folds it into a convolution before it."""
    channels = [op.sizes(x)[1]]
    dtype = next((each.dtype for each in (weight, bias) if each is not None), mean.dtype)
    scale = parameter(op, weight, 1.0, channels, dtype)
    shift = parameter(op, bias, 0.0, channels, dtype)
    if var.dtype == ir.DataType.DOUBLE:  # the attribute is float32: what that lacks goes to the variance
        var = op.Add(var, eps - float(np.float32(eps)))
    return op.BatchNormalization(x, scale, shift, mean, var, epsilon=eps)


def _given(
    op: Op, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float
) -> tuple[Value, Value, Value]:
    """Normalized by given statistics. What PyTorch saves for the backward pass is then empty on the CPU."""
    y = inference(op, x, weight, bias, mean, var, eps)
    if op.outs[1].sizes == (0,):
        return y, op.const([], dtype=op.outs[1].dtype), op.const([], dtype=op.outs[2].dtype)
    return (y, *_saved(op, Statistics(mean, var, 1), eps))


def _saved(op: Op, batch: Statistics, eps: float) -> tuple[Value, Value]:
    """The mean and 1 / standard deviation, as kept for the backward pass."""
    invstd = op.Reciprocal(op.Sqrt(op.Add(batch.var, eps)))
    return op.cast(batch.mean, op.outs[1].dtype), op.cast(invstd, op.outs[2].dtype)


def _updated(op: Op, batch: Statistics, mean: Value, var: Value, momentum: float) -> tuple[Value, Value]:
    """The running statistics after this batch; the variance counts as unbiased, by n / (n - 1)."""
    count = op.const(batch.count, like=batch.var)
    unbiased = op.Mul(batch.var, op.Div(count, op.Sub(count, 1.0)))

    def blend(old: Value, new: Value, dtype: ir.DataType) -> Value:
        return op.cast(op.Add(op.Mul(op.const(old, like=new), 1.0 - momentum), op.Mul(new, momentum)), dtype)

    new_mean, new_var = op.outs[-2:]
    return blend(mean, batch.mean, new_mean.dtype), blend(var, unbiased, new_var.dtype)


def parameter(op: Op, given: Value | None, otherwise: float, sizes: Sequence[Size], dtype: ir.DataType | None) -> Value:
    """A weight or bias in a dtype; where it is None, what it then stands for, at these sizes."""
    if given is None:
        return op.Expand(op.const(otherwise, dtype=dtype), op.shape(sizes))
    return op.const(given, dtype=dtype)
