"""A part of the model as the body of an operator of higher order: what it reads from outside becomes its inputs.

PyTorch's own way runs Dynamo on the body, which knows less Python, and no numbers that come from data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import sympy
import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import (
    PreDispatchTorchFunctionMode,
    disable_proxy_modes_tracing,
)
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.body_numbers import (
    NUMBERS,
    is_rebuilt,
    is_tracked,
    node_of,
    number_of,
    passed,
    symbols_in,
    track,
)
from fxport.exporter.capture.control_flow.branch_facts import facts_forgotten
from fxport.exporter.capture.control_flow.merging import LoopError, opaque
from fxport.exporter.capture.control_flow.stand_ins import StandIns, WrittenThroughAnother, written_by
from fxport.exporter.capture.control_flow.views import Step, again, are_repeatable, origin_of, storage_of
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.knowledge import body_entered

Body = Callable[..., Sequence[Tensor]]
"""From tensors to tensors."""


@runtime_checkable
class HasLeaves(Protocol):
    """A result that holds tensors and numbers, and is no structure that PyTorch knows."""

    def leaves(self) -> list[Any]: ...


class HoldsItems:
    """A list of the model's that holds stacked items, and such items: functions of PyTorch may be given them."""

    def leaves(self) -> list[Any]:
        """Return the tensors and numbers that it holds."""
        raise NotImplementedError

    def mapped(self, change: Callable[[Any], Any]) -> Any:
        """Return the same made of others in the place of these tensors and numbers."""
        raise NotImplementedError


_rehearsals = 0


_checks: list[Callable[[Outside], None]] = []


def at_end(check: Callable[[Outside], None]) -> None:
    """Let the rehearsals that run now call this when they end, with what the bodies use."""
    _checks.append(check)


DEEPEST = 32
"""Branches and loops within each other; a function that calls itself as often as data tell has no end of them."""


def require_end() -> None:
    """Raise LoopError within too many rehearsals."""
    if _rehearsals > DEEPEST:
        raise LoopError(f"branches within branches, more than {DEEPEST} deep")


def is_rehearsal() -> bool:
    """Return whether code runs only to see what it reads: nothing is recorded, and any one branch will do."""
    return _rehearsals > 0


@dataclass(frozen=True, slots=True)
class View:
    """A tensor that bodies read, and the steps that make it of another one, given by its id."""

    tensor: Tensor
    origin: int
    steps: Sequence[Step]


@dataclass
class Outside:
    """Values that bodies capture: tensors, and symbols of sizes and of numbers that data tells.

    Tensors that they also write to travel with what the bodies are given, and come back.
    """

    tensors: dict[int, Tensor] = field(default_factory=dict)
    symbols: dict[sympy.Basic, Any] = field(default_factory=dict)
    written: dict[int, Tensor] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)
    """Views of what is written to, which bodies make anew."""
    versions: dict[int, int] = field(default_factory=dict)
    standing: StandIns = field(default_factory=StandIns)

    def read(self, tensor: Tensor) -> None:
        self.tensors[id(tensor)] = tensor
        self.versions.setdefault(id(tensor), tensor._version)

    def split_mutated(self) -> None:
        """Move mutated captures from `tensors` to `written`; where several share memory, one that they are views of."""
        groups: dict[int, list[Tensor]] = {}
        for each in self.tensors.values():
            groups.setdefault(storage_of(each), []).append(each)
        for group in groups.values():
            if len(group) > 1 and any(map(self._is_written, group)):
                self._join(group)
        self.written = {key: each for key, each in self.tensors.items() if self._is_written(each)}
        self.tensors = {key: each for key, each in self.tensors.items() if key not in self.written}

    def _is_written(self, tensor: Tensor) -> bool:
        return tensor._version != self.versions[id(tensor)] or id(tensor) in self.standing.copies

    def _join(self, group: Sequence[Tensor]) -> None:
        """Let bodies take the tensor that all of these are views of, in their place."""
        found = [(each, *origin_of(standing_for(each))) for each in group]
        (_, origin, _), *others = found
        with rehearsed(group):
            are_views = all(are_repeatable(start, steps, standing_for(each)) for each, start, steps in found)
        if not are_views or any(other is not origin for _, other, _ in others):
            raise LoopError("it writes to a tensor and uses another view of it")
        self.versions[id(origin)] = min(self.versions[id(each)] for each in group)
        if any(id(each) in self.standing.copies for each in group):
            self.standing.put(origin)
        for each, _, steps in found:
            if each is not origin:
                self.views[id(each)] = View(self.tensors.pop(id(each)), id(origin), steps)
        self.tensors[id(origin)] = origin

    def starts(self) -> list[Tensor]:
        """Copies of what is written to, as the bodies are given them."""
        return [opaque(each.clone()) for each in self.written.values()]

    def write(self, ends: Sequence[Tensor]) -> None:
        """Leaves in what is written to what the bodies gave back."""
        for tensor, end in zip(self.written.values(), ends, strict=True):
            with torch.no_grad() if tensor.is_leaf and tensor.requires_grad else nullcontext():
                tensor.copy_(end)

    def used(self) -> Iterator[Tensor]:
        """Yield all tensors that bodies read or write to."""
        yield from (*self.tensors.values(), *self.written.values(), *(view.tensor for view in self.views.values()))

    @property
    def values(self) -> tuple[Any, ...]:
        return (*self.tensors.values(), *map(passed, self.symbols.values()))


class _Reads(TorchFunctionMode):
    """Notes the tensors and numbers that functions are called with and that did not come of the body."""

    def __init__(self, given: Sequence[Any], outside: Outside, around: Sequence[Any]) -> None:
        super().__init__()
        self.outside = outside
        self.whole: set[sympy.Basic] = {each.node.expr for each in around}
        """Of numbers that travel as they are: PyTorch may have nothing in the graph for the symbols in them."""
        self.own: dict[int, Any] = {id(each): each for each in given}  # held, so that no id is used twice
        self.symbols = symbols_in(given)
        self.known: set[sympy.Symbol] = {symbol for each in around for symbol in free_unbacked_symbols(each)}
        """Symbols of numbers of the data around: a size made of them is none of the body's own."""

    def read(self, leaf: Any) -> None:
        if isinstance(leaf, Tensor) and id(leaf) not in self.own:
            self.outside.read(leaf)
        elif isinstance(leaf, NUMBERS):
            is_own = leaf.node.expr.free_symbols <= self.symbols
            if leaf.node.expr in self.whole and not (is_own and is_rebuilt(leaf.node.expr)):
                self.outside.symbols[leaf.node.expr] = leaf
            if is_own or leaf.node.expr in self.whole:
                return
            known = self.symbols.union(*(each.free_symbols for each in self.whole))
            for symbol in leaf.node.expr.free_symbols - known:
                self.outside.symbols[symbol] = number_of(symbol, leaf.node)

    def write(self, tensors: Iterable[Tensor]) -> None:
        """Note that a body within this one writes to tensors."""
        for each in tensors:
            if id(each) not in self.own:
                self.read(each)
                self.outside.standing.put(each)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.untyped_storage:  # which `storage_of` asks, of tensors of earlier rehearsals, too
            return func(*args)
        if func in OF_HISTORY and args[0].requires_grad and id(args[0]) not in self.own:
            raise RefusedError(OF_HISTORY[func], cure=BEFORE)
        for each in pytree.tree_leaves((args, kwargs)):
            for leaf in each.leaves() if isinstance(each, HoldsItems) else [each]:
                self.read(leaf)
        standing = self.outside.standing
        for each in written_by(func, args, kwargs or {}):
            standing.require_own(each, self.outside.tensors.values())
            if id(each) not in self.own:
                standing.put(each)
        args, kwargs = standing.instead(args, kwargs or {})
        result = standing.original(func(*args, **kwargs))
        made = pytree.tree_leaves(result)
        self.own |= {
            id(each): each for each in made if isinstance(each, Tensor) and id(each) not in self.outside.tensors
        }
        if not _is_attribute(func):
            self.symbols |= symbols_in(made) - self.known
        return result


class _Instead(TorchFunctionMode):
    """Calls functions with others in the place of tensors, and of numbers that travel in tensors."""

    def __init__(self, tensors: Mapping[int, Tensor], items: Mapping[sympy.Basic, Any]) -> None:
        super().__init__()
        self.tensors, self.items = {**tensors}, items
        self.numbers = {expr: node_of(each).expr for expr, each in items.items()}
        self.originals: dict[int, Tensor] = {}
        """By the tensors in their places: an in-place method returns its tensor, of which Python keeps the names."""

    def standing_for(self, originals: Mapping[int, Tensor]) -> _Instead:
        """Let functions that return one of the tensors return what it stands for."""
        self.originals = {id(tensor): originals[key] for key, tensor in self.tensors.items()}
        return self

    def other(self, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return self.tensors.get(id(leaf), leaf)
        if isinstance(leaf, HoldsItems):
            return leaf.mapped(self.other)
        if isinstance(leaf, NUMBERS) and self.numbers and not is_tracked(leaf):
            node = leaf.node
            if node.expr in self.items:
                return self.items[node.expr]
            expr = node.expr.xreplace(self.numbers)
            return type(leaf)(SymNode(expr, node.shape_env, node.pytype, None)) if expr != node.expr else leaf
        return leaf

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(self.other, (args, kwargs or {}))
        result = func(*args, **kwargs)
        return self.originals.get(id(result), result) if isinstance(result, Tensor) else result


def standing_for(tensor: Tensor) -> Tensor:
    """Return what a function would be called with in the place of a tensor, in the body that is traced."""
    modes = (mode for mode in reversed(_get_current_function_mode_stack()) if isinstance(mode, _Instead))
    return next((mode.tensors[id(tensor)] for mode in modes if id(tensor) in mode.tensors), tensor)


def is_outside(tensor: Tensor) -> bool:
    """Return whether a tensor comes from outside of a body that is rehearsed now."""
    bodies = (mode for mode in _get_current_function_mode_stack() if isinstance(mode, _Reads))
    return any(id(tensor) not in body.own for body in bodies)


OF_HISTORY: Mapping[Any, str] = {
    Tensor.register_hook: "it registers a hook on a tensor of outside within a branch or a loop",
    Tensor.detach_: "it takes the history from a tensor of outside within a branch or a loop",
}
"""Methods that change what autograd does with a tensor also where a body does not read it, and why a body has none."""

BEFORE = "Do it before the branch or the loop, or with a tensor that is made within it."

_OF_THE_TRACE = (_Reads, _Instead, PreDispatchTorchFunctionMode)
"""Each trace has its own of these modes."""


def read_by(
    functions: Sequence[Callable[..., Any]], given: Sequence[Tensor], around: Sequence[Any] = ()
) -> tuple[list[Any], Outside]:
    """Return what each of the functions gives, and what they all read from outside. Nothing of it is recorded.

    `around` are the numbers that only data tells and that the functions can reach without PyTorch seeing it.
    """
    first, standing = len(_checks), StandIns()
    try:
        while True:
            try:
                results, outside = _read_once(functions, given, around, standing)
                break
            except WrittenThroughAnother as error:  # before the write: once more, with a copy from the start
                standing = StandIns.of([*standing.tensors, error.tensor])
                del _checks[first:]
        for check in _checks[first:]:
            check(outside)
    finally:
        if not is_rehearsal():
            _checks.clear()
    for mode in _get_current_function_mode_stack():
        if isinstance(mode, _Reads):
            mode.write(outside.standing.tensors)
    reads = _Reads(given, outside, around)
    for operand in (operand for view in outside.views.values() for step in view.steps for operand in step.operands):
        reads.read(operand)
    return results, outside


def _read_once(
    functions: Sequence[Callable[..., Any]], given: Sequence[Tensor], around: Sequence[Any], standing: StandIns
) -> tuple[list[Any], Outside]:
    outside, results = Outside(standing=standing), list[Any]()
    for function in functions:
        with rehearsed(given), _Reads(given, outside, around) as reads:
            results.append(function(*given))
            for leaf in (*_leaves(results[-1]), *around):
                reads.read(leaf)
    outside.split_mutated()
    return results, outside


def _leaves(result: Any) -> list[Any]:
    """Return the leaves of a result, and of the changes among them."""
    found = pytree.tree_leaves(result)
    return [each for leaf in found for each in (leaf.leaves() if isinstance(leaf, HasLeaves) else [leaf])]


def lifted(body: Body, given: Sequence[Tensor], outside: Outside, *, is_test: bool = False) -> Body:
    """Make the body a function of the given tensors, of mutated captures and of `outside.values`.

    It gives what the body gives and, unless it is a test, what it left in the tensors that it writes to.
    """
    around = [mode for mode in _get_current_function_mode_stack() if not isinstance(mode, _OF_THE_TRACE)]
    return partial(_run, body, len(given), outside, around, is_test)


def _run(
    body: Body, count: int, outside: Outside, around: Sequence[TorchFunctionMode], is_test: bool, /, *inputs: Any
) -> tuple[Tensor, ...]:
    """Run the body within the modes that its operator was called in: PyTorch leaves each of them to call it."""
    first = count + len(outside.written)
    written, held = [opaque(each.clone()) for each in inputs[count:first]], inputs[first:]
    tensors = dict(zip(outside.tensors, held, strict=False))  # the symbols come behind them
    symbols = dict(zip(outside.symbols, held[len(tensors) :], strict=True))
    items = {expr: each.item() for expr, each in symbols.items() if isinstance(each, Tensor)}
    track(symbols | items)
    instead = _Instead(tensors | dict(zip(outside.written, written, strict=True)), items)
    with ExitStack() as modes:
        modes.enter_context(body_entered())
        modes.enter_context(facts_forgotten(_env_of(inputs)))
        for mode in around:
            modes.enter_context(mode)
        views = {key: again(instead.tensors[view.origin], view.steps) for key, view in outside.views.items()}
        instead.tensors |= views
        viewed = {key: view.tensor for key, view in outside.views.items()}
        modes.enter_context(instead.standing_for(outside.tensors | outside.written | viewed))
        result = tuple(body(*inputs[:count]))
    return result if is_test else (*result, *written)


@contextmanager
def rehearsed(values: Any) -> Iterator[None]:
    """Meanwhile nothing is recorded in the graph, and no number that comes from data is missed in it."""
    global _rehearsals
    env = _env_of(values)
    _rehearsals += 1
    try:
        unseen = nullcontext() if env is None else env.ignore_fresh_unbacked_symbols()
        with disable_proxy_modes_tracing(), unseen, facts_forgotten(env), body_entered():
            yield
    finally:
        _rehearsals -= 1


def _env_of(values: Any) -> Any:
    """Return what PyTorch knows of symbols; None where there are none."""
    mode = detect_fake_mode(pytree.tree_leaves(values))
    return mode.shape_env if mode is not None else None


def _is_attribute(func: Any) -> bool:
    """`x.shape`: the sizes of a tensor from outside are not the body's own."""
    return getattr(func, "__name__", "") == "__get__"
