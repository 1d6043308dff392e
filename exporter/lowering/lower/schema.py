"""ONNX operator schemas as the builder needs them: which inputs share a type, where an output's type comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx_ir as ir
from onnx import defs

DEFAULT_DOMAIN = ""

_TYPES: Mapping[str, ir.DataType] = {
    f"tensor({name})": dtype
    for name, dtype in {
        "bool": ir.DataType.BOOL,
        "uint8": ir.DataType.UINT8,
        "uint16": ir.DataType.UINT16,
        "uint32": ir.DataType.UINT32,
        "uint64": ir.DataType.UINT64,
        "int8": ir.DataType.INT8,
        "int16": ir.DataType.INT16,
        "int32": ir.DataType.INT32,
        "int64": ir.DataType.INT64,
        "float16": ir.DataType.FLOAT16,
        "bfloat16": ir.DataType.BFLOAT16,
        "float": ir.DataType.FLOAT,
        "double": ir.DataType.DOUBLE,
        "string": ir.DataType.STRING,
    }.items()
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output: its type variable ("T"), or the one dtype it always has, and whether it repeats."""

    variable: str
    fixed: ir.DataType | None
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True, slots=True)
class OpSchema:
    """Parts of an operator's schema that the builder uses."""

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: frozenset[str]
    min_outputs: int

    def input(self, index: int) -> Parameter:
        return self.inputs[min(index, len(self.inputs) - 1)]

    def output(self, index: int) -> Parameter:
        return self.outputs[min(index, len(self.outputs) - 1)]


@cache
def schema_of(op_type: str, opset: int, domain: str = DEFAULT_DOMAIN) -> OpSchema:
    """The schema of an operator at an opset. Raises AttributeError where that opset has no such operator."""
    try:
        schema = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        raise AttributeError(f"ONNX opset {opset} has no operator '{op_type}'") from None
    constraints = {c.type_param_str: tuple(c.allowed_type_strs) for c in schema.type_constraints}

    def parameter(formal: defs.OpSchema.FormalParameter) -> Parameter:
        allowed = constraints.get(formal.type_str, (formal.type_str,))
        fixed = _TYPES.get(allowed[0]) if len(allowed) == 1 else None
        variadic = formal.option == defs.OpSchema.FormalParameterOption.Variadic
        return Parameter(formal.type_str, fixed, variadic, formal.is_homogeneous)

    return OpSchema(
        tuple(map(parameter, schema.inputs)),
        tuple(map(parameter, schema.outputs)),
        frozenset(schema.attributes),
        schema.min_output,
    )
