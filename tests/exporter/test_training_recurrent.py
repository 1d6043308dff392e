"""Recurrent layers in a training step: any length, in both directions, and gradients of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from fxport.exporter.capture.patches.recurrent_layers import KERNELS
from tests.training import assert_teacher_forced

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")

LAYERS: Mapping[str, tuple[Callable[..., nn.RNNBase], dict[str, Any]]] = {
    "RNN": (nn.RNN, {}),
    "RNN of ReLU": (nn.RNN, {"nonlinearity": "relu"}),
    "GRU": (nn.GRU, {}),
    "LSTM": (nn.LSTM, {}),
    "GRU, both directions, batch first": (nn.GRU, {"bidirectional": True, "batch_first": True}),
    "LSTM, two layers, both directions": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "LSTM with projection": (nn.LSTM, {"proj_size": 2}),
    "RNN without biases": (nn.RNN, {"bias": False}),
}


def layer(name: str) -> nn.RNNBase:
    kind, options = LAYERS[name]
    torch.manual_seed(0)
    return kind(4, 5, **options)


def squares(model: nn.Module, x: Tensor) -> Tensor:
    """Use the output and the last states."""
    output, last = model(x)
    states = last if isinstance(last, tuple) else (last,)
    return output.pow(2).mean() + sum(each.sin().mean() for each in states)


def with_penalty(model: nn.Module, x: Tensor) -> Tensor:
    """Differentiate a gradient once more, as a gradient penalty does."""
    x = x.detach().requires_grad_(True)
    loss = squares(model, x)
    return loss + torch.autograd.grad(loss, x, create_graph=True)[0].pow(2).sum()


@pytest.mark.parametrize("name", LAYERS)
def test_it_trains_at_every_length(name: str, tmp_path: Path) -> None:
    model = layer(name)
    time = 1 if model.batch_first else 0
    data = [(torch.randn(*((3, n) if time else (n, 3)), 4),) for n in (6, 1, 17, 2)]
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    assert_teacher_forced(model, optimizer, squares, data, tmp_path, steps=8, dynamic_shapes=({time: "time"},))


@pytest.mark.parametrize("dynamic", [{0: "time"}, None])
def test_a_gradient_penalty_reaches_through_it(dynamic: Any, tmp_path: Path) -> None:
    model = layer("LSTM")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that what a second derivative lacks would show
    data = [(torch.randn(n, 3, 4),) for n in ((5, 1, 9) if dynamic else (5, 5))]
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    shapes = (dynamic,) if dynamic else None
    assert_teacher_forced(model, optimizer, with_penalty, data, tmp_path, steps=4, dynamic_shapes=shapes)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("loss", [squares, with_penalty])
def test_its_derivatives_are_those_of_the_layer(name: str, loss: Any) -> None:
    model = layer(name).double()

    class Same(nn.Module):
        """The layer by the kernels of a training step."""

        def forward(self, x: Tensor) -> tuple[Tensor, Any]:
            op = getattr(torch.ops.aten, model.mode.lower()).input
            rows = x.shape[0 if model.batch_first else 1]
            count = model.num_layers * (1 + model.bidirectional)
            h = x.new_zeros(count, rows, model.proj_size or 5)
            start = (h, x.new_zeros(count, rows, 5)) if model.mode == "LSTM" else h
            settings = (model.bias, model.num_layers, 0.0, True, model.bidirectional, model.batch_first)
            output, *last = KERNELS[op](x, start, model._flat_weights, *settings)
            return output, tuple(last)

    x = torch.randn(6, 3, 4, dtype=torch.float64)
    wanted = torch.autograd.grad(loss(model, x), list(model.parameters()))
    found = torch.autograd.grad(loss(Same(), x), list(model.parameters()))
    torch.testing.assert_close(found, wanted)


def test_the_graph_does_not_grow_with_the_length(tmp_path: Path) -> None:
    model = layer("LSTM, two layers, both directions")
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    counts = [
        len(assert_teacher_forced(model, optimizer, squares, [(torch.randn(3, n, 4),)], tmp_path, 1).model.graph)
        for n in (4, 40)
    ]
    assert abs(counts[0] - counts[1]) < 10  # steps one by one would be thousands of nodes
