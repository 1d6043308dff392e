"""PyTorch's bookkeeping in a capture is done beneath all function modes, and is what PyTorch does."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

import fxport
from fxport.exporter.capture.function_mode import READS, FunctionMode
from fxport.exporter.capture.patches.bookkeeping import bookkeeping_unseen, modes_away


class Own(torch.Tensor):
    """A class that may answer for its properties."""


class Counted(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


WEIGHTS = {
    "parameter": lambda: torch.nn.Parameter(torch.randn(2, 3)),
    "frozen": lambda: torch.nn.Parameter(torch.randn(2, 3), requires_grad=False),
    "buffer": lambda: torch.arange(6).reshape(2, 3).t(),
    "view": lambda: torch.randn(4, 3)[1:, ::2],
    "scalar": lambda: torch.tensor(1.0, dtype=torch.float16),
}


@pytest.mark.parametrize("static", [True, None], ids=["weight", "input"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_the_fake_of_a_tensor_is_pytorchs_and_no_mode_is_asked(name: str, static: bool | None) -> None:
    tensor = WEIGHTS[name]()
    want = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(tensor, static_shapes=static)
    with Counted() as counted, bookkeeping_unseen():
        made = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(tensor, static_shapes=static)
    assert counted.calls == 0
    for read in ("dtype", "device", "requires_grad", "is_leaf"):
        assert getattr(made, read) == getattr(want, read), read
    assert (type(made), str(made.shape), str(made.stride())) == (type(want), str(want.shape), str(want.stride()))
    assert str(made.storage_offset()) == str(want.storage_offset())
    assert str(made.untyped_storage().nbytes()) == str(want.untyped_storage().nbytes())


@pytest.mark.parametrize("static", [True, None])
def test_tensors_of_other_classes_are_made_in_sight_of_the_modes(static: bool | None) -> None:
    with Counted() as counted, bookkeeping_unseen():
        FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.randn(2, 3).as_subclass(Own), static_shapes=static)
    assert counted.calls > 0


def failing() -> None:
    torch.ones(2)
    raise ValueError("of its own")


def test_modes_come_back_in_their_order_also_after_an_error() -> None:
    with Counted() as outer, Counted() as inner:
        with pytest.raises(ValueError, match="of its own"), modes_away():
            failing()
        assert (outer.calls, inner.calls) == (0, 0)
        torch.ones(2)
        assert (outer.calls, inner.calls) == (1, 1)
        assert torch.overrides._get_current_function_mode_stack()[-2:] == [outer, inner]


class Wide(nn.Module):
    """Many weights, few calls."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.BatchNorm1d(3) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[0](x)


def test_weights_cost_no_calls_of_a_capture() -> None:
    calls: list[Any] = []
    seen = FunctionMode.__torch_function__

    def counted(self: FunctionMode, func: Any, *rest: Any) -> Any:
        calls.append(func)
        return seen(self, func, *rest)

    numbers = []
    with mock.patch.object(FunctionMode, "__torch_function__", counted):
        for depth in (1, 9):
            calls.clear()
            fxport.export(Wide(depth).eval(), (torch.randn(2, 3),))
            numbers.append(len(calls))
    assert numbers[0] == numbers[1]
    assert any(func not in READS for func in calls)
