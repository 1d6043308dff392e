"""Calls whose code in PyTorch makes plain numbers of sizes, rewritten in calls that keep sizes dynamic.

They serve tensors with a dynamic size, also one that depends on data, as that of `x[mask]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, reduce
from math import prod
from typing import Any
from unittest import mock

import sympy
import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn import functional
from torch.utils import _pytree as pytree

from fxport.exporter.capture.guards.askers import place_of_asker
from fxport.exporter.capture.guards.guard import Guard

CHECKS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "_verify_batch_size": lambda size: prod((size[0], *size[2:])),
    "_verify_spatial_size": lambda size: prod(size[2:]),
}
"""Functions of `torch.nn.functional` that refuse to normalize over a single value, and the number of these by a size.

A graph refuses nothing.
"""


@contextmanager
def normalized_sizes_noted(guards: list[Guard]) -> Iterator[None]:
    """Keep norms from asking whether they have more than one value to work on, and note it where a size alone tells.

    Of images, a single pixel of a single channel would: a condition of three sizes for what nobody runs.
    """

    def noting(count: Callable[[Sequence[Any]], Any], size: Sequence[Any]) -> None:
        number = count(size)
        symbols = number.node.expr.free_symbols if isinstance(number, SymInt) else set()
        if len(symbols) == 1 and not free_unbacked_symbols(number):
            condition = sympy.Ge(number.node.expr, 2, evaluate=False)
            env = number.node.shape_env
            guards.append(Guard(condition, env, place_of_asker(), by_user=True, counted=True, about_layout=False))

    with ExitStack() as stack:
        for name, count in CHECKS.items():
            stack.enter_context(mock.patch.object(functional, name, partial(noting, count)))
        yield


def _mean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Any:
    """Compute a mean of complex numbers by parts: PyTorch makes a plain complex number of the size."""
    if not x.is_complex() or not _is_sized(x) or dtype is not None or out is not None:
        return NotImplemented
    axes: Any = [*range(x.dim())] if dim is None else dim
    return torch.complex(x.real.mean(axes, keepdim), x.imag.mean(axes, keepdim))


def _adaptive_max(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Pool along one axis after the other, and leave out those that keep their size."""
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
    if return_indices or None not in sizes or not _is_sized(x):
        return NotImplemented
    for axis, size in enumerate(sizes, start=-len(sizes)):
        if size is not None:
            rows = x.movedim(axis, -1)
            pooled = functional.adaptive_max_pool1d(rows.reshape(1, -1, rows.shape[-1]), size)
            x = pooled.reshape(*rows.shape[:-1], size).movedim(-1, axis)
    return x


def _gathered(x: Tensor, indices: Tensor, dim: int | None = None) -> Any:
    """Compute `take_along_dim`, whose other axes broadcast."""
    if not _is_sized(x, indices):
        return NotImplemented
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    axis = dim % x.dim()
    sizes = [b if _is_one(a) else a for a, b in zip(x.shape, indices.shape, strict=True)]
    wide = [*sizes[:axis], x.shape[axis], *sizes[axis + 1 :]]
    tall = [*sizes[:axis], indices.shape[axis], *sizes[axis + 1 :]]
    return x.expand(wide).gather(axis, indices.expand(tall))


def _gradient(x: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """Compute central differences within, and differences of the first or second order at both ends."""
    axes: Sequence[int] = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    spaces = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if not _is_sized(x) or any(isinstance(each, Tensor) for each in spaces):
        return NotImplemented
    return tuple(_slopes(x, axis, space, edge_order) for axis, space in zip(axes, spaces, strict=True))


def _slopes(x: Tensor, axis: int, space: Any, edge_order: int) -> Tensor:
    size = x.shape[axis]

    def at(start: Any, length: Any = 1) -> Tensor:
        return x.narrow(axis, start, length)

    if edge_order == 1:
        first, last = (at(1) - at(0)) / space, (at(size - 1) - at(size - 2)) / space
    else:
        first = (at(1) * 4 - at(0) * 3 - at(2)) / (space * 2)
        last = (at(size - 1) * 3 - at(size - 2) * 4 + at(size - 3)) / (space * 2)
    return torch.cat([first, (at(2, size - 2) - at(0, size - 2)) / (space * 2), last], axis)


def _corner(keep: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make `triu_indices` or `tril_indices`: the positions of a mask, row after row."""

    def indices(row: Any, col: Any, offset: int = 0, *, dtype: Any = torch.long, device: Any = None, **_: Any) -> Any:
        if not isinstance(row, SymInt) and not isinstance(col, SymInt):
            return NotImplemented
        mask = keep(torch.ones(row, col, dtype=torch.bool, device=device), offset)
        return mask.nonzero().t().to(dtype)

    return indices


def _fill_diagonal(x: Tensor, fill_value: Any, wrap: bool = False) -> Any:
    """Fill the diagonal as a view: PyTorch makes a number of its length."""
    if wrap or x.dim() != 2 or not _is_sized(x):
        return NotImplemented
    x.diagonal().fill_(fill_value)
    return x


def _diagonal(x: Tensor, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """View the main diagonal of what lies right of the first columns, or below the first rows."""
    if not isinstance(offset, SymInt):
        return NotImplemented
    sized: Any = offset  # the stubs know no symbolic sizes
    axis, start = (dim2, sized) if sized >= 0 else (dim1, -sized)
    return x[(slice(None),) * (axis % x.dim()) + (slice(start, None),)].diagonal(0, dim1, dim2)


def _kron(input: Tensor, other: Tensor) -> Any:
    if not _is_sized(input, other):
        return NotImplemented
    rank = max(input.dim(), other.dim())
    x, y = (each.reshape((1,) * (rank - each.dim()) + tuple(each.shape)) for each in (input, other))
    for axis in range(rank):
        x, y = x.unsqueeze(2 * axis + 1), y.unsqueeze(2 * axis)
    product = x * y
    return product.reshape([product.shape[2 * axis] * product.shape[2 * axis + 1] for axis in range(rank)])


def _multi_dot(tensors: Sequence[Tensor]) -> Any:
    """Multiply from left to right: which order takes the fewest steps is a question about sizes."""
    return reduce(torch.matmul, tensors) if _is_sized(*tensors) else NotImplemented


def _inner(input: Tensor, other: Tensor) -> Any:
    if not _is_sized(input, other) or not (input.dim() == 1 or other.dim() == 1):
        return NotImplemented
    return torch.matmul(input, other) if other.dim() == 1 else torch.matmul(other, input)


def _einsum(*args: Any) -> Any:
    """Multiply from left to right: the order that opt_einsum finds, if it is installed, is one for numbers as sizes."""
    library: Any = torch.backends.opt_einsum  # the stubs know no attributes of it
    tensors = [each for each in pytree.tree_leaves(args) if isinstance(each, Tensor)]
    if len(tensors) < 3 or not _is_sized(*tensors) or not library.is_available() or not library.enabled:
        return NotImplemented
    with library.flags(enabled=False):
        return torch.einsum(*args)


def _tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: None = None) -> Any:
    """Compute one product of matrices, or of all elements with all."""
    if not _is_sized(a, b) or isinstance(dims, Tensor):
        return NotImplemented
    both: Any = (range(-dims, 0), range(dims)) if isinstance(dims, int) else dims
    of_a, of_b = ([each] if isinstance(each, int) else list(each) for each in both)
    if not of_a:
        return a[(..., *[None] * b.dim())] * b
    kept_a, kept_b = (
        [axis for axis in range(x.dim()) if axis not in _counted(x, of)] for x, of in ((a, of_a), (b, of_b))
    )
    left = a.permute(*kept_a, *_counted(a, of_a)).flatten(len(kept_a))
    right = b.permute(*_counted(b, of_b), *kept_b).flatten(0, len(of_b) - 1)
    product = torch.matmul(left, right.flatten(1) if kept_b else right)
    return product.reshape([*(a.shape[axis] for axis in kept_a), *(b.shape[axis] for axis in kept_b)])


def _counted(x: Tensor, axes: Sequence[int]) -> list[int]:
    return [axis % x.dim() for axis in axes]


def _parts(x: Tensor, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> Any:
    """Compute `tensor_split`: so many parts, the first of which have one element more; or parts that end at indices."""
    parts = indices_or_sections if not named else next(iter(named.values()))  # each overload has a name of its own
    size: Any = x.shape[dim]  # the stubs know no symbolic sizes
    if isinstance(parts, Tensor):
        if not parts.dim() or isinstance(parts.shape[0], SymInt):
            return NotImplemented
        ends: list[Any] = parts.tolist()
    elif isinstance(parts, int) and isinstance(size, SymInt):
        least: Callable[..., Any] = torch.sym_min
        each: Any = size // parts
        ends = [each * (i + 1) + least(size % parts, i + 1) for i in range(parts - 1)]
    else:
        return NotImplemented
    places = (slice(None),) * (dim % x.dim())
    return tuple(x[(*places, slice(start, end))] for start, end in zip([0, *ends], [*ends, size], strict=True))


def _is_sized(*tensors: Tensor) -> bool:
    """Return whether a tensor has a size that is no plain number."""
    return any(isinstance(size, SymInt) for tensor in tensors for size in tensor.shape)


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


REWRITES: Mapping[Any, Callable[..., Any]] = {
    torch.take_along_dim: _gathered,
    Tensor.take_along_dim: _gathered,
    torch.gradient: _gradient,
    torch.mean: _mean,
    Tensor.mean: _mean,
    functional.adaptive_max_pool2d: _adaptive_max,
    functional.adaptive_max_pool3d: _adaptive_max,
    torch.triu_indices: _corner(torch.triu),
    torch.tril_indices: _corner(torch.tril),
    Tensor.fill_diagonal_: _fill_diagonal,
    torch.ops.aten.fill_diagonal_.default: _fill_diagonal,
    torch.diagonal: _diagonal,
    Tensor.diagonal: _diagonal,
    torch.kron: _kron,
    Tensor.kron: _kron,
    torch.linalg.multi_dot: _multi_dot,
    torch.inner: _inner,
    Tensor.inner: _inner,
    torch.tensordot: _tensordot,
    torch.einsum: _einsum,
    torch.tensor_split: _parts,
    Tensor.tensor_split: _parts,
}
"""Each answers NotImplemented where PyTorch's own function serves."""
