"""A model in a few lines of text: its opset, nodes, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from fxport.diagnostics.amounts import plural

MOST_VALUES = 8


def form(model: ir.Model) -> str:
    """`opset 23, 3 nodes`."""
    return f"opset {model.opset_imports['']}, {plural(count_nodes(model), 'node')}"


def interface(model: ir.Model) -> Iterable[str]:
    """A line for each input, each input of state, and each output."""
    yield from values("inputs ", [entry for entry in model.graph.inputs if not entry.is_initializer()])
    yield from values("state  ", [entry for entry in model.graph.inputs if entry.is_initializer()])
    yield from values("outputs", model.graph.outputs)


def count_nodes(model: ir.Model) -> int:
    """Nodes in the file, with those of subgraphs and function bodies."""
    bodies = (model.graph, *model.functions.values())
    return sum(1 for body in bodies for _ in ir.traversal.RecursiveGraphIterator(body))


def values(title: str, entries: Sequence[ir.Value]) -> Iterable[str]:
    """A line for each value, in columns; long lists are cut."""
    rows = [(entry.name or "", typed(entry)) for entry in entries[:MOST_VALUES]]
    width = max((len(name) for name, _ in rows), default=0)
    for number, (name, kind) in enumerate(rows):
        yield f"  {title if number == 0 else ' ' * len(title)}  {name:<{width}}  {kind}"
    if len(entries) > MOST_VALUES:
        yield f"  {' ' * len(title)}  … and {len(entries) - MOST_VALUES} more"


def typed(entry: ir.Value) -> str:
    """`float32 [batch, 3, 64, 64]`."""
    dtype = entry.dtype.numpy().name if entry.dtype is not None else "unknown"
    return dtype if entry.shape is None else f"{dtype} [{', '.join(map(dim, entry.shape))}]"


def dim(entry: int | ir.SymbolicDim) -> str:
    return str(entry) if isinstance(entry, int) else str(entry.value or "?")
