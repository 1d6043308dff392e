"""Insertion of casts around nodes for whose dtype ONNX Runtime has no kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import onnx_ir as ir
from onnx import defs

from fxport.diagnostics import Log, rules
from fxport.exporter.lowering.kernels import has_kernel
from fxport.exporter.lowering.lower.places import PlaceTable, remark
from fxport.exporter.lowering.lower.schema import schema_of

D = ir.DataType

WIDER: Mapping[ir.DataType, tuple[ir.DataType, ...]] = {
    D.BOOL: (D.UINT8, D.INT32, D.INT64, D.FLOAT),
    D.INT8: (D.INT32, D.INT64, D.FLOAT),
    D.UINT8: (D.INT32, D.INT64, D.FLOAT),
    D.INT16: (D.INT32, D.INT64, D.FLOAT),
    D.UINT16: (D.INT32, D.INT64, D.FLOAT),
    D.INT32: (D.INT64, D.DOUBLE, D.FLOAT),
    D.UINT32: (D.INT64, D.DOUBLE),
    D.INT64: (D.DOUBLE, D.INT32, D.FLOAT),
    D.UINT64: (D.INT64, D.DOUBLE),
    D.BFLOAT16: (D.FLOAT, D.DOUBLE),
    D.DOUBLE: (D.FLOAT,),
    D.FLOAT8E4M3FN: (D.FLOAT,),
    D.FLOAT8E5M2: (D.FLOAT,),
}
"""Substitute dtypes for computation, best first. FLOAT16 is missing: ONNX Runtime inserts those casts by itself."""

EXACT_BITS: Mapping[ir.DataType, int] = {
    **dict.fromkeys((D.BOOL, D.INT8, D.UINT8), 8),
    **dict.fromkeys((D.INT16, D.UINT16, D.BFLOAT16), 16),
    **dict.fromkeys((D.FLOAT,), 24),
    **dict.fromkeys((D.INT32, D.UINT32), 32),
    D.DOUBLE: 53,
    **dict.fromkeys((D.INT64, D.UINT64), 64),
}
"""Number of bits of an integer, or of a float's significand, that a dtype holds."""

CONTAINERS = frozenset({"If", "Loop", "Scan", "Cast", "CastLike", "Constant"})
"""Operators that compute nothing in their operands' dtype, or are the cure themselves."""


class InsertCasts(ir.passes.InPlacePass):
    """Casts the operands of nodes that no provider of some has a kernel for, and their results back.

    The table of kernels is asked, not the runtime: a model may be exported where there is none. A cast that loses
    precision is reported as PrecisionLowered.

    Given:   %y = MatMul(%a: BFLOAT16, %b: BFLOAT16)
    Result:  %y = Cast(MatMul(Cast(%a, FLOAT), Cast(%b, FLOAT)), BFLOAT16)
    """

    def __init__(self, log: Log, providers: Sequence[str] = ("cpu",)) -> None:
        super().__init__()
        self.log = log
        self.providers = providers

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        opset = model.opset_imports[""]
        self.places = PlaceTable(model)
        modified = False
        for graph in (*model.graphs(), *(function.graph for function in model.functions.values())):
            for node in list(graph):
                if not node.domain and node.op_type not in CONTAINERS:
                    change = self._change(node, opset)
                    if change:
                        _recast(node, change, opset)
                        modified = True
        return ir.passes.PassResult(model, modified)

    def _change(self, node: ir.Node, opset: int) -> dict[str, ir.DataType]:
        """For each type variable that has to change, the dtype to compute in; empty where all is well or none helps."""
        binding = binding_of(node, opset)
        if self._runs(node, opset, binding):
            return {}
        for change in _alternatives(binding):
            wanted = {**binding, **change}
            if self._runs(node, opset, wanted):
                self._report(node, binding, change)
                return change
        return {}

    def _runs(self, node: ir.Node, opset: int, binding: Mapping[str, ir.DataType]) -> bool:
        """Return True if ONNX allows these dtypes, and a provider has a kernel for them."""
        return is_legal(node, opset, binding) and any(
            has_kernel(provider, node.op_type, opset, binding) for provider in self.providers
        )

    def _report(self, node: ir.Node, binding: Mapping[str, ir.DataType], change: Mapping[str, ir.DataType]) -> None:
        for source, target in {(binding[variable], target) for variable, target in change.items()}:
            if EXACT_BITS.get(source, 8) > EXACT_BITS[target]:
                self.log.report(
                    rules.PRECISION_LOWERED,
                    at=self.places.of(node),
                    name=node.op_type,
                    source=source.name,
                    target=target.name,
                )


def binding_of(node: ir.Node, opset: int) -> dict[str, ir.DataType]:
    """The dtype that each type variable of an operator's schema has at a node."""
    schema = schema_of(node.op_type, opset)
    binding: dict[str, ir.DataType] = {}
    for index, value in enumerate(node.inputs):
        if value is not None and value.dtype is not None and schema.inputs:
            binding.setdefault(schema.input(index).variable, value.dtype)
    for index, value in enumerate(node.outputs):
        if value.dtype is not None and schema.outputs:
            binding.setdefault(schema.output(index).variable, value.dtype)
    return {name: dtype for name, dtype in binding.items() if not name.startswith("tensor(")}


def is_legal(node: ir.Node, opset: int, binding: Mapping[str, ir.DataType]) -> bool:
    """Return True if ONNX itself allows these dtypes: a few operators lack some that ATen has."""
    allowed = _allowed(node.op_type, opset)
    return all(f"tensor({_onnx_name(dtype)})" in allowed[name] for name, dtype in binding.items() if name in allowed)


@cache
def _allowed(op_type: str, opset: int) -> Mapping[str, frozenset[str]]:
    constraints = defs.get_schema(op_type, opset).type_constraints
    return {each.type_param_str: frozenset(each.allowed_type_strs) for each in constraints}


_NAMES = {D.FLOAT: "float", D.DOUBLE: "double"}


def _onnx_name(dtype: ir.DataType) -> str:
    return _NAMES.get(dtype, dtype.name.lower())


def _alternatives(binding: Mapping[str, ir.DataType]) -> Iterator[dict[str, ir.DataType]]:
    """Changes to try: one dtype replaced in every variable that has it, then each pair of dtypes."""
    dtypes = list(dict.fromkeys(dtype for dtype in binding.values() if dtype in WIDER))
    for dtype in dtypes:
        for target in WIDER[dtype]:
            yield {name: target for name, has in binding.items() if has == dtype}
    for one in dtypes:
        for other in dtypes:
            if one != other:
                for target in WIDER[one]:
                    for second in WIDER[other]:
                        yield {n: target if h == one else second for n, h in binding.items() if h in (one, other)}


def _recast(node: ir.Node, change: Mapping[str, ir.DataType], opset: int) -> None:
    schema, graph = schema_of(node.op_type, opset), node.graph
    assert graph is not None
    for index, value in enumerate(node.inputs):
        target = change.get(schema.input(index).variable) if value is not None and schema.inputs else None
        if value is not None and target is not None:
            cast = _cast(value, target, node, f"{node.name}.in{index}")
            graph.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
    for index, value in enumerate(node.outputs):
        variable = schema.output(index).variable
        if variable in change and value.dtype is not None:
            source = value.dtype
            cast = _cast(value, source, node, f"{node.name}.out{index}")
            result = cast.outputs[0]
            value.replace_all_uses_with(result, replace_graph_outputs=True)
            cast.replace_input_with(0, value)
            result.name, value.name = value.name, result.name
            remark(result, value)
            result.shape = value.shape
            value.type = ir.TensorType(change[variable])  # of its own: values of one type may share the object
            graph.insert_after(node, cast)


def _cast(value: ir.Value, target: ir.DataType, like: ir.Node, name: str) -> ir.Node:
    node = ir.node("Cast", [value], {"to": int(target)}, name=name)
    node.metadata_props.update(like.metadata_props)
    output = node.outputs[0]
    output.name, output.dtype, output.shape = name, target, value.shape
    return node
