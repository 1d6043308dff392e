"""PyTorch says nothing while it is asked: it neither logs nor prints, and Dynamo gives no warnings."""

from __future__ import annotations

import logging
import os
import warnings
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
        with mock.patch.object(_trace, "print", _unprinted, create=True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"torch\._dynamo")
            yield
    finally:
        logger.setLevel(level)


def _unprinted(*_: Any, **__: Any) -> None:
    """Stand for `print` where PyTorch prints the graph of a failed trace to stderr."""
