"""nn.LSTM, GRU and RNN as modules: any batch, any number of steps, one operator a layer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.export._trace import _export
from torch.utils import _pytree as pytree

from fxport import export
from fxport.exporter.capture.patches.whole_ops import whole_ops
from tests.running import assert_same, run_exported

AUTO = Dim.AUTO
CLASSES = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


def made(cls: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
    torch.manual_seed(0)
    return cls(*args, **kwargs).eval()


def check(model: nn.Module, cases: list[tuple[Any, ...]], dynamic: Any = None) -> None:
    results = run_exported(model, cases, dynamic_shapes=dynamic)
    for case, actual in zip(cases, results, strict=True):
        with torch.no_grad():
            assert_same(actual, pytree.tree_leaves(model(*case)))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}], ids=["plain", "two ways, twice"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_batch_and_time_stay_dynamic(name: str, options: dict[str, Any], batch_first: bool) -> None:
    model = made(CLASSES[name], 4, 6, batch_first=batch_first, **options)
    check(model, [(torch.randn(3, 5, 4),), (torch.randn(1, 9, 4),), (torch.randn(8, 1, 4),)], ({0: AUTO, 1: AUTO},))


@pytest.mark.parametrize("name", CLASSES)
def test_unbatched(name: str) -> None:
    check(made(CLASSES[name], 4, 6), [(torch.randn(5, 4),), (torch.randn(7, 4),)], ({0: AUTO},))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_given_states(nonlinearity: str) -> None:
    model = made(nn.RNN, 4, 6, nonlinearity=nonlinearity)
    cases = [(torch.randn(5, 3, 4), torch.randn(1, 3, 6)), (torch.randn(2, 7, 4), torch.randn(1, 7, 6))]
    check(model, cases, ({0: AUTO, 1: AUTO}, {1: AUTO}))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_projections() -> None:
    model = made(nn.LSTM, 4, 6, num_layers=2, bidirectional=True, proj_size=3)
    check(model, [(torch.randn(5, 3, 4),), (torch.randn(1, 7, 4),)], ({0: AUTO, 1: AUTO},))


class Tagger(nn.Module):
    """What a recurrent layer is used for: words in, the last state and a score for each step out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 4)
        self.layer = nn.LSTM(4, 6, num_layers=2, batch_first=True, dropout=0.3)
        self.head = nn.Linear(6, 3)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        steps, (last, _) = self.layer(self.words(words))
        return self.head(steps), last[-1]


class Greedy(nn.Module):
    """A decoder that feeds its own states back, cell by cell."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(4, 6), nn.GRUCell(6, 6), nn.RNNCell(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.shape[0], 6), torch.zeros(x.shape[0], 6)
        for _ in range(3):
            h, c = self.lstm(x, (h, c))
            x = self.rnn(self.gru(h, c))
        return x


def test_models() -> None:
    check(made(Tagger), [(torch.randint(50, (3, 5)),), (torch.randint(50, (2, 9)),)], ({0: AUTO, 1: AUTO},))
    check(made(Greedy), [(torch.randn(3, 4),), (torch.randn(5, 4),)], ({0: AUTO},))


def test_one_operator_for_each_layer() -> None:
    """No initial state, no rearrangement of weights and no sizes are left in the graph."""
    model = made(nn.LSTM, 4, 6, num_layers=2, batch_first=True)
    program = export(model, (torch.randn(3, 5, 4),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    count = Counter(node.op_type for node in program.model.graph)
    assert count == {"LSTM": 2, "Transpose": 2, "Squeeze": 2, "Concat": 2}


def test_nothing_changes_for_others() -> None:
    """Outside of a capture, and for a trace below the op, PyTorch's own decomposition stands."""
    kernels = dict(torch.ops.aten.gru.input.py_kernels)
    model = made(nn.GRU, 4, 6)
    with whole_ops():
        exported = _export(model, (torch.randn(2, 3, 4),), strict=False, pre_dispatch=False)
    assert torch.ops.aten.sigmoid.default in {node.target for node in exported.graph.nodes}
    assert dict(torch.ops.aten.gru.input.py_kernels) == kernels
