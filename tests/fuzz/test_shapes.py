"""Generated calls of what moves elements without computing: slices, joins, pads, views, windows."""

from __future__ import annotations

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fuzz.agreement import DTYPES, agree, shapes, tensor

aten = torch.ops.aten
BOUNDS = st.none() | st.integers(-8, 8) | st.just(2**63 - 1)
DIMS = st.integers(-4, 3)


@given(shapes(1, 3, 7), DIMS, BOUNDS, BOUNDS, st.integers(1, 3), DTYPES, st.booleans())
def test_slice(
    shape: list[int], dim: int, start: int | None, end: int | None, step: int, dtype: torch.dtype, dynamic: bool
) -> None:
    x = tensor(shape, dtype)
    agree(lambda x: aten.slice(x, dim, start, end, step), x, dynamic=dynamic)
    try:
        part = tensor(aten.slice(x, dim, start, end, step).shape, dtype, 1)
    except IndexError:
        assume(False)
    agree(lambda x, part: aten.slice_scatter(x, part, dim, start, end, step), x, part, dynamic=dynamic)


@given(shapes(1, 3), DIMS, st.integers(-5, 4), DTYPES, st.booleans())
def test_select(shape: list[int], dim: int, index: int, dtype: torch.dtype, dynamic: bool) -> None:
    x = tensor(shape, dtype)
    agree(lambda x: aten.select(x, dim, index), x, dynamic=dynamic)
    part = tensor([size for axis, size in enumerate(shape) if axis not in (dim, dim + len(shape))], dtype, 1)
    agree(lambda x, part: aten.select_scatter(x, part, dim, index), x, part, dynamic=dynamic)


PARTS = {
    "split": lambda x, count, dim: aten.split(x, count, dim),
    "chunk": lambda x, count, dim: aten.chunk(x, count, dim),
    "tensor_split": lambda x, count, dim: aten.tensor_split(x, count, dim),
    "indices": lambda x, count, dim: aten.tensor_split(x, [count - 3, 2, count], dim),
    "unbind": lambda x, count, dim: aten.unbind(x, dim),
    "narrow": lambda x, count, dim: aten.narrow(x, dim, -count, min(count, 2)),
}


@given(shapes(1, 3, 7), st.sampled_from(sorted(PARTS)), st.integers(1, 5), DIMS, st.booleans())
def test_parts(shape: list[int], name: str, count: int, dim: int, dynamic: bool) -> None:
    assume(name != "unbind" or shape[dim % len(shape)] > 0)  # else there is no output, and nothing to run
    agree(lambda x: PARTS[name](x, count, dim), tensor(shape), dynamic=dynamic)


JOINS = {
    "cat": lambda a, b, dim: aten.cat([a, b, a], dim),
    "stack": lambda a, b, dim: aten.stack([a, a], dim),
    "roll": lambda a, b, dim: aten.roll(a, [3, -2], [dim, 0]),
    "flip": lambda a, b, dim: aten.flip(a, [dim]),
    "repeat": lambda a, b, dim: aten.repeat(a, [2, *[dim % 3] * a.dim()]),
    "tile": lambda a, b, dim: aten.tile(a, [dim % 3, 2]),
    "unfold": lambda a, b, dim: aten.unfold(a, dim, 2, 1 + dim % 3),
    "diagonal": lambda a, b, dim: aten.diagonal(a, dim, 0, -1),
    "diag_embed": lambda a, b, dim: aten.diag_embed(a, dim, 0, -1),
    "tril": lambda a, b, dim: aten.tril(a, dim),
    "triu": lambda a, b, dim: aten.triu(a, dim),
    "movedim": lambda a, b, dim: aten.movedim(a, dim, 0),
    "transpose": lambda a, b, dim: aten.transpose(a, dim, -1),
    "squeeze": lambda a, b, dim: aten.squeeze(a, dim),
    "unsqueeze": lambda a, b, dim: aten.unsqueeze(a, dim),
    "flatten": lambda a, b, dim: aten.flatten(a, dim, -1),
    "expand": lambda a, b, dim: aten.expand(a, [2, *a.shape]),
    "meshgrid": lambda a, b, dim: aten.meshgrid([aten.ravel(a), aten.ravel(b)], indexing="xy"),
    "repeat_interleave": lambda a, b, dim: aten.repeat_interleave(a, 2, dim),
    "rot90": lambda a, b, dim: aten.rot90(a, dim, [0, -1]),
}


@given(shapes(0, 3), st.sampled_from(sorted(JOINS)), st.integers(0, 3), DIMS, DTYPES, st.booleans())
def test_arrangements(shape: list[int], name: str, other: int, dim: int, dtype: torch.dtype, dynamic: bool) -> None:
    """The second tensor differs from the first in the size of one axis."""
    wanted = list(shape)
    if shape and -len(shape) <= dim < len(shape):
        wanted[dim] = other
    agree(lambda a, b: JOINS[name](a, b, dim), tensor(shape, dtype), tensor(wanted, dtype, 1), dynamic=dynamic)


@given(
    shapes(1, 4, 6),
    st.lists(st.integers(-2, 4), min_size=1, max_size=4).map(lambda pads: pads[: len(pads) // 2 * 2]),
    st.sampled_from(("constant", "reflect", "replicate", "circular")),
    st.sampled_from((torch.float32, torch.float64)),
    st.booleans(),
)
def test_pad(shape: list[int], pads: list[int], mode: str, dtype: torch.dtype, dynamic: bool) -> None:
    # PyTorch reads memory that it did not fill when one side is cut.
    assume(mode != "circular" or min(pads, default=0) >= 0)
    agree(lambda x: aten.pad(x, pads, mode), tensor(shape, dtype), dynamic=dynamic)


@given(shapes(1, 3), shapes(0, 3, 4), st.lists(st.integers(0, 5), min_size=3, max_size=3), st.integers(0, 4))
def test_as_strided(shape: list[int], size: list[int], strides: list[int], offset: int) -> None:
    x = tensor(shape)
    last = offset + sum((each - 1) * stride for each, stride in zip(size, strides, strict=False))
    assume(last < x.numel() or 0 in size)
    agree(lambda x: aten.as_strided(x, size, strides[: len(size)], offset), x)
    places = aten.as_strided(torch.arange(x.numel()), size, strides[: len(size)], offset)
    assume(places.unique().numel() == places.numel())  # else PyTorch leaves open which value stays
    agree(lambda x, src: aten.as_strided_scatter(x, src, size, strides[: len(size)], offset), x, tensor(size, seed=1))
