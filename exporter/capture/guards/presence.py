"""`if len(boxes) == 0` where only data tells how many there are: some are presumed, where the branch cannot be a cond.

A size is a whole number, and whether it is 0 is most of what a model asks about one that depends on data. Where the
branches of such an `if` do not fit into a cond, the graph has the one for sizes from 1 on, and the user is told. So it
is with `if not padding.any()` and `if mask.all()`, after which a mask of no effect often becomes None.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import sympy
import torch
from torch import SymBool, Tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from fxport.diagnostics import Place
from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.guards.askers import calling_frame, is_a_kept_branch, place_of_asker
from fxport.exporter.capture.knowledge import known, note

TRUTHS: Mapping[Any, bool] = {torch.any: True, Tensor.any: True, torch.all: False, Tensor.all: False}
"""Functions that test whether a mask has some effect, and their answer where it has."""

SOME = "of some"
"""The fact of a truth value that is what it would be if masks had some effect."""

CONTRARY = frozenset({torch.logical_not, Tensor.logical_not, torch.bitwise_not, Tensor.bitwise_not, Tensor.__invert__})


class Scope(Enum):
    """Scope in which some data is presumed."""

    NOWHERE = "nowhere"
    KEPT = "where a branch asks that cannot be a cond"
    EVERYWHERE = "wherever Python asks"


@dataclass
class Presumed:
    """Questions that were answered by presuming some data, and questions that were left open."""

    answers: dict[Place | None, BaseException] = field(default_factory=dict)
    """Questions that were answered, with the reason that kept both branches from the graph."""
    truths: dict[Place | None, bool] = field(default_factory=dict)
    """Answers that were truth values of masks, by the place that asked."""
    numbers: dict[sympy.Symbol, tuple[bool, Place | None]] = field(default_factory=dict)
    """Truth values of masks that Python has as numbers: what is presumed of them, and who asked."""
    contrary: Collection[Place | None] = ()
    """Lines that asked for such a number, of masks that are presumed to have no effect, as in the example."""
    open: bool = False
    """True if there were questions that could be answered so, had that been allowed."""
    refusal: Exception | None = None
    """Exception that ended the capture without these answers."""
    scope: Scope = Scope.NOWHERE

    def clear(self) -> None:
        """Forget the questions of another trace."""
        for each in (self.answers, self.truths, self.numbers):
            each.clear()


@contextmanager
def some_presumed(presumed: Presumed, scope: Scope) -> Iterator[None]:
    """Presume within the scope that sizes which depend on data are at least 1, and that masks have an effect.

    Only of sizes that a capture asks about while its questions are `answered`.
    """
    before, presumed.scope = presumed.scope, scope
    try:
        yield
    finally:
        presumed.scope = before


class TruthsPresumed(Part):
    """Answer by the presumption whether a mask has an effect, for an `if` that does not fit into a cond."""

    functions = frozenset({Tensor.__bool__, Tensor.item, *TRUTHS, *CONTRARY})

    def __init__(self, presumed: Presumed) -> None:
        self.presumed = presumed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.presumed.scope is Scope.NOWHERE:
            return func(*args, **(kwargs or {}))
        barred = sys.exc_info()[1]
        if func is Tensor.__bool__ and barred is not None and is_a_kept_branch():
            answer = known(args[0], SOME)
            if answer is not None:
                place = place_of_asker()
                self.presumed.answers.setdefault(place, barred)
                self.presumed.truths.setdefault(place, answer)
                return answer
        result = func(*args, **(kwargs or {}))
        if func is Tensor.item and isinstance(result, SymBool):
            self._note_number(result, known(args[0], SOME))
        if isinstance(result, Tensor) and not result.dim():
            if func in TRUTHS:
                note(result, SOME, TRUTHS[func])
            elif func in CONTRARY and (answer := known(args[0], SOME)) is not None:
                note(result, SOME, not answer)
        return result

    def _note_number(self, number: SymBool, answer: bool | None) -> None:
        if answer is None or kind_of(calling_frame((__file__,)).f_code.co_filename) == HIDDEN:
            return  # the statement of a branch asks, which has its own answer
        place = place_of_asker()
        presumed = answer is not (place in self.presumed.contrary)
        self.presumed.numbers |= dict.fromkeys(free_unbacked_symbols(number), (presumed, place))


def answer_of_truth(asked: Any, truth: bool) -> sympy.Basic | None:
    """Return the answer to a question about one truth value, which is a number of 0 or 1; None if it is about more."""
    found = asked.subs(dict.fromkeys(asked.free_symbols, int(truth)))
    return found if len(asked.free_symbols) == 1 else None


def answer_of_some(env: ShapeEnv, asked: Any, *, numbers: bool = False) -> sympy.Basic | None:
    """Return the answer if every size that depends on data is at least 1; None where that does not tell.

    With `numbers`, so are numbers that some shape has made a size, such as `n` after `x.view(n, -1)`. Of the numbers
    that are 0 or 1, such as whether an element is selected, the sum is a size.
    """
    if not isinstance(asked, sympy.Rel):
        return None
    symbols: Any = asked.free_symbols
    ranges = {symbol: env.var_to_range.get(symbol, ValueRanges.unknown_int()) for symbol in symbols}
    unbacked = free_unbacked_symbols(asked) if numbers else set()
    made = {each for each in unbacked if ranges[each].lower >= 0 and ranges[each].upper > 1}
    sizes = symbols & env.size_like | made
    selected = sorted((each for each in sizes if ranges[each].upper <= 1), key=str)
    if len(selected) > 1:
        count = sympy.Dummy("count", integer=True, nonnegative=True)
        asked = asked.subs(sympy.Add(*selected), count)
        ranges[count] = ValueRanges(0, len(selected))
        sizes = sizes - set(selected) | {count}
    if not sizes:
        return None
    for symbol in sizes:
        ranges[symbol] &= ValueRanges(1, sympy.oo if ranges[symbol].upper == sympy.oo else ranges[symbol].upper)
    found = bound_sympy(asked, ranges)  # type: ignore[arg-type]  # symbols are expressions
    return found.lower if found.is_singleton() else None  # type: ignore[return-value]


def answer_of_elements(env: ShapeEnv, asked: Any) -> sympy.Basic | None:
    """Return the answer if what is compared with 0, and is not below it, is more: how many elements there are.

    Of `n * (count // n)` it is not known that it is more than 0 where `count` is.
    """
    if not isinstance(asked, (sympy.Eq, sympy.Ne)) or asked.rhs != 0:
        return None
    count: Any = asked.lhs
    return sympy.sympify(isinstance(asked, sympy.Ne)) if env.bound_sympy(count).lower >= 0 else None
