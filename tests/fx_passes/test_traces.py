"""Decompositions are traced once for nodes that are alike, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim, export

import fxport
from fxport.fx_passes import decompose as decomposing
from fxport.fx_passes.decompose import decompose
from fxport.fx_passes.traces import Traces
from tests.fx_passes.test_passes import Forward
from tests.running import assert_same, run_session, session_of

aten = torch.ops.aten


def test_equal_nodes_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    trace = decomposing._trace
    monkeypatch.setattr(decomposing, "_trace", lambda node, *rest: (traced.append(node.target), trace(node, *rest))[1])

    def twice(x: Tensor) -> Tensor:
        a, b = aten.logaddexp(x, x + 1), aten.logaddexp(x * 2, x)
        return aten.logaddexp(a, b)

    x = torch.randn(4, 3)
    gm = export(Forward(twice), (x,), dynamic_shapes=({0: Dim.DYNAMIC},)).graph_module
    decompose(gm, (aten.where.self, aten.exp.default))
    assert traced.count(aten.logaddexp.default) == 1
    assert not gm.graph.find_nodes(op="call_function", target=aten.logaddexp.default)
    torch.testing.assert_close(gm(x)[0], twice(x))
    for node in gm.graph.find_nodes(op="call_function", target=aten.where.self):
        assert node.meta["val"].shape == node.args[1].meta["val"].shape
    values = [node.meta["val"] for node in gm.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
    assert len({*map(id, values)}) == len(values), "two nodes have one fake value"


def test_what_has_sizes_alone_is_run_again_on_sizes() -> None:
    def grids(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.linspace(0, x.shape[0] - 1, 7) + x[0, 0], torch.linspace(0, x.shape[0] - 1, 7) * 2

    program = fxport.export(Forward(grids), (torch.randn(5, 3),), dynamic_shapes=({0: "n"},))
    assert [str(size) for size in program.model.graph.inputs[0].shape or ()] == ["n", "3"]
    x = torch.randn(9, 3)
    assert_same(run_session(session_of(program), program, (x,)), grids(x))


X = torch.randn(4, 4)
DIFFERENT: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "number": (lambda x: aten.addcmul(x, x, x, value=1), lambda x: aten.addcmul(x, x, x, value=2)),
    "type of a number": (lambda x: aten.add(x, 1), lambda x: aten.add(x, 1.0)),
    "a truth value": (lambda x: aten.add(x, 1), lambda x: aten.add(x, True)),
    "sign of zero": (lambda x: aten.add(x, 0.0), lambda x: aten.add(x, -0.0)),
    "keyword": (lambda x: aten.gelu(x), lambda x: aten.gelu(x, approximate="tanh")),
    "operator": (lambda x: aten.add(x, x), lambda x: aten.sub(x, x)),
    "size": (lambda x: aten.exp(x), lambda x: aten.exp(x[:2])),
    "stride": (lambda x: aten.exp(x), lambda x: aten.exp(x.t())),
    "offset": (lambda x: aten.exp(x[:2]), lambda x: aten.exp(x[2:])),
    "dtype": (lambda x: aten.exp(x), lambda x: aten.exp(x.double())),
    "one tensor twice": (lambda x: aten.add(x, x), lambda x: aten.add(x, x.clone())),
    "one memory twice": (lambda x: aten.add(x, x.view(4, 4)), lambda x: aten.add(x, x.clone())),
    "order of arguments": (lambda x: aten.where(x > 0, x, x.neg()), lambda x: aten.where(x > 0, x, x)),
    "dimensions": (lambda x: aten.sum(x, [0]), lambda x: aten.sum(x, [1])),
    "length of a list": (lambda x: aten.cat([x, x]), lambda x: aten.cat([x, x, x])),
    "no value": (lambda x: aten.clamp(x, 0, None), lambda x: aten.clamp(x, None, 0)),
}
"""Two calls that look alike, by what tells them apart."""


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_traced_again(what: str) -> None:
    first, second = DIFFERENT[what]
    gm = export(Forward(lambda x: (first(x), second(x), first(x + 1))), (X,)).graph_module
    nodes = [node for node in gm.graph.output_node().args[0] if isinstance(node, torch.fx.Node)]
    traces, done = Traces(), []
    found = [traces.of(node, lambda: done.append(0))[1] for node in nodes]
    assert found[:2] == [False, False]
    assert len(done) == 2 + (not found[2])
    if what not in ("one memory twice",):
        assert found[2], "an equal call is not seen to be one"


def test_numbers_from_data_are_traced_each_time() -> None:
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return aten.exp(aten.nonzero(x)), aten.exp(aten.nonzero(x))

    gm = export(Forward(forward), (X,)).graph_module
    traces = Traces()
    for node in gm.graph.find_nodes(op="call_function", target=aten.exp.default):
        assert not traces.of(node, lambda: None)[1]
