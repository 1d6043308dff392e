"""Notes about code that asks for data and was kept: each says what is in the ONNX model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Log, rules
from fxport.exporter.capture.overcome import CHECK, CONDITION, NUMBER
from tests.modules import module_with

ASSERTS = """
from torch import nn

class Asserts(nn.Module):
    def forward(self, x):
        assert x.sum() > -100
        return x + 1
"""


class Refuses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() < -100:
            raise ValueError("too small")
        return x + 1


class Decides(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x + 1
        return x * 2


class Chooses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Counts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * math.sqrt(x.sum().item() ** 2)


@pytest.mark.parametrize(
    ("model", "said"),
    [(Refuses(), CHECK), (Decides(), CONDITION), (Chooses(), CONDITION), (Counts(), NUMBER)],
)
def test_a_note_says_what_became_of_the_line(model: nn.Module, said: str) -> None:
    assert note_of(model) == said


def test_an_assert_is_a_check(tmp_path: Path) -> None:
    assert note_of(module_with(ASSERTS, tmp_path, "asserts").Asserts()) == CHECK


def note_of(model: nn.Module) -> object:
    log = Log()
    export(model, (torch.ones(2, 3),), log=log)
    (found,) = [each for each in log.findings if each.rule is rules.DATA_DEPENDENT_CONTROL_FLOW]
    return found.facts["detail"]
