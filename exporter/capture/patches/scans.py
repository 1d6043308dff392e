"""Scans of any length whose bodies read numbers from data; associative ones too, which PyTorch would unroll."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan, scan_op
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

# The package has a function of the same name, which hides the module from an import statement.
module: Any = importlib.import_module("torch._higher_order_ops.associative_scan")


@contextmanager
def associative_scans_kept() -> Iterator[None]:
    """Make an associative scan a scan from the first element to the last, of any length."""
    unrolled = module.generic_associative_scan
    module.generic_associative_scan = in_order
    try:
        yield
    finally:
        module.generic_associative_scan = unrolled


@contextmanager
def unbacked_numbers_in_scans() -> Iterator[None]:
    """Let the body of a scan read numbers from data, which are no results of the scan.

    So it is in PyTorch 2.13; the other versions look for them among the results, and find an error.
    """
    found = scan_op.python_key_table[FakeTensorMode]

    def run(mode: FakeTensorMode, *args: Any, **kwargs: Any) -> Any:
        with mode.shape_env.ignore_fresh_unbacked_symbols() if mode.shape_env else nullcontext():
            return found(mode, *args, **kwargs)

    with mock.patch.dict(scan_op.python_key_table, {FakeTensorMode: run}):
        yield


def in_order(combine: partial[Any], leaves: Sequence[Tensor], dim: int = 0, additional_inputs: Any = ()) -> Any:
    """Replace PyTorch's function: `combine` is vectorized over the first axis, and is wanted as it was before.

    The first step has nothing to combine with: it runs as all others do, and its result is not taken.
    """
    vectorized = combine.keywords["combine_fn"]
    plain = inspect.getclosurevars(vectorized).nonlocals["func"]
    each: Any = partial(combine.func, **{**combine.keywords, "combine_fn": plain})

    def step(carried: list[Tensor], slices: tuple[Tensor, list[Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
        is_first, xs = slices
        combined = pytree.tree_leaves(each(*carried, *xs))
        new = [torch.where(is_first, xs[i], combined[i]) for i in range(len(xs))]
        return new, [x.clone() for x in new]

    is_first = torch.arange(leaves[0].shape[0], device=leaves[0].device) == 0
    _, results = scan(step, [x[0].clone() for x in leaves], (is_first, list(leaves)))
    return results
