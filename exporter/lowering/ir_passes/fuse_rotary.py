"""Rotary position embedding, written out in PyTorch, as ONNX's operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import constant_of, describe, nodes_of, put_in_place, sizes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.producers import made_by

SINCE = 23
"""The opset that brought RotaryEmbedding."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """`x · cos + turned(x) · sin`, x being [batch, heads, length, width], the tables [batch or 1, length, width]."""

    x: ir.Value
    cos: ir.Value
    sin: ir.Value
    result: ir.Node


class FuseRotary(ir.passes.InPlacePass):
    """One node for what Su et al. (arXiv:2104.09864) turn, in the form that turns halves: three times as fast.

    The tables of cosines and sines must repeat their first half, as those made of `cat([f, f])` do: the operator takes
    half a table. It takes no table that broadcasts over the batch, so such a one is expanded, once for all layers.

    Given:   %y = Add(Mul(%x, %cos), Mul(Concat(Neg(%x[…, w/2:]), %x[…, :w/2]), %sin))
    Result:  %y = RotaryEmbedding(%x, %cos[…, :w/2], %sin[…, :w/2])
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if model.opset_imports[""] < SINCE:
            return ir.passes.PassResult(model, modified=False)
        found = [_rotation(node) for node in nodes_of(model) if node.op_type == "Add" and not node.domain]
        tables = _Tables(model.graph)
        fused = [tables.fuse(each) for each in found if each is not None]
        return ir.passes.PassResult(model, any(fused))


def _rotation(add: ir.Node) -> Rotation | None:
    for plain, turned in (add.inputs, add.inputs[::-1]):
        first, second = made_by(plain, "Mul"), made_by(turned, "Mul")
        if first is None or second is None:
            continue
        for x, cos in (first.inputs, first.inputs[::-1]):
            for rotated, sin in (second.inputs, second.inputs[::-1]):
                if x is None or not _is_rotated(rotated, x):
                    continue
                tables = _table(cos, x), _table(sin, x)
                if tables[0] is not None and tables[1] is not None:
                    return Rotation(x, tables[0], tables[1], add)
    return None


def _is_rotated(value: ir.Value | None, x: ir.Value) -> bool:
    """Return True if a value is `x` with its halves exchanged, and the second one negated."""
    concat = made_by(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.attributes["axis"].as_int() not in (-1, 3):
        return False
    negated = made_by(concat.inputs[0], "Neg")
    return negated is not None and _is_half(negated.inputs[0], x, 1) and _is_half(concat.inputs[1], x, 0)


def _is_half(value: ir.Value | None, x: ir.Value, number: int) -> bool:
    """Return True if a value is the given half of `x`, [batch, heads, length, width], along the last axis."""
    sizes, half = sizes_of(x), sizes_of(value)
    if sizes is None or half is None or len(sizes) != 4 or not isinstance(sizes[3], int) or sizes[3] != 2 * half[3]:
        return False
    split = made_by(value, "Split")
    if split is not None:
        return split.inputs[0] is x and split.outputs.index(value) == number  # type: ignore[arg-type]  # it made it
    cut = made_by(value, "Slice")
    if cut is None or cut.inputs[0] is not x:
        return False
    starts = constant_of(cut.inputs[1])
    return starts is not None and starts.tolist() == [number * half[3]]


def _table(value: ir.Value | None, x: ir.Value) -> ir.Value | None:
    """The table [batch or 1, length, width] behind one that is laid over the heads; None if it cannot be halved."""
    unsqueeze, sizes = made_by(value, "Unsqueeze"), sizes_of(x)
    if unsqueeze is None or sizes is None:
        return None
    axes, table = constant_of(unsqueeze.inputs[1]), unsqueeze.inputs[0]
    fits = sizes_of(table) in ((1, *sizes[2:]), (sizes[0], *sizes[2:]))
    if axes is None or axes.tolist() != [1] or not fits or not _repeats(table):
        return None
    return table


def _repeats(value: ir.Value | None) -> bool:
    """Return True if both halves of a table are equal, because it was made of one half twice."""
    node = value.producer() if value is not None else None
    if node is None:
        return False
    if node.op_type == "Concat":
        return (
            len(node.inputs) == 2 and node.inputs[0] is node.inputs[1] and node.attributes["axis"].as_int() in (-1, 2)
        )
    if node.op_type == "Mul":
        scalars = [constant_of(each) for each in node.inputs]
        rest = [each for each, scalar in zip(node.inputs, scalars, strict=True) if scalar is None or scalar.size != 1]
        return len(rest) == 1 and _repeats(rest[0])
    return node.op_type in ("Cos", "Sin", "Cast") and _repeats(node.inputs[0])


def _unshaped(x: ir.Value) -> ir.Value:
    """Return a value before it was reshaped and transposed, provided that the first axis stays: those nodes can go."""
    node = made_by(x, "Transpose") or made_by(x, "Reshape")
    source = node.inputs[0] if node is not None else None
    sizes = sizes_of(source)
    return _unshaped(source) if source is not None and sizes and sizes[0] == x.meta[SIZES][0] else x


class _Tables:
    """Makes the halved tables of a graph and of bodies, each once in each of them."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.made: dict[tuple[ir.Value, object, ir.Graph | ir.Function | None], ir.Value] = {}
        self.constants: dict[tuple[int, ...], ir.Value] = {}

    def fuse(self, it: Rotation) -> bool:
        old = it.result.outputs[0]
        cos, sin = self._half(it.cos, it), self._half(it.sin, it)
        fused = self._node("RotaryEmbedding", [it.x, cos, sin], it.result)
        describe(fused, old)
        return put_in_place(old, fused)

    def _half(self, table: ir.Value, it: Rotation) -> ir.Value:
        batch, _, length, width = it.x.meta[SIZES]
        key = (table, batch, it.result.graph)
        if key not in self.made:
            cut = [self._constant(0), self._constant(width // 2), self._constant(2)]
            half = self._node("Slice", [table, *cut], it.result)
            half.type = table.type
            if table.meta[SIZES][0] != batch:
                half = self._over_batch(half, it)
            half.meta[SIZES] = (batch, length, width // 2)
            self.made[key] = half
        return self.made[key]

    def _over_batch(self, half: ir.Value, it: Rotation) -> ir.Value:
        """The table once for each entry of the batch."""
        size = self._node("Shape", [_unshaped(it.x)], it.result, start=0, end=1)
        target = self._node("Concat", [size, self._constant(1, 1)], it.result, axis=0)
        size.dtype = target.dtype = ir.DataType.INT64
        expanded = self._node("Expand", [half, target], it.result)
        expanded.type = half.type
        return expanded

    def _constant(self, *numbers: int) -> ir.Value:
        if numbers not in self.constants:
            name = f"rotary.{'.'.join(map(str, numbers))}"
            tensor = ir.Tensor(np.array(numbers, np.int64), name=name)
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
            value.meta[SIZES] = (len(numbers),)
            self.graph.initializers.add(value)
            self.constants[numbers] = value
        return self.constants[numbers]

    def _node(self, op_type: str, inputs: list[ir.Value], before: ir.Node, **attributes: int) -> ir.Value:
        """The output of a new node, at the place of the sum that it stands for or helps to replace."""
        name = f"{before.name}/{op_type}.{len(self.made)}"
        given = ir.convenience.convert_attributes(attributes)
        node = ir.Node("", op_type, inputs, given, outputs=[ir.Value(name=name)], name=name)
        node.metadata_props.update(before.metadata_props)
        assert before.graph is not None
        before.graph.insert_before(before, node)
        return node.outputs[0]
