"""Layer, group, instance and RMS normalization."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.batch_norm import inference, parameter

aten = torch.ops.aten

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
RMS_OPSET = 23


@lowering(aten.layer_norm.default)
def layer_norm(
    op: Op,
    x: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor"""  # noqa: E501
    return _layer_norm(op, x, normalized_shape, weight, bias, eps, 1)[0]


@lowering(aten.native_layer_norm.default)
def native_layer_norm(
    op: Op, x: Value, normalized_shape: Sequence[Size], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)

    LayerNormalization gives mean and 1 / standard deviation in float32, so those of float64 are computed beside it.
    """  # noqa: E501
    y, mean, rstd = _layer_norm(op, x, normalized_shape, weight, bias, eps, 3)
    if x.dtype == DOUBLE:
        mean, rstd = _moments(op, x, [-axis for axis in range(len(normalized_shape), 0, -1)], eps)
    return y, op.cast(mean, op.outs[1].dtype), op.cast(rstd, op.outs[2].dtype)


def _layer_norm(
    op: Op,
    x: Value,
    sizes: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    outputs: int,
) -> tuple[Value, ...]:
    """LayerNormalization over the last axes, in float32 where dtypes are mixed; its statistics are float32 always."""
    dtype = _meeting(x, weight, bias)
    if 0 in op.sizes(x) and outputs == 1:  # of which ONNX Runtime takes none
        return (op.cast(x, op.out.dtype),)
    if dtype == DOUBLE and outputs == 1:
        y = _standardized(op, x, [*range(-len(sizes), 0)], eps)
        y = y if weight is None else op.Mul(y, weight)
        return (y if bias is None else op.Add(y, bias),)
    y, *statistics = op.LayerNormalization(
        op.cast(x, dtype),
        parameter(op, weight, 1.0, sizes, dtype),
        *([op.cast(bias, dtype)] if bias is not None else []),
        axis=-len(sizes),
        epsilon=eps,
        outputs=outputs,
    )
    return (op.cast(y, op.out.dtype), *statistics)


def _meeting(x: Value, *parameters: Value | None) -> ir.DataType:
    """The dtype to compute in: that of `x`, or float32 where a parameter of a half-precision `x` is wider."""
    assert x.dtype is not None
    mixed = any(each is not None and each.dtype != x.dtype for each in parameters)
    return FLOAT if mixed and x.dtype in HALVES else x.dtype


def _moments(op: Op, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """Mean and 1 / standard deviation over some axes, which stay as axes of 1."""
    mean = op.ReduceMean(x, axes)
    centered = op.Sub(x, mean)
    return mean, op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(centered, centered), axes), eps)))


@lowering(aten.group_norm.default)
def group_norm(
    op: Op,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor"""  # noqa: E501
    return _group_norm(op, x, num_groups, weight, bias, eps, 1)[0]


@lowering(aten.native_group_norm.default)
def native_group_norm(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    N: Size,
    C: Size,
    HxW: Size,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    y, mean, rstd = _group_norm(op, x, group, weight, bias, eps, 3)
    if x.dtype == DOUBLE:
        mean, rstd = _moments(op, _grouped(op, x, group), [-1], eps)
    mean, rstd = (op.Squeeze(each, [-1]) for each in (mean, rstd))
    return y, op.cast(mean, op.outs[1].dtype), op.cast(rstd, op.outs[2].dtype)


def _group_norm(
    op: Op, x: Value, groups: Size, weight: Value | None, bias: Value | None, eps: float, outputs: int
) -> tuple[Value, ...]:
    """Each group as one row of a LayerNormalization.

    ONNX Runtime has no kernel for GroupNormalization on the CPU, and one for InstanceNormalization in float32 alone,
    which also is slower. Halves are computed in float32 as far as weight and bias reach, as PyTorch does.
    """
    sizes = op.sizes(x)
    if 0 in sizes and outputs == 1:
        return (op.cast(x, op.out.dtype),)
    affine = weight is not None or bias is not None
    dtype = FLOAT if affine and x.dtype in HALVES else x.dtype
    rows = _grouped(op, op.typed(op.const(x, dtype=dtype), sizes), groups)
    if dtype == DOUBLE and outputs == 1:
        y, statistics = _standardized(op, rows, [-1], eps), []
    else:
        y, *statistics = op.LayerNormalization(
            rows, parameter(op, None, 1.0, op.sizes(rows)[-1:], dtype), axis=-1, epsilon=eps, outputs=outputs
        )
    y = op.reshape(y, sizes)
    for apply, each in ((op.Mul, weight), (op.Add, bias)):
        if each is not None:
            each = op.const(each, dtype=dtype)
            y = apply(y, op.Unsqueeze(each, [*range(1, len(sizes) - 1)]) if len(sizes) > 2 else each)
    return (op.cast(y, op.out.dtype), *statistics)


def _standardized(op: Op, x: Value, axes: Sequence[int], eps: float) -> Value:
    """Less the mean, over the standard deviation: LayerNormalization has eps as a float32, which float64 shows."""
    centred = op.Sub(x, op.ReduceMean(x, [*axes]))
    variance = op.ReduceMean(op.Mul(centred, centred), [*axes])
    return op.typed(op.Div(centred, op.Sqrt(op.Add(variance, eps))), op.sizes(x))


def _grouped(op: Op, x: Value, groups: Size) -> Value:
    """`x`, [N, C, …], as rows of what is normalized together: [N, groups, C / groups × …]."""
    batch, channels, *rest = op.sizes(x)
    return op.reshape(x, [batch, groups, product([channels // groups, *rest])])


@lowering(aten.instance_norm.default)
def instance_norm(
    op: Op,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""  # noqa: E501
    if not use_input_stats and running_mean is not None and running_var is not None:
        return inference(op, x, weight, bias, running_mean, running_var, eps)
    if x.dtype == DOUBLE:  # for which ONNX Runtime has no InstanceNormalization
        return _group_norm(op, x, op.sizes(x)[1], weight, bias, eps, 1)[0]
    channels, dtype = [op.sizes(x)[1]], _meeting(x, weight, bias)
    scale, shift = parameter(op, weight, 1.0, channels, dtype), parameter(op, bias, 0.0, channels, dtype)
    y = op.InstanceNormalization(_without_offset(op, op.cast(x, dtype)), scale, shift, epsilon=eps)
    return op.cast(y, op.out.dtype)


def _without_offset(op: Op, x: Value) -> Value:
    """Less the mean over space, so that the kernel's own sum starts near 0.

    It has one running total: over 256 x 256 pixels at an offset of 100 it is twelve times as far off as PyTorch.
    """
    return op.Sub(x, op.ReduceMean(x, [*range(2, op.rank(x))]))


@lowering(aten.rms_norm.default)
def rms_norm(
    op: Op,
    x: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor

    RMSNormalization from opset 23 on; below, the chain of nodes that ONNX Runtime fuses into its own
    SimplifiedLayerNormalization.
    """
    if 0 in op.sizes(x):
        return op.cast(x, op.out.dtype)
    eps = _rms_eps(x, eps)
    dtype = _meeting(x, weight)
    if op.opset >= RMS_OPSET and dtype != DOUBLE:
        scale = parameter(op, weight, 1.0, normalized_shape, dtype)
        y = op.RMSNormalization(op.cast(x, dtype), scale, axis=-len(normalized_shape), epsilon=eps)
        return op.cast(y, op.out.dtype)
    wide = op.cast(x, FLOAT) if x.dtype in HALVES else x
    y = op.Div(wide, _root_mean_square(op, wide, len(normalized_shape), eps))
    if weight is not None:
        y = op.Mul(y, op.const(weight, like=y))
    return op.cast(y, op.out.dtype)


@lowering(aten._fused_rms_norm.default)
def fused_rms_norm(
    op: Op, x: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    """_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    wide = op.cast(x, FLOAT) if x.dtype in HALVES else x
    root = _root_mean_square(op, wide, len(normalized_shape), _rms_eps(x, eps))
    return rms_norm(op, x, normalized_shape, weight, eps), op.cast(op.Reciprocal(root), op.outs[1].dtype)


def _root_mean_square(op: Op, x: Value, axes: int, eps: float) -> Value:
    """Written so that ONNX Runtime fuses the norm; not in float64, of which its fused kernel reads a wrong eps."""
    squares = op.Mul(x, x) if x.dtype == DOUBLE else op.Pow(x, 2.0)
    return op.Sqrt(op.Add(op.ReduceMean(squares, [*range(-axes, 0)]), eps))


def _rms_eps(x: Value, eps: float | None) -> float:
    """PyTorch's default is the machine epsilon of the dtype that it computes in, which for halves is float32."""
    if eps is not None:
        return eps
    return torch.finfo(torch.float64 if x.dtype == DOUBLE else torch.float32).eps
