"""Products of groups of rows with a matrix each, as layers of experts compute them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import Unsupported, lowering

aten = torch.ops.aten

INT64 = ir.DataType.INT64


@lowering(aten._grouped_mm.default)
def grouped_mm(
    op: Op,
    x: Value,
    mat2: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    out_dtype: ir.DataType | None = None,
) -> Value:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    Rows [s, k] in groups that end at `offs`, with matrices [groups, k, n]; without `offs` a batch of products.
    """
    if bias is not None:
        raise Unsupported("grouped_mm with a bias, which PyTorch does not compute either")
    if offs is None:
        return op.cast(op.MatMul(x, mat2), op.out.dtype)
    if op.rank(x) != 2 or op.rank(mat2) != 3:
        raise Unsupported("grouped_mm whose groups are not groups of rows of the first operand")
    return op.cast(_by_rows(op, x, mat2, op.cast(offs, INT64)), op.out.dtype)


@lowering("transformers.grouped_mm_fallback.default")
def grouped_mm_fallback(op: Op, x: Value, weight: Value, offs: Value) -> Value:
    """transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor

    What transformers' mixtures of experts call where PyTorch's own grouped product is not captured.
    """
    return _by_rows(op, x, weight, op.cast(offs, INT64))


def _by_rows(op: Op, x: Value, matrices: Value, ends: Value) -> Value:
    """A Loop over the groups. An empty one reads nothing: of many experts, few are asked for a few words."""
    groups, _, columns = op.sizes(matrices)
    number, start = op.formal(INT64, ()), op.formal(INT64, (1,))
    so_far = op.formal(x.dtype, None)

    def turn() -> Sequence[Value]:
        at = op.Reshape(number, [1])
        end = op.Gather(ends, at, axis=0)
        chosen = op.If(
            op.Squeeze(op.Less(start, end), [0]),
            then_branch=op.graph((), lambda: [_group(op, x, matrices, number, start, end)]),
            else_branch=op.graph((), lambda: [_rows(op, x, columns)]),
        )
        return [op.const(True), end, op.Concat(so_far, chosen, axis=0)]

    body = op.graph([number, op.formal(ir.DataType.BOOL, ()), start, so_far], turn)
    first, nothing = op.const([0]), _rows(op, x, columns)
    return op.Loop(op.const(groups, dtype=INT64), None, first, nothing, body=body, outputs=2)[1]


def _group(op: Op, x: Value, matrices: Value, number: Value, start: Value, end: Value) -> Value:
    return op.MatMul(op.Slice(x, start, end, [0]), op.Gather(matrices, number, axis=0))


def _rows(op: Op, like: Value, columns: object) -> Value:
    """No rows of the result, [0, columns]."""
    assert like.dtype is not None
    return op.Cast(op.ConstantOfShape(op.shape([0, columns])), to=like.dtype)  # type: ignore[list-item]  # a size
