"""The check of what `torch.linalg.cholesky`, `inv` and `solve` give: an error for some values, which no graph raises.

Below autograd PyTorch takes it for an effect, whose order a token keeps: an input and an output of the program.
A model that would catch the error is refused, see `watched_calls`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._higher_order_ops import effects

CHECK = "aten::_linalg_check_errors"


@contextmanager
def checks_without_effect() -> Iterator[None]:
    """During the block, the check is an operator like any other, which nothing uses."""
    if not hasattr(effects, "_register_effectful_op"):
        yield
        return
    before = effects._get_effect(CHECK)
    effects._register_effectful_op(CHECK, None)
    try:
        yield
    finally:
        effects._register_effectful_op(CHECK, before)
