"""PyTorch says nothing while it is asked: neither logs nor prints."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch.export import _trace


@contextmanager
def quiet_pytorch() -> Iterator[None]:
    """Silence what PyTorch logs and prints about a failing capture, graphs included: the finding says more.

    Who sets TORCH_LOGS wants to read them, and does.
    """
    if "TORCH_LOGS" in os.environ:
        yield
        return
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with mock.patch.object(_trace, "print", _unprinted, create=True):
            yield
    finally:
        logger.setLevel(level)


def _unprinted(*_: Any, **__: Any) -> None:
    """Stand for `print` where PyTorch prints the graph of a failed trace to stderr."""
