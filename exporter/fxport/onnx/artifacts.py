"""Files that an export writes beside the model on request: reports, times, and the captured program."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from fxport.diagnostics import Level, Log
from fxport.diagnostics.grouped import grouped
from fxport.diagnostics.markdown import render as as_markdown
from fxport.diagnostics.sarif import write_sarif
from fxport.diagnostics.text import advice_of, place_text
from fxport.diagnostics.text import render as as_text

if TYPE_CHECKING:
    from fxport.ort_runner import Validation


class ExportWarning(UserWarning):
    """A finding of an export at the level of a warning. The log of the result has it whole."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Files of one export: `onnx_export_<time>_<outcome>` in a folder, which is made when it is needed.

    Attributes:
        folder: Where they are written.
        time: When the export began.
    """

    folder: Path
    time: datetime

    def path(self, ending: str) -> Path:
        """The path of a file, in its folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"onnx_export_{self.time:%Y-%m-%d_%H-%M-%S-%f}{ending}"

    def write_program(self, exported: ExportedProgram) -> Path:
        """Writes the captured program as a .pt2 of torch.export."""
        path = self.path(".pt2")
        torch.export.save(exported, path)
        return path

    def write_report(
        self,
        log: Log,
        choices: Mapping[str, object],
        model: ir.Model | None,
        validation: Validation | None,
        outcome: str,
        profile: bool,
    ) -> list[Path]:
        """Writes the report in Markdown and the findings in SARIF. Returns both paths."""
        lines = [
            "# fxport: report of an export",
            "",
            *_table(("argument", "value"), {name: f"`{value!r}`" for name, value in choices.items()}),
            *(() if model is None else _model(model)),
            *(() if validation is None else _validation(validation)),
            *(("## Times", "", *_times(log)) if profile else ()),
            as_markdown(log),
        ]
        report = self.path(f"_{outcome}.md")
        report.write_text("\n".join(lines), encoding="utf-8")
        return [report, write_sarif(log, report.with_suffix(".sarif"))]


def _model(model: ir.Model) -> Iterator[str]:
    yield from ("## ONNX model", "")
    ends = {"input": model.graph.inputs, "output": model.graph.outputs}
    yield from _table(
        ("name", "type"),
        {f"{kind} `{value.name}`": f"{value.dtype} {value.shape}" for kind, values in ends.items() for value in values},
    )
    bodies = (model.graph, *model.functions.values())
    counts = Counter(node.op_type for body in bodies for node in ir.traversal.RecursiveGraphIterator(body))
    yield from _table(("operator", "nodes"), {name: str(count) for name, count in counts.most_common()})


def _validation(validation: Validation) -> Iterator[str]:
    yield from ("## Against PyTorch", "")
    verdict = "equal within the allowed error" if validation.passed else "not equal"
    yield from (f"{verdict} on '{validation.provider}'", "")
    gaps = {
        f"`{name}` of {sample.label}": f"worst error {gap.worst:.3g}, {gap.ratio:.0%} of the allowed error"
        for sample in validation.samples
        for name, gap in sample.gaps.items()
    }
    yield from _table(("output", "difference"), gaps)


def _times(log: Log) -> list[str]:
    return _table(("stage", "seconds"), {name: f"{seconds:.3f}" for name, seconds in log.stages})


def _table(head: tuple[str, str], rows: Mapping[str, str]) -> list[str]:
    body = [f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in rows.items()]
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *body, ""] if rows else []


def show_times(log: Log) -> None:
    """Writes the seconds of each stage to the standard output."""
    sys.stdout.write("".join(f"{name:<12}{seconds:8.3f} s\n" for name, seconds in log.stages))


def tell(log: Log, verbose: bool | None, stacklevel: int) -> None:
    """Tells the findings: all of them and the times on the standard error with `verbose`, warnings as Python's by
    default, nothing with False."""
    if verbose:
        times = "  ".join(f"{name} {seconds:.2f} s" for name, seconds in log.stages)
        sys.stderr.write(f"{as_text(log)}fxport: {times}\n")
    if verbose is not None:
        return
    for finding in grouped(log.findings):
        if finding.is_open and finding.level is Level.WARNING:
            where = f" ({place_text(finding.place)})" if finding.place else ""
            said = f"{finding.rule.id}: {finding.message}{where} {advice_of(finding)}".rstrip()
            warnings.warn(said, ExportWarning, stacklevel=stacklevel + 1)
