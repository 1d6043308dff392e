"""A capture that fails tells every line that stands in its way, and no line that the example does not come to."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import rules

NO_HELP = Options(rewrite=False)  # else functions of math take tensors

ASKS = rules.DATA_DEPENDENT_CONTROL_FLOW.id


class Roots(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = math.sqrt(x.abs().sum())
        shift = math.log(x.abs().max())
        return x / scale + shift


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = math.sqrt(x.abs().sum())
        array = x.numpy()
        return x / scale + torch.from_numpy(array)


class Untaken(nn.Module):
    """With the value of the example, the second root is not reached."""

    def forward(self, x: Tensor) -> Tensor:
        scale = math.sqrt(x.abs().sum())
        if scale > 100:
            scale = math.sqrt(x.abs().max())
        return x / scale


class Layers(nn.Module):
    """One line, asked by each layer in turn."""

    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / math.sqrt(x.abs().sum())

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(self.Layer() for _ in range(5)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) * math.exp(x.abs().max())


class Counting(nn.Module):
    """What the model counts and writes is as it was: it ran once more, in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.runs += 1
        return x * math.sqrt(x.sum()) + math.exp(x.max())


CASES = {
    "two roots": (Roots, [(ASKS, "math.sqrt"), (ASKS, "math.log")]),
    "another cause": (Mixed, [(ASKS, "math.sqrt"), ("FXP1003", "x.numpy()")]),
    "a branch that is not taken": (Untaken, [(ASKS, "math.sqrt(x.abs().sum())")]),
    "a line of several layers": (Layers, [(ASKS, "math.sqrt"), (ASKS, "math.exp")]),
}


@pytest.mark.parametrize("name", CASES)
def test_all_lines_in_the_way_are_told(name: str) -> None:
    model, wanted = CASES[name]
    with pytest.raises(ExportError) as caught:
        export(model(), torch.ones(3), options=NO_HELP)
    found = [each for each in caught.value.log.findings if each.level == "error"]
    lines, start = inspect.getsourcelines(inspect.getmodule(model) or model)
    assert start == 0
    told = [(each.rule.id, lines[each.place.line - 1] if each.place else "") for each in found]
    assert len(told) == len(wanted), told
    for (rule, line), (wanted_rule, text) in zip(told, wanted, strict=True):
        assert (rule, text in line) == (wanted_rule, True), line


def test_the_model_stays_as_it_was() -> None:
    model = Counting()
    with pytest.raises(ExportError) as caught:
        export(model, torch.ones(3), options=NO_HELP)
    assert (model.runs, model.calls.item()) == (0, 0)
    assert sum(each.rule.id == ASKS for each in caught.value.log.findings) == 1  # both stand on one line


def test_no_value_is_asked_of_a_model_without_memory() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), Roots())
    with pytest.raises(ExportError) as caught:
        export(model, torch.ones(2, 3), options=NO_HELP)
    assert [each.rule.id for each in caught.value.log.findings if each.level == "error"] == [ASKS]
