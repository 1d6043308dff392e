"""Graphs whose code is written when somebody asks for it."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace

import fxport
from fxport.exporter.capture.patches.code_on_demand import code_on_demand


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + x


def edited() -> GraphModule:
    """Return a graph that was changed while its code is put off."""
    gm = symbolic_trace(Doubled())
    with code_on_demand():
        next(node for node in gm.graph.nodes if node.target is operator.add).target = operator.sub
        gm.recompile()
    return gm


@pytest.mark.parametrize(
    "shown",
    [lambda gm: gm.code, str, lambda gm: copy.deepcopy(gm).code, lambda gm: copy.copy(gm).code],
)
def test_the_code_is_that_of_the_graph(shown: Callable[[Any], str]) -> None:
    gm = edited()
    assert "relu - x" in shown(gm)
    assert "relu - x" in gm.code
    gm.graph.output_node().args = (next(iter(gm.graph.nodes)),)
    gm.recompile()
    assert "return x" in gm.code
    assert "return x" in str(gm)


def test_a_call_runs_the_changed_graph_within_and_after() -> None:
    x = torch.tensor([-1.0, 2.0])
    with code_on_demand():
        gm = symbolic_trace(Doubled())
        assert "__wrapped__" not in vars(type(gm))
        assert gm(x).tolist() == [-1, 4]
    assert edited()(x).tolist() == [1, 0]
    assert edited().forward(x).tolist() == [1, 0]


def test_an_export_writes_no_code_until_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    code = torch.fx.Graph.python_code

    def counted(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
        written.append(len(graph.nodes))
        return code(graph, *args, **kwargs)

    monkeypatch.setattr(torch.fx.Graph, "python_code", counted)
    x = torch.randn(2, 3)
    onnx = fxport.export(Doubled(), (x,))
    assert not written
    assert torch.equal(onnx.program.graph_module(x)[0], torch.relu(x) + x)
    assert written
