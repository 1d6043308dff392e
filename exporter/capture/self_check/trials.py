"""Runs of a model in PyTorch, at the sizes of the example and at others, which have to do what its capture did.

It catches the same errors, and reads the same of how tensors lie in memory.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import FunctionType
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from fxport.diagnostics import Log, Place, rules
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.eager import called, copied, may_write_to, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.guards.caught import CURE, NOT_IN_MEMORY
from fxport.exporter.capture.guards.errors import Caught, caught_errors
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.guards.handlers import handles
from fxport.exporter.capture.guards.layout_reads import layout_read_by, write_by_size
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.self_check.counts import numbers_in
from fxport.exporter.capture.self_check.running import Recorder, prepared, written_to
from fxport.exporter.capture.sizes.dimensions import Comparison
from fxport.exporter.capture.sizes.rehearsal import alike
from fxport.exporter.capture.sizes.resizing import TRACED_FROM, at_chosen, known_sizes
from fxport.fx_passes.program import InputKind, OutputKind, Program

ONLY_IN_PYTORCH = "it raises an error in PyTorch, which the model catches; while it is captured it raises none"

NOT_COMPARED = (
    "it reads how tensors lie in memory, or writes to what may be a copy, and other sizes cannot be tried: it has no "
    "values, or its captured program, run in PyTorch, does not give its results for the example"
)

BY_SIZE = "it raises an error, which the model catches, or reads how tensors lie in memory, otherwise at some sizes"

LARGEST = 8192
"""Of the sizes that are tried."""

SECONDS, SECONDS_OF_NAMED = 2.0, 10.0
"""CPU time for the runs at further sizes of all dimensions, and for those at the sizes that code names."""

MOST_BYTES = 2**28
"""Of the inputs, or of what grows with the square of a size."""

DENSE = range(1, 130)
"""Sizes that are all tried."""

POWERS = tuple(sorted({2**n + d for n in range(7, 14) for d in (-1, 0, 1)} - {LARGEST + 1}))


def compared_at_sizes(
    program: Program,
    request: CaptureRequest,
    observed: Observed,
    given_up: Sequence[tuple[Place | None, str]],
    log: Log,
) -> Comparison:
    """Compare the sizes of a program with the requests for them, by what was asked and what runs of the model limit.

    Reports FXP1035 where such runs would have to be compared, and cannot be.

    Raises:
        RefusedError: As `limits_by_trials` does.
    """
    guards = observed.inquiry.guards

    def compared() -> Comparison:
        return Comparison(program, request.sizes, guards, request.fixed, observed.unkept, given_up)

    first = compared()
    limits = [*limits_by_trials(replace(program, conditions=tuple(first.conditions)), request, observed, log)]
    guards.extend(limits)
    return compared() if limits else first


def limits_by_trials(program: Program, request: CaptureRequest, observed: Observed, log: Log) -> Iterator[Guard]:
    """Yield the limits of sizes within which the model does what it does at those of the example, as far as tried.

    The model runs in PyTorch for that, on the example and at other sizes that the program allows, if one of its
    functions has a statement that catches errors and goes on, reads how tensors lie in memory, or, where the trace was
    one below autograd, writes to what may be a copy. Results are compared with those of the program unless errors
    alone are in question, and where it has branches or loops on data.

    Raises:
        RefusedError: The model has caught an error in the capture and not in PyTorch, or the other way round; or sizes
            that the capture has as data decide what it does.
    """
    functions = [*observed.effects.state.functions()]
    is_rewritten = any(each.kind != "call" for each in observed.rewritten)  # the graph has ways that the example lacks
    handling = [each for each in functions if handles(each)]
    compared = [place for each in functions if (place := layout_read_by(each)) is not None]
    is_presumed = bool(observed.inquiry.presumed.answers)  # what is drawn for another size may be otherwise
    if observed.below_autograd and not is_presumed and (write := write_by_size(functions)) is not None:
        compared = [*compared, write]
    if is_rewritten and handling:  # what it catches depends on data
        handling, compared = [], [*compared, place_of_module(request.model)]
    if not (handling or compared):
        return
    held = (*request.model.parameters(), *request.model.buffers(), *tree_leaves((request.args, dict(request.kwargs))))
    has_values = not any(isinstance(each, Tensor) and has_no_values(each) for each in held)
    trials = _Trials(program, request, functions, handling, compared) if has_values else None
    is_compared = trials is not None and trials.example is not None and trials.can_be_compared
    if compared and program.ranges and not is_compared:
        log.report(rules.CAPTURE_UNCHECKED, at=compared[0], reason=NOT_COMPARED)
    if trials is None or trials.example is None:
        return
    for caught in observed.caught if handling else ():
        _require_same(caught, trials.example, NOT_IN_MEMORY)
        _require_same(trials.example, caught, ONLY_IN_PYTORCH)
    env = observed.inquiry.env
    for symbol, size in trials.sizes.items():
        for condition, place in trials.limits(symbol, size):
            if request.as_data or env is None:
                raise RefusedError(BY_SIZE, place=place, cure=CURE)
            yield Guard(condition, env, place, by_user=True, counted=False, about_layout=False)


def _require_same(one: Caught, other: Caught, reason: str) -> None:
    for key in sorted(one.keys() - other.keys()):
        raise RefusedError(reason, place=one[key], cure=CURE)


class _Trials:
    """Runs of a model at sizes of its dynamic dimensions: what it catches, and whether the program gives the same."""

    def __init__(
        self,
        program: Program,
        request: CaptureRequest,
        functions: Sequence[FunctionType],
        handling: Sequence[FunctionType],
        compared: Sequence[Place | None],
    ) -> None:
        self.program, self.module, self.handling, self.compared = program, request.model, handling, compared
        self.named = {abs(int(each)) for one in functions if _is_looked_at(one) for each in numbers_in(one.__code__)}
        """The whole numbers in the code that catches errors, or reads how tensors lie in memory."""
        self.call = (request.args, dict(request.kwargs))
        self.prepared = prepared(program)
        self.kept = may_write_to(request.model) | written_to(self.prepared)
        leaves = [each for each in tree_leaves(self.call) if isinstance(each, Tensor)]
        self.bytes = sum(each.nbytes for each in leaves)
        self.places: dict[int, Place | None] = {}
        self.ran: dict[int, float] = {}
        """Seconds of a run by the size that is tried."""
        self.begun = time.thread_time()
        self.example = self._caught(self.call)
        """The errors that the model catches on the example; None where it does not run."""
        self.seconds = time.thread_time() - self.begun

    @property
    def sizes(self) -> Mapping[sympy.Symbol, int]:
        """The dynamic dimensions with the sizes of the example."""
        return known_sizes(self.module, self.call, self.program)

    def limits(self, symbol: sympy.Symbol, size: int) -> Iterator[tuple[Any, Place | None]]:
        """Yield conditions that leave out the sizes at which something else is caught or read, with its line."""
        self.begun, self.ran = time.thread_time(), {size: self.seconds}
        others = [n for n in self._tried(symbol, size) if self._differs(symbol, n)]
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

    def _tried(self, symbol: sympy.Symbol, size: int) -> Iterator[int]:
        """Yield the sizes that the code names, and others, as long as there is time for them."""
        named = {number + d for number in self.named for d in (-1, 0, 1)}
        further = sorted({*DENSE, *POWERS} - named, key=lambda n: (n in DENSE, abs(n - size)))
        for sizes, seconds in ((sorted(named), SECONDS_OF_NAMED), (further, SECONDS)):
            end = self.begun + seconds / len(self.sizes)
            yield from (n for n in sizes if n != size and self._may_be(symbol, n, size, end - time.thread_time()))

    def _may_be(self, symbol: sympy.Symbol, n: int, size: int, left: float) -> bool:
        """Return whether the program allows a size, and a run at it is likely to fit the time left, and memory.

        Time and memory of a model may grow with the square of a size.
        """
        low, high = self.program.ranges.get(str(symbol), (0, None))
        before = max((each for each in self.ran if each <= n), default=min(self.ran))
        seconds = self.ran[before] * max(n / max(before, 1), 1.0) ** 2
        is_cheap = seconds <= left and self.bytes * max(n / max(size, 1), 1.0) ** 2 <= MOST_BYTES
        in_range = max(low if low > TRACED_FROM else 1, 1) <= n <= min(LARGEST, high or LARGEST)
        sizes = {**self.sizes, symbol: n}
        return is_cheap and in_range and all(each.allows(sizes) for each in self.program.conditions)

    @cached_property
    def can_be_compared(self) -> bool:
        """True where results have to be compared, and are equal on the example."""
        return bool(self.compared) and self._is_same(self.call)

    def _differs(self, symbol: sympy.Symbol, size: int) -> bool:
        """Return whether the model, at a size that the program allows, catches or reads something else."""
        try:
            call = at_chosen(self.module, self.call, self.program, {symbol: size})
        except (
            RuntimeError
        ):  # PyTorch's: the example has no elements to repeat, or a size that comes of this one is none
            return False
        begun = time.thread_time()
        found = self._caught(call)
        is_same = found is None or not self.can_be_compared or self._is_same(call)
        self.ran[size] = time.thread_time() - begun
        if found is None or self.example is None:
            return False
        if found.keys() != self.example.keys():
            self.places[size] = {**self.example, **found}[min(found.keys() ^ self.example.keys())]
            return True
        if not is_same:
            self.places[size] = self.compared[0]
        return not is_same

    def _is_same(self, call: tuple[Any, Any]) -> bool:
        """Return whether the program gives what the model does, for equal random numbers."""
        with self._given_back():
            torch.default_generator.manual_seed(0)
            want = [each.detach().clone() if isinstance(each, Tensor) else each for each in self._results(call)]
        given = {leaf.path: leaf.value for leaf in leaves_of(arguments_of(self.module, *copied(call)))}
        tensors = self.program.tensors
        values = [
            given[entry.path or entry.name] if entry.kind is InputKind.USER else tensors[entry.target or ""]
            for entry in self.prepared.inputs
        ]
        with self._given_back(), torch.no_grad():
            torch.default_generator.manual_seed(0)
            try:
                got = Recorder(self.prepared.graph_module, set()).run(*values)
            except Exception:  # noqa: BLE001  # whatever an operator says to sizes that the graph does not hold for
                return False
        outputs = zip(got, self.prepared.outputs, strict=True)
        user = [value for value, output in outputs if output.kind is not OutputKind.MUTATION]
        return len(user) == len(want) and all(alike(*pair) for pair in zip(user, want, strict=True))

    def _results(self, call: tuple[Any, Any]) -> list[Any]:
        return tree_leaves(called(self.module, call)[0])

    def _caught(self, call: tuple[Any, Any]) -> Caught | None:
        runs: list[Caught] = []
        try:
            with self._given_back(), caught_errors(self.handling, runs):
                called(self.module, call)
        except Exception as error:  # the model's own: it is not for this call
            if is_our_fault(error):
                raise
            return None
        return runs[0]

    @contextmanager
    def _given_back(self) -> Iterator[None]:
        with restore_process(), restored(self.module, self.kept):
            yield


def _is_looked_at(function: FunctionType) -> bool:
    return handles(function) or layout_read_by(function) is not None
