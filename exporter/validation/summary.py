"""Summary of a run: files, opset, nodes, inputs and outputs, validation, time per stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Part
from fxport.diagnostics.amounts import allowed, plural, size
from fxport.exporter.onnx_program.described import form, interface

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
        f"{' + '.join(f'{file} ({size(file.stat().st_size)})' for file in files)}: {form(model)}",
        *interface(model),
        *modules(log.parts),
        *verdict(validation),
        times(log),
    ]
    return "\n".join(lines)


def modules(parts: Sequence[Part]) -> Iterable[str]:
    """Yield one line with the nodes and bytes of the model's modules, the largest first; none for a single module."""
    if len(parts) > 1:
        told = [_part(part, any(each.nodes for each in parts)) for part in parts[:MOST_PARTS]]
        more = [f"{len(parts) - MOST_PARTS} more"] if len(parts) > MOST_PARTS else []
        yield f"  modules  {'; '.join([*told, *more])}"


def _part(part: Part, known: bool) -> str:
    """One module; the nodes of a model without a line of the user's are not known by their modules."""
    nodes = f" {plural(part.nodes, 'node')}," if known else ":"
    return f"{part.name}{nodes} {size(part.bytes)}"


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
        # Where PyTorch's own error decides, the element that differs most from float64 may be equal in both.
        worst = f"worst error {gap.worst:.2g} in {name}, " if gap.worst else f"{name}: "
        yield worst + allowed(gap.ratio) if gap.ratio else "no error"
    for name, gap in sample.gaps.items():
        if DECIDES.search(name) and gap.elements > 1:
            yield f"argmax of {name} agrees in {100 * gap.top:.4g}% of the rows"
    if sample.differences:
        yield f"random output compared by its distribution: {', '.join(sample.differences)}"


def times(log: Log) -> str:
    """`3.2 s: load 1.2, capture 1.0, …`"""
    total = sum(seconds for _, seconds in log.stages)
    return f"{total:.1f} s: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in log.stages)
