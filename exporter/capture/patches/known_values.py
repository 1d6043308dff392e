"""Values that Python asks for while a model is captured, computed from its weights and from the example's inputs.

A model may branch on a number in a buffer, loop over `grid.tolist()`, or make as many parts of a picture as `sizes`
says. What Python asks is computed from the values themselves, beside the capture, and what no Python asks for stays in
the graph. Values of inputs are known only where the user accepts that they become constants; an input with a dynamic
dimension has none here.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakTensorKeyDictionary

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture import knowledge
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.patches.known_constants import (
    ASKING,
    LARGEST,
    MADE,
    UNKNOWN,
    Given,
    as_told,
    is_unknown,
    noted,
    paired,
)
from fxport.exporter.capture.patches.known_constants import NUMBERS as ASKED_NUMBERS
from fxport.exporter.capture.patches.sized_numbers import (
    NUMBERS,
    Quotient,
    is_exact,
    is_real,
    number_of,
    quotient_of,
    truth_of,
)

FEW = 2**8
"""Weights of more elements than this are not followed: no model branches on so many."""

SIZED = frozenset(
    getattr(Tensor, name)
    for name in (
        *("view", "reshape", "expand", "repeat", "split", "narrow", "unflatten", "unfold"),
        *("new_zeros", "new_ones", "new_full", "new_empty"),
    )
) | {torch.split, torch.reshape, torch.narrow, torch.zeros, torch.ones, torch.full, F.pad, F.interpolate}
"""Functions that take sizes, for which tensors of one element may stand."""


class ValueAskedError(Exception):
    """A constant would have been made of what is another value in each run."""


@dataclass(frozen=True, slots=True)
class Known:
    """The value of a traced tensor for the example, and the inputs and weights from which it is computed.

    So it is as long as the tensor has this version, which every write to it or to a view of it changes.
    """

    value: Tensor
    names: frozenset[str]
    version: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A line that asked for values of these inputs or weights, which are constants in the graph from there on."""

    names: frozenset[str]
    place: Place | None


@dataclass(frozen=True, slots=True)
class Held:
    """The number in a tensor, or the truth of a comparison, and the inputs and weights from which it is computed."""

    number: Any
    names: frozenset[str]


NUMBER = "number"
"""The fact of a tensor of one element that says what it holds, in terms of dynamic sizes."""

ANSWERS: Mapping[Any, Callable[[Any], Any]] = {
    Tensor.__bool__: truth_of,
    Tensor.is_nonzero: truth_of,
    torch.is_nonzero: truth_of,
    Tensor.item: number_of,
}
"""Functions that ask for the number in a tensor, with how it is answered where dynamic sizes tell it."""


class ValuesKnown(TorchFunctionMode):
    """Compute what follows from known tensors alone, and answer Python from it."""

    def __init__(self, asked: list[Asked], weights: frozenset[str]) -> None:
        super().__init__()
        self.asked, self.weights = asked, weights
        self.known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.given: list[Given] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = (args, kwargs or {})
        held = knowledge.known(args[0], NUMBER) if func in ANSWERS and args else None
        if held is not None and not is_real(held.number):
            self.ask(held.names)
            return ANSWERS[func](held.number)
        if (held := self.held(func, call)) is not None:
            result = func(*args, **call[1])
            if is_exact(held.number, result.dtype):
                knowledge.note(result, NUMBER, held)
            return result
        leaves = pytree.tree_leaves(call)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        found = [known for tensor in tensors if (known := self.of(tensor)) is not None]
        if func in ASKED_NUMBERS and any(known.names & self.weights for known in found):
            return func(*args, **call[1])  # the graph can hold a number that it computes
        symbolic = any(map(is_unknown, leaves))
        if symbolic or len(found) < len(tensors) or not (tensors or func in MADE):
            follows = found or any(knowledge.known(tensor, NUMBER) is not None for tensor in tensors)
            args, kwargs = self.sized(func, call) if follows else call
            return func(*args, **kwargs)
        names = frozenset().union(*(known.names for known in found))
        values = iter(found)
        args, kwargs = pytree.tree_map_only(Tensor, lambda _: next(values).value, call)
        before = [known.value._version for known in found]
        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            answer = func(*args, **kwargs)
        if func in ASKING:
            self.ask(names)
            return as_told(func, call[0], answer, self.given)
        written = {
            _memory(known.value) for known, old in zip(found, before, strict=True) if known.value._version != old
        }
        with self.followed(written):
            results = self.traced(func, call, may_fail=not written)
        return paired(results, answer, lambda result, value: self.result(result, value, names))

    def of(self, tensor: Tensor) -> Known | None:
        """Look up what a tensor holds; None where that is not known, or not known any more."""
        known = self.known.get(tensor)
        if knowledge.is_body():  # which gets others in each iteration
            return None
        if known is None:
            value, now = noted(tensor), knowledge.version(tensor)
            return None if value is None or now is None else Known(value, frozenset(), now)
        return known if known.version == knowledge.version(tensor) else None

    def note(self, tensor: Tensor, value: Tensor, names: frozenset[str]) -> None:
        if (now := knowledge.version(tensor)) is not None:
            self.known[tensor] = Known(value, names, now)

    @contextmanager
    def followed(self, written: Collection[int]) -> Iterator[None]:
        """Keep what is known of the tensors in memory to which a call of known tensors writes, here as in the graph."""
        alike = [
            (tensor, known) for tensor in self.known if (known := self.of(tensor)) and _memory(known.value) in written
        ]
        yield
        for tensor, known in alike:
            self.note(tensor, known.value, known.names)

    def sized(self, func: Any, call: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return the call with known sizes as plain numbers: `x.view(h, w)`, `x[:, :n]` of tensors of one element."""
        if func is Tensor.__getitem__:
            x, index = call[0]
            places = index if isinstance(index, tuple) else (index,)
            cut = tuple(self.cut(each) if isinstance(each, slice) else each for each in places)
            return (x, cut if isinstance(index, tuple) else cut[0]), {}
        return pytree.tree_map_only(Tensor, self.number, call) if func in SIZED else call

    def cut(self, part: slice) -> slice:
        return slice(*(self.number(each) for each in (part.start, part.stop, part.step)))

    def number(self, value: Any) -> Any:
        """Return the number that a tensor of one element is known to hold; other values as they are."""
        held = self.operand(value) if isinstance(value, Tensor) else None
        if held is None or isinstance(held.number, SymBool) or is_real(held.number):
            return value
        self.ask(held.names)
        return held.number.number

    def held(self, func: Any, call: tuple[Any, Any]) -> Held | None:
        """Return the number that a call computes of dynamic sizes and of tensors of one number, if it is exact."""
        compute, (args, kwargs) = NUMBERS.get(func), call
        if compute is None or kwargs.keys() - {"dtype"}:
            return None
        operands = [self.operand(each) for each in args if not isinstance(each, torch.dtype)]
        parts = [each.number for each in operands if each is not None]
        truths = [isinstance(each, SymBool) for each in parts]
        chooses = func is torch.where and truths[:1] == [True]
        if len(parts) < len(operands) or any(truths[chooses:]) or (func is torch.where and not chooses):
            return None
        if not chooses and not any(isinstance(each.number, SymInt) for each in parts):
            return None
        number = compute(*parts, *args[len(operands) :], **kwargs)
        names = frozenset().union(*(each.names for each in operands if each is not None))
        return Held(number, names) if names and number is not None else None

    def operand(self, value: Any) -> Held | None:
        """Return a number, or what is known of the one in a tensor."""
        if not isinstance(value, Tensor):
            number = quotient_of(value)
            return None if number is None else Held(number, frozenset())
        if (held := knowledge.known(value, NUMBER)) is not None:
            return held
        found = self.of(value)
        if found is None or found.value.dim() or found.value.dtype is not torch.int64:
            return None
        return Held(Quotient(found.value.item()), found.names)

    def traced(self, func: Any, call: tuple[Any, Any], *, may_fail: bool) -> Any:
        """Return what the capture makes of the call; None where it would have to know a value, if it may do without."""
        try:
            return func(*call[0], **call[1])
        except UNKNOWN:
            if may_fail:
                return None
            raise

    def result(self, result: Any, value: Tensor, names: frozenset[str]) -> Any:
        if value.numel() > LARGEST and result is not None:
            return result
        if not isinstance(result, FakeTensor) or free_unbacked_symbols(result):
            self.ask(names)
            result = torch.tensor(value.tolist(), dtype=value.dtype).reshape(value.shape)
        self.note(result, value, names)
        return result

    def ask(self, names: frozenset[str]) -> None:
        if names:
            place = place_of_stack(list(traceback.walk_stack(sys._getframe(1))))
            self.asked.append(Asked(names, place))


@contextmanager
def values_known(
    model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any], asked: list[Asked], *, inputs: bool
) -> Iterator[None]:
    """Know the values of small weights while a model is captured.

    With `inputs`, so are those of inputs of whole numbers and truths without dynamic dimensions.
    """
    paths = [leaf.path for leaf in leaves_of(arguments_of(model, args, kwargs))] if inputs else []
    fed = _copies(pytree.tree_leaves((args, kwargs)))[: len(paths)]
    held = {name: weight.detach().clone() for name, weight in _weights(model) if weight.numel() <= FEW}
    mode = ValuesKnown(asked, frozenset(held))
    changed: set[str] = set()

    def call(forward: Any, *fakes: Any, **named: Any) -> Any:
        leaves = pytree.tree_leaves(as_padded((fakes, {name: named[name] for name in kwargs})))
        for path, fake, value in zip(paths, leaves, fed, strict=False):
            if isinstance(fake, FakeTensor) and _is_followed(fake):
                mode.note(fake, value, frozenset({path}))
        weights = {name: fake for name, fake in _weights(model) if name in held}
        for name, fake in weights.items():
            mode.note(fake, held[name], frozenset({name}))
        versions = {name: knowledge.version(fake) for name, fake in weights.items()}
        result = forward(*fakes, **named)
        changed.update(name for name, fake in weights.items() if knowledge.version(fake) != versions[name])
        return result

    with forward_by(model, call), mode:
        yield
    if any(each.array.tobytes() != each.content for each in mode.given):
        raise ValueAskedError("it writes to an array of values that the model holds in a tensor")
    if found := changed & set().union(*(each.names for each in asked)):
        raise ValueAskedError(f"Python asks for the value of '{min(found)}', which forward changes")


def _memory(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()


def _weights(model: torch.nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_buffers(), *model.named_parameters()]


def _copies(values: Sequence[Any]) -> list[Any]:
    return [value.detach().clone() if isinstance(value, Tensor) else value for value in values]


def _is_followed(fake: FakeTensor) -> bool:
    counts = not (fake.is_floating_point() or fake.is_complex())
    return counts and not any(isinstance(size, SymInt) for size in fake.shape) and fake.numel() <= LARGEST
