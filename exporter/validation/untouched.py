"""Runs of the user's model that leave it, and the process, as they were, also where they fail."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch

from fxport.exporter.capture.patches.process import gpus_in_use


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave the process as it was: random generators are put back, and nothing is compiled meanwhile.

    torch.cond and its like would compile a wrapper of theirs, and Dynamo would keep what it learnt under our modes.
    """
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with same_draws(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def same_draws() -> AbstractContextManager[None]:
    """Put PyTorch's generators back at the end; those of devices only where somebody has begun to use them."""
    return torch.random.fork_rng(devices=gpus_in_use())


@contextmanager
def tensors_kept(module: torch.nn.Module) -> Iterator[None]:
    """Put back the memory and the type that each parameter and buffer had.

    `buffer.data = …` gives a tensor other memory, in a run in float64 also another type, which no write can undo. What
    is written into the memory itself is not put back here.
    """
    tensors = (*module.parameters(), *module.buffers())
    memory = [(tensor, tensor.data) for tensor in tensors if type(tensor) in (torch.Tensor, torch.nn.Parameter)]
    try:
        yield
    finally:
        for tensor, data in memory:
            if _moved(tensor, data):
                tensor.data = data


def _moved(tensor: torch.Tensor, data: torch.Tensor) -> bool:
    if tensor.dtype != data.dtype or tensor.shape != data.shape:
        return True
    if tensor.layout is not torch.strided or tensor.is_meta:
        return False
    return tensor.data_ptr() != data.data_ptr() or tensor.stride() != data.stride()
