"""The walk: each FX node once, in order, to its lowering and to ONNX values; bodies of control flow likewise."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import onnx_ir as ir
import sympy
import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Fix, Log, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.lowering.lower.builder import SIZES, Op, RegionCall, Scope, TensorType
from fxport.exporter.lowering.lower.dtypes import UnsupportedDtype, onnx_dtype
from fxport.exporter.lowering.lower.folding import SUFFIX, FoldedWeight, folds_for
from fxport.exporter.lowering.lower.interface import (
    declare_inputs,
    declare_outputs,
    opaque,
    report_empty,
    takes_unlowered_sparse,
    tensors_in,
    types_of,
    weight,
)
from fxport.exporter.lowering.lower.names import DimNames
from fxport.exporter.lowering.lower.outputs import report_outputs
from fxport.exporter.lowering.lower.own_domain import in_own_domain
from fxport.exporter.lowering.lower.places import TABLE, Places, mark
from fxport.exporter.lowering.lower.registry import IGNORED, Lowering, Unsupported
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.decompose import REFUSED, SIZE_DECIDED
from fxport.fx_passes.graph import ORIGIN, SizeError, place_of
from fxport.fx_passes.passes.complex_to_real import NO_REAL_FORM
from fxport.fx_passes.passes.custom_writes import called_op
from fxport.fx_passes.program import Program
from fxport.fx_passes.regions import Call, region_of
from fxport.fx_passes.sizes import Size, size_of

IR_VERSIONS = ((25, 13), (24, 12), (23, 11), (21, 10), (19, 9), (0, 8))
"""(from this opset on, IR version): the first IR version whose ONNX release defines the opset."""

CONDITIONS = "fxport.conditions"
"""Model metadata: what the model asks of its dynamic sizes, in words, as a JSON list."""

STRUCTURE = "fxport.structure"
"""Metadata key: how arguments and results nest, as JSON."""

STATE = "fxport.state"
"""Model metadata: JSON object from each output that is the new value of an input to that input."""

Table = Mapping[Any, Lowering]


class WrongResult(Exception):
    """A lowering gave something else than its operator does: other values in number or kind, or another dtype."""


def lower(program: Program, table: Table, options: Options, log: Log) -> ir.Model:
    """The ONNX model of a normalized program.

    A node that has no lowering, or whose lowering refuses it, is reported, and the walk goes on with values of the
    right type, so that one run tells all of them.
    """
    return _Walk(program, table, options, log).run()


class _Walk:
    """The state of one walk: the builder, the values of FX nodes, and the names of dims."""

    def __init__(self, program: Program, table: Table, options: Options, log: Log) -> None:
        self.program = program
        self.table = table
        self.log = log
        self.op = Op(options.lowered_opset, self._inline, DimNames(program.dim_names).name)
        self.places = Places()
        self.gm = program.graph_module
        self.entries = dict(zip(program.placeholders, program.inputs, strict=True))
        self.folds = folds_for(program, options)
        self.custom_ops = options.custom_ops
        self.regions: tuple[RegionCall, ...] = ()
        self.calls = count()

    def run(self) -> ir.Model:
        inputs, values = declare_inputs(self.program, self.op, self.log)
        results = self._nodes(self.gm, values)
        outputs = declare_outputs(self.program, results, inputs, self.op)
        report_outputs(self.program, results, self.log)
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self.op.scope.nodes,
            initializers=list(self.op.initializers.values()),
            opset_imports=dict(self.op.domains),
            name="model",
        )
        version = next(version for opset, version in IR_VERSIONS if self.op.opset >= opset)
        model = ir.Model(graph, ir_version=version, producer_name="fxport")
        model.metadata_props[TABLE] = self.places.as_json()
        if self.program.conditions:
            model.metadata_props[CONDITIONS] = json.dumps([condition.words for condition in self.program.conditions])
        if self.program.state:
            model.metadata_props[STATE] = json.dumps(self.program.state)
        if self.program.structure:
            model.metadata_props[STRUCTURE] = self.program.structure
        return model

    # Nodes ---------------------------------------------------------------------------------------------------------

    def _nodes(self, gm: GraphModule, values: dict[Node, Any]) -> Any:
        """Lowers the nodes of one graph; returns what its output node holds."""
        total = len(gm.graph.nodes)
        for done, node in enumerate(gm.graph.nodes):
            if gm is self.gm:
                self.log.advance(done, total)
            if node.op == "output":
                return self._argument(node.args[0], values)
            if node in self.folds.inner:
                continue
            if node in self.folds.results:
                values[node] = self._folded(node)
            elif node.op == "get_attr":
                values[node] = self._attribute(gm, node)
            elif node.op == "call_function":
                values[node] = self._call(gm, node, values)
        raise ValueError("the graph has no output node")

    def _attribute(self, gm: GraphModule, node: Node) -> Any:
        """A body of control flow stays as it is; a tensor that a pass made becomes an initializer."""
        held = operator.attrgetter(str(node.target))(gm)
        if not isinstance(held, torch.Tensor):
            return held
        if has_no_values(held):
            report_empty([(node.name, node)], self.log)
        return weight(self.op.unique(node.name), held, node, self.op, self.log)

    def _folded(self, node: Node) -> ir.Value:
        """A result of weights alone is one of them, computed when the model is saved."""
        largest = self.folds.results[node]
        name = node.name if largest is None else self.entries[largest].name if largest in self.entries else largest.name
        source = FoldedWeight(self.program, self.entries, node)
        return weight(self.op.unique(name + SUFFIX), node.meta["val"], node, self.op, self.log, source)

    def _call(self, gm: GraphModule, node: Node, values: dict[Node, Any]) -> Any:
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            return values[node.args[0]][node.args[1]]
        fake = node.meta.get("val")
        if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)):
            return self._number(node, fake, values)
        try:
            self.op.target, self.op.outs = node.target, types_of(fake)
        except UnsupportedDtype as error:
            names = ", ".join(dict.fromkeys(str(each.dtype) for each in tensors_in(fake)))
            self.log.report(rules.UNSUPPORTED_TYPE, at=place_of(node), name=node.name, dtype=names, error=str(error))
            return self._opaque_like(node, fake)
        self.op.place = self.places.index(node)
        self.op.regions = (*self.regions, *(self._region(call) for call in region_of(node)))
        self.op.prefix = node.name
        checked = self._apply(node, fake, values)
        if checked is None:
            return self._opaque_like(node, fake)
        if gm is self.gm:  # names in the bodies of control flow are names of their own
            mark(checked, node.name)
        return checked

    def _number(self, node: Node, fake: Any, values: dict[Node, Any]) -> Any:
        """A symbolic number is its expression; only where it comes from a tensor is there something to lower."""
        expr = size_of(fake)
        symbol = _content(expr)
        source = node.args[0] if node.args else None
        if symbol is not None and isinstance(source, Node) and isinstance(values.get(source), ir.Value):
            if isinstance(node.meta.get("val"), torch.SymInt) and node.target is torch.ops.aten.sym_size.int:
                return expr
            self.op.symbols.bind_scalar(values[source], symbol)
        return expr

    def _apply(self, node: Node, fake: Any, values: dict[Node, Any]) -> Any:
        """Run the node's lowering and return its verified result; None if there is none or it failed: the log says
        why.
        """
        name = target_name(node.target)
        origin = node.meta.get(ORIGIN)
        found = None if NO_REAL_FORM in node.meta else self.table.get(called_op(node))
        if found is None and self.custom_ops:
            found = in_own_domain(called_op(node))
        if found is None and takes_unlowered_sparse(node, values):
            return None
        if found is None:
            at, called = place_of(node), target_name(origin or called_op(node))  # what the user wrote, and can lower
            if decided := node.meta.get(SIZE_DECIDED):
                fixes = (Fix(SizeError.cure),)
                self.log.report(rules.NO_MATCHING_OVERLOAD, at=at, fixes=fixes, op=called, detail=decided)
                return None
            rule = rules.HIGHER_ORDER_OP_UNSUPPORTED if _is_higher_order(called_op(node)) else rules.NO_ONNX_LOWERING
            reason = {"decomposition": node.meta[REFUSED]} if REFUSED in node.meta else {}
            self.log.report(rule, at=at, op=called, missing=name, **_signature(origin or called_op(node)), **reason)
            return None
        if self.op.opset < found.since:
            self.log.report(rules.OPSET_TOO_LOW, at=place_of(node), op=name, needed=found.since, opset=self.op.opset)
            return None
        try:
            _made(node, values)
            args, kwargs = self._arguments(node, values)
            result = self._checked(fake, _with_nothing(fake, found(self.op, *args, **kwargs)))
            self._report_customs(node, name)
            return result
        except Unsupported as refusal:
            self.log.report(rules.NO_MATCHING_OVERLOAD, at=place_of(node), op=name, detail=str(refusal))
        except Exception as error:  # noqa: BLE001  # a lowering may be the user's own; the finding says what it raised
            raise_if_exhausted(error)
            self.log.report(rules.LOWERING_RAISED, at=place_of(node), op=name, error=f"{type(error).__name__}: {error}")
        return None

    def _report_customs(self, node: Node, name: str) -> None:
        """Nodes outside ai.onnx need a library wherever the model runs."""
        for domain, op_type in self.op.customs:
            self.log.report(rules.CUSTOM_OPERATOR_EMITTED, at=place_of(node), op=name, domain=domain, onnx_op=op_type)
        self.op.customs.clear()

    def _arguments(self, node: Node, values: dict[Node, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments as lowerings take them: in the schema's order, without those about storage."""
        args = [self._argument(argument, values) for argument in node.args]
        kwargs = {name: self._argument(argument, values) for name, argument in node.kwargs.items()}
        target = called_op(node)
        if not isinstance(target, torch._ops.OpOverload):
            return args, kwargs
        args = args if target is node.target else []
        schema = target._schema.arguments
        given = dict(zip((a.name for a in schema), args, strict=False)) | kwargs
        positional = [a for a in schema if not a.kwarg_only and a.name not in IGNORED]
        last = max((i for i, a in enumerate(positional) if a.name in given), default=-1)
        ordered = [given.get(a.name, a.default_value) for a in positional[: last + 1]]
        named = {a.name: given[a.name] for a in schema if a.kwarg_only and a.name in given and a.name not in IGNORED}
        return ordered, named

    def _argument(self, argument: Any, values: dict[Node, Any]) -> Any:
        match argument:
            case Node():
                return values[argument]
            case list() | tuple():
                return [self._argument(each, values) for each in argument]
            case dict():
                return {key: self._argument(each, values) for key, each in argument.items()}
            case torch.dtype():
                return onnx_dtype(argument)
        return size_of(argument)

    # What comes out --------------------------------------------------------------------------------------------------

    def _checked(self, fake: Any, result: Any) -> Any:
        """Stamps the values with the types of their fake tensors, once they are seen to agree."""
        single = not isinstance(fake, (tuple, list))
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        entries = (fake,) if single else tuple(fake)
        if len(results) != len(entries):
            raise WrongResult(f"it gave {len(results)} values where PyTorch has {len(entries)}")
        kinds = iter(self.op.outs)
        stamped = [
            self._result(value, next(kinds)) if isinstance(each, torch.Tensor) else self._number_result(each, value)
            for index, (each, value) in enumerate(zip(entries, results, strict=True))
        ]
        return stamped[0] if single else tuple(stamped)

    def _result(self, value: Any, kind: TensorType) -> Any:
        if value is None:  # a result that the lowering cannot give; only a use of it would be an error
            return None
        if not isinstance(value, ir.Value):
            raise WrongResult(f"it gave {type(value).__name__}, not a value of the graph")
        if value.dtype is not None and value.dtype != kind.dtype:
            raise WrongResult(f"it gave {value.dtype.name} where PyTorch has {kind.dtype.name}")
        if SIZES in value.meta and value.shape is not None:  # an operand or constant passed through
            if _are_other(value.meta[SIZES], kind.sizes):
                raise WrongResult(f"it gave a value of sizes {value.meta[SIZES]} where PyTorch has {kind.sizes}")
            return value
        self.op.stamp(value, kind)
        self.op.symbols.bind_sizes(value, kind.sizes)
        return value

    def _number_result(self, fake: Any, value: Any) -> Any:
        """A number that control flow returns: from here on it is known by its symbol."""
        number = size_of(fake)
        if isinstance(value, ir.Value) and isinstance(number, sympy.Symbol):
            self.op.symbols.bind_scalar(value, number)
            return number
        return value

    def _opaque_like(self, node: Node, fake: Any) -> Any:
        """Values of the right types for a node that could not be lowered, so that the walk can go on."""
        if isinstance(fake, torch.Tensor):
            return opaque(node.name, fake, self.op)
        if isinstance(fake, (tuple, list)):
            return tuple(self._opaque_like(node, each) for each in fake)
        return None

    # Bodies ----------------------------------------------------------------------------------------------------

    def _region(self, call: Call) -> RegionCall:
        return RegionCall(call.name, call.number, self.places.of_trace(call.trace))

    def _inline(self, gm: GraphModule, operands: Sequence[Any], region: str | None = None) -> list[ir.Value]:
        """Lowers a body's nodes into the current scope, with operands for its placeholders.

        A number that is a symbol of the body's own goes in as a value, since another call of the body gives it another
        one; what was computed from that symbol before is then not looked at. Nor is afterwards what the body computed:
        the same body may be written again, as the condition of a loop is, where its numbers are others.
        """
        placeholders = gm.graph.find_nodes(op="placeholder")
        symbols = {node: _own_symbol(node, operand) for node, operand in zip(placeholders, operands, strict=True)}
        given = {
            node: self.op.const(operand) if symbols[node] is not None else operand
            for node, operand in zip(placeholders, operands, strict=True)
        }
        outer, bindings = self.op.scope, self.op.symbols.snapshot()
        place, prefix, target, outs = self.op.place, self.op.prefix, self.op.target, self.op.outs
        regions, self.regions = (self.regions, self.op.regions), self.op.regions
        if region is not None:
            self.regions = (*self.regions, RegionCall(region, next(self.calls), place))
        self.op.scope = Scope(outer, outer.nodes)
        try:
            self._rebind({symbol: given[node] for node, symbol in symbols.items() if symbol is not None})
            values = {node: operand if symbols[node] is None else symbols[node] for node, operand in given.items()}
            results = self._nodes(gm, values)
            results = results if isinstance(results, (list, tuple)) else [results]
            return [each if isinstance(each, ir.Value) else self.op.symbols.scalar(each) for each in results]
        finally:
            self.op.scope = outer
            self.op.symbols.restore(bindings)
            self.op.place, self.op.prefix, self.op.target, self.op.outs = place, prefix, target, outs
            self.regions, self.op.regions = regions

    def _rebind(self, symbols: Mapping[sympy.Symbol, ir.Value]) -> None:
        if symbols:
            self.op.scope = Scope(nodes=self.op.scope.nodes)
        for symbol, value in symbols.items():
            self.op.symbols.sources.pop(symbol, None)
            self.op.symbols.bind_scalar(value, symbol)


def _with_nothing(fake: Any, result: Any) -> Any:
    """The results of a lowering in the places of their fake values, where an op that returns nothing has a None first.

    An op that leaves its first result out has a None there, too, but its lowering gives as many.
    """
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if not isinstance(fake, (tuple, list)) or len(fake) < 2 or fake[0] is not None or len(results) == len(fake):
        return result
    return (None, *results)


def target_name(target: Any) -> str:
    """`aten.gelu.default` for an overload, the bare name for anything else."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def _made(node: Node, values: Mapping[Node, Any]) -> None:
    """Raises `Unsupported` where a node reads a result that the lowering of another could not give."""
    for source in node.all_input_nodes:
        if values[source] is None and isinstance(source.meta.get("val"), torch.Tensor):
            raise Unsupported(f"it reads the result '{source.name}' of an operator that does not make it here")


def _content(expr: Any) -> sympy.Symbol | None:
    """The symbol that a number read from a tensor stands for: the number itself, or `u` in `Eq(u, 1)` for a truth."""
    if isinstance(expr, sympy.Eq) and expr.rhs == 1:
        expr = expr.lhs
    return expr if isinstance(expr, sympy.Symbol) else None


def _are_other(sizes: Sequence[Size], others: Sequence[Size]) -> bool:
    """Return True if two shapes differ in rank, or in a size that both know as a number."""
    if len(sizes) != len(others):
        return True
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(sizes, others, strict=True))


def _own_symbol(node: Node, operand: Any) -> sympy.Symbol | None:
    """The symbol of a body's placeholder for a number, unless the number is that very symbol."""
    number = size_of(node.meta.get("val"))
    return number if isinstance(number, sympy.Symbol) and number != operand else None


def _signature(target: Any) -> dict[str, str]:
    """The schema of an operator as a fact, from which a lowering to fill in is made."""
    return {"schema": str(target._schema)} if isinstance(target, torch._ops.OpOverload) else {}


def _is_higher_order(target: Any) -> bool:
    return isinstance(target, torch._ops.HigherOrderOperator)
