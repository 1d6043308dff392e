"""Kernel tables of ONNX Runtime, one file per execution provider, made by `fxport.ort_runner.kernels`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import onnx_ir as ir
from onnx import defs

_DTYPES: Mapping[str, ir.DataType] = {
    "bool": ir.DataType.BOOL,
    "u8": ir.DataType.UINT8,
    "u16": ir.DataType.UINT16,
    "u32": ir.DataType.UINT32,
    "u64": ir.DataType.UINT64,
    "i8": ir.DataType.INT8,
    "i16": ir.DataType.INT16,
    "i32": ir.DataType.INT32,
    "i64": ir.DataType.INT64,
    "f16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
    "f32": ir.DataType.FLOAT,
    "f64": ir.DataType.DOUBLE,
    "float8e4m3fn": ir.DataType.FLOAT8E4M3FN,
    "float8e4m3fnuz": ir.DataType.FLOAT8E4M3FNUZ,
    "float8e5m2": ir.DataType.FLOAT8E5M2,
    "float8e5m2fnuz": ir.DataType.FLOAT8E5M2FNUZ,
    "u4": ir.DataType.UINT4,
    "i4": ir.DataType.INT4,
}

Binding = Mapping[str, ir.DataType]
"""Type variable of an operator's schema → the dtype it has at a node."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One registration: the operator versions it was written for, and the dtypes of each type variable."""

    since: int
    until: int | None
    types: Mapping[str, frozenset[ir.DataType]]

    def serves(self, version: int, binding: Binding) -> bool:
        """Return True if it runs a node whose operator got its schema at opset `version`, with these dtypes."""
        if self.since != version and not (self.since < version and self.until is not None and self.until >= version):
            return False
        return all(binding[name] in allowed for name, allowed in self.types.items() if name in binding)


@cache
def kernels_of(provider: str) -> Mapping[str, Sequence[Kernel]]:
    """The kernels of a provider by operator. Raises FileNotFoundError for a provider without a table."""
    text = resources.files(__name__).joinpath(f"{provider}.tsv").read_text(encoding="utf-8")
    table: dict[str, list[Kernel]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            op_type, since, until, types = line.split("\t")
            table.setdefault(op_type, []).append(Kernel(int(since), int(until) if until else None, _types(types)))
    return table


def _types(text: str) -> dict[str, frozenset[ir.DataType]]:
    pairs = (part.split("=") for part in text.split(";") if part)
    return {name: frozenset(_DTYPES[kind] for kind in kinds.split(",") if kind in _DTYPES) for name, kinds in pairs}


@cache
def schema_version(op_type: str, opset: int) -> int:
    """The opset at which the operator got the schema that it has at `opset`."""
    return defs.get_schema(op_type, opset).since_version


def has_kernel(provider: str, op_type: str, opset: int, binding: Binding) -> bool:
    """Return True if the provider runs this operator at this opset with these dtypes.

    Operators without any row are taken to be functions, which the runtime expands into others.
    """
    rows = kernels_of(provider).get(op_type)
    return rows is None or any(row.serves(schema_version(op_type, opset), binding) for row in rows)
