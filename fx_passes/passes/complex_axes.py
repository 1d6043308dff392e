"""Rows of `complex_to_real`: ops that move values about, by how each argument changes for one more axis at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_values import Complex, Packed, as_tensors

aten = torch.ops.aten

Change = Callable[[Any, int], Any]
"""(an argument, the rank of the complex tensor) → the argument for the real tensor of rank + 1."""


def _axis(dim: int, rank: int) -> int:
    return dim % max(rank, 1)


def _new_axis(dim: int, rank: int) -> int:
    return dim % (rank + 1)


def _axes(dims: Sequence[int] | int | None, rank: int) -> Any:
    if isinstance(dims, int):
        return _axis(dims, rank)
    return [_axis(dim, rank) for dim in (range(rank) if dims is None else dims)]


def _order(dims: Sequence[int], rank: int) -> list[int]:
    return [*_axes(dims, rank), rank]


def _sizes(sizes: Sequence[Any], rank: int) -> list[Any]:
    return [*sizes, 2]


def _kept(sizes: Sequence[Any], rank: int) -> list[Any]:
    return [*sizes, 1]


def _strides(strides: Sequence[Any], rank: int) -> list[Any]:
    return [*(2 * stride for stride in strides), 1]


def _offset(offset: Any, rank: int) -> Any:
    return None if offset is None else 2 * offset


LEADING: Mapping[Any, Mapping[str, Change]] = {
    aten.reshape.default: {"shape": _sizes},
    aten.expand.default: {"size": _sizes},
    aten.repeat.default: {"repeats": _kept},
    aten.permute.default: {"dims": _order},
    aten.transpose.int: {"dim0": _axis, "dim1": _axis},
    aten.unsqueeze.default: {"dim": _new_axis},
    aten.squeeze.default: {},
    aten.squeeze.dim: {"dim": _axis},
    aten.squeeze.dims: {"dim": _axes},
    aten.select.int: {"dim": _axis},
    aten.slice.Tensor: {"dim": _axis},
    aten.split.Tensor: {"dim": _axis},
    aten.split_with_sizes.default: {"dim": _axis},
    aten.unbind.int: {"dim": _axis},
    aten.flip.default: {"dims": _axes},
    aten.index.Tensor: {},
    aten.as_strided.default: {"size": _sizes, "stride": _strides, "storage_offset": _offset},
    aten.sym_size.int: {"dim": _axis},
    aten.cat.default: {"dim": _axis},
    aten.stack.default: {"dim": _new_axis},
    aten.select_scatter.default: {"dim": _axis},
    aten.slice_scatter.default: {"dim": _axis},
    aten.as_strided_scatter.default: {"size": _sizes, "stride": _strides, "storage_offset": _offset},
}
"""Ops that act alike on the real tensor: the arguments that change, by their names in the ATen schema."""

ALIKE: Mapping[Any, tuple[int, ...]] = {
    aten.t.default: (0,),
    aten.diagonal.default: (0,),
    aten.diag_embed.default: (0,),
    aten.tril.default: (0,),
    aten.triu.default: (0,),
    aten.roll.default: (0,),
    aten.unfold.default: (0,),
    aten.im2col.default: (0,),
    aten.col2im.default: (0,),
    aten.pixel_shuffle.default: (0,),
    aten.pixel_unshuffle.default: (0,),
    aten.reflection_pad1d.default: (0,),
    aten.reflection_pad2d.default: (0,),
    aten.reflection_pad3d.default: (0,),
    aten.replication_pad1d.default: (0,),
    aten.replication_pad2d.default: (0,),
    aten.replication_pad3d.default: (0,),
    aten.constant_pad_nd.default: (0, 2),
    aten.gather.default: (0,),
    aten.index_select.default: (0,),
    aten.repeat_interleave.self_int: (0,),
    aten.take.default: (0,),
    aten.put.default: (0, 2),
    aten.masked_select.default: (0,),
    aten._unsafe_masked_index.default: (0, 3),
    aten._unsafe_masked_index_put_accumulate.default: (0, 3),
    aten.masked_scatter.default: (0, 2),
    aten.index_put.default: (0, 2),
    aten.index_fill.int_Scalar: (0, 3),
    aten.index_fill.int_Tensor: (0, 3),
    aten.index_copy.default: (0, 3),
    aten.index_add.default: (0, 3),
    aten.scatter.src: (0, 3),
    aten.scatter.value: (0, 3),
    aten.scatter_add.default: (0, 3),
    aten.diagonal_scatter.default: (0, 1),
    aten.sum.default: (0,),
    aten.sum.dim_IntList: (0,),
    aten.mean.default: (0,),
    aten.mean.dim: (0,),
    aten.cumsum.default: (0,),
    aten.trace.default: (0,),
}
"""Ops that act on each part by itself, and at which positions they take complex operands."""


def _leading(target: Any, changes: Mapping[str, Change]) -> Row:
    names = [argument.name for argument in target._schema.arguments[1:]]

    def row(x: Any, *args: Any, **kwargs: Any) -> Any:
        source = [packed(each) for each in x] if isinstance(x, (list, tuple)) else packed(x)
        rank = (source[0] if isinstance(source, list) else source).dim() - 1
        given = dict(zip(names, args, strict=False)) | kwargs
        result = target(source, **{name: _changed(value, changes.get(name), rank) for name, value in given.items()})
        if isinstance(result, (list, tuple)):
            return [Packed(each) for each in result]
        return Packed(result) if isinstance(result, torch.Tensor) else result

    return row


def _changed(argument: Any, change: Change | None, rank: int) -> Any:
    if isinstance(argument, Packed):
        return argument.packed
    return argument if change is None else change(argument, rank)


def packed(x: Any) -> torch.Tensor:
    """A complex tensor with its last axis of 2; a real one gets imaginary parts of 0."""
    return x.packed if isinstance(x, Packed) else torch.stack(as_tensors(Complex.of(x)), -1)


def on_parts(target: Any, positions: Sequence[int]) -> Row:
    """The op on the real parts and on the imaginary parts of the arguments at `positions`."""

    def row(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Complex:
        def part(choose: Callable[[Complex], Any]) -> Any:
            def chosen(each: Any) -> Any:
                if isinstance(each, (list, tuple)):
                    return [chosen(entry) for entry in each]
                return choose(Complex.of(each))

            return target(*(chosen(x) if i in positions else x for i, x in enumerate(args)), **kwargs)

        return Complex(part(_re), part(_im))

    return row


def _re(z: Complex) -> Any:
    return z.re


def _im(z: Complex) -> Any:
    return as_tensors(z)[1] if isinstance(z.re, torch.Tensor) else z.im


def _same(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x


SAME = (
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.resolve_conj.default,
    aten.resolve_neg.default,
    aten.positive.default,
)
"""Ops that return the values they are given."""


def _reshape(x: Any, sizes: Sequence[Any], *stride: Any) -> Packed:
    """A view need not be one of the packed tensor, whose strides are others."""
    return Packed(packed(x).reshape([*sizes, 2]))


def _resize(x: Any, sizes: Sequence[Any], **storage: Any) -> Complex:
    return Complex(*(aten.resize.default(part, sizes) for part in as_tensors(Complex.of(x))))


ROWS: Mapping[Any, Row] = {
    aten.resize.default: _resize,
    aten.resize_as.default: lambda x, template, **storage: _resize(x, as_tensors(Complex.of(template))[0].shape),
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys((aten.view.default, aten._unsafe_view.default, aten._reshape_alias.default), _reshape),
    **{target: _leading(target, changes) for target, changes in LEADING.items()},
    **{target: on_parts(target, positions) for target, positions in ALIKE.items()},
}
