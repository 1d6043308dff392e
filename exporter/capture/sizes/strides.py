"""Strides of tensors as expressions of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
from torch import Tensor

from fxport.fx_passes.sizes import size_of, unfolded


def contiguity(x: Tensor) -> Iterator[Any]:
    """Yield the equations under which a tensor is contiguous: none where it is at all sizes.

    An axis of one element may have any stride; of a dynamic size, that is another question.
    """
    expected = sympy.S.One
    for size, stride in reversed([*zip(x.shape, x.stride(), strict=True)]):
        length, step = (unfolded(sympy.sympify(size_of(each))) for each in (size, stride))
        if length != 1 and step != expected:
            yield sympy.Eq(step, expected)
        expected = expected * length
