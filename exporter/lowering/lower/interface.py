"""The two ends of a model: inputs, weights and state that go in, outputs that come out, all under their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.lowering.lower.builder import SIZES, Op, TensorType
from fxport.exporter.lowering.lower.dtypes import NUMBERS, UnsupportedDtype, onnx_dtype
from fxport.exporter.lowering.lower.weights import initializer
from fxport.exporter.weights.names import starred
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.program import InputKind, OutputKind, Program, WeightSource
from fxport.fx_passes.sizes import size_of, sizes_of

OPAQUE = "opaque"
"""Metadata key of the values that stand for what could not be lowered."""

SHOWN = 4
"""Names of further weights without values in a finding."""


def declare_inputs(program: Program, op: Op, log: Log) -> tuple[list[ir.Value], dict[Node, Any]]:
    """The model's inputs, and what each placeholder of the graph stands for.

    Behind the user's inputs comes the state that the model changes: inputs with a value of their own. ONNX lets a
    caller leave such an input out, and gives it the initializer of its name then.
    """
    inputs, state = list[ir.Value](), list[ir.Value]()
    values: dict[Node, Any] = {}
    changed = set(program.state.values())
    asked = {entry.name for entry in program.outputs if entry.kind is OutputKind.USER}
    empty: list[tuple[str, Node]] = []
    for entry, node in zip(program.inputs, program.placeholders, strict=True):
        if entry.kind is InputKind.USER or entry.name in changed or entry.name not in asked:
            op.unique(entry.name)
        if entry.kind is InputKind.USER:
            inputs.append(_input(entry.name, node.meta["val"], op))
            fake = node.meta["val"]
            values[node] = inputs[-1] if isinstance(fake, torch.Tensor) else size_of(fake)
        else:
            assert entry.target is not None
            source = program.sources.get(entry.target)
            name = entry.name  # unless an output has it, which the user sees and a weight's name nobody needs
            if name in asked and name not in changed:
                name = op.unique(f"{name}.weight")
            tensor = program.tensors[entry.target]
            if source is None and has_no_values(tensor) and node.users:
                empty.append((name, node))
            values[node] = weight(name, tensor, node, op, log, source)
            if entry.name in changed and entry.name in op.initializers:
                state.append(values[node])
    report_empty(empty, log)
    return [*inputs, *state], values


def report_empty(weights: Sequence[tuple[str, Node]], log: Log) -> None:
    """Report all weights without values as one finding: the first with its place, some of the others by name."""
    if not weights:
        return
    places = [place_of(next(iter(node.users))) for _, node in weights]
    first, *more = dict.fromkeys(starred(name) for name, _ in weights)
    told = [*more[:SHOWN], *([f"{len(more) - SHOWN} more"] if len(more) > SHOWN else [])]
    facts: dict[str, Any] = {"others": ", ".join(told)} if told else {}
    related = [place for place in places[1:] if place is not None]
    log.report(rules.WEIGHT_WITHOUT_VALUES, at=places[0], related=related, name=first, **facts)


def _input(name: str, fake: Any, op: Op) -> ir.Value:
    value = ir.Value(name=name)
    if isinstance(fake, torch.Tensor):
        kind = types_of(fake)[0]
        op.stamp(value, kind)
        op.symbols.bind_sizes(value, kind.sizes)
    else:  # a symbolic number that the user feeds
        op.stamp(value, TensorType(NUMBERS[type(fake)], ()))
        op.symbols.bind_scalar(value, size_of(fake))
    return value


def weight(
    name: str, tensor: torch.Tensor, node: Node, op: Op, log: Log, source: WeightSource | None = None
) -> ir.Value:
    """An initializer. A type that ONNX cannot hold is reported."""
    try:
        value = initializer(name, tensor, source)
    except UnsupportedDtype as error:
        log.report(rules.UNSUPPORTED_TYPE, at=place_of(node), name=name, dtype=str(tensor.dtype), error=str(error))
        return opaque(name, tensor, op)
    op.initializers[name] = value
    return value


def opaque(name: str, fake: torch.Tensor, op: Op) -> ir.Value:
    """Return a value of the right type for what could not be lowered, so that the walk can go on.

    FLOAT stands for a dtype that ONNX lacks.
    """
    try:
        dtype = onnx_dtype(fake.dtype)
    except UnsupportedDtype:
        dtype = ir.DataType.FLOAT
    value, kind = ir.Value(name=op.unique(f"{name}.opaque")), TensorType(dtype, sizes_of(fake))
    op.stamp(value, kind)
    op.symbols.bind_sizes(value, kind.sizes)
    value.meta[OPAQUE] = True
    return value


def takes_unlowered_sparse(node: Node, values: Mapping[Node, Any]) -> bool:
    """Return whether a node takes a sparse tensor of one that could not be lowered: that one is the cause."""
    fakes = {each: each.meta.get("val") for each in node.all_input_nodes}
    sparse = [each for each, fake in fakes.items() if isinstance(fake, torch.Tensor) and fake.layout != torch.strided]
    return any(isinstance(value := values[each], ir.Value) and OPAQUE in value.meta for each in sparse)


def types_of(fake: Any) -> tuple[TensorType, ...]:
    """The types of the tensors among what a node gives. Raises UnsupportedDtype."""
    return tuple(TensorType(onnx_dtype(tensor.dtype), sizes_of(tensor)) for tensor in tensors_in(fake))


def tensors_in(fake: Any) -> list[torch.Tensor]:
    """The tensors among what a node gives."""
    entries = fake if isinstance(fake, (tuple, list)) else (fake,)
    return [each for each in entries if isinstance(each, torch.Tensor)]


def declare_outputs(program: Program, results: Sequence[Any], inputs: Sequence[ir.Value], op: Op) -> list[ir.Value]:
    """The model's outputs under their names. A value that is an input, a weight or an output already is copied."""
    used: set[int] = {id(value) for value in (*inputs, *op.initializers.values())}
    outputs: list[ir.Value] = []
    op.place = None
    for entry, result in zip(program.outputs, results, strict=True):
        if entry.kind is OutputKind.LITERAL or result is None:
            continue
        value = result if isinstance(result, ir.Value) else _number_output(result, op)
        if id(value) in used:
            copy = op.Identity(value)
            copy.dtype, copy.shape, copy.meta[SIZES] = value.dtype, value.shape, value.meta.get(SIZES, ())
            value = copy
        used.add(id(value))
        value.name = op.unique(entry.name)
        outputs.append(value)
    return outputs


def _number_output(number: Any, op: Op) -> ir.Value:
    value = op.Identity(op.symbols.scalar(number))
    value.shape, value.meta[SIZES] = ir.Shape([]), ()
    return value
