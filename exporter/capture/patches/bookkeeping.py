"""PyTorch's own bookkeeping in a capture, done out of sight of the function modes, which have nothing to say about it.

PyTorch reads some fifty properties of each weight and input to describe it, to give it a node, and to write its
signature. Each read is a call that every mode sees, PyTorch's own two among them: of a ResNet-50 these are 16,000
calls, and all calls of its forward 700.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import _trace
from torch.fx.experimental import proxy_tensor
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose properties no class of the user's answers."""


@contextmanager
def modes_away() -> Iterator[None]:
    """Take all function modes away for a while; classes of tensors and graphs' own stand-ins are asked as ever."""
    modes = _get_current_function_mode_stack()
    for _ in modes:
        _pop_mode()
    try:
        yield
    finally:
        for mode in modes:
            _push_mode(mode)


@contextmanager
def bookkeeping_unseen() -> Iterator[None]:
    """Describe weights and inputs, make the nodes of inputs, and write the signature beneath all function modes.

    No value is computed there, and no code of the user's runs: no mode notes or rewrites any of it. The fakes of
    tensors of other classes are made as PyTorch makes them.
    """
    made = FakeTensorMode.from_tensor
    tracked, finished = proxy_tensor.track_tensor_tree, _trace._produce_aten_artifact

    def from_tensor(
        self: FakeTensorMode, tensor: torch.Tensor, *, static_shapes: bool | None = None, **choices: Any
    ) -> FakeTensor:
        if type(tensor) not in PLAIN:
            return made(self, tensor, static_shapes=static_shapes, **choices)
        with torch._C.DisableTorchFunction() if static_shapes else modes_away():
            return made(self, tensor, static_shapes=static_shapes, **choices)

    with (
        mock.patch.object(FakeTensorMode, "from_tensor", from_tensor),
        mock.patch.object(proxy_tensor, "track_tensor_tree", _unseen(tracked)),
        mock.patch.object(_trace, "_produce_aten_artifact", _unseen(finished)),
    ):
        yield


@contextmanager
def layouts_undescribed() -> Iterator[None]:
    """Describe the tensor of a node once, by `node.meta["val"]`; `tensor_meta` is None.

    With dynamic sizes PyTorch asks of each whether it is contiguous, and in which format, to describe it a second time.
    """

    def undescribed(_tensor: torch.Tensor, *_include_contiguity: bool) -> None:
        return None

    with mock.patch.object(proxy_tensor, "_extract_tensor_metadata", undescribed):
        yield


def _unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        with modes_away():
            return function(*args, **kwargs)

    return called
