"""Nothing is decided about a dynamic size after the capture, whose program has been checked without it."""

import inspect
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import rules
from fxport.fx_passes import graph
from fxport.fx_passes.graph import SizeError, fake_mode_of


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum()


DECISIONS = {
    "a constant": (lambda x, y: torch._check(x.shape[0] == 4), "the constant 4"),
    "one less than another": (lambda x, y: torch._check(x.shape[0] + 1 == y.shape[0]), "Eq(s"),
    "not a multiple": (lambda x, y: x.shape[0] % 3 == 0 or x, "Ne(Mod("),
    "large": (lambda x, y: x if x.shape[0] > 3 else y, "> 3"),
}
"""By what is decided, a function that decides it of the sizes of two tensors, and a part of the error's text."""


def _two_dynamic_tensors() -> list[Tensor]:
    rows = torch.export.Dim.DYNAMIC
    program = torch.export.export(Two(), (torch.ones(4, 6), torch.ones(5, 6)), dynamic_shapes=({0: rows}, {0: rows}))
    return [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]


@pytest.mark.parametrize(("decides", "said"), DECISIONS.values(), ids=DECISIONS)
def test_a_decision_about_a_dynamic_size_is_an_error(decides: Callable[[Tensor, Tensor], object], said: str) -> None:
    x, y = _two_dynamic_tensors()
    for _ in range(2):  # nothing has been learned from the first
        with pytest.raises(SizeError) as error, fake_mode_of((x, y)):
            decides(x, y)
        assert said in str(error.value)


def test_what_holds_for_all_sizes_is_none() -> None:
    x, y = _two_dynamic_tensors()
    with fake_mode_of((x, y)):
        assert x.shape[0] >= 0
        assert tuple((x + x).shape) == tuple(x.shape)
        assert (x @ torch.empty(6, 2)).shape[1] == 2


def test_what_was_learned_before_is_none_though_it_was_not_known_when_first_looked_up() -> None:
    x, y = _two_dynamic_tensors()
    area: Any = x.shape[0] * y.shape[0]  # the stubs know no symbolic sizes
    condition = (area < 30).node
    env = condition.shape_env
    assert env._maybe_evaluate_static(condition.expr, size_oblivious=False) is None
    env.axioms.update(env.get_implications(condition.expr))  # so does PyTorch as it makes a guard
    with fake_mode_of(x):
        assert area < 30


class Written(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.add_(1)
        return y


@pytest.mark.parametrize("self_check", ["always", "never"])  # the self-check runs passes of its own
def test_a_decision_in_a_pass_is_a_refusal_at_the_line_that_the_pass_rewrites(self_check: Any) -> None:
    asked = mock.patch.object(graph, "run_fake", side_effect=SizeError("PyTorch takes it that Eq(s0, 24) in it"))
    with asked, pytest.raises(ExportError, match=r"y\.add_\(1\)") as caught:
        export(Written(), (torch.ones(3),), options=Options(self_check=self_check))
    (finding,) = caught.value.log.findings
    lines, first = inspect.getsourcelines(Written)
    assert (finding.rule, finding.facts["op"]) == (rules.NO_MATCHING_OVERLOAD, "add_")
    assert finding.place is not None
    assert finding.place.line == first + next(n for n, line in enumerate(lines) if "add_" in line)
    assert "Eq(s0, 24)" in finding.message
    assert finding.fixes
