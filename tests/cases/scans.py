"""Scans whose bodies know the numbers of their iterations, as captured loops have them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode
from torch.overrides import _get_current_function_mode_stack

scan_module: Any = importlib.import_module("torch._higher_order_ops.scan")  # a function of the same name hides it


def loop(
    body: Callable[..., Sequence[Tensor]],
    numbers: Tensor,
    init: Sequence[Tensor],
    whole: Sequence[Any] = (),
    within: tuple[Any, Any] | None = None,
) -> list[Tensor]:
    """Calls `body(t, *carried, *whole)` for the numbers in their order: a loop in eager PyTorch, a scan in a capture.

    Args:
        body: Gives the carried tensors as they are after an iteration, and what is stacked.
        numbers: `[iterations]`, whole numbers.
        init: What is carried before the first iteration.
        whole: What else the body reads.
        within: The least number, and one more than the greatest, if that is to be known in the body. Where the example
            has no iteration, PyTorch finds that this cannot be.

    Returns:
        The carried tensors after the last iteration, and the stacks; eager PyTorch has none without an iteration.
    """
    if not torch.compiler.is_compiling():
        return _eager(body, numbers.tolist(), list(init), whole)

    def step(*inputs: Any) -> Sequence[Tensor]:
        carried, (number, *rest) = inputs[: len(init)], inputs[len(init) :]
        t = number.item()
        if within is not None:
            torch._check(t >= within[0])
            torch._check(t < within[1])
        return body(t, *carried, *rest)

    start = [each.clone() for each in init]  # the same tensor twice would be one input of the body
    with mock.patch.object(scan_module, "first_slice_copy", _row):  # there may be no iteration
        return list(scan_op(_as_body(step), start, [numbers], tuple(whole)))


def branch(
    pred: Tensor,
    on_true: Callable[..., Sequence[Tensor]],
    on_false: Callable[..., Sequence[Tensor]],
    operands: Sequence[Any],
) -> Sequence[Tensor]:
    """What one of the functions gives of the operands: a cond in a capture."""
    if not torch.compiler.is_compiling():
        return (on_true if pred else on_false)(*operands)
    return cond_op(pred, _as_body(on_true), _as_body(on_false), tuple(operands))


def _as_body(function: Callable[..., Sequence[Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
    """The function within the modes that are active now, with copies of what it is given and of what it gives."""
    around = [mode for mode in _get_current_function_mode_stack() if not isinstance(mode, PreDispatchTorchFunctionMode)]

    def run(*inputs: Any) -> tuple[Tensor, ...]:
        with ExitStack() as modes:
            for mode in around:
                modes.enter_context(mode)
            own = (each.clone() if isinstance(each, Tensor) else each for each in inputs)
            return tuple(each.clone() for each in function(*own))

    return run


def _row(x: Tensor, dim: int = 0) -> Tensor:
    return x.new_empty([size for axis, size in enumerate(x.shape) if axis != dim])


def _eager(
    body: Callable[..., Sequence[Tensor]], numbers: Sequence[int], carried: list[Tensor], whole: Sequence[Any]
) -> list[Tensor]:
    rows = []
    for number in numbers:
        found = [each.clone() for each in body(number, *(each.clone() for each in carried), *whole)]
        carried, given = found[: len(carried)], found[len(carried) :]
        rows.append(given)
    return [*carried, *(torch.stack(each) for each in zip(*rows, strict=True))]


def numbers_of(start: Any, stop: Any, step: int = 1) -> Tensor:
    """`range(start, stop, step)`, which may be empty, as a tensor."""
    end = torch.sym_max(start, stop) if step > 0 else torch.sym_min(start, stop)
    return torch.arange(start, end, step)
