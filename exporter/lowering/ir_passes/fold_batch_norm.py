"""A batch normalization right after a convolution becomes part of the convolution's weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import fixed, nodes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.places import remark
from fxport.exporter.lowering.lower.weights import LazyWeight

CHANNEL_AXIS = {"Conv": 0, "ConvTranspose": 1}
"""Axis of the output channels in the weight of each operator (of ConvTranspose, for one group)."""


class FoldBatchNorm(ir.passes.InPlacePass):
    """Scales a convolution's weight and bias by the statistics that follow it, in float64, when the model is saved.

    Only in inference, where the convolution serves nothing else and all parameters are weights.

    Given:   %c = Conv(%x, %w, %b); %y = BatchNormalization(%c, %scale, %bias, %mean, %var)
    Result:  %y = Conv(%x, %w', %b')
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in nodes_of(model):
            if node.op_type == "BatchNormalization" and not node.domain:
                modified |= self._fold(model.graph, node)
        return ir.passes.PassResult(model, modified)

    def _fold(self, graph: ir.Graph, norm: ir.Node) -> bool:
        conv = norm.inputs[0].producer() if norm.inputs[0] is not None else None
        if conv is None or conv.graph is not norm.graph or len(conv.outputs[0].uses()) != 1:
            return False
        if conv.op_type not in CHANNEL_AXIS or conv.domain:
            return False
        if norm.attributes.get_int("training_mode", 0) or conv.outputs[0].is_graph_output():
            return False
        if conv.op_type == "ConvTranspose" and conv.attributes.get_int("group", 1) != 1:
            return False
        weights = _tensors([conv.inputs[1], *conv.inputs[2:3], *norm.inputs[1:5]])
        if weights is None or any(tensor.dtype != weights[0].dtype for tensor in weights):
            return False
        kernel, *bias, scale, shift, mean, variance = weights
        folded = _Folded(
            kernel, bias[0] if bias else None, scale, shift, mean, variance, norm, CHANNEL_AXIS[conv.op_type]
        )
        name = str(conv.inputs[1].name)  # type: ignore[union-attr]  # it has a tensor
        conv.replace_input_with(1, _lazy(graph, f"{name}.folded", kernel.shape, kernel.dtype, folded.kernel))
        new_bias = _lazy(graph, f"{name}.bias.folded", shift.shape, kernel.dtype, folded.bias)
        if len(conv.inputs) > 2:
            conv.replace_input_with(2, new_bias)
        else:
            conv.resize_inputs(3)
            conv.replace_input_with(2, new_bias)
        _replace(norm.outputs[0], conv.outputs[0])
        assert norm.graph is not None
        norm.graph.remove(norm, safe=True)
        return True


class _Folded:
    """The folded parameters, computed when asked for: Ioffe and Szegedy (arXiv:1502.03167), section 3.1."""

    def __init__(
        self,
        kernel: ir.TensorProtocol,
        bias: ir.TensorProtocol | None,
        scale: ir.TensorProtocol,
        shift: ir.TensorProtocol,
        mean: ir.TensorProtocol,
        variance: ir.TensorProtocol,
        norm: ir.Node,
        axis: int,
    ) -> None:
        self._kernel, self._bias, self._scale, self._shift = kernel, bias, scale, shift
        self._mean, self._variance = mean, variance
        self._epsilon = norm.attributes.get_float("epsilon", 1e-5)
        self._axis = axis

    def _factor(self) -> np.ndarray:
        return _double(self._scale) / np.sqrt(_double(self._variance) + self._epsilon)

    def kernel(self) -> np.ndarray:
        shape = [1] * len(self._kernel.shape)
        shape[self._axis] = -1
        return _double(self._kernel) * self._factor().reshape(shape)

    def bias(self) -> np.ndarray:
        bias = 0.0 if self._bias is None else _double(self._bias)
        return (bias - _double(self._mean)) * self._factor() + _double(self._shift)


def _tensors(values: list[ir.Value | None]) -> list[ir.TensorProtocol] | None:
    """The tensors of values that all are initializers; None if one of them is not."""
    tensors = [tensor for value in values if (tensor := fixed(value)) is not None]
    return tensors if len(tensors) == len(values) else None


def _double(tensor: ir.TensorProtocol) -> np.ndarray:
    return tensor.numpy().astype(np.float64)


def _lazy(
    graph: ir.Graph, name: str, shape: ir.ShapeProtocol, dtype: ir.DataType, compute: Callable[[], np.ndarray]
) -> ir.Value:
    sizes = tuple(int(size) for size in shape)  # type: ignore[arg-type]  # a weight's sizes are numbers
    while name in graph.initializers:
        name += "_"
    tensor = LazyWeight(
        lambda: ir.Tensor(compute().astype(dtype.numpy()), dtype=dtype, name=name),
        dtype=dtype,
        shape=ir.Shape(sizes),
        name=name,
    )
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes), const_value=tensor)
    value.meta[SIZES] = sizes
    graph.initializers.add(value)
    return value


def _replace(old: ir.Value, new: ir.Value) -> None:
    """`new` takes the place of `old`, with its name where that is an output's."""
    new.shape = old.shape
    if old.is_graph_output():
        old.name, new.name = f"{old.name}.normalized", old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    remark(new, old)
