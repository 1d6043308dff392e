"""Higher-order operators that only run their body, and what is said of those that do more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch.utils import _pytree as pytree

from fxport import ExportError, Options, export
from tests.running import assert_same, run_exported

hop: Any = torch.ops.higher_order


class Run(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def mapped(x: Tensor) -> Any:
    return foreach_map(torch.add, [x, x * 2], [x * 3, x])


def hinted(x: Tensor) -> Any:
    return hints_wrapper(lambda a, **_: a.cos() * 2, (x,), {}, hints={"a": True}) + 1


def strictly(x: Tensor) -> Any:
    return strict_mode(lambda a: (a.sin() + 1, a.cos()), (x,))


def printed(x: Tensor) -> Any:
    hop.print("the sum is {x}", x=x.sum())
    return x + 1


def wider(x: Tensor) -> Any:
    a, b = (x * 100).to(torch.int8), (x.mT * 100).to(torch.int8)
    products = out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)
    return products, out_dtype(torch.ops.aten.mul.Tensor, torch.int32, a, a)


@pytest.mark.parametrize("strategy", [None, "strict"])
@pytest.mark.parametrize("function", [mapped, hinted, strictly, printed, wider])
def test_bodies_become_nodes(function: Callable[[Tensor], Any], strategy: str | None) -> None:
    model = Run(function).eval()
    cases = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    for case, got in zip(cases, run_exported(model, cases, options=Options(strategy=strategy)), strict=True):
        assert_same(got, pytree.tree_leaves(model(*case)))


def in_place(x: Tensor) -> Any:
    parts = [x * 2, x * 3]
    torch.ops.aten._foreach_add_(parts, 1.0)
    return parts


@pytest.mark.parametrize(
    ("function", "rule", "op", "line"),
    [
        (in_place, "FXP3001", "_foreach_add", "_foreach_add_(parts"),
    ],
)
def test_what_has_no_lowering_is_named_at_its_line(
    function: Callable[[Tensor], Any], rule: str, op: str, line: str
) -> None:
    with pytest.raises(ExportError) as raised:
        export(Run(function).eval(), (torch.randn(3, 4),))
    (finding,) = [each for each in raised.value.log.findings if each.rule.id == rule]
    assert op in finding.message
    assert finding.place is not None
    assert line in (finding.place.snippet or "")
