"""Sizes of pools in `ceil_mode`, without PyTorch's question whether the last window begins within the image.

The last window may reach out at the end, and has to begin before the padding there. PyTorch asks whether that holds for
the size of the example, which limits all others to its answer. Both counts of windows are a floor of the same division,
so that the smaller one is that of the smaller number of places.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch import _meta_registrations


@contextmanager
def pools_sized() -> Iterator[None]:
    """Give pools the size that they have for any size of the image."""
    plain = _meta_registrations.pooling_output_shape_pad_lr

    def count(
        inputSize: Any,  # as PyTorch calls it
        kernelSize: Any,
        pad_l: Any,
        pad_r: Any,
        stride: Any,
        dilation: Any,
        ceil_mode: bool,
    ) -> Any:
        if not ceil_mode:
            return plain(inputSize, kernelSize, pad_l, pad_r, stride, dilation, ceil_mode)
        fitting = pad_l + pad_r - dilation * (kernelSize - 1) + stride - 2
        return (inputSize + min(fitting, pad_l - 1)) // stride + 1

    with mock.patch.object(_meta_registrations, "pooling_output_shape_pad_lr", count):
        yield
