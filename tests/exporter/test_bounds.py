"""Indices that a GPU or an unchecked kernel of the CPU would end the process for: they raise what the CPU raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from fxport.exporter.capture.bounds import BOUNDS, UNCHECKED, IndicesInBounds, UncheckedInBounds, bounds_checked

TABLE = torch.arange(20.0).reshape(5, 4)
WEIGHT = torch.nn.Parameter(TABLE)
ROW = torch.ones(2, 4)


def at(*indices: int) -> torch.Tensor:
    return torch.tensor(indices)


CALLS: dict[str, tuple[Callable[[int], Any], tuple[int, ...], tuple[int, ...]]] = {
    "embedding": (lambda i: functional.embedding(at(0, i), TABLE), (0, 4), (5, -1)),
    "embedding_bag": (lambda i: functional.embedding_bag(at(0, i), TABLE, at(0)), (0, 4), (5, -1)),
    "embedding_bag with gradients": (lambda i: functional.embedding_bag(at(0, i), WEIGHT, at(0)), (0, 4), (5, -1)),
    "index_select": (lambda i: TABLE.index_select(1, at(0, i)), (0, 3), (4, -1)),
    "gather": (lambda i: TABLE.gather(0, at(i, 0)[None]), (0, 4), (5, -1)),
    "index": (lambda i: TABLE[at(0, i)], (4, -5), (5, -6)),
    "index of the second axis": (lambda i: TABLE[:, at(0, i)], (3, -4), (4, -5)),
    "index behind a mask": (lambda i: TABLE[TABLE[:, 0] > 12, at(i)], (3, -4), (4, -5)),
    "index_put": (lambda i: TABLE.clone().index_put_((at(i),), ROW[0]), (4, -5), (5, -6)),
    "index_add": (lambda i: TABLE.index_add(0, at(0, i), ROW), (0, 4), (5, -1)),
    "index_copy": (lambda i: TABLE.index_copy(0, at(0, i), ROW), (1, 4), (5, -1)),
    "index_fill": (lambda i: TABLE.clone().index_fill_(0, at(i), 1.0), (0, 4), (5,)),
    "scatter": (lambda i: TABLE.scatter(0, at(i, 0)[None], 1.0), (0, 4), (5, -1)),
    "scatter_add": (lambda i: TABLE.scatter_add(0, at(i, 0)[None], ROW), (0, 4), (5, -1)),
    "scatter_reduce": (lambda i: TABLE.scatter_reduce(0, at(i, 0)[None], ROW, "amax"), (0, 4), (5, -1)),
    "take": (lambda i: TABLE.take(at(i)), (19, -20), (20, -21)),
    "put": (lambda i: TABLE.clone().put_(at(i), ROW[0, :1]), (19, -20), (20, -21)),
    "nll_loss": (lambda i: functional.nll_loss(TABLE, at(0, 1, 2, 3, i)), (0, 3, -100), (4, -1)),
    "nll_loss of images": (
        lambda i: functional.nll_loss(TABLE[None, :, None], at(i, 0, 1, 2)[None, None]),
        (0, 4),
        (5,),
    ),
    "cross_entropy": (lambda i: functional.cross_entropy(TABLE, at(0, 1, 2, 3, i)), (0, 3, -100), (4,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_the_cpu_raises(name: str) -> None:
    """Its own kernels do not run where an index is out of bounds: they would raise as well, the GPU's would not."""
    call, inside, outside = CALLS[name]
    for index in inside:
        want = call(index)
        with IndicesInBounds():
            assert torch.equal(call(index), want)
    for index in outside:
        with pytest.raises((IndexError, RuntimeError)):
            call(index)
        with pytest.raises(IndexError, match="is out of bounds for dimension with size"), IndicesInBounds():
            call(index)


def test_every_operator_of_the_table_is_called() -> None:
    seen: set[Any] = set()

    class Seen(IndicesInBounds):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(func.overloadpacket)
            return super().__torch_dispatch__(func, types, args, kwargs)

    for call, inside, _ in CALLS.values():
        with Seen():
            call(inside[0])
    assert {_name(op) for op in BOUNDS} <= {_name(op) for op in seen}


def _name(packet: Any) -> str:
    return str(packet).removesuffix("_")


PROBABILITIES = torch.zeros(6, 2, 4).log_softmax(-1)
STEPS, LABELS = at(6, 6), at(2, 1)

UNCHECKED_CALLS: dict[str, tuple[Callable[[int], Any], tuple[int, ...], tuple[int, ...]]] = {
    "rows of sorted indices": (
        lambda i: torch._convert_indices_from_coo_to_csr(at(0, i), size=5),
        (0, 4),
        (5, 10**6, -1),
    ),
    "indices of rows": (lambda i: torch._convert_indices_from_csr_to_coo(at(0, i), at(0, 1)), (2,), (3, 10**6, -1)),
    "ctc_loss": (
        lambda i: torch.ctc_loss(PROBABILITIES, at(1, i, 2, 99).reshape(2, 2), STEPS, LABELS),
        (1, 3),
        (4, 10**6, -1),
    ),
    "ctc_loss of labels in a row": (
        lambda i: torch.ctc_loss(PROBABILITIES, at(1, i, 2), STEPS, LABELS),
        (1, 3),
        (4, 10**6),
    ),
}


@pytest.mark.parametrize("name", UNCHECKED_CALLS)
def test_what_the_cpu_does_not_check(name: str) -> None:
    """The kernel is not reached out of bounds: it would write into the memory of others."""
    call, inside, outside = UNCHECKED_CALLS[name]
    for index in inside:
        want = call(index)
        with UncheckedInBounds():
            assert torch.equal(call(index), want)
    for index in outside:
        with pytest.raises(IndexError, match="is out of bounds for dimension with size"), UncheckedInBounds():
            call(index)


def test_every_unchecked_function_is_called() -> None:
    seen: set[Any] = set()

    class Seen(UncheckedInBounds):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(func)
            return super().__torch_function__(func, types, args, kwargs)

    for call, inside, _ in UNCHECKED_CALLS.values():
        with Seen():
            call(inside[0])
    assert seen >= UNCHECKED.keys()


class RowsOf(torch.nn.Module):
    """Rows of a type, as torch_geometric's HeteroLinear finds them."""

    def forward(self, kinds: torch.Tensor) -> torch.Tensor:
        return torch._convert_indices_from_coo_to_csr(kinds.sort()[0], 3).diff()


def test_a_call_of_a_model_is_checked() -> None:
    module, kinds = RowsOf(), (at(0, 7, 2),)
    with pytest.raises(IndexError, match="index 7 is out of bounds"), bounds_checked(module, kinds):
        module(*kinds)
