"""Padding: a constant, the edge, a reflection, or the other side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Size, Value
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.axes import LAST, sliced
from fxport.fx_passes.sizes import is_symbolic

aten = torch.ops.aten

MODES: Mapping[str, str] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""ONNX's name for each of PyTorch's modes that continue a tensor with its own elements."""

WRAP_SINCE = 19
"""The opset that brought Pad's mode "wrap"."""


@lowering(aten.constant_pad_nd.default)
def constant_pad_nd(op: Op, x: Value, pad: Sequence[Size], value: Scalar = 0) -> Value:
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    return padded(op, x, pad, value)


@lowering(aten.pad.default)
def pad(op: Op, x: Value, pad: Sequence[Size], mode: str = "constant", value: float | None = None) -> Value:
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    if mode == "constant":
        return padded(op, x, pad, 0 if value is None else value)
    return continued(op, x, pad, mode)


@lowering(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(op: Op, x: Value, padding: Sequence[Size]) -> Value:
    """reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return continued(op, x, padding, "reflect")


@lowering(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(op: Op, x: Value, padding: Sequence[Size]) -> Value:
    """replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return continued(op, x, padding, "replicate")


@lowering(aten._pad_circular.default)
def pad_circular(op: Op, x: Value, pad: Sequence[Size]) -> Value:
    """_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return continued(op, x, pad, "circular")


Amounts = dict[int, tuple[Size, Size]]
"""By axis: how many elements before the first and behind the last; negative ones are cut off."""


def amounts(op: Op, x: Value, pad: Sequence[Size]) -> Amounts:
    """PyTorch lists the pairs from the last axis on; axes that get nothing are left out."""
    pairs = zip(pad[::2], pad[1::2], strict=True)
    last = op.rank(x) - 1
    return {last - i: pair for i, pair in enumerate(pairs) if pair != (0, 0)}


def padded(op: Op, x: Value, pad: Sequence[Size], value: Scalar) -> Value:
    """Pad with a constant. Negative amounts cut off: ONNX says so of Pad, too."""
    by_axis = amounts(op, x, pad)
    if not by_axis:
        return x
    if all(_is_cut(amount) for pair in by_axis.values() for amount in pair):
        return cut(op, x, by_axis)
    return op.Pad(x, _of_all_axes(op, x, by_axis), None if value == 0 else op.const(value, like=x))


def continued(op: Op, x: Value, pad: Sequence[Size], mode: str) -> Value:
    """Pad with the tensor's own elements. What negative amounts cut off is reflected before, but not wrapped round."""
    if mode not in MODES:
        raise Unsupported(f"the padding mode '{mode}'")
    by_axis = amounts(op, x, pad)
    less = {axis: tuple(amount if _is_cut(amount) else 0 for amount in pair) for axis, pair in by_axis.items()}
    more = {axis: tuple(0 if _is_cut(amount) else amount for amount in pair) for axis, pair in by_axis.items()}
    more = {axis: pair for axis, pair in more.items() if pair != (0, 0)}
    if mode == "circular":
        sizes = [size + sum(less.get(axis, ())) for axis, size in enumerate(op.sizes(x))]
        return _wrapped(op, op.typed(cut(op, x, less), sizes), more)
    sizes = [size + sum(more.get(axis, ())) for axis, size in enumerate(op.sizes(x))]
    return cut(op, op.typed(_pad(op, x, more, MODES[mode]), sizes), less)


def _pad(op: Op, x: Value, by_axis: Mapping[int, Sequence[Size]], mode: str) -> Value:
    if not by_axis:
        return x
    return op.Pad(x, _of_all_axes(op, x, by_axis), mode=mode)


def _of_all_axes(op: Op, x: Value, by_axis: Mapping[int, Sequence[Size]]) -> Value:
    """The operand `pads` for every axis: where Pad has `axes`, ONNX Runtime 1.31 permutes `pads` as if it had none."""
    pairs = [by_axis.get(axis, (0, 0)) for axis in range(op.rank(x))]
    return op.shape([before for before, _ in pairs] + [after for _, after in pairs])


def _wrapped(op: Op, x: Value, by_axis: Mapping[int, Sequence[Size]]) -> Value:
    """Pad's mode "wrap", or what it stands for in opsets that lack it: the end, the whole, the beginning."""
    if op.opset >= WRAP_SINCE and 0 not in op.sizes(x):  # ONNX Runtime has no "wrap" of what is empty
        return _pad(op, x, by_axis, "wrap")
    sizes = [*op.sizes(x)]
    for axis, (before, behind) in by_axis.items():
        parts = [x] if before == 0 else [sliced(op, x, axis, sizes[axis] - before), x]
        joined = op.Concat(*parts, *([] if behind == 0 else [sliced(op, x, axis, 0, behind)]), axis=axis)
        sizes[axis] += before + behind
        x = op.typed(joined, sizes)
    return x


def cut(op: Op, x: Value, by_axis: Mapping[int, Sequence[Size]]) -> Value:
    """`x` without the first and last elements that negative amounts stand for."""
    by_axis = {axis: pair for axis, pair in by_axis.items() if tuple(pair) != (0, 0)}
    if not by_axis:
        return x
    starts = [-pair[0] for pair in by_axis.values()]
    ends = [_end(op.sizes(x)[axis], behind) for axis, (_, behind) in by_axis.items()]
    return op.Slice(x, op.shape(starts), op.shape(ends), list(by_axis))


def _end(size: Size, behind: Size) -> Size:
    """Return the end of a slice without the last elements; where these may be none, it counts from the front."""
    return size + behind if is_symbolic(behind) else LAST if behind == 0 else behind


def _is_cut(amount: Size) -> bool:
    """Return True if an amount is known to be negative or zero."""
    return bool(amount.is_nonpositive) if is_symbolic(amount) else amount <= 0  # type: ignore[union-attr]
