"""Fakes of views that have the sizes that they were asked for.

PyTorch makes the fake of `x.view(b, h // 8, 8, c)` by division: instead of 8 it gives `h // (h // 8)`, of which it
learns only that it is 8 here. Networks of windows divide such sizes again, and PyTorch's algebra takes minutes over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import sympy
import torch
from torch import SymInt, Tensor, _refs
from torch.fx.experimental.sym_node import SymNode

from fxport.exporter.capture.sizes.floor_linear import ROUNDED


@contextmanager
def sizes_as_asked() -> Iterator[None]:
    """Write a size of a view as it was asked for where PyTorch has more roundings in it.

    A view has the sizes that were asked for, or it fails. PyTorch has compared both by then: what it has learned stays
    a condition of the capture.
    """
    reshape = _refs._reshape_view_helper_core_alg

    def reshaped(a: Tensor, shape: Sequence[Any], allow_copy: bool) -> Tensor:
        view = reshape(a, shape, allow_copy)
        pairs = zip(view.shape, shape, strict=True)
        plain = {_expression(size): _expression(asked) for size, asked in pairs if _roundings(size) > _roundings(asked)}
        if not plain:
            return view
        env = next(each.node.shape_env for each in view.shape if isinstance(each, SymInt))
        sizes, strides = ([_written(each, plain) for each in numbers] for numbers in (view.shape, view.stride()))
        with env.suppress_guards():
            return torch.as_strided(view, sizes, strides, view.storage_offset())

    with mock.patch.object(_refs, "_reshape_view_helper_core_alg", reshaped):
        yield


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, SymInt) else sympy.Integer(size)


def _roundings(size: Any) -> int:
    return len(_expression(size).atoms(*ROUNDED))


def _written(number: Any, plain: Mapping[Any, Any]) -> Any:
    """Return a number with some parts of its expression written as others that are equal to them."""
    if not isinstance(number, SymInt):
        return number
    node: SymNode = number.node
    expr = node.expr.xreplace(plain)
    if isinstance(expr, sympy.Integer):
        return int(expr)
    return number if expr == node.expr else SymInt(SymNode(expr, node.shape_env, int, node._hint))
