"""Operators that nothing here knows, as nodes of their own domain."""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx_ir as ir
from torch._ops import OpOverload

from fxport.exporter.lowering.lower.builder import Op
from fxport.exporter.lowering.lower.registry import Lowering, Unsupported

KNOWN = frozenset({"aten", "prims", "prim", "fxport"})
"""Namespaces whose operators no library of custom operators has."""

ATTRIBUTES = (bool, int, float, str)


def in_own_domain(target: Any) -> Lowering | None:
    """The lowering of an operator of a library as the node `namespace::name`; None for an operator of PyTorch."""
    if not isinstance(target, OpOverload) or target.namespace in KNOWN:
        return None
    return Lowering((target,), partial(_node, target))


def _node(target: OpOverload, op: Op, *args: Any, **kwargs: Any) -> Any:
    """Tensors are inputs in the schema's order, everything else is an attribute of its name."""
    domain, name = target._schema.name.split("::")
    given = dict(zip((each.name for each in target._schema.arguments), args, strict=False)) | kwargs
    inputs: list[ir.Value] = []
    attributes: dict[str, Any] = {}
    for argument, value in given.items():
        parts = value if isinstance(value, (list, tuple)) else (value,)
        if parts and all(isinstance(each, ir.Value) for each in parts):
            inputs.extend(parts)
        elif all(isinstance(each, ATTRIBUTES) for each in parts):
            attributes[argument] = value
        elif value is not None:
            raise Unsupported(f"'{argument}' is {value!r}, which no attribute of a node can hold")
    return op.custom(domain, name, *inputs, outputs=len(op.outs), **attributes)
