"""Activations: whole where ONNX has the operator, in the parts that ONNX Runtime fuses where it has not."""

from __future__ import annotations

import math

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings import double
from fxport.exporter.lowering.lowerings.comparison import clamp, clamp_min
from fxport.exporter.lowering.lowerings.double import unary
from fxport.exporter.lowering.lowerings.precision import in_float

aten = torch.ops.aten

DOUBLE = ir.DataType.DOUBLE

GELU_SINCE = 20
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

FUNCTIONS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
"""Dtypes for which ONNX Runtime can expand an operator that is a function: it needs kernels for the parts."""

SOFTPLUS_EXACT = 20.0
"""From here on softplus(x) is x in float32, and in float64 within PyTorch's tolerance."""


@lowering(aten.relu.default)
def relu(op: Op, x: Value) -> Value:
    """relu(Tensor self) -> Tensor"""
    return clamp_min(op, x, 0)


@lowering(aten.relu6.default)
def relu6(op: Op, x: Value) -> Value:
    """relu6(Tensor self) -> Tensor"""
    return clamp(op, x, 0, 6)


@lowering(aten.hardtanh.default)
def hardtanh(op: Op, x: Value, min_val: Scalar = -1, max_val: Scalar = 1) -> Value:
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    return clamp(op, x, min_val, max_val)


@lowering(aten.gelu.default)
def gelu(op: Op, x: Value, *, approximate: str = "none") -> Value:
    """gelu(Tensor self, *, str approximate="none") -> Tensor"""
    if op.opset >= GELU_SINCE and x.dtype != DOUBLE:
        return op.Gelu(x, approximate=approximate)
    return _gelu_by_tanh(op, x) if approximate == "tanh" else _gelu_by_erf(op, x)


@in_float
def _gelu_by_erf(op: Op, x: Value) -> Value:
    tail = op.Add(unary(op, "Erf", op.Div(x, math.sqrt(2))), 1)
    return op.Mul(op.Mul(x, tail), 0.5)


@in_float
def _gelu_by_tanh(op: Op, x: Value) -> Value:
    cubic = op.Add(x, op.Mul(op.Pow(x, 3.0), 0.044715))
    tail = op.Add(op.Tanh(op.Mul(cubic, math.sqrt(2 / math.pi))), 1)
    return op.Mul(op.Mul(x, tail), 0.5)


@lowering(aten.silu.default)
def silu(op: Op, x: Value) -> Value:
    """silu(Tensor self) -> Tensor

    In parts at every opset: ONNX Runtime has no kernel for Swish, and fuses these.
    """
    return op.Mul(x, op.Sigmoid(x))


@lowering(aten.mish.default)
def mish(op: Op, x: Value) -> Value:
    """mish(Tensor self) -> Tensor"""
    if x.dtype in FUNCTIONS:
        return op.Mish(x)
    return op.Mul(x, op.Tanh(unary(op, "Softplus", x)))


@lowering(aten.hardswish.default)
def hardswish(op: Op, x: Value) -> Value:
    """hardswish(Tensor self) -> Tensor"""
    return op.HardSwish(x) if x.dtype in FUNCTIONS else op.Mul(x, hardsigmoid(op, x))


@lowering(aten.hardsigmoid.default)
def hardsigmoid(op: Op, x: Value) -> Value:
    """hardsigmoid(Tensor self) -> Tensor"""
    return double.hard_sigmoid(op, x) if x.dtype == DOUBLE else op.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@lowering(aten.leaky_relu.default)
def leaky_relu(op: Op, x: Value, negative_slope: Scalar = 0.01) -> Value:
    """leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if x.dtype == DOUBLE:
        return double.leaky_relu(op, x, negative_slope)
    return op.LeakyRelu(x, alpha=float(negative_slope))


@lowering(aten.prelu.default, aten._prelu_kernel.default)
def prelu(op: Op, x: Value, weight: Value) -> Value:
    """prelu(Tensor self, Tensor weight) -> Tensor

    A slope for each channel, axis 1; ONNX aligns axes from the right.
    """
    rank = op.rank(x)
    if op.rank(weight) == 1 and rank != 1:
        (channels,) = op.sizes(weight)
        weight = op.reshape(weight, [channels] + [1] * (rank - 2) if rank else [])
    return double.leaky_relu(op, x, weight) if x.dtype == DOUBLE else op.PRelu(x, weight)


@lowering(aten.elu.default)
@in_float
def elu(op: Op, x: Value, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Value:
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    below = x if input_scale == 1 else op.Mul(x, input_scale)
    bent = double.elu(op, below, alpha) if x.dtype == DOUBLE else op.Elu(below, alpha=float(alpha))
    bent = bent if input_scale == 1 else op.Where(op.Greater(x, 0), x, bent)
    return bent if scale == 1 else op.Mul(bent, scale)


@lowering(aten.selu.default)
def selu(op: Op, x: Value) -> Value:
    """selu(Tensor self) -> Tensor

    ONNX's default factors are PyTorch's.
    """
    if x.dtype == DOUBLE:
        return op.Mul(double.elu(op, x, SELU_ALPHA), SELU_SCALE)
    return op.Selu(x)


@lowering(aten.celu.default)
def celu(op: Op, x: Value, alpha: Scalar = 1.0) -> Value:
    """celu(Tensor self, Scalar alpha=1.) -> Tensor

    ONNX's Celu is of float32 only.
    """
    if x.dtype == DOUBLE:
        return elu(op, x, alpha, 1, 1 / alpha)
    return op.cast(op.Celu(op.cast(x, ir.DataType.FLOAT), alpha=float(alpha)), op.out.dtype)


@lowering(aten.softplus.default)
@in_float
def softplus(op: Op, x: Value, beta: Scalar = 1, threshold: Scalar = 20) -> Value:
    """softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    scaled = x if beta == 1 else op.Mul(x, beta)
    soft = unary(op, "Softplus", scaled)
    soft = soft if beta == 1 else op.Div(soft, beta)
    if isinstance(threshold, (int, float)) and threshold >= SOFTPLUS_EXACT:
        return soft
    return op.Where(op.Greater(scaled, threshold), x, soft)


@lowering(aten.log_sigmoid.default)
def log_sigmoid(op: Op, x: Value) -> Value:
    """log_sigmoid(Tensor self) -> Tensor"""
    return op.Neg(unary(op, "Softplus", op.Neg(x)))


@lowering(aten.threshold.default)
def threshold(op: Op, x: Value, threshold: Scalar, value: Scalar) -> Value:
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    return op.Where(op.LessOrEqual(x, threshold), value, x)


@lowering(aten.glu.default)
def glu(op: Op, x: Value, dim: int = -1) -> Value:
    """glu(Tensor self, int dim=-1) -> Tensor"""
    if op.sizes(x)[dim] == 0:  # which ONNX Runtime does not split
        return op.cast(x, op.out.dtype)
    values, gates = op.Split(x, axis=dim, num_outputs=2, outputs=2)
    return op.Mul(values, op.Sigmoid(gates))


@lowering(aten.hardshrink.default)
def hardshrink(op: Op, x: Value, lambd: Scalar = 0.5) -> Value:
    """hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor

    ONNX's Shrink would take NaN to 0.
    """
    return op.Where(op.LessOrEqual(op.Abs(x), lambd), 0, x)


@lowering(aten.softshrink.default)
def softshrink(op: Op, x: Value, lambd: Scalar = 0.5) -> Value:
    """softshrink(Tensor self, Scalar lambd=0.5) -> Tensor

    What lies outside the limits: x less its clamped self.
    """
    return op.Sub(x, clamp(op, x, -lambd, lambd))
