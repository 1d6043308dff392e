"""Special methods of all modules are replaced at little cost in a capture, and functions are found by their names."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from fxport import export
from fxport.exporter.capture.control_flow.functions_of_code import maker_of
from fxport.exporter.capture.patches.module_methods import method_in_place, methods_in_place, replaced_method

METHODS = ("__call__", "__getattr__", "__setattr__")


def own() -> list[Any]:
    return [vars(nn.Module)[name] for name in METHODS]


class Branching(nn.Module):
    """Calls a layer in a branch, which has a trace of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.linear(x)
        return x + 1


def test_traces_of_branches_replace_no_method_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen, before = Branching(), set[tuple[int, ...]](), own()
    plain = nn.Linear.forward

    def forward(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        seen.add(tuple(map(id, own())))
        return plain(self, x)

    monkeypatch.setattr(nn.Linear, "forward", forward)
    export(model, (torch.ones(2),))
    captures = seen - {tuple(map(id, before))}
    assert len(captures) == 1
    assert own() == before


@pytest.mark.parametrize("inside", [True, False])
def test_a_method_is_in_place_until_another_one_is(inside: bool) -> None:
    def called(name: str) -> Callable[..., Any]:
        return lambda module, *args: name

    module, before = nn.Linear(2, 2), own()
    if inside:
        with methods_in_place(), replaced_method("__call__", called("outer")), methods_in_place():
            with replaced_method("__call__", called("inner")):
                assert module() == "inner"
            assert module() == "outer"
            traced = symbolic_trace(nn.ReLU())  # replaces methods, too, and puts them back
            assert module() == "outer"
        assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]
    else:
        with replaced_method("__call__", called("outer")):
            assert module() == "outer"
            assert method_in_place("__call__") is nn.Module.__call__
    assert own() == before


def makes() -> Callable[[int], int]:
    return lambda number: number + 1


def test_who_makes_a_function_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("all objects are looked through"))
    assert maker_of(makes().__code__) is makes.__code__
    assert maker_of(Branching().forward.__func__.__code__) is Branching.forward.__code__
