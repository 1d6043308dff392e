"""The example call at other sizes of its dynamic dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.padded import refitted
from fxport.exporter.capture.arguments.strides import laid_out_as
from fxport.exporter.capture.sizes.conditions import Test
from fxport.exporter.capture.sizes.shapes import Request
from fxport.fx_passes.program import Program
from fxport.fx_passes.sizes import Size, size_of, sizes_of

MOST_TRIES = 4096
"""Limit of combinations of sizes that are tried to find one that the captured graph allows."""

MOST_IDS = 65536
"""Of how many ids those are chosen that replace repeated ones."""

TRACED_FROM = 2
"""The lower bound that PyTorch gives a size of which it knows none."""

MOST_GROWTH = 16
"""Largest upper bound to try, as a multiple of the example's size."""

FURTHER = (2, 3, 4, 6, 8, 12, MOST_GROWTH)
"""Sizes to try beyond the limits of a graph, as multiples of the example's."""

Wanted = Callable[[int, int, int | None], int]
"""From a size and its bounds to the size that is wanted in its place."""

Known = dict[sympy.Symbol, int]
Fed = list[tuple[Any, tuple[Size, ...]] | None]
"""For each leaf of a call: its value with the sizes that the captured graph knows it by; None if it is not an input."""


def resized(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, *, plain: bool = False
) -> tuple[Any, Any] | None:
    """Return the call with another size for every dynamic dimension; None where the captured graph holds for no other.

    Tensors are repeated or cut along the axis, so that masks and positions stay what they may be. Ids become others of
    the same range and fractions shrink a little at each repetition: equal ones would make the order of a sort, and with
    it which of them a top-k picks, a matter of chance. With `plain`, what is appended to a row repeats no id or mark
    that the row has several times: these may stand for the parts of an image, of which there are no more.
    """
    fed = _fed(module, call, program, {})
    known = _known(fed)
    chosen = _chosen(known, program, other_size)
    return None if chosen == known else _at(module, call, fed, chosen, plain=plain)


def at_hard_sizes(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield (label, call) at those of HARD_SIZES that the captured graph allows and that differ from the others."""
    fed = _fed(module, call, program, {})
    known = _known(fed)
    seen = [known, _chosen(known, program, other_size)]
    for label, wanted in HARD_SIZES.items():
        chosen = _chosen(known, program, wanted)
        if chosen not in seen:
            seen.append(chosen)
            yield label, _at(module, call, fed, chosen)


def away(
    module: torch.nn.Module,
    call: tuple[Any, Any],
    program: Program,
    lost: Sequence[Request],
    limits: Mapping[sympy.Symbol, Sequence[Test]],
) -> tuple[Any, Any]:
    """Return the call at sizes that the graph may not hold for: dimensions that became constants differ as well.

    Args:
        limits: For each size, equations that hold for the example's. A size is taken at which they do not hold, of
            those that do not hold for all large sizes.
    """
    fed = _fed(module, call, program, {(request.input, request.axis): request for request in lost})
    chosen = {symbol: _beyond(size, limits.get(symbol, ())) for symbol, size in _known(fed).items()}
    return _at(module, call, fed, chosen)


def _beyond(size: int, limits: Sequence[Test]) -> int:
    """Return another size, the smallest at which the fewest of the limits hold."""
    other = other_size(size, 0, None)
    sizes = [other, *(k * size for k in FURTHER if k * size > other)]
    left = [test for test in limits if not test(sizes[-1])]
    return min(sizes, key=lambda n: (sum(test(n) for test in left), n))


def at_chosen(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, chosen: Mapping[sympy.Symbol, int]
) -> tuple[Any, Any]:
    """Return the call at these sizes of its dynamic dimensions, whether the captured graph allows them or not."""
    fed = _fed(module, call, program, {})
    return _at(module, call, fed, {**_known(fed), **chosen})


def takes(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> bool:
    """Return whether the captured graph's inputs have the sizes of the call, or can have them."""
    fed = _fed(module, call, program, {})
    known = _known(fed)
    for value, symbolic in filter(None, fed):
        actual = value.shape if isinstance(value, torch.Tensor) else (value,)
        if any(_at_sizes(size, known) != n for size, n in zip(symbolic, actual, strict=False)):
            return False
    return True


def _at_sizes(size: Size, known: Mapping[sympy.Symbol, int]) -> int:
    return int(size.subs(known)) if isinstance(size, sympy.Expr) else size  # type: ignore[arg-type]  # a mapping will do


def promised(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> bool:
    """Return whether the conditions of the captured graph hold for the sizes of the call."""
    known = known_sizes(module, call, program)
    return all(condition.allows(known) for condition in program.conditions)


def broken_conditions(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> list[Any]:
    """Return the conditions of the captured graph, as expressions, that do not hold for the sizes of the call."""
    known = known_sizes(module, call, program)
    tests = (replace(each, holds=(test,)) for each in program.conditions for test in each.holds)
    return [each.holds[0] for each in tests if not each.allows(known)]


def known_sizes(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Known:
    """Return the size of each dynamic dimension in a call, by the captured graph's symbol for it."""
    return _known(_fed(module, call, program, {}))


def _fed(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, freed: Mapping[tuple[str, int | None], Request]
) -> Fed:
    nodes = {entry.path: node for entry, node in zip(program.inputs, program.placeholders, strict=True) if entry.path}
    found: Fed = []
    for leaf in leaves_of(arguments_of(module, *call)):
        value = nodes[leaf.path].meta["val"] if leaf.path in nodes else None
        if isinstance(value, torch.Tensor):
            sizes = (_freed(size, freed.get((leaf.path, axis))) for axis, size in enumerate(sizes_of(value)))
            found.append((leaf.value, tuple(sizes)))
        else:
            found.append((leaf.value, (size_of(value),)) if leaf.path in nodes else None)
    return found


def _freed(size: Size, request: Request | None) -> Size:
    if isinstance(size, int) and request is not None:
        return sympy.Symbol(request.name or f"size_{size}", integer=True)
    return size


def _known(fed: Fed) -> Known:
    known: Known = {}
    for value, symbolic in filter(None, fed):
        actual = value.shape if isinstance(value, torch.Tensor) else (value,)
        # A complex tensor has 2 at the end, which is no axis of it.
        known |= {size: n for size, n in zip(symbolic, actual, strict=False) if isinstance(size, sympy.Symbol)}
    for value, symbolic in filter(None, fed):
        actual = value.shape if isinstance(value, torch.Tensor) else (value,)
        for size, n in zip(symbolic, actual, strict=False):
            if isinstance(size, sympy.Expr) and not isinstance(size, sympy.Symbol):
                known = _solved(size, n) | known
    return known


def _solved(size: sympy.Expr, n: int) -> Known:
    """Return the symbol of a size such as `2*s0`, where that tells its value; no input may have that size itself."""
    symbols = size.free_symbols
    if len(symbols) != 1 or not size.is_polynomial():
        return {}
    (symbol,) = symbols
    found = sympy.solve(sympy.Eq(size, n), symbol)
    return {symbol: int(found[0])} if len(found) == 1 else {}  # type: ignore[dict-item]  # a symbol it is


def _chosen(known: Known, program: Program, wanted: Wanted) -> Known:
    """Choose a size for each symbol: the `wanted` one, else another one than the known size where that is allowed."""
    bounds = {symbol: program.ranges.get(str(symbol), (0, None)) for symbol in known}
    first = {symbol: wanted(size, *bounds[symbol]) for symbol, size in known.items()}
    choices = [[first[symbol], *_candidates(size, *bounds[symbol]), size] for symbol, size in known.items()]
    tries = (dict(zip(known, sizes, strict=True)) for sizes in itertools.product(*choices))
    for chosen in itertools.chain([first], itertools.islice(tries, MOST_TRIES)):
        if all(condition.allows(chosen) for condition in program.conditions):
            return chosen
    return known


def _candidates(size: int, low: int, high: int | None) -> list[int]:
    """Yield other sizes, best first: multiples, then those nearby."""
    wanted = (2 * size, 3 * size, size // 2, size + 32, size + 16, size + 8, size + 4, *range(size + 1, size + 4))
    found = [n for n in (*wanted, size - 1, size - 2) if n >= max(low, 2) and (high is None or n <= high)]
    return list(dict.fromkeys(n for n in found if n != size))


def other_size(size: int, low: int, high: int | None) -> int:
    """Return another size within the bounds: twice a small one, 32 more than a large one; divisibility mostly stays."""
    step = 32 if size >= 64 else max(size, 2)
    for candidate in (size + step, size - step, size + 1, size - 1):
        if candidate >= max(low, 2) and (high is None or candidate <= high):
            return candidate
    return size


def _smallest(size: int, low: int, high: int | None) -> int:
    """Return the lower bound, at least 1: without elements most models have no meaning.

    It is 1 also where PyTorch says 2, as it does of every size, because it treats 1 apart while it traces.
    """
    return max(low, 1) if low != TRACED_FROM else 1


def _prime(size: int, low: int, high: int | None) -> int:
    """Return a prime number, above the size if that is allowed: a model that divides its sizes in two fails there."""
    above = (n for n in range(max(size + 1, low), high + 1 if high is not None else 2 * size + 4) if _is_prime(n))
    below = (n for n in range(size - 1, max(low, 2) - 1, -1) if _is_prime(n))
    return next(above, next(below, size))


def _largest(size: int, low: int, high: int | None) -> int:
    """Return the upper bound, if it is not so far off that a run at it would take long."""
    return high if high is not None and high <= MOST_GROWTH * size else size


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, int(n**0.5) + 1))


HARD_SIZES: Mapping[str, Wanted] = {"smallest": _smallest, "prime": _prime, "largest": _largest}
"""By label, the size to take for each dynamic dimension."""


def _at(
    module: torch.nn.Module, call: tuple[Any, Any], fed: Fed, chosen: Mapping[sympy.Symbol, int], *, plain: bool = False
) -> tuple[Any, Any]:
    args, kwargs = call
    arguments = arguments_of(module, args, kwargs)
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    fresh = [leaf if each is None else _resize(*each, chosen, plain) for leaf, each in zip(leaves, fed, strict=True)]
    return refitted(pytree.tree_unflatten(fresh, spec))


def _resize(tensor: Any, sizes: tuple[Size, ...], chosen: Mapping[sympy.Symbol, int], plain: bool) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return int(sizes[0].subs(chosen)) if isinstance(sizes[0], sympy.Expr) else tensor  # type: ignore[arg-type]
    example, copy = tensor, torch.zeros(tensor.shape, dtype=torch.int64, device=tensor.device)
    appended = copy > 0
    for axis, size in enumerate(sizes):
        if isinstance(size, sympy.Expr):
            wanted = int(size.subs(chosen))  # type: ignore[arg-type]  # every symbol of an input has a number here
            index = torch.arange(wanted, device=tensor.device)
            copies, index = index // max(tensor.shape[axis], 1), index % max(tensor.shape[axis], 1)
            shape = [-1 if i == axis else 1 for i in range(tensor.dim())]
            copy = copy.index_select(axis, index) * (wanted + 1) + copies.reshape(shape)
            appended = appended.index_select(axis, index) | ((copies > 0).reshape(shape) & bool(axis))
            tensor = shrunk(tensor.index_select(axis, index), axis, copies)
    tensor = _renumbered(tensor, example, copy)
    return laid_out_as(example, _made_plain(tensor, example, appended) if plain else tensor)


def _renumbered(tensor: torch.Tensor, example: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    """Replace ids that the example has once, such as most ids of tokens, wherever they are repeated.

    A model that picks the best few of its tokens would have to choose among equal ones. The others are below the
    largest of the example, so that they are in every table; what occurs more often may be a mask or have a meaning.
    Whole numbers in tensors of other ranks than [batch, sequence] may be offsets or places, which have an order.
    """
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool or example.dim() != 2:
        return tensor.clone()
    values, counts = example.unique(return_counts=True)
    once = values[counts == 1]
    if not len(once):
        return tensor.clone()
    low, high = int(values[0]), int(values[-1])
    numbers = torch.arange(low, min(high, low + MOST_IDS), device=tensor.device)
    others = numbers[~torch.isin(numbers, values)]
    if not len(others):
        return tensor.clone()
    rank = torch.searchsorted(once, tensor.clamp(max=int(once[-1])))
    fresh = others.to(tensor.dtype)[(rank + copy * len(once)) % len(others)]
    return torch.where((copy > 0) & torch.isin(tensor, once), fresh, tensor)


def _made_plain(tensor: torch.Tensor, example: torch.Tensor, appended: torch.Tensor) -> torch.Tensor:
    """Give what is `appended` other ids for those that the example has several times; marks become the commonest."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool or example.dim() != 2:
        return tensor
    values, counts = example.unique(return_counts=True)
    once = values[counts == 1]
    several = appended & ~torch.isin(tensor, once)
    if len(values) < 3 or not len(once):
        return torch.where(several, values[counts.argmax()], tensor)
    places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    return torch.where(several, once[places % len(once)], tensor)


def shrunk(tensor: torch.Tensor, axis: int, copies: torch.Tensor) -> torch.Tensor:
    """Scale fractions by `1 - k * copies / 256`, exact in bfloat16, so that they stay within bounds such as [-1, 1].

    `k` differs from axis to axis: what is repeated along one and along another would be equal otherwise. Whole numbers
    stay, since they may be a mask or ids also where they are floating-point; so do infinities.
    """
    if not tensor.is_floating_point():
        return tensor
    slope = min(3 + axis, 7) / 256
    steps = copies.clamp(max=32).to(tensor.dtype).reshape([-1 if i == axis else 1 for i in range(tensor.dim())])
    return torch.where(tensor == tensor.round(), tensor, tensor * (1 - steps * slope))
