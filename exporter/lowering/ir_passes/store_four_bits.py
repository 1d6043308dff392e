"""Quantized weights whose numbers fit in 4 bits are stored in 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import fixed
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.producers import made_by
from fxport.exporter.lowering.lower.weights import LazyWeight, WeightlessError
from fxport.exporter.lowering.lowerings.quant import DECLARED

SINCE = 21
"""From which opset on DequantizeLinear takes numbers of 4 bits."""

NARROW: Mapping[ir.DataType, tuple[ir.DataType, Any]] = {
    ir.DataType.INT8: (ir.DataType.INT4, ml_dtypes.int4),
    ir.DataType.UINT8: (ir.DataType.UINT4, ml_dtypes.uint4),
}

BOUNDS = {ir.DataType.INT4: (-8, 7), ir.DataType.UINT4: (0, 15)}


class StoreFourBits(ir.passes.InPlacePass):
    """Pack weights that a model declares to lie in a range of 4 bits, and that do, two numbers to a byte.

    PyTorch keeps such weights in bytes. Only those that the range is declared for are read, one at a time; a weight
    without values, or with another use, stays as it is.

    Given:   %y = DequantizeLinear(%weight, %scale, %zero), all within -8 and 7, with %weight of INT8
    Result:  %y = DequantizeLinear(%weight, %scale, %zero), with %weight of INT4
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if model.opset_imports.get("", 0) < SINCE:
            return ir.passes.PassResult(model, modified=False)
        packed = [_pack(model.graph, value) for value in list(model.graph.initializers.values())]
        return ir.passes.PassResult(model, any(packed))


def _pack(graph: ir.Graph, weight: ir.Value) -> bool:
    users = [use.node for use in weight.uses()]
    tensor = fixed(weight)
    if tensor is None or tensor.dtype not in NARROW or not users or weight.is_graph_output():
        return False
    narrow, kind = NARROW[tensor.dtype]
    bounds = BOUNDS[narrow]
    if not all(_is_declared(user, weight, bounds) for user in users):
        return False
    try:
        zeros = [_numbers_of(_zero_of(user)) for user in users]
        fits = all(numbers is not None and _within(numbers, bounds) for numbers in (tensor.numpy(), *zeros))
    except WeightlessError:
        return False
    if not fits:
        return False
    for user, numbers in zip(users, zeros, strict=True):
        if _zero_of(user) is not None:
            user.replace_input_with(2, _stored(graph, f"{weight.name}.zero", np.asarray(numbers).astype(kind), narrow))
    weight.const_value = LazyWeight(
        lambda: ir.Tensor(tensor.numpy().astype(kind), dtype=narrow, name=tensor.name),
        dtype=narrow,
        shape=ir.Shape([int(size) for size in tensor.shape]),  # type: ignore[arg-type]  # a weight's sizes are numbers
        name=tensor.name,
    )
    weight.dtype = narrow
    return True


def _is_declared(user: ir.Node, weight: ir.Value, bounds: tuple[int, int]) -> bool:
    """Return True if the user dequantizes the weight from a range within 4 bits."""
    if user.op_type != "DequantizeLinear" or user.domain or any(each is weight for each in user.inputs[1:]):
        return False
    low, high = user.outputs[0].meta.get(DECLARED, (None, None))
    return low is not None and low >= bounds[0] and high <= bounds[1]


def _zero_of(user: ir.Node) -> ir.Value | None:
    return user.inputs[2] if len(user.inputs) > 2 else None


def _numbers_of(zero: ir.Value | None) -> np.ndarray | None:
    """The zero points, of any integer type; 0 where there are none, and None where only a run tells them."""
    if zero is None:
        return np.zeros(1, np.int8)
    cast = made_by(zero, "Cast")
    tensor = fixed(cast.inputs[0] if cast is not None else zero)
    return None if tensor is None else tensor.numpy()


def _within(values: np.ndarray, bounds: tuple[int, int]) -> bool:
    return not values.size or bool(values.min() >= bounds[0] and values.max() <= bounds[1])


def _stored(graph: ir.Graph, name: str, numbers: np.ndarray, dtype: ir.DataType) -> ir.Value:
    """A constant of the graph, under the name or one with a number behind."""
    unique, number = name, 0
    while unique in graph.initializers:
        number += 1
        unique = f"{name}.{number}"
    tensor = ir.Tensor(numbers, dtype=dtype, name=unique)
    value = ir.Value(name=unique, type=ir.TensorType(dtype), shape=ir.Shape(numbers.shape), const_value=tensor)
    value.meta[SIZES] = tuple(numbers.shape)
    graph.register_initializer(value)
    return value
