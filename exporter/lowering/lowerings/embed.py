"""Rows of tables by number: embedding, one_hot, bags of embeddings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import flat, sliced
from fxport.exporter.lowering.lowerings.indices import INT64
from fxport.exporter.lowering.lowerings.scatter import rows, scatter_reduced
from fxport.exporter.lowering.lowerings.segments import boundaries_passed
from fxport.exporter.lowering.lowerings.shape import spread

aten = torch.ops.aten

BAG_MODES = ("sum", "mean", "amax")
"""Reductions of a bag, by PyTorch's number."""

NORMS: Mapping[float, str] = {1.0: "ReduceL1", 2.0: "ReduceL2"}
"""Norms that ONNX has an operator for, by their order."""


@lowering(aten.embedding.default)
def embedding(
    op: Op,
    weight: Value,
    indices: Value,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor

    Padding has no part in it: that row is only kept from being trained.
    """  # noqa: E501  # the schema is one line
    return op.Gather(weight, indices, axis=0)


@lowering(aten.one_hot.default)
def one_hot(op: Op, x: Value, num_classes: int = -1) -> Value:
    """one_hot(Tensor self, int num_classes=-1) -> Tensor

    OneHot; it has no form for a single index.
    """
    classes = op.out.sizes[-1]
    if op.rank(x) == 0:
        return op.reshape(op.OneHot(op.reshape(x, [1]), classes, [0, 1]), op.out.sizes)
    return op.OneHot(x, classes, [0, 1])


@lowering(aten.embedding_renorm.default)
def embedding_renorm(op: Op, weight: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor

    The rows that are asked for, shortened to a norm of `max_norm` where theirs is larger.
    """
    asked = flat(op, indices)
    nobody = op.ConstantOfShape(op.shape([op.sizes(weight)[0]]), value=np.zeros(1, np.bool_))
    yes = spread(op, True, nobody.dtype, op.sizes(asked))
    norms = _norms(op, weight, norm_type)
    too_long = op.And(op.ScatterElements(nobody, asked, yes, axis=0), op.Greater(norms, max_norm))
    factors = op.Where(too_long, op.Div(op.const(max_norm, like=weight), op.Add(norms, 1e-7)), 1.0)
    return op.Mul(weight, op.Unsqueeze(factors, [1]))


def _norms(op: Op, rows: Value, order: float) -> Value:
    """The norm of each row."""
    if order in NORMS:
        return getattr(op, NORMS[order])(rows, [1], keepdims=0)
    powers = op.ReduceSum(op.Pow(op.Abs(rows), order), [1], keepdims=0)
    return op.Pow(powers, 1.0 / order)


@lowering(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    op: Op,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value | None, ...]:
    """_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)

    A scatter of the rows into their bags; rows of padding go into one bag more, which is left out. An empty bag is 0.
    The other results serve the gradient: the bag of each row, the sizes of bags without padding, and the rows with the
    maxima: the first of equal ones, 0 for an empty bag.
    """  # noqa: E501  # the schema is one line
    (count,) = op.sizes(indices)
    bags, width = op.out.sizes
    passed = boundaries_passed(op, op.cast(offsets, INT64), op.shape([count]))
    number = op.Sub(passed, 1)
    if padding_idx >= 0:
        number = op.Where(op.Equal(indices, padding_idx), op.const(bags), number)
    taken = op.typed(op.Gather(weight, indices, axis=0), [count, width])
    if per_sample_weights is not None:
        taken = op.typed(op.Mul(taken, op.Unsqueeze(per_sample_weights, [1])), [count, width])
    nothing = spread(op, 0, weight.dtype, [bags + 1, width])
    reduce = BAG_MODES[mode]
    reduced = scatter_reduced(op, nothing, rows(op, number, taken), reduce, include_self=reduce == "sum")
    bag_of_each, sizes, largest = op.outs[1:]
    found = op.cast(op.Sub(passed, 1), bag_of_each.dtype)
    offset2bag = found if bag_of_each.sizes != (0,) else spread(op, 0, bag_of_each.dtype, [0])
    if include_last_offset and op.target is aten._embedding_bag_forward_only.default:
        bag_size = maxima = None  # of other sizes than PyTorch says of them
    elif reduce == "amax":
        bag_size = op.cast(_counted(op, number, bags), sizes.dtype)
        rows_of = _largest_rows(op, number, taken, op.typed(reduced, [bags + 1, width]), indices)
        maxima = op.cast(sliced(op, rows_of, 0, 0, bags), largest.dtype)
    else:
        none = spread(op, 0, INT64, [bags])
        counts = none if reduce == "sum" else _counted(op, number, bags)
        bag_size, maxima = op.cast(counts, sizes.dtype), op.cast(counts, largest.dtype)
    return sliced(op, reduced, 0, 0, bags), offset2bag, bag_size, maxima


def _counted(op: Op, number: Value, bags: Size) -> Value:
    """Count the rows of each bag, by the number of each row's bag; those of padding are in none."""
    nobody = spread(op, 0, INT64, [bags + 1])
    ones = op.Expand(op.const(1), op.Shape(number))
    return sliced(
        op, op.typed(op.ScatterElements(nobody, number, ones, axis=0, reduction="add"), [bags + 1]), 0, 0, bags
    )


def _largest_rows(op: Op, number: Value, taken: Value, reduced: Value, indices: Value) -> Value:
    """For each element of a bag's maximum, the row of the table that it is of; 0 where there is none."""
    count, width = op.sizes(taken)
    bags = op.sizes(reduced)[0]
    is_largest = op.Equal(taken, op.Gather(reduced, number, axis=0))
    behind = op.shape([count])
    places = op.Unsqueeze(op.Range(op.const(0), op.reshape(behind, []), op.const(1)), [1])
    found = op.typed(op.Where(is_largest, places, behind), [count, width])
    none = op.typed(op.Expand(behind, op.shape([bags, width])), [bags, width])
    first = scatter_reduced(op, none, rows(op, number, found), "amin", include_self=True)
    known = op.Concat(op.cast(indices, INT64), op.const([0]), axis=0)
    return op.typed(op.Gather(known, first, axis=0), [bags, width])
