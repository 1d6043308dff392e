"""Conditions on sizes as plain Python: tried on many sizes, and put into words."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.functions import (
    CeilToInt,
    FloorToInt,
    LShift,
    PowByNatural,
    RoundToInt,
    TruncToInt,
)
from torch.utils._sympy.printers import PythonPrinter

from fxport.fx_passes.sizes import rebuilt

ROUNDINGS = (CeilToInt, FloorToInt, RoundToInt, TruncToInt)
"""Functions from a fraction to an integer, in the expressions of sizes."""

Test = Callable[..., bool]

FARTHEST = 4096
"""Sizes beyond this one are told as a limit alone."""

EFFORT = 2**18
"""Terms of a condition that are computed to try one size after the other."""

BEYOND = tuple(2**n for n in range(13, 25))
"""Of larger sizes, those that are."""

FAR = (64, 1024, 2**16)
"""Sizes that are tried with others, far from those of an example."""

OF_32_BITS = frozenset((2**31, 2**31 - 1))
"""Numbers of elements that a kernel counts in 32 bits."""

CHECKED = 1024
"""The largest size at which a capture is checked: the model runs at it in PyTorch."""


def test_of(condition: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> Test:
    """Return a condition as a function of its sizes; it does not hold where it cannot be computed, as `n // 0`."""
    names = {symbol: f"n{i}" for i, symbol in enumerate(symbols)}
    function = eval(f"lambda {', '.join(names.values())}: {text_of(condition, names)}", {"math": math})

    def test(*sizes: int) -> bool:
        try:
            return bool(function(*sizes))
        except (ArithmeticError, ValueError, TypeError):  # the last of a number that is complex at these sizes
            return False

    return test


def text_of(condition: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> str:
    """Return a condition as a Python programmer writes it, with the user's names of the sizes."""
    return _without_outer(_Python().doprint(renamed(condition, names)))


def renamed(condition: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> Any:
    """Return the condition over symbols of these names."""
    symbols = {s: sympy.Symbol(name, integer=True, positive=True) for s, name in names.items()}
    return rebuilt(condition, symbols, evaluate=False)


def sizes_to_try(low: int, high: int | None, hint: int) -> range:
    """Return all sizes from the smallest to well beyond that of the example, without a gap."""
    return range(low, min(max(2 * hint + 2, low + 130), high if high is not None else FARTHEST, FARTHEST) + 1)


def first_failing(condition: sympy.Basic, symbol: sympy.Symbol, above: int, high: int | None) -> int | None:
    """Return the first size above one, and at most `high`, at which a condition is found not to hold.

    One after the other is tried as long as EFFORT allows; then what BEYOND has, and what the condition names. Between
    one of these and the next, one side of the condition is taken to overtake the other once.
    """
    test, last = test_of(condition, (symbol,)), BEYOND[-1] if high is None else min(high, BEYOND[-1])
    top = min(above + _tries(condition), last)
    for size in range(above + 1, top + 1):
        if not test(size):
            return size
    is_less = test_of(sympy.Lt(*condition.args, evaluate=False), (symbol,)) if isinstance(condition, sympy.Ne) else test
    held, named = max(above, top), {int(each) + d for each in condition.atoms(sympy.Integer) for d in (-1, 0, 1)}
    for size in sorted({*BEYOND, *named}) if not _explodes(condition) else ():
        if size <= held or size > last:
            continue
        if is_less(size) is not is_less(held):
            turn = bisect.bisect_left(range(size), True, held + 1, key=lambda n: is_less(n) is not is_less(held))
            if failing := next((each for each in (turn, turn - 1) if not test(each)), None):
                return failing
        if not test(size):
            return size
        held = size
    return None


def far_sizes(condition: sympy.Basic) -> Sequence[int]:
    """Return sizes far from an example's that a condition on several sizes is tried with."""
    return () if _explodes(condition) else FAR


def far_points(condition: sympy.Basic, sizes: Sequence[int], *, asked: bool) -> Iterator[tuple[int, ...]]:
    """Yield sizes far from an example's: each alone, beside the example's others.

    Of what Python code has `asked`, each also beside ones, and one size after the other as long as EFFORT allows. An op
    may not be computable at all at such sizes, as of a picture that is scaled to nothing.
    """
    far = [*far_sizes(condition)]
    if asked:
        far += range(1, _tries(condition) // (2 * len(sizes)) + 1)
    for size in far if asked else far[:-1]:
        for others in (tuple(sizes), (1,) * len(sizes))[: 1 + asked]:
            yield from ((*others[:i], size, *others[i + 1 :]) for i in range(len(sizes)))


def far_multiples(condition: sympy.Basic, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of an example, many times as large."""
    yield from (tuple(far * size for size in sizes) for far in far_sizes(condition))


def far_failing(
    condition: sympy.Basic, symbols: Sequence[sympy.Symbol], sizes: Sequence[int], *, asked: bool
) -> list[tuple[int, ...]]:
    """Return sizes up to CHECKED, far from an example's, at which a condition does not hold; of one size, the first."""
    if len(symbols) == 1:
        first = first_failing(condition, symbols[0], sizes_to_try(1, None, sizes[0])[-1], CHECKED)
        return [] if first is None else [(first,)]
    test, points = test_of(condition, symbols), far_points(condition, sizes, asked=asked)
    return [point for point in points if max(point) <= CHECKED and not test(*point)]


def counts_elements(condition: sympy.Basic) -> bool:
    """Return whether a condition is about a number of elements that only tensors of gigabytes have."""
    return any(int(each) in OF_32_BITS for each in condition.atoms(sympy.Integer))


def _tries(condition: sympy.Basic) -> int:
    """Return at how many sizes a condition is tried, one after the other."""
    tries = EFFORT // sum(1 for _ in sympy.preorder_traversal(condition))
    return min(tries, CHECKED) if _explodes(condition) else tries


def _explodes(condition: sympy.Basic) -> bool:
    """Return whether a condition has powers that take Python long where sizes are large."""
    powers = condition.atoms(sympy.Pow, PowByNatural, LShift)
    return any(each.args[1].free_symbols for each in powers)


def few_sizes(low: int, high: int | None, hint: int, count: int) -> list[int]:
    """Return some sizes, the most telling first: the smallest, those near the example, its multiples and parts."""
    near, further = ([hint + step for step in steps] for steps in ((0, 1, -1, 2), (-2, 3, 4, 8)))
    scaled = [hint * k for k in (2, 3, 4)] + [hint // k for k in (2, 3, 4)]
    small = list(range(low, low + 8))
    several = (*near, *small[:3], *scaled, *further, *small)
    chosen = dict.fromkeys(each for each in several if low <= each and (high is None or each <= high))
    return list(chosen)[:count]


def grid(choices: Sequence[Sequence[int]]) -> Iterable[tuple[int, ...]]:
    """Return all combinations of sizes."""
    return itertools.product(*choices)


def words_for(passing: Sequence[int], tried: Sequence[int], example: int | None = None) -> str | None:
    """Describe which of the sizes that were tried are allowed, "at least 4 and a multiple of 4"; None if all are.

    Of sizes without a rule, some ranges are named, that of the example among them.
    """
    if len(passing) == len(tried):
        return None
    if len(passing) <= 1:
        only = next(iter(passing), example)
        return "no size at all" if only is None else f"exactly {only}"
    parts: list[str] = []
    step = min(b - a for a, b in itertools.pairwise(passing))
    even = step > 1 and all((each - passing[0]) % step == 0 for each in passing)
    first, last = passing[0], passing[-1]
    below, above = first - tried[0] >= step, tried[-1] - last >= step
    if below and above:
        parts.append(f"{first} to {last}")
    elif below or above:
        parts.append(f"at least {first}" if below else f"at most {last}")
    if even:
        parts.append(_multiples(first % step, step))
        step_set = range(first, last + 1, step)
    else:
        step_set = range(first, last + 1)
    missing = sorted(set(step_set) - set(passing))
    if missing and len(missing) <= 3:
        parts.append(f"not {' nor '.join(map(str, missing))}")
    elif missing:
        return _repeating(passing, tried) or _some_ranges(passing, tried, example)
    return " and ".join(parts)


def _multiples(rest: int | str, step: int) -> str:
    return f"{rest} more than a multiple of {step}" if rest else f"a multiple of {step}"


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of sizes that follow each other."""
    starts = [sizes[0], *(b for a, b in itertools.pairwise(sizes) if b > a + 1)]
    ends = [*(a for a, b in itertools.pairwise(sizes) if b > a + 1), sizes[-1]]
    return list(zip(starts, ends, strict=True))


def _repeating(passing: Sequence[int], tried: Sequence[int]) -> str | None:
    """Describe ranges of one length at equal distances, "33 to 64 more than a multiple of 64"; None for others."""
    ranges, allowed = _ranges(passing), set(passing)
    for (start, end), (second, _) in itertools.islice(itertools.pairwise(ranges), 2):  # the first may have been cut
        step, length = second - start, end - start + 1
        if all(((n - start) % step < length) == (n in allowed) for n in tried):
            if length == step - 1:
                return f"not {_multiples((end + 1) % step, step)}"
            return _multiples(f"{start % step} to {start % step + length - 1}", step)
    return None


def _some_ranges(passing: Sequence[int], tried: Sequence[int], example: int | None) -> str:
    ranges = _ranges(passing)
    of_example = [each for each in ranges if example is not None and each[0] <= example <= each[1]]
    named = sorted({*ranges[:SEVERAL_RANGES], *of_example})
    texts = [f"{low} to {high}" if low < high else f"{low}" for low, high in named]
    if named[-1][1] == tried[-1]:  # beyond which nothing was tried
        texts[-1] = f"at least {named[-1][0]}"
    left = len(ranges) - len(named)
    return ", ".join(texts) + (f" or in one of {left} other ranges up to {passing[-1]}" if left else "")


SEVERAL_RANGES = 3
"""Ranges of sizes that are named."""


class _Python(PythonPrinter):
    """PyTorch's printer, with Python's own functions in place of PyTorch's."""

    def _print_Float(self, expr: sympy.Expr) -> str:  # noqa: N802  # as PyTorch calls it
        return repr(float(expr))

    def _print_ToFloat(self, expr: sympy.Expr) -> str:  # noqa: N802
        return f"float({self._print(expr.args[0])})"

    def _print_TruncToFloat(self, expr: sympy.Expr) -> str:  # noqa: N802
        return f"float(math.trunc({self._print(expr.args[0])}))"

    def _print_Where(self, expr: sympy.Expr) -> str:  # noqa: N802
        condition, chosen, other = map(self._print, expr.args)
        return f"({chosen} if {condition} else {other})"

    def _print_OpaqueUnaryFn_sqrt(self, expr: sympy.Expr) -> str:  # noqa: N802
        return self._print_Function(expr)

    def _print_Function(self, expr: sympy.Expr) -> str:  # noqa: N802
        name = type(expr).__name__
        of_math = name.startswith(_MATH)
        arguments = ", ".join(map(self._print, expr.args))
        return f"math.{name.removeprefix(_MATH)}({arguments})" if of_math else super()._print_Function(expr)


_MATH = "OpaqueUnaryFn_"
"""Name prefix of functions of a size that PyTorch does not look into: those of Python's `math`."""


def _without_outer(text: str) -> str:
    """Return the text without a pair of parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]
