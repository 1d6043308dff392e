"""The inputs and outputs that an ONNX file declares, for runtimes that do not tell them as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from fxport.ort_runner.dtypes import BY_CODE
from fxport.ort_runner.providers import Choice
from fxport.ort_runner.session import Dim, Opened, Port


def opened_of(model: onnx.ModelProto, choice: Choice) -> Opened:
    """Properties of a session of this model, which may be without its weights."""
    graph = model.graph
    given = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return Opened(
        _ports(value for value in graph.input if value.name not in given),
        _ports(graph.output),
        choice,
        _ports(value for value in graph.input if value.name in given),
    )


def _ports(values: Iterable[onnx.ValueInfoProto]) -> tuple[Port, ...]:
    return tuple(_port(value) for value in values)


def _port(value: onnx.ValueInfoProto) -> Port:
    tensor = value.type.tensor_type
    element = BY_CODE.get(tensor.elem_type)
    kind = element.name if element else value.type.WhichOneof("value") or "unknown"
    dims: tuple[Dim, ...] = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim
    )
    return Port(value.name, kind, dims)
