"""Fourier transforms of complex numbers in a last axis of 2, as `fxport.fx_passes.passes.complex_to_real` leaves them.

ONNX Runtime's DFT is exact where the size is a power of 2. For others it is Bluestein's algorithm, which in float32
is left with three digits at size 1000, and whose inverse is scaled by a factor rounded to float32. So sizes up to
`LARGEST` are one product with a constant matrix, exact to the last bits and fast, which every provider has; larger
ones, and those known only at run time, are transformed in DOUBLE and always forwards, an inverse as the conjugate of
the conjugate's transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.fx_passes import fourier  # noqa: F401  # registers the ops
from fxport.fx_passes.sizes import Size

fxport = torch.ops.fxport

SMALL, LARGEST = 16, 512
"""Up to which size a matrix is used: of every size, and of those that are no power of 2 (4 MiB of float32 at most)."""


@lowering(fxport.fft_r2c.default)
def fft_r2c(op: Op, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """fft_r2c(Tensor x, SymInt[] dim, SymInt normalization, bool onesided) -> Tensor

    The last of `dim` first, as numbers still real; then the others.
    """
    sizes = op.sizes(x)
    y = _from_real(op, x, dim[-1], sizes[dim[-1]], onesided)
    for axis in dim[:-1]:
        y = _complex(op, op.typed(y, (*sizes, 2)), axis, sizes[axis], inverse=False)
    return _divided(op, y, [sizes[axis] for axis in dim], normalization)


@lowering(fxport.fft_c2c.default)
def fft_c2c(op: Op, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """fft_c2c(Tensor x, SymInt[] dim, SymInt normalization, bool forward) -> Tensor"""
    sizes = op.sizes(x)
    y = x
    for axis in dim:
        y = op.typed(_complex(op, y, axis, sizes[axis], inverse=not forward), sizes)
    return _divided(op, y, [sizes[axis] for axis in dim], normalization)


@lowering(fxport.fft_c2r.default)
def fft_c2r(op: Op, x: Value, dim: Sequence[int], normalization: int, last_dim_size: Size) -> Value:
    """fft_c2r(Tensor x, SymInt[] dim, SymInt normalization, SymInt last_dim_size) -> Tensor

    All of `dim` but the last as complex numbers, then the last to real ones.
    """
    sizes = op.sizes(x)
    y = x
    for axis in dim[:-1]:
        y = op.typed(_complex(op, y, axis, sizes[axis], inverse=True), sizes)
    y = _to_real(op, y, dim[-1], last_dim_size)
    return _divided(op, y, [*(sizes[axis] for axis in dim[:-1]), last_dim_size], normalization)


def _divided(op: Op, y: Value, sizes: Sequence[Size], normalization: int) -> Value:
    """`y` by what ATen's `normalization` says: 0 nothing, 1 the root of the number of elements, 2 their number."""
    if normalization == 0:
        return y
    count = math.prod(sizes)  # type: ignore[arg-type]  # expressions multiply as well
    divisor = op.const(count, like=y)
    return op.Div(y, op.Sqrt(divisor) if normalization == 1 else divisor)


def _from_real(op: Op, x: Value, axis: int, size: Size, onesided: bool) -> Value:
    if _by_matrix(size):
        angles = _angles(size, size // 2 + 1 if onesided else size)
        matrix = np.stack([np.cos(angles), -np.sin(angles)], -1)
        return _product(op, x, axis, matrix[:, None])
    z = op.Unsqueeze(x, [op.rank(x)])
    return _in_double(op, z, size, lambda z: _dft(op, z, axis, onesided=int(onesided)))


def _complex(op: Op, x: Value, axis: int, size: Size, *, inverse: bool) -> Value:
    """The transform along one axis without any factor."""
    if _by_matrix(size):
        angles = _angles(size, size)
        cos, sin = np.cos(angles), np.sin(angles) if inverse else -np.sin(angles)
        matrix = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)
        return _product(op, x, axis, matrix)
    if inverse:
        return _in_double(op, x, size, lambda z: _conj(op, _dft(op, _conj(op, z), axis)))
    return _in_double(op, x, size, lambda z: _dft(op, z, axis))


def _to_real(op: Op, x: Value, axis: int, size: Size) -> Value:
    """Real numbers from the first half of their spectrum, the other half being its mirror image."""
    if _by_matrix(size):
        bins = size // 2 + 1
        angles = _angles(bins, size, of=size)
        twice = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == size), 1.0, 2.0)[:, None]
        matrix = np.stack([twice * np.cos(angles), -twice * np.sin(angles)], 1)
        return _product(op, x, axis, matrix[..., None])
    known = op.sizes(x)[axis]

    def transform(z: Value) -> Value:
        mirrored = _conj(op, op.Slice(z, [size - known], [0], [axis], [-1]))
        whole = op.Concat(z, mirrored, axis=axis)
        return op.Gather(_dft(op, _conj(op, whole), axis), 0, axis=-1)

    return _in_double(op, x, size, transform)


def _by_matrix(size: Size) -> TypeGuard[int]:
    return isinstance(size, int) and (size <= SMALL or (size <= LARGEST and not _is_power_of_two(size)))


def _is_power_of_two(size: Size) -> bool:
    return isinstance(size, int) and size & (size - 1) == 0


def _angles(rows: int, columns: int, of: int | None = None) -> np.ndarray:
    """2π j k / n of rows j and columns k, as float64: [rows, columns]. The product is reduced before it is scaled."""
    size = of or rows
    return np.outer(np.arange(rows), np.arange(columns)) % size * (2 * math.pi / size)


def _product(op: Op, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """`x` times a matrix [in, parts in, out, parts out] along an axis; 1 part is a real number, 2 are a complex one."""
    rows, parts_in, columns, parts_out = matrix.shape
    rank = op.rank(x) - (parts_in == 2)
    order = [*(a for a in range(rank) if a != axis), axis]
    lead = [0] * (rank - 1)
    y = _permuted(op, x, order, parts_in)
    if parts_in == 2:
        y = op.Reshape(y, [*lead, 2 * rows])
    y = op.MatMul(y, op.const(matrix.reshape(rows * parts_in, columns * parts_out), like=x))
    if parts_out == 2:
        y = op.Reshape(y, [*lead, columns, 2])
    return _permuted(op, y, sorted(range(rank), key=lambda a: order[a]), parts_out)


def _permuted(op: Op, x: Value, order: Sequence[int], parts: int) -> Value:
    """The axes in another order; that of the parts stays the last."""
    if list(order) == sorted(order):
        return x
    return op.Transpose(x, perm=[*order, len(order)] if parts == 2 else list(order))


def _in_double(op: Op, x: Value, size: Size, transform: Callable[[Value], Value]) -> Value:
    """A transform by the operator, in DOUBLE where it would not be exact."""
    if _is_power_of_two(size):
        return transform(x)
    return op.cast(transform(op.cast(x, ir.DataType.DOUBLE)), op.out.dtype)


def _dft(op: Op, x: Value, axis: int, onesided: int = 0) -> Value:
    if op.opset >= 20:
        return op.DFT(x, None, axis, onesided=onesided)
    return op.DFT(x, axis=axis, onesided=onesided)


def _conj(op: Op, x: Value) -> Value:
    return op.Mul(x, [1, -1])
