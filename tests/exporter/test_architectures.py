"""Text architectures of transformers, exported with batch and sequence dynamic and validated at two sizes.

The usual run takes one in forty, and one of each kind of head; `--slow` takes them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fxport import ExportError, export, ort_runner
from fxport.diagnostics import Level, Log
from fxport.exporter.validation import reference
from tests.cases.architectures import ROWS, Architecture, example
from tests.node_counts import assert_not_more
from tests.sampling import marks_of, sampled


def rows() -> Iterator[Any]:
    known = [row for row in ROWS if not row.known_gap]
    taken = sampled(known, lambda row: f"{row.head}-{row.name}", lambda row: (row.head,), one_in=40)
    usual = {f"{row.head}-{row.name}" for row, is_taken in zip(known, taken, strict=True) if is_taken}
    for row in ROWS:
        name = f"{row.head}-{row.name}"
        yield pytest.param(row, id=name, marks=marks_of(name in usual, row.known_gap))


@pytest.mark.parametrize("row", list(rows()))
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")  # mobilebert's own, of a size it does not use
def test_architecture(row: Architecture, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = example(row)
    log = Log()
    try:
        program = export(case.model, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes, log=log)
    except ExportError as error:
        raise AssertionError("\n".join(f"{f.rule.id} {f.message} {f.place}" for f in error.log.findings)) from error
    path = tmp_path / "model.onnx"
    program.save(path)
    assert_not_more(f"{row.head}-{row.name}", path)
    recorded = reference.cases(case.model, case.args, case.kwargs, program, log)
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    labels = [each.label for each in samples]
    assert [label for label in labels if label not in ("other values", "later")] == [
        "sample",
        "resized",
    ]  # sizes that depend on values, or a state that a run leaves, bring more
    ort_runner.validate(path, samples, provider="cpu", log=log)
    errors = [f"{f.rule.id} {f.message}" for f in log.findings if f.level is Level.ERROR]
    assert not errors, "\n".join(errors)
