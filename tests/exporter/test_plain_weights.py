"""Fakes of weights are made beneath all function modes, and are those that PyTorch makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

from fxport.exporter.capture.patches.plain_weights import weights_unwatched


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


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_fake_of_a_weight_is_pytorchs_and_no_mode_is_asked(name: str) -> None:
    weight = WEIGHTS[name]()
    want = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(weight, static_shapes=True)
    with Counted() as counted, weights_unwatched():
        made = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(weight, static_shapes=True)
    assert counted.calls == 0
    for read in ("shape", "dtype", "device", "requires_grad", "is_leaf"):
        assert getattr(made, read) == getattr(want, read), read
    assert (type(made), made.stride(), made.storage_offset()) == (type(want), want.stride(), want.storage_offset())
    assert made.untyped_storage().nbytes() == want.untyped_storage().nbytes()


@pytest.mark.parametrize(("tensor", "static"), [(torch.randn(2, 3).as_subclass(Own), True), (torch.randn(2, 3), None)])
def test_other_tensors_are_made_in_sight_of_the_modes(tensor: torch.Tensor, static: bool | None) -> None:
    with Counted() as counted, weights_unwatched():
        FakeTensorMode(shape_env=ShapeEnv()).from_tensor(tensor, static_shapes=static)
    assert counted.calls > 0
