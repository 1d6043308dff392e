"""A capture that differs from the model for what it assumed is refused for that, at the line of the assumption."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Finding, Level, Log
from fxport.diagnostics.text import advice_of

ROWS = ({0: "n"},)


def errors_of(model: nn.Module, x: Tensor) -> list[Finding]:
    with pytest.raises(ExportError) as caught:
        export(model, (x,), dynamic_shapes=ROWS)
    return [each for each in caught.value.log.findings if each.level is Level.ERROR]


def line_of(finding: Finding) -> str:
    assert finding.place is not None
    return finding.place.snippet or ""


class DictOfTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = {"first": torch.ones(3)}  # a name that it has elsewhere

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        y = x + 1
        if y.isnan().any():  # which the example has none of
            return y * 2, self.first
        return y, self.first


def test_a_presumption_that_the_example_belies_is_told_with_what_keeps_both_ways_from_the_graph() -> None:
    (error,) = errors_of(DictOfTwo(), torch.ones(4, 3))
    assert error.rule.id == "FXP1002"
    assert "it cannot be rewritten: it gives a dict that has other names" in error.message
    assert error.message.endswith("the example takes the way that is left out then.")
    assert line_of(error).startswith("if y.isnan().any()")


def test_a_presumption_that_the_example_bears_out_is_a_warning() -> None:
    x = torch.ones(4, 3)
    x[1, 1] = torch.nan
    export(DictOfTwo(), (x,), dynamic_shapes=ROWS)


class TextOfSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        table = {"4": 2.0}
        return x * table.get(str(x.shape[0]), 1.0)


class TextOfChoice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 1
        if x.sum() > 2:
            k = 2
        return x * (3 if f"{k}" == "2" else 5)


@pytest.mark.parametrize(("model", "line"), [(TextOfSize, "return x * table"), (TextOfChoice, "return x * (3 if")])
def test_a_difference_by_a_text_stands_at_the_text(model: Any, line: str) -> None:
    (error,) = errors_of(model(), torch.ones(4, 3))
    assert error.rule.id == "FXP1033"
    assert line_of(error).startswith(line)
    assert advice_of(error).startswith("Choose by the value itself")


def test_a_log_with_the_errors_of_another_export_hides_no_difference() -> None:
    log = Log()
    for model in (CountedBySize(), TextOfSize()):
        with pytest.raises(ExportError):
            export(model, (torch.ones(4, 3),), dynamic_shapes=ROWS, log=log)
    assert [each.rule.id for each in log.findings if each.level is Level.ERROR] == ["FXP2001", "FXP1033"]


def test_an_error_that_is_wanted_as_a_warning_hides_no_difference() -> None:
    log = Log(levels={"FXP2001": Level.WARNING})
    with pytest.raises(ExportError):
        export(CountedBySize(), (torch.ones(4, 3),), dynamic_shapes=ROWS, log=log)
    assert [each.rule.id for each in log.findings if each.level is Level.ERROR] == ["FXP1033"]


class KeptBySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in self.cache:
            self.cache[n] = torch.arange(n).float()
        return x * self.cache[n][:, None]


class CountedBySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[int] = Counter()

    def forward(self, x: Tensor) -> Tensor:
        self.seen[x.shape[0]] += 1
        return x * self.seen[x.shape[0]]


@pytest.mark.parametrize(
    ("model", "reason"),
    [(KeptBySize, "it puts a value into a dict or a set"), (CountedBySize, "it uses a size as the key of a dict")],
)
def test_where_a_size_is_fixed_no_difference_is_told_besides(model: Any, reason: str) -> None:
    (error,) = errors_of(model(), torch.ones(4, 3))
    assert error.rule.id == "FXP2001"
    assert reason in error.message
