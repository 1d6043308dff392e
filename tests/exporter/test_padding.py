"""Padding between transposes: ONNX Runtime moves the transposes, and must find the amounts of every axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from fxport import export
from tests.running import assert_same, run_session, session_of

X = torch.randn(2, 8, 6, 3, generator=torch.Generator().manual_seed(0))


class Padded(nn.Module):
    """As VOLO's outlook attention has it: channels first for a moment."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(self.linear(x).permute(0, 3, 1, 2), (1, 2, 0, 1), mode=self.mode)
        return self.linear(y.permute(0, 2, 3, 1))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("shapes", [None, ({1: "height", 2: "width"},)], ids=["static", "dynamic"])
def test_padding_between_transposes_runs_with_all_optimizations(mode: str, shapes: object) -> None:
    model = Padded(mode)
    program = export(model, (X,), dynamic_shapes=shapes)
    with torch.no_grad():
        assert_same(run_session(session_of(program), program, (X,)), [model(X)])


AMOUNTS: dict[str, Callable[[int], tuple[int, int]]] = {
    "the end": lambda n: (0, 1 - n),
    "both ends": lambda n: (-(n // 3), -(n // 3)),
    "both ends, not always": lambda n: (-(n // 4), n % 2),
}
"""Numbers of elements to pad a row of n with, before and behind: negative in general, and 0 for some n."""


@pytest.mark.parametrize("amounts", AMOUNTS.values(), ids=AMOUNTS)
def test_what_is_cut_off_may_be_nothing(amounts: Callable[[int], tuple[int, int]]) -> None:
    class Cropped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.pad(x, amounts(x.shape[1]))

    program = export(Cropped(), (torch.randn(2, 7),), dynamic_shapes=({1: "n"},))
    session = session_of(program)
    for n in (1, 2, 3, 4, 9):
        x = torch.randn(2, n)
        assert_same(run_session(session, program, (x,)), [Cropped()(x)])


def test_an_edge_that_is_cut_off_may_be_nothing() -> None:
    class Shifted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.pad(x, (2, -(x.shape[2] // 3)), mode="replicate")

    program = export(Shifted(), (torch.randn(1, 2, 7),), dynamic_shapes=({2: "n"},))
    session = session_of(program)
    for n in (2, 3, 8):
        x = torch.randn(1, 2, n)
        assert_same(run_session(session, program, (x,)), [Shifted()(x)])


def test_what_is_wrapped_around_may_be_nothing() -> None:
    class Wrapped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.pad(x, (x.shape[2] // 3, 0), mode="circular")

    program = export(Wrapped(), (torch.randn(1, 2, 7),), dynamic_shapes=({2: "n"},), opset_version=18)
    session = session_of(program)
    for n in (2, 3, 8):
        x = torch.randn(1, 2, n)
        assert_same(run_session(session, program, (x,)), [Wrapped()(x)])


@pytest.mark.parametrize("opset", [18, 19])
def test_two_axes_are_wrapped_around(opset: int) -> None:
    model = nn.Conv2d(3, 2, 3, padding=(1, 2), padding_mode="circular")
    program = export(model, (torch.randn(2, 3, 6, 5),), dynamic_shapes=({2: "h", 3: "w"},), opset_version=opset)
    session = session_of(program)
    for height, width in ((6, 5), (2, 9), (7, 3)):
        x = torch.randn(2, 3, height, width)
        assert_same(run_session(session, program, (x,)), [model(x)])


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_sequences_of_dynamic_lengths_are_padded(padding_side: str) -> None:
    class Padded(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return pad_sequence([x, y, y[y[:, 0] > 0]], padding_value=-1.5, padding_side=padding_side)

    program = export(Padded(), (torch.randn(5, 4), torch.randn(7, 4)), dynamic_shapes=({0: "n"}, {0: "m"}))
    session = session_of(program)
    for n, m in ((5, 7), (8, 3), (4, 4), (1, 2), (2, 1)):
        case = torch.randn(n, 4), torch.randn(m, 4)
        assert_same(run_session(session, program, case), [Padded()(*case)])
