"""Dimensions that were asked to be dynamic but became a number, fewer sizes, or bound to another one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import sympy
import torch

from fxport.diagnostics import Fix, Level, Log, Place, Rule, rules
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.sizes.conditions import (
    FARTHEST,
    Test,
    counts_elements,
    far_failing,
    far_multiples,
    far_points,
    first_failing,
    grid,
    sizes_to_try,
    test_of,
    text_of,
    words_for,
)
from fxport.exporter.capture.sizes.relied import SMALLEST, Relied, Symbol, sorted_conditions
from fxport.exporter.capture.sizes.shapes import Derived, Request
from fxport.exporter.capture.sizes.zero_one_specialization import is_small
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.program import Condition, Program
from fxport.fx_passes.sizes import Size, rebuilt, size_of, sizes_of

FEW = 4
"""Conditions of so many sizes are not searched for one at which they do not hold: there are too many combinations."""


@dataclass(frozen=True)
class Said:
    """A finding to be: about which requests, at which place, and the guard that is to blame, if one is known.

    One of `elements` is about tensors of gigabytes alone, and a note.
    """

    rule: Rule
    about: Sequence[Request]
    place: Place | None
    facts: Mapping[str, Any]
    guard: Guard | None = None
    elements: bool = False


UNPLACED = Fix(
    "PyTorch does not tell which line needs this size: export the model's parts one by one to find it. Or do not ask "
    "for this dimension to be dynamic; `--allow-specialization` accepts it as it is."
)


class Comparison:
    """The sizes of the captured graph, compared with the requests for them.

    `said` holds what is to be told about them; `conditions`, what the graph asks of the sizes that stayed dynamic.
    `contrary` are the sizes of one in the example for which it does not hold; `single`, those for which it holds at the
    example alone: each with the line that is to blame. `fixed` are those that the capture took for constants, `unkept`
    the lines of statements that could not become operators, each with the reason; `given_up` the lines at which earlier
    attempts failed, each with what it failed of.
    """

    def __init__(
        self,
        program: Program,
        requests: Sequence[Request],
        guards: Sequence[Guard],
        fixed: Mapping[Request, Place | None],
        unkept: Mapping[Line, str],
        given_up: Sequence[tuple[Place | None, str]] = (),
    ) -> None:
        self.program, self.guards, self.fixed, self.unkept = program, _of(program, guards), fixed, unkept
        self.given_up = given_up
        self.said: list[Said] = []
        self.contrary: dict[Request, Place | None] = {}
        self.single: dict[Request, Place | None] = {}
        self.conditions: list[Condition] = []
        sizes = _sizes(program)
        found = [(request, sizes.get((request.input, request.axis), request.size or 0)) for request in requests]
        self.owner: dict[Symbol, Request] = {}
        for request, size in sorted(found, key=lambda entry: not entry[0].required):
            if isinstance(size, Symbol):
                self.owner.setdefault(size, request)
        for request, size in found:
            if request.derived is not None and isinstance(size, sympy.Expr):
                for symbol in size.free_symbols:
                    self.owner.setdefault(symbol, _root(request, request.derived))  # type: ignore[arg-type]
        self.names = {symbol: request.label for symbol, request in self.owner.items()}
        self.relied = sorted_conditions(program, self.guards, self.owner)
        for request, size in found:
            if isinstance(size, int):
                self._became(request, size, self._last(request))
            elif not isinstance(size, Symbol):
                self._derived(request, size)
            elif self.owner[size] is not request:
                self._tied(request, self.owner[size])
        for symbol, request in self.owner.items():
            self._bounded(symbol, request)
        allowed = {symbol: self._narrowed(symbol, request) for symbol, request in self.owner.items()}
        self._related(allowed)

    @property
    def lost(self) -> list[tuple[Request, Guard | None]]:
        """Return the required dimensions that became constants or nearly so, each with the guard to blame."""
        lost = [(said.about[0], said.guard) for said in self.said if said.rule is rules.DIMENSION_SPECIALIZED]
        return [each for each in lost if each[0].required or is_small(each[0])]

    @property
    def equations(self) -> dict[Symbol, list[Test]]:
        """Return for each size the equations that the captured graph relies on, of others at their sizes."""
        found: dict[Symbol, list[Test]] = {}
        for relied in (*itertools.chain(*self.relied.alone.values()), *self.relied.joint):
            sizes = {symbol: self.owner[symbol].size or 0 for symbol in relied.symbols}
            for symbol in relied.symbols if isinstance(relied.condition, sympy.Eq) else ():
                others = {other: sympy.Integer(size) for other, size in sizes.items() if other != symbol}
                test = test_of(rebuilt(relied.condition, others, evaluate=False), (symbol,))
                found.setdefault(symbol, []).append(test)
        return found

    @property
    def decided(self) -> list[Request]:
        """Return the dimensions that are limited because Python code asks about them, as an `if` does."""
        asked = (said for said in self.said if said.guard is not None and said.guard.by_user and not said.guard.counted)
        return list(dict.fromkeys(request for said in asked if not said.elements for request in said.about))

    @property
    def beyond(self) -> Iterator[dict[Request, int]]:
        """Yield sizes at which a condition on them does not hold, for each: near those of the example, if there are."""
        for relied in (*itertools.chain(*self.relied.alone.values()), *self.relied.joint):
            owners = [self.owner[symbol] for symbol in relied.symbols]
            test, sizes = test_of(relied.condition, relied.symbols), [each.size or 0 for each in owners]
            near = [sizes_to_try(1, None, size) if len(owners) == 1 else range(1, size + 4) for size in sizes]
            failing = [point for point in grid(near) if not test(*point)] if len(owners) < FEW else []
            failing = failing or far_failing(relied.condition, relied.symbols, sizes, asked=relied.from_one)
            if failing:
                nearest = min(failing, key=lambda point: sum(abs(a - b) for a, b in zip(point, sizes, strict=True)))
                yield dict(zip(owners, nearest, strict=True))

    def report(self, options: Options, log: Log) -> None:
        """Report the findings; a dimension that was only to be dynamic if it can be is worth a note."""
        for said in self.said:
            allowed = said.rule is rules.DIMENSION_SPECIALIZED and options.allow_specialization
            level = Level.WARNING if allowed else None
            level = level if any(request.required for request in said.about) and not said.elements else Level.NOTE
            unplaced = said.rule is rules.DIMENSION_SPECIALIZED and said.place is None
            log.report(said.rule, at=said.place, level=level, fixes=(UNPLACED,) if unplaced else (), **said.facts)

    # One dimension -------------------------------------------------------------------------------------------------

    def _became(self, request: Request, value: int | str, guard: Guard | None, place: Place | None = None) -> None:
        place = place or (guard.place if guard is not None else self.fixed.get(request))
        reason = None if place is None else self.unkept.get((place.path, place.line))
        if place is None and self.given_up:  # another attempt made it a constant, as one that might have kept it failed
            place, reason = self.given_up[0]
        value = value if reason is None else f"{value}. Reason: {reason}"
        facts = {"dim": request.label, "input": request.input, "value": value}
        self.said.append(Said(rules.DIMENSION_SPECIALIZED, [request], place, facts, guard))

    def _bounded(self, symbol: Symbol, request: Request) -> None:
        """Keep the bounds that were asked for: PyTorch answers from them without a guard, so the graph needs them."""
        low, high = request.bounds
        tests = {
            f"at least {low}": low > 1 and sympy.Ge(symbol, low),
            f"at most {high}": high is not None and sympy.Le(symbol, high),
        }
        asked = {words: test for words, test in tests.items() if test is not False}
        if asked:
            self.conditions.append(Condition(f"{request.label}: {' and '.join(asked)}", tuple(asked.values())))

    def _narrowed(self, symbol: Symbol, request: Request) -> Sequence[int]:
        """Say which of the requested sizes the model can no longer have; return the others, as far as tried."""
        low, high = max(request.bounds[0], 1), request.bounds[1]
        tried = sizes_to_try(low, high, request.size or 0)
        alone = self.relied.alone.get(symbol, ())
        far = (first_failing(each.condition, symbol, tried[-1], high) for each in alone)
        first = min((each for each in far if each is not None), default=None)
        if first is not None and first <= FARTHEST:
            tried = range(low, first + 1)
        passing: Sequence[int] = tried
        lenient: Sequence[int] = tried
        blamed: list[Relied] = []
        for relied in alone:
            test = test_of(relied.condition, (symbol,))
            kept = [n for n in lenient if test(n) or (n < SMALLEST and not relied.from_one)]
            blamed += [relied] if len(kept) < len(lenient) else []
            passing, lenient = [n for n in passing if test(n)], kept
        if request.size == 1 and 1 in tried and 1 not in lenient:
            self.contrary[request] = blamed[0].place
        is_lost = len(passing) <= 1 or any(each.leaves_out(request.size) for each in blamed)
        pinning = next((each for each in blamed if is_lost or _pins(each, passing, request)), None)
        least, most = self.program.ranges.get(str(symbol), (0, None))
        if first is not None and first > FARTHEST:
            most = first - 1 if most is None else min(most, first - 1)
        least = least if least > SMALLEST else low
        passing, lenient = (
            [n for n in sizes if n >= least and (most is None or n <= most)] for sizes in (passing, lenient)
        )
        beyond = most is not None and most >= tried[-1] and (high is None or most < high)
        words = f"at most {most}" if beyond else None
        words = words_for(passing, tried, request.size) if len(lenient) < len(tried) else words
        if words is None and request.from_zero:
            facts = {"dim": request.label, "input": request.input, "axis": request.axis, "range": "at least 1"}
            self.said.append(Said(rules.DIMENSION_RANGE_NARROWED, [request], None, facts))
        if words is not None:
            conditions = [each.condition for each in alone]
            conditions += [] if least <= low else [sympy.Ge(symbol, least)]
            conditions += [] if most is None else [sympy.Le(symbol, most)]
            self.conditions.append(Condition(f"{request.label}: {words}", tuple(conditions)))
        if words is not None and pinning is not None:
            self._became(request, words, pinning.guard, pinning.place)
            if passing == [request.size]:
                self.single[request] = pinning.place
        elif words is not None:
            last = self._last(request)
            place = blamed[0].place if blamed else last.place if last is not None else None
            facts = {"dim": request.label, "input": request.input, "axis": request.axis, "range": words}
            guard = blamed[0].guard if blamed else last
            self.said.append(Said(rules.DIMENSION_RANGE_NARROWED, [request], place, facts, guard))
        return passing

    def _allowing(self, symbol: Symbol) -> Callable[[int], bool]:
        """Return whether what is known of one size alone allows a number, as a function of it."""
        (low, high), (least, most) = self.owner[symbol].bounds, self.program.ranges.get(str(symbol), (0, None))
        tests = [test_of(each.condition, (symbol,)) for each in self.relied.alone.get(symbol, ())]
        limits = [each for each in (high, most) if each is not None]
        smallest = least if least > SMALLEST else max(low, 1)

        def allows(size: int) -> bool:
            in_range = size >= smallest and all(size <= each for each in limits)
            return in_range and all(test(size) for test in tests)

        return cache(allows)

    # Several dimensions --------------------------------------------------------------------------------------------

    def _tied(self, request: Request, other: Request) -> None:
        if request.name != other.name or request.name is None:
            self._relation(f"{request.label} == {other.label}", request, other)

    def _derived(self, request: Request, size: sympy.Expr) -> None:
        """Say that a size is computed from others, "y.0 == 2*n", unless `2 * Dim("n")` has asked for that."""
        if (derived := request.derived) is not None:
            roots = (symbol for symbol, owner in self.owner.items() if owner.name == derived.root)
            if any(size == derived.factor * root + derived.offset for root in roots):
                return
        text = text_of(size, self.names)
        owners = [owner for symbol, owner in self.owner.items() if symbol in size.free_symbols]
        if request.name is None or sorted(text.split(" + ")) != sorted(request.name.split(" + ")):
            self._relation(f"{request.label} == {text}", request, *owners)

    def _relation(self, relation: str, request: Request, *others: Request) -> None:
        guard = self._binding(request, others) or next(filter(None, map(self._last, (request, *others))), None)
        other = others[0].label if others else relation
        self.conditions.append(Condition(relation, ()))
        facts = {"dim": request.label, "other": other, "relation": relation}
        self.said.append(Said(rules.DIMENSIONS_TIED, [request, *others], guard.place if guard else None, facts, guard))

    def _related(self, allowed: Mapping[Symbol, Sequence[int]]) -> None:
        """Say which conditions bind several sizes to each other, beyond what is known of each alone."""
        known: list[tuple[tuple[Symbol, ...], set[tuple[int, ...]]]] = []
        told: dict[frozenset[Symbol], list[tuple[Relied, str]]] = {}
        allowing = {symbol: self._allowing(symbol) for relied in self.relied.joint for symbol in relied.symbols}
        for relied in self.relied.joint:
            owners = [self.owner[symbol] for symbol in relied.symbols]
            count = {2: 24, 3: 9}.get(len(owners), 4)
            sizes = [[n for n in allowed[symbol] if relied.from_one or n >= SMALLEST] for symbol in relied.symbols]
            # what an op asks may not be computable for the smallest sizes, as of a picture that is scaled to nothing
            wide = [each[: int(relied.from_one)] for each in sizes]
            near = [_near(*each, count) for each in zip(sizes, owners, wide, strict=True)]
            test = test_of(relied.condition, relied.symbols)
            example = [each.size or 0 for each in owners]
            far = [*far_multiples(relied.condition, example)]
            far += far_points(relied.condition, example, asked=relied.from_one)
            failing = {point for point in grid(near) if not test(*point)}
            for point in far:
                if not test(*point) and all(
                    allowing[symbol](n) for symbol, n in zip(relied.symbols, point, strict=True)
                ):
                    failing.add(point)
            if not failing or any(relied.symbols == symbols and failing <= other for symbols, other in known):
                continue
            known.append((relied.symbols, failing))
            text = text_of(relied.condition, self.names)
            self.conditions.append(Condition(text, (relied.condition,)))
            if not self._pinned(relied):
                told.setdefault(frozenset(relied.symbols), []).append((relied, text))
        for found in told.values():
            relied, elements = found[0][0], all(counts_elements(each.condition) for each, _ in found)
            owners = [self.owner[symbol] for symbol in relied.symbols]
            relation = " and ".join(text for _, text in found)
            facts = {"dim": owners[0].label, "other": owners[1].label, "relation": relation}
            self.said.append(Said(rules.DIMENSIONS_TIED, owners, relied.place, facts, relied.guard, elements))

    def _pinned(self, relied: Relied) -> bool:
        """Say which sizes are next to constants where a condition lets neither one of them nor all of them grow."""
        sizes = [self.owner[symbol].size or 0 for symbol in relied.symbols]
        test = test_of(relied.condition, relied.symbols)
        if not isinstance(relied.condition, sympy.Eq) or any(_grows(relied, sizes, test)):
            return False
        left: list[tuple[Request, str]] = []
        for position, (symbol, size) in enumerate(zip(relied.symbols, sizes, strict=True)):
            tried = sizes_to_try(SMALLEST, None, 2 * size)
            passing = [n for n in tried if test(*sizes[:position], n, *sizes[position + 1 :])]
            if passing and passing[-1] < 2 * size:
                left.append((self.owner[symbol], words_for(passing, tried, self.owner[symbol].size) or ""))
        for request, words in left:
            self._became(request, words, relied.guard)
        return bool(left)

    def _binding(self, request: Request, others: Sequence[Request]) -> Guard | None:
        """Return the first condition that made a size equal to others, and has a line."""
        sources = {each.source for each in others}
        for guard in self.guards:
            if guard.place is not None and isinstance(guard.condition, sympy.Eq):
                about = guard.sources
                if request.source in about and about & sources:
                    return guard
        return None

    def _last(self, request: Request) -> Guard | None:
        """Return the last condition that is about this size, and has a line."""
        about = (
            guard for guard in reversed(self.guards) if guard.place is not None and request.source in guard.sources
        )
        return next(about, None)


def _root(request: Request, derived: Derived) -> Request:
    """Return a request for the dimension from which another was derived, where no input has it."""
    return replace(request, name=derived.root, size=derived.size, bounds=derived.bounds, derived=None)


def _of(program: Program, guards: Sequence[Guard]) -> Sequence[Guard]:
    """Return the guards of the captured graph, not of other attempts; all if it has no symbolic size."""
    values = (node.meta.get("val") for node in program.placeholders)
    leaves = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else (value,))]
    env = next((size.node.shape_env for size in leaves if isinstance(size, torch.SymInt)), None)
    return [guard for guard in guards if guard.env is env] if env is not None else guards


def _pins(relied: Relied, passing: Sequence[int], request: Request) -> bool:
    """Return whether an equation leaves no size that is much larger than the example's, or than the smallest left.

    So does any condition that leaves none of the sizes that are tried: what it allows cannot be told.
    """
    if not passing:
        return True
    return isinstance(relied.condition, sympy.Eq) and passing[-1] < 2 * max(request.size or 0, passing[0])


def _grows(relied: Relied, sizes: Sequence[int], test: Test) -> Iterator[bool]:
    """Yield whether an equation holds where its sizes are a few times as large, or all but the one that it computes.

    `n == (h // 2) * (w // 2)` computes `n`, which then grows as their product does.
    """
    one, other = relied.condition.args
    sides = {one: other, other: one}
    for factor in (2, 3, 4):
        grown = [factor * size for size in sizes]
        yield test(*grown)
        for position, symbol in enumerate(relied.symbols):
            if (side := sides.get(symbol)) is not None and symbol not in side.free_symbols:
                value: Any = side.subs(dict(zip(relied.symbols, grown, strict=True)))
                yield value.is_Integer and test(*grown[:position], int(value), *grown[position + 1 :])


def _sizes(program: Program) -> dict[tuple[str | None, int | None], Size]:
    """Map (path of an input, axis) to what its size became."""
    found: dict[tuple[str | None, int | None], Size] = {}
    for entry, node in zip(program.inputs, program.placeholders, strict=True):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found |= {(entry.path, axis): size for axis, size in enumerate(sizes_of(value))}
        else:
            found[entry.path, None] = size_of(value)
    return found


def _near(allowed: Sequence[int], owner: Request, wide: Sequence[int], count: int) -> list[int]:
    """Choose some of the allowed sizes: the `wide` ones and a few far from the example, for conditions that are wide;
    the others close to it.
    """
    size = owner.size or 0
    far = [n for n in (2 * size, size // 2, size // 4)[: count // 4] if n in allowed]
    far = list(dict.fromkeys((*wide, *far)))
    close = (n for n in sorted(allowed, key=lambda n: abs(n - size)) if n not in far)
    return [*far, *islice(close, count - len(far))]
