"""Errors that a model catches: the same in a capture as in PyTorch, and at other sizes as at those of the example."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

import sympy
import torch

from fxport.diagnostics import Place
from fxport.exporter.capture.eager import called, may_write_to, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.guards.caught import CURE, NOT_IN_MEMORY
from fxport.exporter.capture.guards.errors import Caught, caught_errors
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.guards.handlers import handles
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.sizes.resizing import at_chosen, known_sizes
from fxport.fx_passes.program import Program

ONLY_IN_PYTORCH = "it raises an error in PyTorch, which the model catches; while it is captured it raises none"

BY_SIZE = "it raises an error at some sizes, which the model catches; a graph raises none"

LARGEST = 8192
"""Of the sizes that are tried."""

SECONDS, SECONDS_OF_NAMED = 2.0, 10.0
"""For the runs of the model at further sizes, and for those at the sizes that its code names."""

DENSE = range(1, 130)
"""Sizes that are all tried."""

POWERS = tuple(sorted({2**n + d for n in range(7, 14) for d in (-1, 0, 1)} - {LARGEST + 1}))


def errors_alike(program: Program, request: CaptureRequest, observed: Observed) -> Iterator[Guard]:
    """Yield the limits of sizes within which the model catches the errors that it catches at those of the example.

    The model runs in PyTorch for that, on the example and at other sizes, if one of its functions has a statement that
    catches errors and goes on.

    Raises:
        RefusedError: The model has caught an error in the capture and not in PyTorch, or the other way round; or sizes
            that the capture has as data decide whether there is one.
    """
    functions = [each for each in observed.effects.state.functions() if handles(each)]
    tensors = [*request.model.parameters(), *request.model.buffers()]
    if not functions or any(map(has_no_values, tensors)):
        return
    trials = _Trials(program, request, functions)
    if trials.example is None:
        return
    for one, other, reason in (
        (observed.caught, trials.example, NOT_IN_MEMORY),
        (trials.example, observed.caught, ONLY_IN_PYTORCH),
    ):
        for key in one.keys() - other.keys():
            raise RefusedError(reason, place=one[key], cure=CURE)
    env = observed.inquiry.env
    for symbol, size in trials.sizes.items():
        for condition, place in trials.limits(symbol, size):
            if request.as_data or env is None:
                raise RefusedError(BY_SIZE, place=place, cure=CURE)
            yield Guard(condition, env, place, by_user=True, counted=False, about_layout=False)


class _Trials:
    """Runs of a model at sizes of its dynamic dimensions, each with the errors that it catches."""

    def __init__(self, program: Program, request: CaptureRequest, functions: Sequence[FunctionType]) -> None:
        self.program, self.module, self.functions = program, request.model, functions
        self.call = (request.args, dict(request.kwargs))
        self.kept = may_write_to(request.model)
        self.begun = time.monotonic()

    @cached_property
    def example(self) -> Caught | None:
        """The errors that the model catches on the example; None where it does not run."""
        return self._caught(self.call)

    @property
    def sizes(self) -> Mapping[sympy.Symbol, int]:
        """The dynamic dimensions with the sizes of the example."""
        return known_sizes(self.module, self.call, self.program)

    def limits(self, symbol: sympy.Symbol, size: int) -> Iterator[tuple[Any, Place | None]]:
        """Yield conditions that leave out the sizes at which other errors are caught, with the line that raises."""
        self.places: dict[int, Place | None] = {}
        others = [n for n in self._tried(size) if self._differs(symbol, n)]
        below, above = ([n for n in others if n < size], [n for n in others if n > size])
        if below:
            last = self._turn(symbol, range(max(below), size))
            yield sympy.Ge(symbol, last + 1), self.places[max(below)]
        if above:
            first = self._turn(symbol, range(min(above), size, -1))
            yield sympy.Le(symbol, first - 1), self.places[min(above)]

    def _turn(self, symbol: sympy.Symbol, sizes: range) -> int:
        """Return the last size that differs; the first does, and those behind one that does not are taken not to."""
        return sizes[bisect.bisect_left(sizes, True, 1, key=lambda n: not self._differs(symbol, n)) - 1]

    def _tried(self, size: int) -> Iterator[int]:
        """Yield the sizes that the code names, and others as long as there is time for them."""
        named = {number + d for number in self._named() for d in (-1, 0, 1)}
        further = sorted({*DENSE, *POWERS} - named, key=lambda n: (n in DENSE, abs(n - size)))
        for sizes, seconds in ((sorted(named), SECONDS_OF_NAMED), (further, SECONDS)):
            for n in sizes:
                if time.monotonic() - self.begun > seconds:
                    break
                if 0 < n <= LARGEST and n != size:
                    yield n

    def _named(self) -> set[int]:
        """Return the whole numbers in the code that catches errors."""
        return {abs(int(each)) for function in self.functions for each in _numbers(function.__code__)}

    def _differs(self, symbol: sympy.Symbol, size: int) -> bool:
        """Return whether the model runs at a size, and catches other errors than on the example."""
        found = self._caught(at_chosen(self.module, self.call, self.program, {symbol: size}))
        if found is None or self.example is None or found.keys() == self.example.keys():
            return False
        either = {**self.example, **found}
        self.places[size] = either[min(found.keys() ^ self.example.keys())]
        return True

    def _caught(self, call: tuple[Any, Any]) -> Caught | None:
        found: Caught = {}
        try:
            with (
                torch.random.fork_rng(devices=[]),
                restored(self.module, self.kept),
                caught_errors(self.functions, found),
            ):
                called(self.module, call)
        except Exception as error:  # the model's own: it is not for this call
            if is_our_fault(error):
                raise
            return None
        return found


def _numbers(code: CodeType) -> Iterator[float]:
    """Yield the numbers in a code, and in those of the functions within it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _numbers(each)
        elif isinstance(each, (int, float)) and not isinstance(each, bool) and abs(each) <= LARGEST:
            yield each
