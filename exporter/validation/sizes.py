"""Sizes at which a model is compared besides the example's: at the edge of what it promises, and just beyond.

Faults of sizes hide where two dimensions are equal, where one is 1 and is broadcast, and where all are even. A size
that FXP2002 (a dimension that is limited) excludes is tried as well: the graph may hold there all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, Level, rules
from fxport.exporter.capture.sizes.resizing import MOST_GROWTH, TRACED_FROM, at_chosen, known_sizes
from fxport.fx_passes.program import Condition, Program
from fxport.fx_passes.sizes import rebuilt

Sizes = Mapping[sympy.Symbol, int]
Call = tuple[Any, Any]

FEW = 2
"""The smallest size that is not broadcast."""

MANY = 65
"""One more than the sizes up to which kernels often have code of their own."""

MOST_ELEMENTS = 1 << 20
"""Numbers in the inputs of a call up to which a larger size is cheap."""

NEAR = 4
"""Sizes from 1 to this one that are tried where a limit excludes them."""

MOST_BESIDE = 4
"""Further sizes that a limit excludes, which are tried: those beside the numbers that it is made of, such as bounds."""

MOST_TRIES = 512
"""Combinations of candidates that are looked at for one that the graph allows."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """Calls at sizes that a limit excludes. `dim` and `input` are those of the finding; `is_all` says that it excludes
    no other size of that dimension; `calls` have their labels, such as "sequence=1"."""

    dim: str
    input: str
    is_all: bool
    calls: Sequence[tuple[str, Call]]

    def is_about(self, finding: Finding) -> bool:
        """Return True if a finding reports this limit."""
        facts = finding.facts
        return finding.rule is rules.DIMENSION_RANGE_NARROWED and (facts["dim"], facts["input"]) == (
            self.dim,
            self.input,
        )


def at_edges(module: torch.nn.Module, call: Call, program: Program) -> Iterator[tuple[str, Call]]:
    """Yield (label, call) at sizes that the captured graph promises, those that show most first."""
    known = known_sizes(module, call, program)
    seen = [known]
    for label, wanted in _wanted(known, program):
        chosen = _allowed(wanted, known, program.conditions)
        if chosen is not None and chosen not in seen and _is_cheap(call, known, chosen):
            seen.append(chosen)
            yield label, at_chosen(module, call, program, chosen)


def at_nothing(module: torch.nn.Module, call: Call, program: Program) -> Iterator[tuple[str, Call]]:
    """Yield (label, call) with one dynamic dimension of no elements, where no limit excludes it."""
    known = known_sizes(module, call, program)
    for symbol in known:
        chosen = {**known, symbol: 0}
        if all(condition.allows(chosen) for condition in program.conditions):
            name = program.dim_names.get(str(symbol), str(symbol))
            yield f"{name}=0", at_chosen(module, call, program, chosen)


def _wanted(known: Sizes, program: Program) -> Iterator[tuple[str, dict[sympy.Symbol, Sequence[int]]]]:
    """(label, candidates for each size, the best first)."""
    bounds = {symbol: _bounds(symbol, program) for symbol in known}
    uneven = _uneven(known, bounds)
    yield "uneven", uneven
    yield "few", _few(known, bounds)
    for symbol in known:
        low, high = bounds[symbol]
        name = program.dim_names.get(str(symbol), str(symbol))
        yield f"{name}={low}", {**uneven, symbol: [low]}
        if high is not None and high <= MOST_GROWTH * known[symbol]:
            yield f"{name}={high}", {**uneven, symbol: [high]}
    if known:
        yield "smallest", {symbol: [bounds[symbol][0]] for symbol in known}
    for symbol, size in known.items():
        low, high = bounds[symbol]
        name = program.dim_names.get(str(symbol), str(symbol))
        if size < MANY and (high is None or high >= MANY):
            yield f"{name}={MANY}", {**uneven, symbol: [MANY]}


def _bounds(symbol: sympy.Symbol, program: Program) -> tuple[int, int | None]:
    """The smallest size, at least 1, and the largest. PyTorch says 2 of every size that it knows nothing of."""
    low, high = program.ranges.get(str(symbol), (TRACED_FROM, None))
    return 1 if low == TRACED_FROM else max(low, 1), high


def _uneven(known: Sizes, bounds: Mapping[sympy.Symbol, tuple[int, int | None]]) -> dict[sympy.Symbol, Sequence[int]]:
    """For each size another number that no other dimension has: odd, if the bounds allow it."""
    taken = set(known.values())
    found: dict[sympy.Symbol, Sequence[int]] = {}
    for symbol, size in known.items():
        low, high = bounds[symbol]
        start = max(size, low, 2) + 1
        odd = [n for n in range(start | 1, start + 64, 2) if n not in taken and (high is None or n <= high)]
        others = (2 * size, 3 * size, size + 8, *range(start, start + 9), size - 1, size)
        fitting = [n for n in others if n >= low and (high is None or n <= high)]
        found[symbol] = [*odd[:4], *dict.fromkeys(fitting)]
        taken.add(found[symbol][0])
    return found


def _few(known: Sizes, bounds: Mapping[sympy.Symbol, tuple[int, int | None]]) -> dict[sympy.Symbol, Sequence[int]]:
    """For each size a number near its smallest that no other dimension has: less than shifts and windows may need."""
    found: dict[sympy.Symbol, Sequence[int]] = {}
    for place, (symbol, size) in enumerate(known.items()):
        low, high = bounds[symbol]
        fitting = [n for n in range(max(FEW, low + 1) + place, size + 1) if high is None or n <= high]
        found[symbol] = fitting[:NEAR] or [size]
    return found


def _allowed(
    wanted: Mapping[sympy.Symbol, Sequence[int]], known: Sizes, conditions: Sequence[Condition]
) -> dict[sympy.Symbol, int] | None:
    """The first combination of candidates that all conditions hold for; one dimension after the other is given up for
    another candidate."""
    chosen = {symbol: sizes[0] for symbol, sizes in wanted.items()}
    for _ in range(MOST_TRIES):
        broken = next((each for each in conditions if not each.allows(chosen)), None)
        if broken is None:
            return chosen
        symbols = broken.symbols()
        moved = next((s for s in chosen if s in symbols and _next(wanted[s], chosen[s]) is not None), None)
        if moved is None:
            return None
        following = _next(wanted[moved], chosen[moved])
        assert following is not None
        chosen[moved] = following
    return None


def _next(sizes: Sequence[int], size: int) -> int | None:
    place = sizes.index(size) + 1
    return sizes[place] if place < len(sizes) else None


def _is_cheap(call: Call, known: Sizes, chosen: Sizes) -> bool:
    """Return True if the inputs stay small, if they grow at all."""
    growth = 1.0
    for symbol, size in chosen.items():
        growth *= size / max(known[symbol], 1)
    return _is_cheap_growth(growth, _elements(call))


def _is_cheap_growth(growth: float, elements: int) -> bool:
    return growth <= MOST_GROWTH or elements * growth <= MOST_ELEMENTS


def _elements(call: Call) -> int:
    return sum(leaf.numel() for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor))


def beyond(module: torch.nn.Module, call: Call, program: Program, findings: Sequence[Finding]) -> Iterator[Beyond]:
    """Yield, for each warning of a limit, calls at small sizes that it excludes and the user's own bounds allow."""
    limits = {
        f"{finding.facts['dim']}: {finding.facts['range']}": finding
        for finding in findings
        if finding.rule is rules.DIMENSION_RANGE_NARROWED and finding.level is Level.WARNING
    }
    known = known_sizes(module, call, program) if limits else {}
    others = [condition for condition in program.conditions if condition.words not in limits]
    for condition in program.conditions:
        symbols = condition.symbols()
        if condition.words not in limits or len(symbols) != 1 or not symbols <= known.keys():
            continue
        (symbol,) = symbols
        assert isinstance(symbol, sympy.Symbol)
        finding = limits[condition.words]
        name = str(finding.facts["dim"])
        own = [each for each in others if each.symbols() == symbols]
        small = [n for n in range(1, NEAR + 1) if not condition.allows({symbol: n})]
        excluded = [*small, *_excluded_beside(condition, symbol, known, _elements(call))]
        asked = [n for n in excluded if all(each.allows({symbol: n}) for each in own)]
        tried = {n: list(_beside(f"{name}={n}", {symbol: n}, known, program, others)) for n in asked}
        calls = [(label, at_chosen(module, call, program, sizes)) for n in asked for label, sizes in tried[n]]
        if calls:
            is_all = all(tried.values()) and allows_all_from(condition, symbol, NEAR + 1)
            yield Beyond(name, str(finding.facts["input"]), is_all, calls)


def _excluded_beside(condition: Condition, symbol: sympy.Symbol, known: Sizes, elements: int) -> Sequence[int]:
    """The excluded sizes above `NEAR` beside numbers in a condition, where inputs of so many elements stay cheap."""
    numbers = {int(number) for test in condition.holds for number in test.atoms(sympy.Integer)}
    beside = {abs(number) + step for number in numbers for step in (-1, 0, 1)}
    beside |= {known[symbol] + step for step in (-1, 1)}
    wide = [n for n in sorted(beside) if n > NEAR and _is_cheap_growth(n / max(known[symbol], 1), elements)]
    return [n for n in wide if not condition.allows({symbol: n})][:MOST_BESIDE]


def _beside(
    label: str, fixed: Sizes, known: Sizes, program: Program, conditions: Sequence[Condition]
) -> Iterator[tuple[str, Sizes]]:
    """Yield (label, sizes) with the fixed sizes: all others as in the example, and uneven, as the conditions allow."""
    as_known = {**known, **fixed}
    if all(each.allows(as_known) for each in conditions):
        yield label, as_known
    uneven = _uneven(known, {symbol: _bounds(symbol, program) for symbol in known})
    chosen = _allowed({**uneven, **{symbol: [n] for symbol, n in fixed.items()}}, known, conditions)
    if chosen is not None and len(known) > len(fixed):
        yield f"{label}, uneven", chosen


def allows_all_from(condition: Condition, symbol: sympy.Symbol, least: int) -> bool:
    """Return True if a condition is proven to hold for every size from `least` on."""
    further = sympy.Dummy("further", integer=True, nonnegative=True)
    return all(rebuilt(test, {symbol: further + least}) is sympy.true for test in condition.holds)
