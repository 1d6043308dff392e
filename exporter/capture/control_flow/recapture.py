"""Python loops over dynamic sizes: found while a capture unrolls them, and kept as scans in the next attempt.

PyTorch's capture runs Python as it is, so `for t in range(x.shape[1])` makes the size a constant. Where a loop is one
that a scan can express, its function is rewritten for as long as the next attempt takes.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar
from unittest import mock

import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fxport.diagnostics import Place
from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.control_flow.function import rewritten
from fxport.exporter.capture.control_flow.functions_of_code import functions_of, maker_of, within
from fxport.exporter.capture.control_flow.identities import may_ask_identity, may_compare_identity
from fxport.exporter.capture.control_flow.merged import merged_values_watched
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.scans import slices_unasked
from fxport.exporter.capture.control_flow.undecided import asked_for, undecided_refused
from fxport.exporter.capture.failures import HASHED, NotRewritten, first_line
from fxport.exporter.capture.faults import RefusedError, causes_of, is_our_fault
from fxport.exporter.capture.guards.answers import WentOn
from fxport.exporter.capture.guards.askers import WHILE, Line, begins_with
from fxport.exporter.capture.rewritten import Rewritten, rewritten_noted

T = TypeVar("T")

_ROOM = str(Path(__file__).parent.parent)
_PYTORCH = str(Path(torch.__file__).parent / "_")[:-1]

ATTEMPTS = 12
"""Each attempt finds what comes after that which is already kept; few models need more than three."""

IN_PYTORCH = "what it does fails in the body of a loop or a branch of the graph, where PyTorch says: {}"

Attempt = Callable[[Collection[Line] | None], T]
"""A capture that goes on from what it is refused at other lines than these; with None it ends there."""


Reasons = dict[Line, str]
"""Reasons why the statements at lines could not be rewritten."""


@dataclass(frozen=True, slots=True)
class Site:
    """A line that turned a dynamic size into a number."""

    code: CodeType
    line: int


def keeping_loops(
    attempt: Attempt[T],
    reached: Collection[FunctionType],
    overcome: list[Exception],
    rewritten: list[Rewritten],
    unkept: Reasons,
) -> T:
    """Return what the attempt gives with loops and branches rewritten, as far as they allow.

    An attempt with such a loop that fails counts for nothing: what came before it stands, whether a result or an error.

    Args:
        attempt: Captures the model.
        reached: The functions that the model may run.
        overcome: Gets the errors of attempts that came before the one that went through.
        rewritten: Gets what became operators in that one.
        unkept: Gets the lines of statements that could not become operators, each with the reason.
    """
    functions: dict[CodeType, list[FunctionType]] = {}
    for function in reached:
        functions.setdefault(function.__code__, []).append(function)
    lines: dict[CodeType, set[int]] = {code: set() for code in functions if may_ask_identity(code)}
    splits: set[Line] = set()
    calls = True
    reasons: Reasons = {}
    told: Reasons = {}
    stands: set[Line] = set()
    known = _Known()
    new = known.rewritten(lines, splits, calls, reasons)
    with _swapped(new, known.functions(new, functions)), rewritten_noted(rewritten):
        result, sites = _noted(attempt, None)
    found = set(known.sites(sites, new))
    errors, last = list(result.errors), result.errors
    for _ in range(ATTEMPTS):
        if found and not splits:  # what is chosen by data may be asked for by identity from here on
            lines = {code: set() for code in functions if may_compare_identity(code)} | lines
        for code, line in found:
            lines.setdefault(code, set()).add(line)
        before, new = new, known.rewritten(lines, splits, calls, reasons if not splits else {})
        if new == before:  # the lines are kept already: what follows their branches may be told apart
            splits = splits.union(*(each.branches for each in _loop_errors(last)))
            new = known.rewritten(lines, splits, calls, reasons if not splits else {})
        if new == before:
            if not calls or not last:
                break
            calls = False
            new = known.rewritten(lines, splits, calls, reasons if not splits else {})
        if new == before:
            break
        tried = {(code.co_filename, line) for code, kept in lines.items() for line in kept}
        noted: list[Rewritten] = []
        unasked, watched, refused = slices_unasked(), merged_values_watched(), undecided_refused()
        with _swapped(new, known.functions(new, functions)), unasked, watched, refused, rewritten_noted(noted):
            better, sites = _noted(attempt, None if result.error is None else tried)
        found, last = set(known.sites(sites, new)), better.errors
        if better.error is None:
            shown = [Place(path, line) for path, line in sorted(tried) if kind_of(path) != HIDDEN]
            if calls:  # else a loop at which a size is used may be none any more
                stands, told = tried, {}
            result, rewritten[:] = better, noted or [Rewritten("call", place) for place in shown]
            continue
        told = _reasons(better.errors, tried - stands)
        # What branches told apart end in, or calls as they are, is no cause of the first error.
        if result.error is not None and calls and not splits:
            errors += better.errors
    if result.error is not None:
        raise _explained(_barring(errors), errors, reasons)
    unkept.update(reasons | told)
    overcome += [error for error in errors if any(_asking(error, GuardOnDataDependentSymNode))]
    return result.value  # type: ignore[return-value]  # without an error there is a value


def _barring(errors: Sequence[Exception]) -> Exception:
    """Return PyTorch's first error about the line at which the last attempt ended: others were overcome before it.

    Where it had nothing to say there, the rewriting is to blame, and what it stood for is told.
    """
    last = _innermost(errors[-1])
    refusals = (error for error in errors if isinstance(error, GuardOnDataDependentSymNode))
    return next((error for error in refusals if _innermost(error) == last), errors[0])


def _explained(error: Exception, errors: Sequence[Exception], reasons: Reasons) -> Exception:
    """Return the error with the reason why what stands at its line is no part of the graph, where one is known.

    Where a line that Python asked nothing at ended the last attempt, the error is one of that line.
    """
    for cause in (cause for each in reversed(errors) for cause in causes_of(each)):
        if isinstance(cause, RefusedError):
            return cause
    line = _innermost(error)
    found = [*_loop_errors(errors)]
    there = [str(cause) for cause in reversed(found) if line in {*map(_line, _frames_of(cause))}]
    reason = reasons.get(line) if line is not None else None
    reason = reason or next(iter(there), None)
    if reason is not None:
        return NotRewritten(reason, error)
    for each in reversed(errors):
        if (asked := _innermost(each)) in reasons and kind_of(asked[0]) != HIDDEN:
            return NotRewritten(reasons[asked], each)
    if not found:
        return error
    last, elsewhere = str(found[-1]), _innermost_line(found[-1])
    return NotRewritten(last, found[-1], asks=False) if elsewhere else NotRewritten(last, error)


def _reasons(errors: Sequence[Exception], tried: Collection[Line]) -> Reasons:
    """Return why lines that were tried to be kept could not be, where that is known."""
    found: Reasons = {}
    causes = [cause for each in errors for cause in causes_of(each) if isinstance(cause, (LoopError, RefusedError))]
    for error in reversed(causes):
        lines = [line for line in map(_line, _frames_of(error)) if kind_of(line[0]) != HIDDEN]
        away = f"at line {lines[-1][1]}, {error}" if lines else str(error)
        found |= dict.fromkeys(tried, away) | dict.fromkeys(lines, str(error))
    return found or dict.fromkeys(tried, IN_PYTORCH.format(first_line(errors[-1]))) if errors else {}


def _innermost_line(error: BaseException) -> int | None:
    """Return the line of the model that raised an error; None where that was before the first line of a function."""
    frames = [*_frames_of(error)]
    return next((line for frame, line in frames[-1:] if line != frame.f_code.co_firstlineno), None)


def _loop_errors(errors: Sequence[Exception]) -> Iterator[LoopError]:
    return (cause for each in errors for cause in causes_of(each) if isinstance(cause, LoopError))


def _line(place: tuple[FrameType, int]) -> Line:
    return place[0].f_code.co_filename, place[1]


def _innermost(error: BaseException) -> tuple[str, int] | None:
    """Return the line of the model that raised an error, or that called PyTorch."""
    lines = [(frame.f_code.co_filename, line) for frame, line in _frames_of(error)]
    return lines[-1] if lines else None


class _Known:
    """Answers about code that cost much, kept from one attempt to the next.

    Codes are told apart by identity: equal ones may stand in two files, and their hash is that of all that they hold.
    The answers hold the codes, so that no other one gets an identity meanwhile.
    """

    def __init__(self) -> None:
        self._rewritten: dict[tuple[int, frozenset[int], frozenset[int], bool], _RewrittenCode] = {}
        self._makers: dict[int, tuple[CodeType, CodeType | None]] = {}
        self._functions: dict[int, tuple[CodeType, list[FunctionType]]] = {}

    def rewritten(
        self, lines: dict[CodeType, set[int]], splits: set[Line], calls: bool, reasons: Reasons
    ) -> dict[CodeType, CodeType]:
        """Return code → the same with what stands at these lines rewritten, for all code in which that could be done.

        What follows the branches at `splits` runs in each of their arms. With `calls`, also calls that make numbers of
        sizes keep them dynamic. `reasons` gets why others could not be.
        """
        found: dict[CodeType, CodeType] = {}
        for code, numbers in lines.items():
            own = frozenset(line for path, line in splits if path == code.co_filename)
            key = (id(code), frozenset(numbers), own, calls)
            if key not in self._rewritten:
                why: dict[int, str] = {}
                self._rewritten[key] = _RewrittenCode(code, rewritten(code, numbers, set(own), calls, why), why)
            known = self._rewritten[key]
            reasons.update(((code.co_filename, line), reason) for line, reason in known.reasons.items())
            if known.new is not None:
                found[code] = known.new
        return found

    def sites(self, found: set[Site], new: dict[CodeType, CodeType]) -> Iterator[tuple[CodeType, int]]:
        """Yield the lines, each with the original code of the outermost function around it.

        A function that was made before the capture has code of its own; what `forward` makes has that of who makes it.
        """
        originals = {inner: old for old, code in new.items() for inner in within(code)}
        places = {(site.code.co_filename, site.code.co_qualname): site.code for site in found}
        for site in found:
            outer, inside, _ = site.code.co_qualname.partition(".<locals>")
            around = places.get((site.code.co_filename, outer)) if inside else None
            code = around or site.code
            yield originals.get(site.code) or originals.get(code, code), site.line
            made_elsewhere = inside and around is None and site.code not in originals
            if made_elsewhere and (maker := self._maker_of(site.code)) is not None:
                yield maker, site.line

    def functions(
        self, codes: Collection[CodeType], reached: Mapping[CodeType, Sequence[FunctionType]]
    ) -> Iterator[tuple[CodeType, Sequence[FunctionType]]]:
        """Yield each code with the functions that have it: those reached, or else those that anything holds."""
        held = self._functions
        wanted = [code for code in codes if not reached.get(code) and not held.get(id(code), (code, []))[1]]
        found = functions_of(wanted)
        held.update((id(code), (code, found[id(code)])) for code in wanted)
        for code in codes:
            yield code, reached.get(code) or held[id(code)][1]

    def _maker_of(self, code: CodeType) -> CodeType | None:
        if id(code) not in self._makers:
            self._makers[id(code)] = code, maker_of(code)
        return self._makers[id(code)][1]


@dataclass(frozen=True, slots=True)
class _RewrittenCode:
    old: CodeType
    new: CodeType | None
    reasons: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: object = None
    errors: tuple[Exception, ...] = ()
    """The first is what ended it, unless it went on."""

    @property
    def error(self) -> Exception | None:
        return self.errors[0] if self.errors else None


def _noted(attempt: Attempt[object], halts: Collection[Line] | None) -> tuple[_Outcome, set[Site]]:
    with noted_sizes() as found:
        try:
            return _Outcome(attempt(halts)), found
        except WentOn as several:
            errors = several.refusals
            causes = (*errors, several.__cause__)
        except Exception as error:  # raised again above, unless another attempt did better
            if is_our_fault(error):
                raise
            errors = causes = (asked_for(error),)
    sites = (site for each in causes for site in _asking(each, GuardOnDataDependentSymNode, LoopError))
    return _Outcome(errors=errors), found.union(sites)


def _asking(error: BaseException | None, *kinds: type[Exception]) -> Iterator[Site]:
    """Yield the lines of the model that ended in such an error: `if x.any()` asks for what only data can tell."""
    while error is not None and not (isinstance(error, kinds) or _is_about_numbers(error)):
        error = error.__cause__ or error.__context__
    if error is not None:
        yield from (Site(frame.f_code, line) for frame, line in _frames_of(error))


def _is_about_numbers(error: BaseException) -> bool:
    """Return whether a set, a dict or the truth of a part of a tensor was asked for a number that only data tells."""
    told = {TypeError: HASHED, RuntimeError: r"Cannot call numel\(\) on tensor with symbolic"}.get(type(error))
    return told is not None and re.search(told, str(error)) is not None


def _frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the model's own frames and lines in the trace of an error, outermost first."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith((_PYTORCH, _ROOM)):
            yield frame, line


@contextmanager
def noted_sizes() -> Iterator[set[Site]]:
    """Collect the lines that meanwhile use a dynamic size where Python wants a number, such as the turns of a loop."""
    found: set[Site] = set()
    whole, fraction, truth = SymNode.guard_int, SymNode.guard_float, SymNode.guard_bool

    # A frame has a line by its code and its place in it: each is looked up once. Codes are compared by identity, since
    # Python hashes the whole of one; the table holds them, so that no other one gets the identity meanwhile.
    seen: dict[tuple[int, int, tuple[str, ...]], CodeType] = {}

    def note(beginning: tuple[str, ...] = ("",)) -> None:
        frame: Any = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            key = (id(code), frame.f_lasti, beginning)
            if key not in seen:
                name = code.co_filename
                if name == __file__:  # who asked for the attempt is no part of the model
                    break
                seen[key] = code
                line = frame.f_lineno
                if not name.startswith((_PYTORCH, _ROOM)) and begins_with((name, line), beginning):
                    found.add(Site(code, line))
            frame = frame.f_back

    def guard_int(self: SymNode, file: str, line: int) -> int:
        note()
        return whole(self, file, line)

    def guard_float(self: SymNode, file: str, line: int) -> float:
        note()
        return fraction(self, file, line)

    def guard_bool(self: SymNode, file: str, line: int) -> bool:
        note(WHILE)  # an `if` on a size is one that the model asks for
        return truth(self, file, line)

    # The lines of guards are told from the stack, in which the functions shall look like those they stand for.
    for function in (guard_int, guard_float, guard_bool):
        function.__code__ = function.__code__.replace(co_filename=whole.__code__.co_filename)
    with (
        mock.patch.object(SymNode, "guard_int", guard_int),
        mock.patch.object(SymNode, "guard_float", guard_float),
        mock.patch.object(SymNode, "guard_bool", guard_bool),
    ):
        yield found


@contextmanager
def _swapped(
    new: Mapping[CodeType, CodeType], functions: Iterable[tuple[CodeType, Sequence[FunctionType]]]
) -> Iterator[None]:
    """Give functions new code meanwhile.

    Args:
        new: Code → the code that takes its place.
        functions: Each of these codes with the functions that have it.
    """
    changed: list[tuple[FunctionType, CodeType]] = []
    try:
        for old, those in functions:
            for function in those:
                changed.append((function, function.__code__))
                function.__code__ = new[old]
        yield
    finally:
        for function, own in changed:
            function.__code__ = own
