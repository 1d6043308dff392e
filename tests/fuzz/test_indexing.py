"""Generated reads and writes by index: integers, masks and None in every order, over ranks, dtypes and broadcasts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fuzz.agreement import DTYPES, agree, places, shapes, tensor

aten = torch.ops.aten
SEEDS = st.integers(0, 9)


@dataclass(frozen=True)
class Indexing:
    """`x` and its indices; None stands for an axis taken whole."""

    x: torch.Tensor
    indices: list[torch.Tensor | None]

    def given(self) -> list[torch.Tensor]:
        return [index for index in self.indices if index is not None]

    def filled(self, tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor | None]:
        """The indices with these tensors in the places of its own."""
        left = iter(tensors)
        return [None if index is None else next(left) for index in self.indices]


@st.composite
def indexings(draw: st.DrawFn) -> Indexing:
    """Integer indices broadcast to one shape; a mask covers one or two axes."""
    shape = draw(shapes(1, 4))
    common = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    indices: list[torch.Tensor | None] = []
    axis, masks = 0, 0
    while axis < len(shape):
        kind = draw(st.sampled_from(("none", "integers", "integers", "mask", "stop")))
        if kind == "stop":
            break
        if kind == "mask" and masks == 0:
            rank = min(draw(st.integers(1, 2)), len(shape) - axis)
            indices.append(tensor(shape[axis : axis + rank], torch.bool, draw(SEEDS)))
            axis, masks = axis + rank, 1
            continue
        if kind == "integers" and shape[axis] > 0:
            own = [1 if draw(st.integers(0, 3)) == 0 else size for size in common]
            own = own[draw(st.integers(0, len(own) - 1)) :]
            indices.append(places(own, -shape[axis], shape[axis], draw(SEEDS)))
        else:
            indices.append(None)
        axis += 1
    assume(any(index is not None for index in indices))
    return Indexing(tensor(shape, draw(DTYPES), draw(SEEDS)), indices)


@given(indexings(), st.booleans())
def test_index(what: Indexing, dynamic: bool) -> None:
    agree(lambda x, *indices: aten.index.Tensor(x, what.filled(indices)), what.x, *what.given(), dynamic=dynamic)


@given(
    indexings(), st.booleans(), st.booleans(), st.integers(0, 4), st.lists(st.booleans(), min_size=6, max_size=6), SEEDS
)
def test_index_put(what: Indexing, accumulate: bool, dynamic: bool, rank: int, ones: list[bool], seed: int) -> None:
    try:
        result = what.x[tuple(slice(None) if index is None else index for index in what.indices)]
    except (IndexError, RuntimeError):
        assume(False)
    sizes = [1 if one else size for one, size in zip(ones, result.shape, strict=False)][max(0, result.dim() - rank) :]
    values = tensor(sizes, what.x.dtype, seed)
    accumulate = accumulate or _repeats(what)
    agree(
        lambda x, values, *indices: aten.index_put(x, what.filled(indices), values, accumulate),
        what.x,
        values,
        *what.given(),
        dynamic=dynamic,
    )


def _repeats(what: Indexing) -> bool:
    """Whether some place is written to twice: without accumulation, PyTorch leaves open by which value."""
    zeros = torch.zeros(what.x.shape, dtype=torch.int64)
    return bool((aten.index_put(zeros, what.indices, torch.tensor(1), True) > 1).any())


@dataclass(frozen=True)
class Along:
    """An axis of `x`, and an index of the same rank into it."""

    x: torch.Tensor
    dim: int
    index: torch.Tensor
    src: torch.Tensor


@st.composite
def along(draw: st.DrawFn) -> Along:
    shape = draw(shapes(0, 3))
    axis = draw(st.integers(0, max(len(shape) - 1, 0)))
    size = shape[axis] if shape else 1
    assume(size > 0)
    wanted = [draw(st.integers(0, each if i != axis else 6)) for i, each in enumerate(shape)]
    index = places(wanted, 0, size, draw(SEEDS))
    dtype = draw(DTYPES)
    larger = [each + draw(st.integers(0, 1)) for each in wanted]
    dim = axis - len(shape) if shape and draw(st.booleans()) else axis
    return Along(tensor(shape, dtype, draw(SEEDS)), dim, index, tensor(larger, dtype, draw(SEEDS)))


@given(along(), st.booleans())
def test_gather(what: Along, dynamic: bool) -> None:
    agree(lambda x, index: aten.gather(x, what.dim, index), what.x, what.index, dynamic=dynamic)


@given(along(), st.sampled_from(("sum", "prod", "mean", "amax", "amin")), st.booleans(), st.booleans())
def test_scatter_reduce(what: Along, reduce: str, include_self: bool, dynamic: bool) -> None:
    agree(
        lambda x, index, src: aten.scatter_reduce(x, what.dim, index, src, reduce, include_self=include_self),
        what.x,
        what.index,
        what.src,
        dynamic=dynamic,
    )


@given(along(), st.booleans())
def test_scatter_value(what: Along, dynamic: bool) -> None:
    agree(lambda x, index: aten.scatter(x, what.dim, index, 1), what.x, what.index, dynamic=dynamic)


@dataclass(frozen=True)
class Slices:
    """An axis of `x`, numbers along it, and slices for them."""

    x: torch.Tensor
    dim: int
    index: torch.Tensor
    source: torch.Tensor


@st.composite
def slices(draw: st.DrawFn) -> Slices:
    shape = draw(shapes(1, 3))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    assume(shape[dim] > 0)
    count = draw(st.integers(0, shape[dim]))
    index = torch.randperm(shape[dim], generator=torch.Generator().manual_seed(draw(SEEDS)))[:count]
    wanted = list(shape)
    wanted[dim] = count
    dtype = draw(DTYPES)
    return Slices(tensor(shape, dtype, draw(SEEDS)), dim, index, tensor(wanted, dtype, draw(SEEDS)))


WRITES = {
    "index_add": lambda x, dim, index, source: aten.index_add(x, dim, index, source),
    "index_copy": lambda x, dim, index, source: aten.index_copy(x, dim, index, source),
    "index_fill": lambda x, dim, index, source: aten.index_fill(x, dim, index, 1),
    "index_select": lambda x, dim, index, source: aten.index_select(x, dim, index),
    "index_reduce": lambda x, dim, index, source: aten.index_reduce(x, dim, index, source, "amax", include_self=False),
}


@given(slices(), st.sampled_from(sorted(WRITES)), st.booleans())
def test_slices_by_number(what: Slices, name: str, dynamic: bool) -> None:
    agree(
        lambda x, index, source: WRITES[name](x, what.dim, index, source),
        what.x,
        what.index,
        what.source,
        dynamic=dynamic,
    )


@given(shapes(0, 3), st.lists(st.booleans(), min_size=3, max_size=3), DTYPES, SEEDS, st.booleans())
def test_masks(shape: list[int], ones: list[bool], dtype: torch.dtype, seed: int, dynamic: bool) -> None:
    x = tensor(shape, dtype, seed)
    mask = tensor([1 if one else size for one, size in zip(ones, shape, strict=False)], torch.bool, seed + 1)
    agree(aten.masked_select, x, mask, dynamic=dynamic)
    agree(aten.masked_scatter, x, mask, tensor([max(x.numel(), 1)], dtype, seed + 2), dynamic=dynamic)


@given(shapes(0, 3), shapes(0, 2), DTYPES, SEEDS, st.booleans())
def test_take_and_put(shape: list[int], wanted: list[int], dtype: torch.dtype, seed: int, dynamic: bool) -> None:
    x = tensor(shape, dtype, seed)
    assume(x.numel() > 0)
    index = places(wanted, -x.numel(), x.numel(), seed)
    agree(aten.take, x, index, dynamic=dynamic)
    agree(lambda *given: aten.put(*given, True), x, index, tensor(wanted, dtype, seed), dynamic=dynamic)
