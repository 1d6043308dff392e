"""Two ONNX files told apart, by interface, operators and weights."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from fxport.diagnostics import Level, Rule, rules

if TYPE_CHECKING:
    import onnx_ir as ir

Change = tuple[Rule, Mapping[str, Any]]  # Any: facts are what a rule's message takes
Comparison = Callable[[Any, Any], Iterator[Change]]  # Any: ir.Model, which is imported on use

MOST_NUMBERS = 8
"""Of a constant that is shown as a whole."""


def interface(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """Names, types, shapes and order of inputs and outputs; opsets."""
    sides = (("input", old.graph.inputs, new.graph.inputs), ("output", old.graph.outputs, new.graph.outputs))
    for kind, before, after in sides:
        one, other = contract_of(before), contract_of(after)
        new_names = renamed(one, other)
        for was, now in new_names.items():
            yield rules.CONTRACT_CHANGED, {"name": f"name of {kind} {was}", "old": was, "new": now}
        for name, was, now in differing({new_names.get(name, name): kept for name, kept in one.items()}, other):
            yield rules.CONTRACT_CHANGED, {"name": f"{kind} {name}", "old": was, "new": now}
    versions = [{domain: str(number) for domain, number in model.opset_imports.items()} for model in (old, new)]
    for domain, was, now in differing(*versions):
        yield rules.CONTRACT_CHANGED, {"name": f"opset {domain or 'ai.onnx'}", "old": was, "new": now}


def renamed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """New names by old ones: of the same type at the same position, where each name is in one of the files alone."""
    if len(old) != len(new):
        return {}
    pairs = zip(old.items(), new.items(), strict=True)
    return {was: now for (was, kind), (now, other) in pairs if kind == other and was not in new and now not in old}


def are_unrelated(old: ir.Model, new: ir.Model) -> bool:
    """Return True if two files share no input, no output and no weight: they are different models.

    An input or output of the same name has to have the same type and sizes, as many models have an `x` and an `output`;
    a size that is dynamic in one of the files may be any number in the other.
    """
    sides = [[*model.graph.inputs, *model.graph.outputs] for model in (old, new)]
    weights = [{name for name, _ in _weights(model)} for model in (old, new)]
    if not all(weights) or weights[0] & weights[1]:
        return False
    digests = [{digest_of(value) for _, value in _weights(model)} for model in (old, new)]
    return not (digests[0] & digests[1]) and not any(_may_be_one(*pair) for pair in product(*sides))


def _may_be_one(one: ir.Value, other: ir.Value) -> bool:
    """Return True if two inputs or outputs have one name and type, and sizes of which none contradicts the other.

    Where no size is a number in both, they have to be written alike.
    """
    from fxport.exporter.onnx_program.described import typed

    if one.name != other.name or one.dtype != other.dtype:
        return False
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape) or typed(one) == typed(other):
        return typed(one) == typed(other)
    known = [a == b for a, b in zip(one.shape, other.shape, strict=True) if isinstance(a, int) and isinstance(b, int)]
    return bool(known) and all(known)


def _weights(model: ir.Model) -> Iterator[tuple[str, Any]]:  # Any: ir.Value, which is imported on use
    for name, value in model.graph.initializers.items():
        if value.const_value is not None and not is_constant(value):
            yield name, value


def is_constant(value: ir.Value) -> bool:
    """Return True if an initializer is a few integers, such as the shape of a Reshape: part of the graph, not a
    weight.
    """
    tensor = value.const_value
    return tensor is not None and tensor.dtype.name == "INT64" and len(tensor.shape) < 2 and tensor.size <= MOST_NUMBERS


def constant_said(value: ir.Value) -> str:
    assert value.const_value is not None
    return str(value.const_value.numpy().tolist())


def operators(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """The number of nodes of each operator."""
    before, after = operators_of(old), operators_of(new)
    for op in sorted({*before, *after}):
        if before[op] != after[op]:
            yield rules.OPERATORS_CHANGED, {"op": op, "old": before[op], "new": after[op]}


def weights(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """Initializers by name, then, of those that have no partner, by content: a new name alone is no change."""
    before, after = old.graph.initializers, new.graph.initializers
    lost = {name: digest_of(before[name]) for name in before if name not in after}
    added = {name: digest_of(after[name]) for name in after if name not in before}
    for name in before:
        if name in after and is_constant(before[name]) and is_constant(after[name]):
            was, now = constant_said(before[name]), constant_said(after[name])
            if was != now:
                detail = f"It is a constant of the graph, {was} before and {now} now"
                yield rules.WEIGHTS_CHANGED, {"name": name, "detail": detail, "level": Level.NOTE}
        elif name in after and (detail := difference(before[name], after[name])):
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": detail}
        elif name in lost and lost[name] not in added.values():
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": "It was removed"}
    for name, digest in added.items():
        if digest not in lost.values():
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": "It was added"}


def difference(old: ir.Value, new: ir.Value) -> str:
    """Describe how two weights of one name differ; "" where they are equal."""
    import numpy as np

    one, other = old.const_value, new.const_value
    if one is None or other is None:
        return "" if one is other else "Only one of the files has its values"
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"It was {said(one)}; it is {said(other)}"
    if bytes_of(one) == bytes_of(other):
        return ""
    if one.dtype.name == "STRING":
        pairs = zip(texts_of(one), texts_of(other), strict=True)
        return f"{sum(was != now for was, now in pairs)} of {one.size} texts differ"
    widest = np.complex128 if one.dtype.name.startswith("COMPLEX") else np.float64
    wide = [np.asarray(tensor.numpy()).astype(widest) for tensor in (one, other)]
    gap = np.abs(wide[0] - wide[1])
    worst = np.nanmax(gap, initial=0.0)
    return f"The largest difference is {worst:.3g}, in {np.count_nonzero(gap)} of {gap.size} values"


def said(tensor: ir.TensorProtocol) -> str:
    return f"{tensor.dtype.name.lower()} [{', '.join(map(str, tensor.shape))}]"


def digest_of(value: ir.Value) -> str:
    """Type, shape and values in short; read one weight at a time."""
    tensor = value.const_value
    return hashlib.sha256(said(tensor).encode() + bytes_of(tensor)).hexdigest() if tensor is not None else ""


def bytes_of(tensor: ir.TensorProtocol) -> bytes:
    """The values of a tensor; of texts each with its length."""
    if tensor.dtype.name == "STRING":
        return b"".join(b"%d:%s" % (len(text), text) for text in texts_of(tensor))
    return tensor.tobytes()


def texts_of(tensor: ir.TensorProtocol) -> list[bytes]:
    """The elements of a tensor of texts, which are bytes in a file and may be str in a model that was built."""
    return [text.encode() if isinstance(text, str) else bytes(text) for text in tensor.numpy().ravel()]


def contract_of(entries: Sequence[ir.Value]) -> dict[str, str]:
    from fxport.exporter.onnx_program.described import typed

    return {entry.name or "": typed(entry) for entry in entries}


def operators_of(model: ir.Model) -> Counter[str]:
    """Nodes by operator, with those of functions and subgraphs."""
    import onnx_ir as ir

    bodies = (model.graph, *model.functions.values())
    nodes = (node for body in bodies for node in ir.traversal.RecursiveGraphIterator(body))
    return Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Names with what they were and are; "absent" on the side that lacks one; the order, where only that differs."""
    for name in dict.fromkeys((*old, *new)):
        was, is_ = old.get(name, "absent"), new.get(name, "absent")
        if was != is_:
            yield name, was, is_
    if old.keys() == new.keys() and list(old) != list(new):
        yield "order", ", ".join(old), ", ".join(new)


COMPARISONS: Mapping[str, Comparison] = {
    "interface": interface,
    "operators": operators,
    "weights": weights,
}
