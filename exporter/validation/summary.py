"""Summary of a run: files, opset, nodes, inputs and outputs, validation, time per stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Part
from fxport.diagnostics.amounts import allowed, plural, size

if TYPE_CHECKING:
    import onnx_ir as ir

    from fxport.ort_runner import SampleResult, Validation

MOST_VALUES = 8
MOST_PARTS = 5
DECIDES = re.compile(r"logits|scores|prob", re.IGNORECASE)
"""Names of outputs of which the largest element is what counts."""


def summary_of(model: ir.Model, files: Sequence[Path], validation: Validation | None, log: Log) -> str:
    """The whole summary; each line stands for itself."""
    lines = [
        f"{' + '.join(f'{file} ({size(file.stat().st_size)})' for file in files)}: "
        f"opset {model.opset_imports['']}, {plural(count_nodes(model), 'node')}",
        *values("inputs ", [entry for entry in model.graph.inputs if not entry.is_initializer()]),
        *values("state  ", [entry for entry in model.graph.inputs if entry.is_initializer()]),
        *values("outputs", model.graph.outputs),
        *modules(log.parts),
        *verdict(validation),
        times(log),
    ]
    return "\n".join(lines)


def modules(parts: Sequence[Part]) -> Iterable[str]:
    """Yield one line with the nodes and bytes of the model's modules, the largest first; none for a single module."""
    if len(parts) > 1:
        told = [f"{part.name} {plural(part.nodes, 'node')}, {size(part.bytes)}" for part in parts[:MOST_PARTS]]
        more = [f"{len(parts) - MOST_PARTS} more"] if len(parts) > MOST_PARTS else []
        yield f"  modules  {'; '.join([*told, *more])}"


def count_nodes(model: ir.Model) -> int:
    """Nodes in the file, with those of subgraphs and function bodies."""
    import onnx_ir as ir

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


def comparison_of(validation: Validation | None, log: Log) -> str:
    """The summary of a file that was there before."""
    return "\n".join([*verdict(validation), times(log)])


def verdict(validation: Validation | None) -> Iterable[str]:
    """The worst output of each sample: its error, and that in parts of what its type and eager PyTorch's own allow."""
    if validation is None or validation.provider is None:
        yield "not validated"
        return
    for each in (validation, *validation.witnesses):
        yield f"{_conclusion(each)} on {each.provider}" if each.provider else "not validated on another runtime"
        width = max(8, *(len(sample.label) for sample in each.samples))
        for sample in each.samples:
            yield f"  {sample.label:<{width}} {'; '.join(_told(sample)) or 'nothing compared'}"


def _conclusion(validation: Validation) -> str:
    """ "equal to PyTorch" only where that was seen of every output."""
    if not validation.samples or not all(sample.passed for sample in validation.samples):
        return "NOT equal to PyTorch"
    told = [f"'{name}' ({rule_id})" for name, rule_id in validation.doubts.items()]
    more = [f"{len(told) - MOST_VALUES} more"] if len(told) > MOST_VALUES else []
    return f"not validated: {', '.join([*told[:MOST_VALUES], *more])}" if told else "equal to PyTorch"


def _told(sample: SampleResult) -> Iterable[str]:
    """Yield short texts on the comparison of one sample."""
    name, gap = max(sample.gaps.items(), key=lambda entry: entry[1].ratio, default=("", None))
    if gap:
        yield f"worst error {gap.worst:.2g} in {name}, {allowed(gap.ratio)}"
    for name, gap in sample.gaps.items():
        if DECIDES.search(name) and gap.elements > 1:
            yield f"argmax of {name} agrees in {100 * gap.top:.4g}% of the rows"
    if sample.differences:
        yield f"the distribution of {', '.join(sample.differences)} compared"


def times(log: Log) -> str:
    """`3.2 s: load 1.2, capture 1.0, …`"""
    total = sum(seconds for _, seconds in log.stages)
    return f"{total:.1f} s: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in log.stages)
