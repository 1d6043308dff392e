"""All Python state that a model reaches, and the values of tensors in it, restored.

PyTorch puts copies of a module's containers in their place, though somebody else may hold the list as well. What
`forward` has appended or assigned is a tensor of the capture, and stays there where the capture fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fxport.exporter.capture.holders import MEMBERS
from fxport.exporter.capture.snapshot import Snapshot


@contextmanager
def restore_state(state: Snapshot) -> Iterator[None]:
    """Put back a state as it was, and the values of tensors in it that are neither parameters nor buffers."""
    values = _values(state)
    try:
        yield
    finally:
        state.restore()
        with torch.no_grad():
            for tensor, version, value in values:
                if tensor._version != version or not is_same(tensor, value):  # `tensor.data` has its own versions
                    (tensor if tensor.shape == value.shape else tensor.resize_(value.shape)).copy_(value)


def is_same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether a tensor holds what it held: nothing is written where nothing has changed, NaN included.

    A tensor may lie in memory that is shared, or that cannot be written to.
    """
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        return False
    return torch.equal(tensor, value) or bool(((tensor == value) | ((tensor != tensor) & (value != value))).all())


def _values(state: Snapshot) -> list[tuple[torch.Tensor, int, torch.Tensor]]:
    """Return tensors that are neither parameters nor buffers of a module, each with its version and a copy."""
    own = {id(value) for holder, (_, values) in state.held if holder.kind is MEMBERS for value in values}
    held = (value for _, (_, values) in state.held for value in values if id(value) not in own)
    kinds = (torch.Tensor, torch.nn.Parameter)
    tensors = {id(each): each for each in held if type(each) in kinds and each.layout is torch.strided}
    return [(each, each._version, each.detach().clone()) for each in tensors.values() if not each.is_inference()]
