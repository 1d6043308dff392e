"""Validation accepts any choice among equal elements that PyTorch leaves open, and reports every other difference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fxport import ExportError
from fxport.diagnostics import Log, rules
from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.pipeline.options import Options
from fxport.exporter.validation.equals import EQUALS, FIRST, OWN
from fxport.exporter.validation.validated import export_and_validate
from fxport.ort_runner.judging import is_open
from tests.cases.subtle import Calls

aten = torch.ops.aten

GENERATOR = torch.Generator().manual_seed(0)
FEW = torch.randint(0, 4, (3, 50), generator=GENERATOR) / 2
"""Numbers most of which are equal to others."""
WITH_NAN = torch.where(torch.rand(3, 50, generator=GENERATOR) < 0.1, torch.nan, FEW)

CHOICES: dict[str, Callable[[Tensor], Any]] = {
    "topk": lambda x: torch.topk(x, 7),
    "smallest of topk": lambda x: torch.topk(x, 7, dim=0 if x.shape[0] > 7 else 1, largest=False),
    "sort": torch.sort,
    "sort downwards": lambda x: torch.sort(x, descending=True),
    "kthvalue": lambda x: torch.kthvalue(x, 20, keepdim=True),
    "median": lambda x: torch.median(x, 1),
    "nanmedian": lambda x: torch.nanmedian(x, 1, keepdim=True),
    "mode": lambda x: torch.mode(x, 1),
}


@pytest.mark.parametrize("equals", sorted(EQUALS.keys() - {OWN}))
@pytest.mark.parametrize("x", [FEW, WITH_NAN], ids=["few", "with NaN"])
@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_gives_the_same_values_at_their_places(name: str, x: Tensor, equals: str) -> None:
    want = CHOICES[name](x)
    with EQUALS[equals]():
        values, places = CHOICES[name](x)
    assert torch.equal(values.nan_to_num(99), want[0].nan_to_num(99))
    lined = places if places.dim() == x.dim() else places[:, None]
    assert torch.equal(x.gather(1, lined).reshape(values.shape).nan_to_num(99), values.nan_to_num(99))


def validated(function: Callable[[Tensor], Any], x: Tensor, folder: Path, **wrong: Any) -> list[str]:
    """The rules of what is found, with a wrong lowering of operators by their names."""
    lowerings = {getattr(aten, name).default: lowering for name, lowering in wrong.items()}
    log, options = Log(), Options(lowerings=lowerings)
    with contextlib.suppress(ExportError):
        export_and_validate(Calls(function), (x,), path=folder / "m.onnx", provider="cpu", options=options, log=log)
    return [finding.rule.id for finding in log.findings]


def test_another_of_equal_elements_is_a_note(tmp_path: Path) -> None:
    x = torch.zeros(2, 100)
    assert not torch.equal(torch.topk(x, 3)[1], torch.arange(3).expand(2, 3)), "PyTorch takes the first ones, too"
    found = validated(lambda x: (torch.topk(x, 3)[1], x + torch.arange(100.0)), x, tmp_path)
    assert found == [rules.EQUAL_ELEMENTS.id]


def test_an_element_that_is_not_equal_is_an_error(tmp_path: Path) -> None:
    right = registered(LOWERINGS)[aten.topk.default]

    def shifted(op: Any, *args: Any, **kwargs: Any) -> Any:
        values, places = right(op, *args, **kwargs)
        return values, op.Mod(op.Add(places, 1), op.const(100))

    found = validated(lambda x: torch.topk(x, 3)[1], FEW.repeat(1, 2), tmp_path, topk=shifted)
    assert rules.OUTPUT_DRIFT.id in found


def test_what_documentation_fixes_is_no_choice() -> None:
    with EQUALS["the last"]():
        assert torch.equal(torch.argmax(FEW, 1), FEW.eq(FEW.amax(1, keepdim=True)).to(torch.int64).argmax(1))
        last = torch.sort(FEW, stable=True)[1]
    assert torch.equal(last, torch.sort(FEW, stable=True)[1])
    with EQUALS[FIRST](), torch.compiler.set_stance("force_eager"):  # Dynamo would keep what it learnt under the mode
        branch = torch.cond(
            torch.tensor(True), lambda x: torch.topk(x, 3)[1], lambda x: torch.topk(x, 3)[1], (FEW * 0,)
        )
    assert torch.equal(branch, torch.arange(3).expand(3, 3))


NOISE = np.float32([[1, 2, 3, 4], [1, 2, 3, 4.001], [1, 2, 3, 3.999]])


@pytest.mark.parametrize(
    ("want", "got", "runs", "is_it"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4.0005], NOISE, True),
        ([1, 2, 3, 4], [1, 2, 3.1, 4], NOISE, False),
        ([1, 2, 3, np.nan], [1, 2, 3, 4], np.where(NOISE == 4, np.nan, NOISE), True),
        ([1, 2, np.nan, 4], [1, 2, 3, 4], np.where(NOISE == 3, np.nan, NOISE), False),
        ([1, 2, 3, 4], [1, 2, 3, np.nan], NOISE, False),
        ([1, 2, 3, 4], [1, 2, 3, 9], None, True),
    ],
)
def test_what_rounding_decides_is_open(want: Any, got: Any, runs: np.ndarray | None, is_it: bool) -> None:
    assert is_open(np.float32(want), np.float32(got), runs) is is_it


def test_numbers_that_other_roundings_keep_are_not_open() -> None:
    want, runs = np.arange(40), np.stack([np.arange(40), np.arange(40)])
    runs[1, 5] += 1
    assert is_open(want, runs[1], runs)
    assert not is_open(want, want[::-1].copy(), runs)
