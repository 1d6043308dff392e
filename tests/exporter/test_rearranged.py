"""Identities that ONNX needs stay and others go; weights are stored as they are used."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from fxport import export
from tests.running import assert_same, run_exported, run_session, session_of


class Twice(nn.Module):
    """One value under two names, from the graph itself and from a branch."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        z, w = torch.cond(x.sum() > 0, lambda a: (a + y, a + y), lambda a: (y.clone(), y.clone()), (x,))
        return y, y, z, w


def test_outputs_that_are_one_value() -> None:
    model, x = Twice(), torch.ones(3)
    for case, actual in zip((x, -x), run_exported(model, [(x,), (-x,)]), strict=True):
        assert_same(actual, model(case))


class Applied(nn.Module):
    """One layer that runs twice, on its own output the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x)[0])[0]


def test_weights_that_two_layers_share_are_stored_once() -> None:
    model, x = Applied().eval(), torch.randn(5, 3, 4)
    program = export(model, (x,))
    assert Counter(node.op_type for node in program.model.graph) == {"GRU": 2, "Squeeze": 2}
    assert sorted(program.model.graph.initializers)[-3:] == [
        "layer.bias_ih_l0.arranged",
        "layer.weight_hh_l0.arranged",
        "layer.weight_ih_l0.arranged",
    ]
    assert_same(run_session(session_of(program), program, (x,)), [model(x)])


class Tied(nn.Module):
    """A weight that something else needs as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0] @ self.layer.weight_ih_l0.t()


def test_weights_that_serve_something_else_stay() -> None:
    model, x = Tied().eval(), torch.randn(5, 3, 4)
    program = export(model, (x,))
    assert {"layer.weight_ih_l0", "layer.weight_hh_l0.arranged"} <= set(program.model.graph.initializers)
    assert_same(run_session(session_of(program), program, (x,)), [model(x)])


class Columns(nn.Module):
    def forward(self, x: Tensor, batch: Tensor, v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return x.t() @ v, batch.mT @ v, torch.addmv(w, x.t(), v), v @ x, x @ w


def test_a_transposed_matrix_times_a_vector() -> None:
    model, args = Columns(), (torch.randn(5, 10), torch.randn(3, 5, 10), torch.randn(5), torch.randn(10))
    assert_same(run_exported(model, [args])[0], model(*args))
