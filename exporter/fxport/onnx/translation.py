"""`custom_translation_table` of torch.onnx as lowerings: functions of ONNX Script, and of fxport's builder."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op
from fxport.exporter.lowering.lower.registry import Lowering, Unsupported
from fxport.exporter.pipeline.calls import CallError, shown
from fxport.exporter.pipeline.options import MIN_OPSET

ADVICE = (
    "write it for fxport's builder: def translate(op, x, ...): return op.Relu(x), with `op` as its first parameter; "
    "see fxport.lowering"
)


def lowerings_of(table: object) -> dict[Any, Callable[..., Any]]:
    """The table as lowerings.

    Args:
        table: Functions by operators of PyTorch: `@onnxscript.script()` functions without control flow, plain functions
            that call opsets of ONNX Script, lowerings, or functions whose first parameter is `op`, fxport's builder.

    Raises:
        TypeError: What is no such table, or a function that the builder cannot call.
    """
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise CallError(f"custom_translation_table is {shown(table)}; give functions by operators of PyTorch")
    return {target: _lowering(target, function) for target, function in table.items()}


def _lowering(target: object, function: Any) -> Callable[..., Any]:
    where = f"custom_translation_table[{target}]"
    if isinstance(function, Sequence):
        raise CallError(f"{where} is a {type(function).__name__}; give one function for each operator")
    if isinstance(function, Lowering):
        return function
    if hasattr(function, "to_function_proto"):
        if getattr(function, "traceable", False):
            return _traced(function.function, where)
        return _scripted(function, where)
    if not callable(function):
        raise CallError(f"{where} is {shown(function)}; {ADVICE}")
    first = next(iter(inspect.signature(function).parameters), None)
    return function if first == "op" else _traced(function, where)


def _scripted(function: Any, where: str) -> Callable[..., Any]:
    """A function of ONNX Script: its nodes, written by the builder where the operator stood."""
    body = ir.from_proto(function.to_function_proto())
    assert isinstance(body, ir.Function)
    for node in body:
        if any(attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attribute in _own(node)):
            raise CallError(f"{where} has control flow ({node.op_type}), which fxport does not take over; {ADVICE}")
        if node.domain not in ("", "ai.onnx", *onnx_domains()):
            raise CallError(f"{where} calls '{node.op_type}' of '{node.domain}', which is no part of it; {ADVICE}")
    names = [*inspect.signature(function.function).parameters] if hasattr(function, "function") else _parameters(body)

    def write(op: Op, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        values: dict[str | None, Any] = {value.name: given.pop(str(value.name), None) for value in body.inputs}
        attributes = {name: given.pop(name, attribute.value) for name, attribute in body.attributes.items()}
        if left := [name for name, value in given.items() if value is not None]:
            raise Unsupported(f"the function in custom_translation_table has no parameter {', '.join(left)}")
        for node in body:
            _write(op, node, values, attributes, body.opset_imports.get(node.domain, op.opset))
        results = [values[value.name] for value in body.outputs]
        return results[0] if len(results) == 1 else tuple(results)

    return write


def onnx_domains() -> frozenset[str]:
    """The domains that the installed ONNX has operators of."""
    return frozenset(schema.domain for schema in onnx.defs.get_all_schemas())


def _own(node: ir.Node) -> list[ir.Attr]:
    return [attribute for attribute in node.attributes.values() if not attribute.is_ref()]


def _parameters(body: ir.Function) -> list[str]:
    return [*(str(value.name) for value in body.inputs), *body.attributes]


def _write(op: Op, node: ir.Node, values: dict[str | None, Any], given: Mapping[str, Any], version: int) -> None:
    """One node of a function of this opset, on the values and the attributes of its call."""
    attributes = {
        name: given[str(attribute.ref_attr_name)] if attribute.is_ref() else _plain(attribute)
        for name, attribute in node.attributes.items()
    }
    if node.op_type == "Constant" and not node.domain:
        values[node.outputs[0].name] = op.const(_content(attributes))
        return
    _require_same(op, node.op_type, node.domain, version)
    inputs = [None if value is None else values[value.name] for value in node.inputs]
    results = op.call(node.op_type, *inputs, outputs=len(node.outputs), domain=node.domain, **attributes)
    values.update(zip((value.name for value in node.outputs), results, strict=True))


def _content(attributes: Mapping[str, Any]) -> Any:
    """Return the content of a Constant, a tensor as an array. Raises Unsupported for text and sparse ones."""
    ((name, content),) = ((name, content) for name, content in attributes.items() if content is not None)
    if name == "value":
        return content if isinstance(content, np.ndarray) else ir.from_proto(content).numpy()
    if name not in ("value_float", "value_floats", "value_int", "value_ints"):
        raise Unsupported(f"a Constant with {name} is not one of fxport's")
    return list(content) if name.endswith("s") else content


def _plain(attribute: ir.Attr) -> Any:
    """The value of an attribute; tensors as arrays."""
    value = attribute.value
    return value.numpy() if attribute.type is ir.AttributeType.TENSOR else value


def _require_same(op: Op, op_type: str, domain: str, version: int) -> None:
    """Raises Unsupported where an operator is not the same in the opset of the function and in that of the model."""
    wanted = op.domains.get(domain, op.opset)
    try:
        old, new = (onnx.defs.get_schema(op_type, each, domain) for each in (version, wanted))
    except onnx.defs.SchemaError as error:
        raise Unsupported(f"ONNX has no {op_type} at opset {version} or {wanted}") from error
    alike = min(version, wanted) >= MIN_OPSET and _signature(old) == _signature(new)
    if old.since_version != new.since_version and not alike:
        raise Unsupported(
            f"{op_type} of opset {version} is not that of opset {wanted}; write the function with opset{wanted}, or "
            f"give opset_version={version}"
        )


def _signature(schema: onnx.defs.OpSchema) -> object:
    """All but the types: from opset 18 on, a new version with the same signature takes more types, and no more."""
    ends = [[(each.name, each.option) for each in side] for side in (schema.inputs, schema.outputs)]
    attributes = {name: (each.type, each.required, str(each.default_value)) for name, each in schema.attributes.items()}
    return ends, attributes


def _traced(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    """A plain function that calls opsets of ONNX Script: it runs with the builder in the place of their evaluator."""
    if "onnxscript" not in sys.modules:
        raise CallError(f"{where} calls no opset of ONNX Script, which is not imported; {ADVICE}")

    evaluator = import_module("onnxscript.evaluator")

    def write(op: Op, *args: Any, **kwargs: Any) -> Any:
        with evaluator.default_as(_Evaluator(op)):
            return function(*args, **kwargs)

    return write


class _Evaluator:
    """Evaluator that ONNX Script calls for each operator, from version 0.6 on."""

    def __init__(self, op: Op) -> None:
        self._op = op

    def eval_op(self, called: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Writes one node. `called` is an `onnxscript.values.Op`."""
        if called.name == "Constant" and not called.opset.domain:
            return self._op.const(_content(kwargs))
        opset = called.opset
        _require_same(self._op, called.name, opset.domain, opset.version)
        schema = called.op_schema
        names = [each.name for each in schema.inputs]
        attributes = {name: value for name, value in kwargs.items() if name not in names}
        operands = [*args, *(kwargs.get(name) for name in names[len(args) :])]
        while operands and operands[-1] is None:
            operands.pop()
        count = attributes.get("num_outputs") or (schema.min_output if schema.min_output > 1 else None)
        return self._op.call(called.name, *operands, outputs=count, domain=opset.domain, **attributes)

    def eval_function(self, called: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Writes the nodes of a function that the function calls."""
        return _lowering(getattr(called, "name", "function"), called)(self._op, *args, **kwargs)
