"""Assumptions of a successful export: state that became an output, sizes that only values decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import onnx_ir as ir
import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from fxport.diagnostics import Fix, Level, Log, Place, rules
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.program import InputKind, OutputKind, Program
from fxport.fx_passes.sizes import size_of, sizes_of

UNBACKED = re.compile(r"\bu\d+\b")
"""PyTorch's names for sizes that depend on values."""

KEEP = (
    "The new value has another shape, so the model does not take its own result: write into a buffer of full length at "
    "an index, or make the state an input with a dynamic size and return what it becomes."
)
"""Advice for a state that gets another shape."""


def report_mutations(program: Program, log: Log, given: Sequence[torch.Tensor] = ()) -> None:
    """Report buffers and inputs whose new values became outputs, each at the line that last wrote it.

    Args:
        program: The captured program.
        log: Gets the findings.
        given: The tensors of the example, in the order of the program's inputs.
    """
    results = program.graph_module.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    state: dict[str | None, Node] = {
        each.name: node for each, node in zip(program.inputs, program.placeholders, strict=True)
    }
    for output, result in zip(program.outputs, results, strict=True):
        if output.kind is OutputKind.MUTATION:
            at = place_of(result) if isinstance(result, Node) else None
            level, fixes = (
                (None, ()) if _same_shape(state.get(output.updates), result) else (Level.WARNING, (Fix(KEEP),))
            )
            log.report(rules.STATE_MUTATED, at=at, level=level, fixes=fixes, name=output.updates, output=output.name)
            for other in _in_the_same_memory(program, output.updates, given):
                log.report(rules.SHARED_MEMORY_WRITTEN, at=at, name=output.updates, other=other)


def _same_shape(*values: object) -> bool:
    shapes = [sizes_of(value.meta["val"]) for value in values if isinstance(value, Node)]
    return len(shapes) < 2 or shapes[0] == shapes[1]


def _in_the_same_memory(program: Program, name: str | None, given: Sequence[torch.Tensor]) -> Iterator[str]:
    """Yield the names of other tensors that the graph reads, and that overlap with the one of this name."""
    held = {each.name: program.tensors.get(each.target or "") for each in program.inputs}
    users = [each.name for each in program.inputs if each.kind is InputKind.USER]
    held |= dict(zip(users, given, strict=True)) if len(users) == len(given) else {}
    written = _bytes_of(held.get(name or ""))
    for each, node in zip(program.inputs, program.placeholders, strict=True):
        read = _bytes_of(held.get(each.name)) if node.users and each.name != name else range(0)
        if max(written.start, read.start) < min(written.stop, read.stop):
            yield each.name


def _bytes_of(tensor: torch.Tensor | None) -> range:
    """Return the memory range of a tensor, from its first element to its last; empty for one without values."""
    if tensor is None or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return range(0)
    if tensor.layout is not torch.strided or tensor.is_meta:
        return range(0)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return range(tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size() * bool(tensor.numel()))


def report_unknown_sizes(model: ir.Model, program: Program, log: Log) -> None:
    """Sizes of outputs that no input determines: consumers must be ready for any, also for 0."""
    for value in model.graph.outputs:
        dims = [str(dim.value) for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)]
        unknown = {name for dim in dims for name in UNBACKED.findall(dim)}
        if unknown:
            log.report(rules.DATA_DEPENDENT_SHAPE, at=_first_with(program.graph_module, unknown), output=value.name)


def _first_with(gm: GraphModule, symbols: set[str]) -> Place | None:
    """The line of the first node in which one of the sizes occurs."""
    for node in gm.graph.nodes:
        if any(symbols & set(UNBACKED.findall(size)) for size in _sizes(node)):
            return place_of(node)
    return None


def _sizes(node: Node) -> Iterator[str]:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            yield from (str(size_of(size)) for size in value.shape)
        elif isinstance(value, torch.SymInt):
            yield str(size_of(value))
