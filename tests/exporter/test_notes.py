"""What a run says about itself: the notes of one that succeeded, in few bytes, the same each time, and for little."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fxport import ExportError, Options, export
from fxport.diagnostics import Finding, Log, text
from fxport.diagnostics.sarif import About, as_text, to_sarif
from fxport.exporter.provenance.ways import Way
from tests.cases.failures import CASES, FailureCase
from tests.diagnostics.sarif_checks import breaches, strict, validator

LARGEST = 20_500
DEAREST = 0.02
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class Assuming(nn.Module):
    """Bakes a number, bounds a size, changes its state, mixes types, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 6))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        y = x * scale + self.table[: x.shape[0]]
        y = y + (x > 0).to(torch.int64)
        return y + torch.randn_like(y)


WANTED = {
    "FXP1005": "self.calls += 1",
    "FXP1006": "def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:",
    "FXP1008": "torch.randn_like(y)",
    "FXP2002": "self.table[: x.shape[0]]",
    "FXP4001": "y + (x > 0).to(torch.int64)",
}


def ticking() -> Callable[[], float]:
    ticks = count()
    return lambda: float(next(ticks))


def sarif_of(run: Callable[[Log], object]) -> tuple[str, Log]:
    log = Log(clock=ticking())
    with contextlib.suppress(ExportError):  # its findings are what is looked at
        run(log)
    return as_text(to_sarif(log, about=About("model", "test", started=WHEN, ended=WHEN))), log


def assuming(log: Log) -> Any:
    return export(Assuming(), (torch.randn(4, 6), 2.0), dynamic_shapes=({0: "rows"}, None), log=log)


def marked(finding: Finding) -> str:
    place = finding.place
    assert place is not None
    assert place.column is not None
    with open(place.path, encoding="utf-8") as file:
        return file.read().splitlines()[place.line - 1][place.column - 1 : (place.end_column or 0) - 1]


def test_every_assumption_is_told_at_its_line_in_few_bytes() -> None:
    written, log = sarif_of(assuming)
    assert {finding.rule.id: marked(finding) for finding in log.findings} == WANTED
    assert len(written.encode()) < LARGEST
    assert len(text.render(log).encode()) < LARGEST


def test_a_log_tells_where_the_time_and_the_bytes_are_and_what_became_what() -> None:
    model = Everything().eval()
    written, log = sarif_of(lambda log: export(model, (torch.ones(1, 3, 6, 6),), log=log))
    (run,) = strict(written)["runs"]
    told = run["invocations"][0]["properties"]
    assert list(told["seconds"]) == ["capture", "normalize", "lower", "finish"]
    held = {name: sum(each.nbytes for each in part.parameters()) for name, part in model.named_children()}
    assert {name: part["bytes"] for name, part in told["modules"].items()} == held | {"conv": 448}, "the norm is folded"
    assert all(part["nodes"] > 0 for part in told["modules"].values())
    assert [part.bytes for part in log.parts] == sorted((part.bytes for part in log.parts), reverse=True)


@pytest.mark.parametrize("name", ["if on a value", "sparse product", "size bounded by a table", "mutated input"])
@pytest.mark.filterwarnings("ignore")  # PyTorch warns about what these models do, and the findings say it
def test_the_same_run_gives_the_same_bytes(name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    one, two = (sarif_of(lambda log: exported(case, log))[0] for _ in range(2))
    assert one == two
    document = strict(one)
    assert [error.message for error in validator().iter_errors(document)] == []
    assert list(breaches(document)) == []


class Everything(nn.Module):
    """Weights that passes transpose, fold and read late, and a body of control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).flatten(2).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        return self.head(torch.cond(y.sum() > 0, lambda y: y + 1, lambda y: -y, (y,)))


def dumped(model: nn.Module, folder: Path) -> dict[str, str]:
    log = Log(clock=ticking())
    export(model, (torch.ones(1, 3, 6, 6),), options=Options(dump=folder), log=log)
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_same_run_dumps_the_same_bytes(tmp_path: Path) -> None:
    model = Everything().eval()
    one, two = (dumped(model, tmp_path / name) for name in "ab")
    assert one == two
    assert {name.partition(".")[2] for name in one} == {"fx.py", "onnx.txt"}
    assert not [name for name, text in one.items() if re.search(r"\b0x[0-9a-f]+", text)]


def exported(case: FailureCase, log: Log) -> Any:
    return export(case.model(), case.args, case.kwargs, log=log, **case.options)


@pytest.mark.slow
def test_diagnostics_cost_little(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports, fixes, ways and SARIF of a successful export with findings, as a share of its processor time."""
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(64, 4, batch_first=True, dropout=0.1), 6, enable_nested_tensor=False
    ).train()
    spent = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[0] += time.process_time() - start

        return run

    for owner, name in ((Log, "report"), (Way, "captured"), (Way, "normalized"), (Way, "finished")):
        monkeypatch.setattr(owner, name, timed(getattr(owner, name)))
    to_sarif(sarif_of(assuming)[1])  # what is imported and read once
    log, start = Log(), time.process_time()
    export(model, (torch.randn(2, 7, 64),), log=log)
    whole, start = time.process_time() - start, time.process_time()
    as_text(to_sarif(log))
    spent[0] += time.process_time() - start
    assert log.findings
    share = spent[0] / whole
    with capsys.disabled():
        sys.stdout.write(f"diagnostics: {spent[0]:.3f} s of {whole:.3f} s, {share:.1%}\n")
    assert share <= DEAREST
