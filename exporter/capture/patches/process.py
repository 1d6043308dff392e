"""State of the whole process that a `forward` may change, restored after a capture, also after one that fails."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def gpus_in_use() -> list[int]:
    """Return the GPUs whose random generators are in use."""
    return [*range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []


@contextmanager
def restore_process() -> Iterator[None]:
    """Put back the states of the random generators, the default dtype, and whether gradients are recorded."""
    drawn, dtype, recorded = random.getstate(), torch.get_default_dtype(), torch.is_grad_enabled()
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=gpus_in_use()):
            yield
    finally:
        random.setstate(drawn)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(recorded)
        if numpy is not None:
            numpy.random.set_state(state)
