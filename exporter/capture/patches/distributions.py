"""torch.distributions inside of forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.distributions import Distribution

from fxport.exporter.capture.guards.caught import require_uncaught


@contextmanager
def parameters_unchecked() -> Iterator[None]:
    """Keep distributions from checking whether their parameters and values are valid ones.

    It would ask about the content of tensors that a capture does not have. The checks only raise errors.

    Raises:
        RefusedError: The model would catch the error of such a check.
    """
    before, make = Distribution._validate_args, Distribution.__init__

    def made(self: Distribution, *args: Any, **kwargs: Any) -> None:
        if not torch.compiler.is_dynamo_compiling() and kwargs.get("validate_args") is not False:
            require_uncaught(ValueError)
        make(self, *args, **kwargs)

    Distribution.set_default_validate_args(False)
    try:
        with mock.patch.object(Distribution, "__init__", made):
            yield
    finally:
        Distribution.set_default_validate_args(before)
