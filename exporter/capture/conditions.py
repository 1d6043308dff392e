"""What the guards of a capture leave of each dynamic size: all sizes, some of them, or next to none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils._sympy.functions import CeilToInt, FloorToInt, RoundToInt, TruncToInt
from torch.utils._sympy.printers import PythonPrinter

from exporter.capture.guards import Guard
from fx_passes.program import Program
from fx_passes.sizes import size_of

ROUNDINGS = (CeilToInt, FloorToInt, RoundToInt, TruncToInt)
"""What makes a whole number of a fraction, in the expressions of sizes."""

Sizes = Mapping[str, int]
"""Sizes by the names of their symbols."""

FARTHEST = 4
"""How many times the example's size is still tried."""

AT_LEAST = 64
"""Up to which size every size is tried, however small the example is."""


@dataclass(frozen=True)
class Condition:
    """A guard over the sizes of inputs. `text` is Python, with the user's names of the dimensions."""

    guard: Guard
    expr: sympy.Basic
    symbols: tuple[str, ...]
    text: str
    code: Any
    """The same as a code object, over the names of the symbols."""

    def holds(self, sizes: Sizes) -> bool:
        """Whether sizes satisfy the condition; sizes for which it cannot be computed do not."""
        try:
            return bool(eval(self.code, SYMPY_INTERP, dict(sizes)))
        except (ZeroDivisionError, OverflowError):
            return False


@dataclass(frozen=True)
class Narrowing:
    """What conditions leave of one dynamic size. `pinned` if they fix it, so that no much larger size is left."""

    symbol: str
    condition: Condition
    allowed: str
    pinned: bool


def example_sizes(program: Program) -> dict[str, int]:
    """The example's sizes, by symbol, of all dynamic sizes of the inputs."""
    found: dict[str, int] = {}
    for node in program.placeholders:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            symbol = size_of(size)
            if isinstance(symbol, sympy.Symbol):
                found.setdefault(str(symbol), int(size.node.hint))  # type: ignore[union-attr]  # a SymInt
    return found


def conditions_of(program: Program, guards: Sequence[Guard]) -> list[Condition]:
    """The conditions on input sizes alone that the captured graph relies on and its ranges do not say.

    Of the guards that operators set, only equations are such: with the others PyTorch chooses between ways to
    compute the same result. So it does with the question whether a size is 0 or 1.
    """
    sizes = example_sizes(program)
    env = _env_of(program)
    found: dict[sympy.Basic, Condition] = {}
    for guard in guards:
        if guard.env is not env or not (guard.asked or isinstance(guard.expr, sympy.Eq)) or _of_zero_or_one(guard.expr):
            continue
        expr = env.replace(guard.expr)
        symbols = tuple(sorted(str(symbol) for symbol in expr.free_symbols))
        if symbols and expr not in found and all(symbol in sizes for symbol in symbols):
            found[expr] = _condition(guard, expr, symbols, program.dim_names)
    return [each for each in found.values() if each.holds(sizes)]


def _env_of(program: Program) -> Any:
    for node in program.placeholders:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None


def _of_zero_or_one(expr: sympy.Basic) -> bool:
    return isinstance(expr, sympy.Ne) and any(side in (0, 1) for side in expr.args)


def _condition(guard: Guard, expr: sympy.Basic, symbols: tuple[str, ...], names: Mapping[str, str]) -> Condition:
    printed = PythonPrinter().doprint(expr)
    named = expr.xreplace({symbol: sympy.Symbol(names.get(str(symbol), str(symbol))) for symbol in expr.free_symbols})
    text = re.sub(r"\b(\d+\.\d+?)0{6,}\b", r"\1", re.sub(r"torch\.sym_(\w+)", r"\1", PythonPrinter().doprint(named)))
    return Condition(guard, expr, symbols, text, compile(printed, "<guard>", "eval"))


def narrowings(program: Program, conditions: Sequence[Condition]) -> Iterator[Narrowing]:
    """For each dynamic size that conditions keep from some of the sizes in its range: which are left.

    Each size is tried alone, the others being the example's, and all of them together at multiples of the example's.
    """
    sizes = example_sizes(program)
    for symbol, size in sizes.items():
        low, high = program.ranges.get(symbol, (0, None))
        last = max(FARTHEST * size, AT_LEAST)
        tried = range(max(low, 2), (last if high is None else min(high, last)) + 1)
        narrow = [each for each in conditions if symbol in each.symbols and not _free(each, sizes, symbol, tried)]
        if narrow:
            yield _narrowing(symbol, narrow, sizes, tried)


def _free(condition: Condition, sizes: Sizes, symbol: str, tried: range) -> bool:
    probes = _probes(condition, sizes[symbol], tried)
    return all(condition.holds({**sizes, symbol: n}) for n in probes)


def _narrowing(symbol: str, conditions: Sequence[Condition], sizes: Sizes, tried: range) -> Narrowing:
    """The first of the conditions that keeps the size from growing is the one to blame."""
    allowed = [n for n in tried if all(each.holds({**sizes, symbol: n}) for each in conditions)]
    far = range(2 * sizes[symbol], tried.stop)
    stopping = [
        each
        for each in conditions
        if isinstance(each.expr, sympy.Eq) and not all(each.holds({**sizes, symbol: n}) for n in far)
    ]
    pinned = bool(stopping) and not any(n in allowed for n in far) and not _scales(conditions, sizes)
    cause = (stopping or conditions)[0]
    return Narrowing(symbol, cause, described(allowed, tried, cause, pinned), pinned)


def _probes(condition: Condition, size: int, tried: range) -> Sequence[int]:
    """Every size for what the model asks; a few for the many equations of operators."""
    if condition.guard.asked or len(tried) <= AT_LEAST:
        return tried
    near = (tried[0], size - 2, size - 1, size + 1, size + 2, size + 3, 2 * size, 3 * size, size + 32, tried[-1])
    return sorted({n for n in near if n in tried})


def _scales(conditions: Sequence[Condition], sizes: Sizes) -> bool:
    """Whether all sizes may grow together, as where two are to be equal."""
    return any(
        all(each.holds({name: factor * size for name, size in sizes.items()}) for each in conditions)
        for factor in range(2, FARTHEST + 1)
    )


def described(allowed: Sequence[int], tried: range, cause: Condition, pinned: bool) -> str:
    """Sizes in words: "8 to 9", "a multiple of 4"; the condition itself where they are no such thing."""
    if len(allowed) == 1:
        return str(allowed[0])
    step = math.gcd(*allowed)
    if step > 1 and list(allowed) == [n for n in tried if n % step == 0]:
        return f"a multiple of {step}"
    if list(allowed) == list(range(allowed[0], allowed[-1] + 1)) and (pinned or len(cause.symbols) == 1):
        if allowed[-1] == tried[-1]:
            return f"at least {allowed[0]}"
        return f"at most {allowed[-1]}" if allowed[0] == tried[0] else f"{allowed[0]} to {allowed[-1]}"
    return cause.text
