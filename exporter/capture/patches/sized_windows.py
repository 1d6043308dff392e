"""Windows whose length or step is a size of an input, such as `max_pool1d(x, x.size(2))`: PyTorch makes them numbers.

Windows are gathered, and pooled as what they are; one that is as long as its axis is that axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn import functional


def _unfold(x: Tensor, dimension: int, size: Any, step: Any) -> Any:
    """Compute `x.unfold`, whose windows come last."""
    if not isinstance(size, SymInt) and not isinstance(step, SymInt):
        return NotImplemented
    return _windows(x, dimension % x.dim(), size, step)


def _windows(x: Tensor, axis: int, size: Any, step: Any) -> Tensor:
    torch._check(x.shape[axis] >= size, lambda: f"a window of {size} does not fit an axis of {x.shape[axis]}")
    torch._check(step > 0, lambda: f"the step from window to window is {step}")
    count: Any = (x.shape[axis] - size) // step + 1
    places = torch.arange(count, device=x.device)[:, None] * step + torch.arange(size, device=x.device)
    return x[(slice(None),) * axis + (places,)].movedim(axis + 1, -1)


def _average(axes: int) -> Callable[..., Any]:
    """Make `avg_pool1d`, `avg_pool2d` or `avg_pool3d`."""

    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        if divisor_override is not None:
            return NotImplemented
        return _pooled(input, axes, kernel_size, stride, (padding, ceil_mode), Tensor.mean)

    return pool


def _largest(axes: int) -> Callable[..., Any]:
    """Make `max_pool1d`, `max_pool2d` or `max_pool3d`."""

    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices or any(each != 1 for each in _by_axis(dilation, axes)):
            return NotImplemented
        return _pooled(input, axes, kernel_size, stride, (padding, ceil_mode), Tensor.amax)

    return pool


_LINE = _largest(1)


def _largest_of_line(
    x: Tensor, kernel_size: Any, stride: Any = None, *args: Any, return_indices: bool = False, **options: Any
) -> Any:
    """Compute `max_pool1d` as it is computed with gradients: without them PyTorch makes a number of the length."""
    found = _LINE(x, kernel_size, stride, *args, return_indices=return_indices, **options)
    is_sized = any(isinstance(size, SymInt) for size in x.shape)
    if found is not NotImplemented or return_indices or len(args) > 3 or not is_sized:
        return found
    return torch.max_pool1d_with_indices(x, kernel_size, stride or (), *args, **options)[0]


def _pooled(
    x: Tensor, axes: int, kernel: Any, stride: Any, bounds: tuple[Any, bool], reduce: Callable[..., Tensor]
) -> Any:
    """Reduce the windows of each axis in turn; NotImplemented where all sizes are numbers, or windows reach out."""
    kernels = _by_axis(kernel, axes)
    steps = kernels if stride is None or stride == () or stride == [] else _by_axis(stride, axes)
    padding, ceil_mode = bounds
    if not any(isinstance(each, SymInt) for each in (*kernels, *steps)):
        return NotImplemented
    if ceil_mode or any(isinstance(each, SymInt) or each != 0 for each in _by_axis(padding, axes)):
        return NotImplemented
    lines = dict(zip(range(x.dim() - axes, x.dim()), zip(kernels, steps, strict=True), strict=True))
    whole = [axis for axis, (size, _) in lines.items() if _is_whole(size, x.shape[axis])]
    x = reduce(x, whole, keepdim=True) if whole else x
    for axis in lines.keys() - {*whole}:
        x = reduce(_windows(x, axis, *lines[axis]), -1)
    return x


def _is_whole(size: Any, axis: Any) -> bool:
    """Return whether a window has the very size of its axis, without a question about either."""
    if isinstance(size, SymInt) and isinstance(axis, SymInt):
        return size.node.expr == axis.node.expr
    return isinstance(size, int) and isinstance(axis, int) and size == axis


def _by_axis(value: Any, axes: int) -> Sequence[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * axes if len(values) == 1 else values


def _adaptive(input: Tensor, output_size: Any) -> Any:
    """Compute `adaptive_avg_pool1d` as a picture of one row, whose sizes may be symbolic."""
    sizes: Any = _by_axis(output_size, 1)  # the stubs know no symbolic sizes
    if not isinstance(sizes[0], SymInt):
        return NotImplemented
    return functional.adaptive_avg_pool2d(input.unsqueeze(-2), (1, *sizes)).squeeze(-2)


def _patches(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Know of a picture whose size a run tells that there are patches of it: PyTorch asks."""
    for places in _places(input.shape[-2:], kernel_size, dilation, padding, stride):
        torch._check(places > 0)
    return NotImplemented


def _picture(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Know of a picture whose size a run tells that the patches are as many as it has."""
    places = _places(_by_axis(output_size, 2), kernel_size, dilation, padding, stride)
    if places:
        torch._check(input.shape[-1] == places[0] * places[1])
        torch._check(input.shape[-1] > 0)
    return NotImplemented


def _places(sizes: Sequence[Any], *options: Any) -> list[Any]:
    """Compute how many patches lie along each axis of a picture; none where no run has to tell its size."""
    if not any(isinstance(size, SymInt) and free_unbacked_symbols(size) for size in sizes):
        return []
    by_axis = zip(sizes, *(_by_axis(each, 2) for each in options), strict=True)
    return [(size + 2 * out - apart * (kernel - 1) - 1) // step + 1 for size, kernel, apart, out, step in by_axis]


REWRITES: Mapping[Any, Callable[..., Any]] = {
    Tensor.unfold: _unfold,
    functional.avg_pool1d: _average(1),
    functional.avg_pool2d: _average(2),
    functional.avg_pool3d: _average(3),
    functional.max_pool1d: _largest_of_line,
    torch.max_pool1d: _largest_of_line,
    torch.ops.aten.max_pool1d.default: _largest_of_line,
    functional.max_pool2d: _largest(2),
    functional.max_pool3d: _largest(3),
    functional.adaptive_avg_pool1d: _adaptive,
    functional.unfold: _patches,
    functional.fold: _picture,
}
"""Each answers NotImplemented where PyTorch's own function serves."""
