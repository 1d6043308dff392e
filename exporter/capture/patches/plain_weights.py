"""Fakes of weights, made without asking the function modes of a capture, which have nothing to say about them.

PyTorch reads about sixty properties of each weight to describe it, and each read is a call that every mode sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose properties no class of the user's answers."""


@contextmanager
def weights_unwatched() -> Iterator[None]:
    """Make the fake of a plain tensor of constant sizes beneath all function modes.

    Its description holds no size that varies and no value, and nothing is computed: no mode notes or rewrites any of
    it. Tensors of other classes, and inputs, whose sizes may vary, are made as PyTorch makes them.
    """
    made = FakeTensorMode.from_tensor

    def from_tensor(
        self: FakeTensorMode, tensor: torch.Tensor, *, static_shapes: bool | None = None, **choices: Any
    ) -> FakeTensor:
        if not static_shapes or type(tensor) not in PLAIN:
            return made(self, tensor, static_shapes=static_shapes, **choices)
        with torch._C.DisableTorchFunction():
            return made(self, tensor, static_shapes=static_shapes, **choices)

    with mock.patch.object(FakeTensorMode, "from_tensor", from_tensor):
        yield
