"""Resizing of images, lines and volumes: nearest, linear and cubic, with and without antialiasing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.interpolate import CUBIC, Axis, nearest_indices, resampled, resampled_bytes

aten = torch.ops.aten

D = ir.DataType
FLOAT, DOUBLE, UINT8 = D.FLOAT, D.DOUBLE, D.UINT8
COPIED = frozenset({D.FLOAT, D.FLOAT16, D.BFLOAT16, D.INT32, D.INT8, D.UINT8})
"""Dtypes that Resize repeats without a loss; ONNX Runtime would do others in float32."""


Factors = Sequence[float | None]
NEAREST_2D = 4
"""Rank of what `upsample_nearest2d` takes, which has shortcuts of its own."""


@lowering(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def upsample_nearest(
    op: Op, x: Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> Value:
    """upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _nearest(op, x, scale_factors or (), exact=False)


@lowering(aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec)
def upsample_nearest_exact(
    op: Op, x: Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> Value:
    """_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _nearest(op, x, scale_factors or (), exact=True)


@lowering(aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default)
def upsample_nearest_by(op: Op, x: Value, output_size: Sequence[Size], *scales: float | None) -> Value:
    """upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return _nearest(op, x, scales, exact=False)


@lowering(
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
)
def upsample_nearest_exact_by(op: Op, x: Value, output_size: Sequence[Size], *scales: float | None) -> Value:
    """_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    return _nearest(op, x, scales, exact=True)


@lowering(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
def upsample_linear(
    op: Op, x: Value, output_size: Sequence[Size] | None, align_corners: bool, scale_factors: Sequence[float] | None
) -> Value:
    """upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scale_factors or (), align_corners, "linear")


@lowering(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default)
def upsample_linear_by(
    op: Op, x: Value, output_size: Sequence[Size], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scales, align_corners, "linear")


@lowering(aten.upsample_bicubic2d.vec)
def upsample_bicubic2d(
    op: Op, x: Value, output_size: Sequence[Size] | None, align_corners: bool, scale_factors: Sequence[float] | None
) -> Value:
    """upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scale_factors or (), align_corners, "cubic")


@lowering(aten.upsample_bicubic2d.default)
def upsample_bicubic2d_by(
    op: Op, x: Value, output_size: Sequence[Size], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scales, align_corners, "cubic")


@lowering(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear2d_aa(
    op: Op, x: Value, output_size: Sequence[Size], align_corners: bool, *scales: float | None
) -> Value:
    """_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scales, align_corners, "linear", antialias=True)


@lowering(aten._upsample_bilinear2d_aa.vec)
def upsample_bilinear2d_aa_vec(
    op: Op, x: Value, output_size: Sequence[Size] | None, align_corners: bool, scale_factors: Sequence[float] | None
) -> Value:
    """_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scale_factors or (), align_corners, "linear", antialias=True)


@lowering(aten._upsample_bicubic2d_aa.default)
def upsample_bicubic2d_aa(
    op: Op, x: Value, output_size: Sequence[Size], align_corners: bool, *scales: float | None
) -> Value:
    """_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scales, align_corners, "cubic", antialias=True)


@lowering(aten._upsample_bicubic2d_aa.vec)
def upsample_bicubic2d_aa_vec(
    op: Op, x: Value, output_size: Sequence[Size] | None, align_corners: bool, scale_factors: Sequence[float] | None
) -> Value:
    """_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""  # noqa: E501
    return _interpolated(op, x, scale_factors or (), align_corners, "cubic", antialias=True)


def _axes(op: Op, x: Value, factors: Factors, *, corners: bool = False, keeps: bool) -> list[Axis]:
    """Return the resampling of each axis after batch and channels; the new sizes are those of the result."""
    sizes, counts = op.sizes(x)[2:], op.out.sizes[2:]
    each = [*factors, *[None] * (len(sizes) - len(factors))]
    return [Axis(*row, corners, keeps) for row in zip(sizes, counts, each, strict=True)]


def _nearest(op: Op, x: Value, factors: Factors, exact: bool) -> Value:
    """Resize where places are repeated as a whole, else a Gather for each axis with indices computed as PyTorch does.

    ONNX divides where PyTorch multiplies, and what is rounded differently is another place.
    """
    axes = _axes(op, x, factors, keeps=not exact and op.rank(x) == NEAREST_2D)
    if all(axis.is_repetition for axis in axes) and x.dtype in COPIED:
        return op.Resize(
            x,
            None,
            op.const([1.0, 1.0, *(axis.scale for axis in axes)], dtype=FLOAT),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    for place, axis in enumerate(axes, start=2):
        if not axis.is_same:
            x = op.Gather(x, nearest_indices(op, axis, exact), axis=place)
    return x


def _interpolated(op: Op, x: Value, factors: Factors, corners: bool, mode: str, antialias: bool = False) -> Value:
    """Bytes are interpolated one axis after the other, the last one first, and rounded each time."""
    is_bytes = x.dtype == UINT8
    axes = _axes(op, x, factors, corners=corners, keeps=is_bytes or mode == "linear" or antialias)
    places = dict(enumerate(axes, start=2))
    if not is_bytes:
        return _resampled(op, x, places, mode, antialias)
    y = op.typed(op.cast(x, DOUBLE), op.sizes(x))
    for place, axis in reversed(places.items()):
        if not axis.is_same:
            y = resampled_bytes(op, y, place - op.rank(x), axis, mode, antialias)
    return op.cast(y, UINT8)


def _resampled(op: Op, x: Value, axes: Mapping[int, Axis], mode: str, antialias: bool) -> Value:
    """Resize where its sizes, coordinates and accuracy are PyTorch's, else a matrix of weights for each axis.

    Resize is not used for scale factors that float32 rounds, where ONNX Runtime may come to another size; for
    antialiasing, where its error is ten times that of PyTorch; and for DOUBLE, which it has in float32 alone.
    """
    corners = any(axis.corners for axis in axes.values())
    by_factor = any(not axis.is_whole for axis in axes.values()) and not corners
    misfit = by_factor and any(axis.scale is None for axis in axes.values())
    if x.dtype != DOUBLE and not misfit and not antialias:
        return _resize(op, x, axes, mode, by_factor)
    y = op.typed(op.cast(x, FLOAT), op.sizes(x)) if x.dtype in HALVES else x
    for place, axis in axes.items():
        y = resampled(op, y, place - op.rank(x), axis, mode, antialias)
    return op.const(y, like=x)


def _resize(op: Op, x: Value, axes: Mapping[int, Axis], mode: str, by_factor: bool) -> Value:
    """Resize of some axes; the scales are exact, or else the sizes say them."""
    scales = op.const([axis.scale for axis in axes.values()], dtype=FLOAT) if by_factor else None
    sizes = () if by_factor else (op.shape([axis.count for axis in axes.values()]),)
    return op.Resize(
        x,
        None,
        scales,
        *sizes,
        axes=list(axes),
        mode=mode,
        coordinate_transformation_mode="align_corners" if any(axis.corners for axis in axes.values()) else None,
        cubic_coeff_a=CUBIC if mode == "cubic" else None,
    )
