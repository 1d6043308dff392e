"""Answers to all questions of a capture about sizes: one patch of PyTorch, and a table of rules in their order.

PyTorch asks `ShapeEnv.evaluate_expr` wherever Python wants the number or the truth of something symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import sympy
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from fxport.diagnostics import Place
from fxport.exporter.capture.faults import RefusedError, causes_of, is_our_fault, refused
from fxport.exporter.capture.guards.askers import (
    WHILE,
    Line,
    begins_with,
    is_a_kept_branch,
    is_about_attention_alike,
    is_about_copying,
    is_about_format,
    is_about_layout,
    is_about_shapes,
    is_about_viewing,
    is_pythons,
    is_users,
    line_that_asks,
    place_of_asker,
    with_stack,
)
from fxport.exporter.capture.guards.guard import Guard, guard_of, guards_noted
from fxport.exporter.capture.guards.presence import (
    Presumed,
    Scope,
    answer_of_elements,
    answer_of_some,
    answer_of_truth,
)

Refusal = GuardOnDataDependentSymNode


class RefusalHidden(Exception):
    """PyTorch's refusal to tell a value was caught by a `try` in `forward`; its cause is that refusal."""


class WentOn(Exception):
    """A speculative capture ended, having asked for values that nobody knows.

    Its cause is the error that ended it, if one did.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} questions have no answer, the first: {refusals[0]}")
        self.refusals = tuple(refusals)


@dataclass
class Inquiry:
    """The questions of one capture, and what became of them."""

    guards: list[Guard] = field(default_factory=list)
    """Conditions that the captured graph relies on."""
    presumed: Presumed = field(default_factory=Presumed)
    """Questions whether there is any data, for which the capture presumes that there is some."""
    refused: list[Exception] = field(default_factory=list)
    """Questions of the user's own lines without an answer, and lines that are refused."""
    env: ShapeEnv | None = None
    """Shape environment of the last question."""
    halts: Collection[Line] | None = None
    """The lines that are refused an answer at once, in a capture that goes on from others; None: all are."""
    may_copy: bool = True
    """Bodies that copy where they change nothing may always run, and `contiguous` may always copy."""
    always: dict[Place | None, bool] = field(default_factory=dict)
    """Places of tests whose bodies always run, and whether these may copy."""
    copying: set[Place | None] = field(default_factory=set)
    """Places of `contiguous` that always copies."""
    passed: dict[Line, list[Refusal]] = field(default_factory=dict)
    """Refusals after which the capture went on, one for each question of a line."""

    @property
    def relies_on_copies(self) -> bool:
        """True if an answer has taken it for granted that nothing writes to what may be a copy."""
        return any(self.always.values()) or bool(self.copying)

    def forbid_copies(self) -> None:
        """Begin anew, without such answers."""
        self.may_copy = False
        for each in (self.always, self.copying, self.guards):
            each.clear()


@dataclass(slots=True)
class Question:
    """A size, or a condition on sizes, that Python asks for."""

    env: ShapeEnv
    asked: Any
    """The expression. Any: sympy has no types."""
    pytorch: Callable[[], Any]
    """PyTorch's own answer."""
    refusal: Refusal | None = None
    """Reason why PyTorch has no answer, once it was asked."""


MOST = 100
"""Limit of questions of one line in a capture that goes on: layers that share it, or a loop that does not end."""

DEFER = object()
"""Result of an answer that leaves the question to the next one."""

Answer = Callable[[Question, Inquiry], Any]


def number_by_layout(question: Question, inquiry: Inquiry) -> Any:
    """Answer how many elements of the example lie along an axis, and rely on nothing.

    Asked is how a tensor lies in memory, and the graph is the same for any answer. A guard would be taken for what
    holds for all sizes by whatever is asked next: that the only turn of a loop has the number 0.
    """
    asked = question.asked
    if not isinstance(asked, FEW) or not asked.free_symbols:
        return DEFER
    if is_about_layout() or (isinstance(asked, sympy.StrictLessThan) and is_about_viewing()):
        return _unrelied(question, inquiry)
    return DEFER


def copied(question: Question, inquiry: Inquiry) -> Any:
    """Answer that `contiguous` makes a copy where sizes decide, and rely on nothing: the tensor itself is equal.

    A guard of an example that needs none would leave out all sizes that do.
    """
    asked = question.asked
    is_one = isinstance(asked, (sympy.Eq, sympy.Ne)) and asked.free_symbols and inquiry.may_copy and is_about_copying()
    if not is_one or _is_known_to_differ(question):
        return DEFER
    inquiry.copying.add(place_of_asker())
    return sympy.true if isinstance(asked, sympy.Ne) else sympy.false


def _is_known_to_differ(question: Question) -> bool:
    """Return whether the sides of an equation differ at all sizes."""
    bounds = question.env.bound_sympy(question.asked.lhs - question.asked.rhs)
    return bool(bounds.lower > 0 or bounds.upper < 0)


def format_in_general(question: Question, inquiry: Inquiry) -> Any:
    """Answer which axis of an image lies innermost, as for images of several rows and columns, and rely on nothing.

    A single element lies in memory as both formats have it. A guard of an example of that size would leave out all
    others. Where the answer differs between large sizes, the question goes on.
    """
    asked = question.asked
    if not isinstance(asked, sympy.Rel) or not asked.free_symbols or not is_about_format():
        return DEFER
    symbols = sorted(asked.free_symbols, key=str)
    answers = {asked.xreplace(dict(zip(symbols, order(len(symbols)), strict=True))) for order in LARGE}
    answer = answers.pop()
    return DEFER if answers or answer not in (sympy.true, sympy.false) else answer


def several_queries(question: Question, inquiry: Inquiry) -> Any:
    """Answer that attention has several queries, as the example has, and rely on nothing where it is the same for one.

    transformers repeats the keys for several, and arranges a single query otherwise, for the same sums.
    """
    if not isinstance(question.asked, tuple(SEVERAL)) or not is_about_attention_alike():
        return DEFER
    answer = _unrelied(question, inquiry)
    return answer if answer is not DEFER and bool(answer) is SEVERAL[type(question.asked)] else DEFER


def _unrelied(question: Question, inquiry: Inquiry) -> Any:
    """Return PyTorch's answer, DEFER if it has none, and forget the guard that comes with it."""
    known = len(inquiry.guards)
    try:
        with question.env.suppress_guards():
            return question.pytorch()
    except Refusal:
        return DEFER
    finally:
        del inquiry.guards[known:]


LARGE: tuple[Callable[[int], Sequence[sympy.Integer]], ...] = (
    lambda count: [sympy.Integer(1009 + 420 * i) for i in range(count)],
    lambda count: [sympy.Integer(4201 + 420 * (count - i)) for i in range(count)],
)
"""Sizes of images with many rows and columns, in rising and in falling order."""

SEVERAL: Mapping[type, bool] = {sympy.Eq: False, sympy.StrictGreaterThan: True, sympy.StrictLessThan: True}
"""Truth of such a condition for several: `n == 1`, `n > 1`, `1 < n`."""

FEW = (sympy.StrictLessThan, sympy.StrictGreaterThan, sympy.Eq, sympy.Ne)
"""Conditions that tell sizes of 0 or 1 from others: `numel < 2`, `n > 1`, `n == 1`, `stride != 1`."""


def known_to_pytorch(question: Question, inquiry: Inquiry) -> Any:
    """Return PyTorch's answer: what follows from ranges, or holds for the example and becomes a guard.

    What depends on data is left to the rows after this one.
    """
    try:
        answer = question.pytorch()
    except Refusal as refusal:
        question.refusal = refusal
        return DEFER
    if (guard := guard_of(question.env, question.asked, answer)) is not None:
        inquiry.guards.append(guard)
    return answer


def known_to_shapes(question: Question, inquiry: Inquiry) -> Any:
    """Return what holds for every size from 1 on, if only the shape of an op depends on it: `x[mask].logsumexp(1)`.

    The graph has the op itself; what it is for no element at all, is its lowering's.
    """
    if question.refusal is None or not is_about_shapes():
        return DEFER
    answer = answer_of_some(question.env, question.asked, numbers=True)
    if answer is None:
        answer = answer_of_elements(question.env, question.asked)
    return DEFER if answer is None else answer


def true_of_some(question: Question, inquiry: Inquiry) -> Any:
    """Return what holds for every size from 1 on, where some data is presumed and Python code asks.

    Not to a `while`, which would not end.
    """
    presumed, refusal = inquiry.presumed, question.refusal
    if presumed.scope is Scope.NOWHERE or refusal is None or not is_pythons():
        return DEFER
    line = line_that_asks()
    if line is not None and begins_with(line, WHILE):
        return DEFER
    symbols = question.asked.free_symbols
    truth = next((presumed.numbers[each] for each in symbols if each in presumed.numbers), None)
    answer = (
        answer_of_some(question.env, question.asked) if truth is None else answer_of_truth(question.asked, truth[0])
    )
    if answer is None:
        return DEFER
    if presumed.scope is Scope.KEPT and not is_a_kept_branch():
        presumed.open = True
        return DEFER
    place = place_of_asker() if truth is None else truth[1]
    presumed.answers.setdefault(place, refusal.__context__ or presumed.refusal or refusal)
    if truth is not None:
        presumed.truths.setdefault(place, truth[0])
    return answer


def speculate(question: Question, inquiry: Inquiry) -> Any:
    """Return an arbitrary answer to a condition, where a capture only goes on to find further questions.

    No first: most of what a model asks is whether there is something more to do. Asked again, a loop shall end.
    """
    if inquiry.halts is None or question.refusal is None or not isinstance(question.asked, sympy.Rel):
        return DEFER
    line = None if is_a_kept_branch() else line_that_asks()
    if line is None or line in inquiry.halts:
        return DEFER
    passed = inquiry.passed.setdefault(line, [])
    if len(passed) == MOST:
        return DEFER
    passed.append(question.refusal if passed else with_stack(question.refusal))
    return sympy.false if len(passed) % 2 else sympy.true


def record_unanswered(question: Question, inquiry: Inquiry) -> Any:
    """DEFER, and record that a line of the user's is refused an answer, which a `try` around it would hide."""
    if question.refusal is not None and is_users():
        inquiry.refused.append(question.refusal)
    return DEFER


ANSWERS: tuple[Answer, ...] = (
    copied,  # first: PyTorch would make a guard of it
    number_by_layout,  # the same
    format_in_general,  # the same
    several_queries,  # the same
    known_to_pytorch,  # then: what is certain needs no presumption
    known_to_shapes,  # before what tells the user: the graph is the same for any answer
    true_of_some,
    speculate,  # after the presumption, which is true of what is captured
    record_unanswered,  # last: only what all others have left open is refused
)
"""Each is asked where those before it have no answer; where none has, PyTorch's refusal is raised."""


@contextmanager
def answered(inquiry: Inquiry, before: Sequence[Answer] = ()) -> Iterator[None]:
    """Answer by the table whatever PyTorch asks about sizes while this is active, and note it in the inquiry.

    The answers of `before` come before those of the table.
    """
    answers = (*before, *ANSWERS)
    evaluate = ShapeEnv.evaluate_expr

    def evaluate_expr(self: ShapeEnv, orig_expr: Any, *args: Any, **options: Any) -> Any:
        inquiry.env = self
        question = Question(self, orig_expr, lambda: evaluate(self, orig_expr, *args, **options))
        try:
            for answer in answers:
                if (given := answer(question, inquiry)) is not DEFER:
                    return given
            assert question.refusal is not None  # PyTorch answers, or says why not
            raise question.refusal
        finally:
            question.refusal = None  # it knows this frame: a cycle, in which all tensors of the callers would stay

    with guards_noted(inquiry.guards), mock.patch.object(ShapeEnv, "evaluate_expr", evaluate_expr):
        yield


@contextmanager
def going_on(inquiry: Inquiry, halts: Collection[Line] | None) -> Iterator[None]:
    """Speculate about what other lines than `halts` ask while this is active; raise WentOn at the end if any did.

    A capture that has failed once is likely to be asked more, and to see it all at once costs less than to begin anew
    for each. With None, the first refusal ends it.
    """
    inquiry.halts, inquiry.passed = halts, {}
    ended: Exception | None = None
    try:
        yield
    except Exception as error:
        if not inquiry.passed or is_our_fault(error):
            raise
        ended = error  # perhaps by what was answered somehow
    finally:
        inquiry.halts = None
    if inquiry.passed:
        raise WentOn([refusals[0] for refusals in inquiry.passed.values()]) from ended


def refusals() -> list[Exception]:
    """Return what was refused up to now; who tries something else instead takes out its own."""
    return refused.get([])


@contextmanager
def refusals_kept(inquiry: Inquiry) -> Iterator[None]:
    """Raise an error at the end if a `try` of the user's has hidden one, or that a value is not known.

    The graph would have only what the `except` clause goes on with.

    Raises:
        RefusedError: That is what was hidden.
        RefusalHidden: PyTorch's refusal to tell a value was.
    """
    inquiry.refused.clear()
    token = refused.set(inquiry.refused)
    try:
        yield
    except Exception as error:
        if not inquiry.refused or is_our_fault(error) or any(each in inquiry.refused for each in causes_of(error)):
            raise
        raise inquiry.refused[0] from error  # which came of what the model went on with
    finally:
        refused.reset(token)
    for first in inquiry.refused[:1]:
        if isinstance(first, RefusedError):
            raise first
        raise RefusalHidden(str(first)) from first
