"""The one function mode of a capture: which part sees a call, and what sees the calls that a part makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fxport.exporter.capture.control_flow import body_numbers
from fxport.exporter.capture.function_mode import READS, FunctionMode, Part

Seen = list[tuple[str, str]]


class Noting(Part):
    """Note calls, and make a call of its own before some."""

    def __init__(self, name: str, seen: Seen, *functions: Any) -> None:
        self.name, self.seen, self.functions = name, seen, functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((self.name, func.__name__))
        if func is torch.neg:
            args[0].abs()
        return func(*args, **(kwargs or {}))


class Asking(Noting):
    """Look at calls with keywords too, and be told of errors."""

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(kwargs)

    def failed(self, func: Any, error: Exception, args: Any, kwargs: Any) -> None:
        self.seen.append((func.__name__, type(error).__name__))


def test_a_call_goes_from_part_to_part_and_a_parts_own_calls_to_those_behind_it() -> None:
    seen: Seen = []
    parts = [
        Noting("first", seen, Tensor.abs),
        Noting("second", seen, torch.neg),
        Noting("third", seen, torch.neg, Tensor.abs),
    ]
    with FunctionMode(parts):
        assert torch.neg(torch.ones(2)).tolist() == [-1, -1]
    assert seen == [("second", "neg"), ("third", "abs"), ("third", "neg")]


def test_the_first_that_looks_at_a_call_sees_it_first() -> None:
    x = torch.ones(2)
    for order in (("asking", "noting"), ("noting", "asking")):
        seen: Seen = []
        made = {"asking": Asking("asking", seen), "noting": Noting("noting", seen, torch.sum)}
        with FunctionMode([made[name] for name in order]):
            torch.sum(x, dim=0)
            torch.sum(x)
        assert seen == [*((name, "sum") for name in order), ("noting", "sum")]


def test_an_error_is_told_once_to_those_who_ask() -> None:
    seen: Seen = []
    with FunctionMode([Asking("told", seen, torch.mm), Asking("behind", seen)]), pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert sorted(seen) == [("mm", "RuntimeError"), ("mm", "RuntimeError"), ("told", "mm")]


def test_reads_pass_unless_a_part_has_them_in_its_table() -> None:
    seen: Seen = []
    shape: Any = Tensor.shape
    x = torch.ones(2)
    with FunctionMode([Asking("asking", seen), Noting("noting", seen, shape.__get__)]):
        assert (x.shape, x.dtype, x.size(dim=0)) == ((2,), torch.float32, 2)
    assert seen == [("noting", "__get__")]
    assert Tensor.storage_offset in READS


def test_sizes_that_bodies_note_are_no_calls_to_the_modes_around() -> None:
    """Each level of nested branches would make them again: their number would grow with the square of the depth."""

    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    value = torch.ones(2, 3)
    with Counting() as counting:
        assert body_numbers.symbols_in([value]) == set()
        assert counting.calls == 0
        assert tuple(value.shape) == (2, 3)
        assert counting.calls == 1
