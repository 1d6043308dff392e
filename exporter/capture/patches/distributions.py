"""torch.distributions inside of forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributions import Distribution


@contextmanager
def parameters_unchecked() -> Iterator[None]:
    """Keep distributions from checking whether their parameters and values are valid ones.

    It would ask about the content of tensors that a capture does not have. The checks only raise errors.
    """
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
