"""Tensors that data choose: what Python asks of one is asked of all that it may be in eager PyTorch.

After `w = a if test else b` the graph has a third tensor, which is neither `a` nor `b`: it has memory, strides and
attributes of its own. So `w is a`, `isinstance(w, Parameter)`, `w.requires_grad`, `w.stride()` and `getattr(w, "tag")`
are asked of both. Where both answer alike, that is the answer. Where they do not, only data tells: the line is refused,
or what follows the branch runs in each of its arms.

Views of such a tensor are asked as the views of what it may be. The strides of what else is computed of one are known
only where all that it may be lie in memory as it does.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.control_flow.lifting import is_outside, rehearsed, standing_for
from fxport.exporter.capture.control_flow.merging import UNSET, LoopError
from fxport.exporter.capture.control_flow.views import again, origin_of, storage_of
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.function_mode import READS, Part
from fxport.exporter.capture.guards.askers import Line, calling_frame
from fxport.exporter.capture.holders import MISSING
from fxport.exporter.capture.snapshot import same

ASKED = "it asks for {question} of a tensor that a branch or a loop has chosen, and only data tells"

ALTERNATIVES = "_fxport_alternatives"
"""The attribute of a tensor that data choose: what it may be."""

LAID_OUT = "_fxport_laid_out"
"""The attribute of a tensor whose strides only data tell: the lines of the branches that have made it so."""

_OWN = "_fxport_"
"""The beginning of the names of our own attributes."""


@dataclass(frozen=True, slots=True)
class _Alternative:
    """A value that a tensor may be. One that the model has freed is not kept: a view without steps stands for it."""

    value: Callable[[], Any]
    stand_in: Any

    @staticmethod
    def of(value: Any) -> _Alternative:
        if not isinstance(value, Tensor):
            return _Alternative(lambda: value, value)
        tensor = standing_for(value)
        with rehearsed((tensor,)), torch._C.DisableTorchFunction():
            stand_in = tensor.detach()
        known = vars(stand_in)
        for name, held in vars(tensor).items():
            if name in (ALTERNATIVES, LAID_OUT) or not (name in known or name.startswith(_OWN)):
                known[name] = held
        return _Alternative(weakref.ref(tensor), stand_in)

    def get(self) -> Any:
        value = self.value()
        return self.stand_in if value is None else value

    @property
    def is_held(self) -> bool:
        """True if the model may still have the tensor, so that it can tell whether it is this one."""
        return isinstance(self.stand_in, Tensor) and self.value() is not None


@dataclass(frozen=True, slots=True)
class _Choice:
    """All that a tensor may be, and the lines of the branches that have made it so."""

    values: tuple[_Alternative, ...]
    branches: frozenset[Line]


Copied = Callable[[Tensor, Tensor, frozenset[Line]], None]
"""Is told of a copy, of what it would be a view of, and of the lines of the branches that decide on it."""

_any_laid_out: ContextVar[list[bool]] = ContextVar("any_laid_out")
"""Is not empty where some tensor of the trace lies in memory otherwise than one that it may be."""


def note_alternatives(merged: Sequence[Tensor], ways: Iterable[Sequence[Any]], branches: frozenset[Line]) -> None:
    """Note what tensors may be in eager PyTorch.

    Args:
        merged: The tensors that the graph has.
        ways: For each way, what it gives in the place of each of them; None where it gives nothing.
        branches: The line of the branch.
    """
    listed = [*ways]
    for i, tensor in enumerate(merged):
        given = [way[i] for way in listed if way[i] is not None and way[i] is not UNSET]
        before: _Choice | None = getattr(tensor, ALTERNATIVES, None)
        found = (*(() if before is None else before.values), *map(_Alternative.of, given))
        setattr(tensor, ALTERNATIVES, _Choice(found, branches))
        tensors = [each.stand_in for each in found if isinstance(each.stand_in, Tensor)]
        if any(hasattr(each, LAID_OUT) or _layout(each) != _layout(tensor) for each in tensors):
            _any_laid_out.get([]).append(True)


def agreed(name: str, question: Callable[..., Any], *values: Any) -> Any:
    """Return the answer to a question about values, of which some may be tensors that data choose.

    Args:
        name: What is asked for, for a message.
        question: Gives the answer for values that are chosen.
        values: The values.

    Raises:
        LoopError: What they may be does not answer alike.
    """
    choices = [_choice_of(value) for value in values]
    if not any(choices):
        return question(*values)
    options = [_options(value, choice) for value, choice in zip(values, choices, strict=True)]
    answers = [agreed(name, question, *each) for each in product(*options)]
    if all(_is_alike(answers[0], each) for each in answers):
        return answers[0]
    raise _refusal(name, choices)


def is_chosen(value: Any) -> bool:
    """Return whether data choose a tensor."""
    return isinstance(value, Tensor) and hasattr(value, ALTERNATIVES)


def is_same_value(one: Any, other: Any) -> bool:
    """Return `one is other`. Raises LoopError where only data tells."""
    return one is other or agreed("the identity", lambda a, b: a is b, one, other)


def identity_of(value: Any) -> int:
    """Return `id(value)`. Raises LoopError where it may be that of a tensor which the model has by another name."""
    choice: _Choice | None = getattr(value, ALTERNATIVES, None) if isinstance(value, Tensor) else None
    if choice is not None and any(each.is_held for each in choice.values):
        raise _refusal("the identity", [choice])
    return id(value)


def _choice_of(value: Any) -> _Choice | None:
    return getattr(value, ALTERNATIVES, None) if isinstance(value, Tensor) else None


def _options(value: Any, choice: _Choice | None) -> list[Any]:
    return [value] if choice is None else [each.get() for each in choice.values]


def _refusal(name: str, choices: Sequence[_Choice | None]) -> Exception:
    """Return the error of a question that only data answers; final where no branch could be told apart."""
    branches = frozenset[Line]().union(*(each.branches for each in choices if each))
    reason = ASKED.format(question=name)
    return LoopError(reason, branches) if branches else RefusedError(reason)


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether two answers are the same, as far as that is certain without asking for a size."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    numbers = (SymInt, SymFloat, SymBool)
    if isinstance(one, numbers) or isinstance(other, numbers):
        return type(one) is type(other) and one.node.expr == other.node.expr and not free_unbacked_symbols(one)  # type: ignore[union-attr]
    return one is other or (type(one) is type(other) and not isinstance(one, Tensor) and same(one, other))


# What is asked through PyTorch ----------------------------------------------------------------------------------------

_ATTRIBUTES = ("requires_grad", "grad_fn", "is_leaf", "grad", "retains_grad", "output_nr", "_version")
"""Attributes of PyTorch's own that are not those of the values."""

OBJECT: Mapping[Any, str] = {
    **{getattr(Tensor, name).__get__: f"'{name}'" for name in _ATTRIBUTES},
    Tensor.is_inference: "its mode",
}
"""Functions that tell of the tensor itself, and how messages name the answer."""

LAYOUT: Mapping[Any, str] = {
    **{getattr(Tensor, name): f"'{name}'" for name in ("stride", "storage_offset", "is_contiguous", "dim_order")},
    **{getattr(Tensor, name): "its memory" for name in ("storage", "untyped_storage", "data_ptr", "as_strided")},
    torch.as_strided: "its memory",
}
"""Functions that tell how a tensor lies in memory, likewise."""

SETTING = frozenset(
    {
        Tensor.requires_grad.__set__,  # type: ignore[attr-defined]  # descriptors
        Tensor.grad.__set__,  # type: ignore[attr-defined]
        *(Tensor.requires_grad_, Tensor.register_hook, Tensor.retain_grad, Tensor.register_post_accumulate_grad_hook),
    }
)
"""Functions that set something on the tensor itself."""

STRIDED = (torch.as_strided, Tensor.as_strided)

COPYING = frozenset(
    getattr(owner, name)
    for name in ("contiguous", "reshape", "flatten", "ravel", "reshape_as", "to", "type")
    for owner in (torch, Tensor)
    if hasattr(owner, name)
)
"""Functions that give a view or a copy, as the memory allows."""


class Asked(Part):
    """Ask all that a tensor may be what the model asks of it; note whose strides only data tell.

    Args:
        any_laid_out: Is not empty where there may be such strides.
        copied: Is told of a copy that may be a view, of what it may be a view of, and of the lines of the branches.
    """

    functions = frozenset({*OBJECT, *LAYOUT, *SETTING})

    def __init__(self, any_laid_out: list[bool], copied: Copied) -> None:
        self.any_laid_out, self.copied = any_laid_out, copied

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(self.any_laid_out)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = OBJECT.get(func) or LAYOUT.get(func) or ("an attribute" if func in SETTING else None)
        if name is not None and args and isinstance(args[0], Tensor) and _is_asked_by_model():
            return self.told(name, func, args, kwargs)
        result = func(*args, **kwargs)
        if self.any_laid_out and func not in READS:
            return self.with_layout(func, args, kwargs, result)
        return result

    def told(self, name: str, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function tells of a tensor, or of all that it may be."""
        tensor, *rest = args
        origin, steps = origin_of(tensor)
        choice = _choice_of(tensor)
        if func in SETTING:
            if choice is not None and any(each.is_held for each in choice.values):
                raise _refusal(name, [choice])
            return func(*args, **kwargs)
        if func not in LAYOUT:
            return (
                func(*args, **kwargs)
                if choice is None
                else agreed(name, partial(_of_tensor, func, rest, kwargs), tensor)
            )
        if not is_chosen(origin):
            _require_layout(name, tensor)
            return func(*args, **kwargs)

        def laid_out(value: Any) -> Any:
            with rehearsed((value,)):
                view = again(value, steps) if isinstance(value, Tensor) else value
            _require_layout(name, view)
            return _layout(view) if func in STRIDED else _of_tensor(func, rest, kwargs, view)

        answer = agreed(name, laid_out, origin)
        if func not in STRIDED:
            return answer
        if not _is_alike(answer, _layout(tensor)):
            raise _refusal(name, [_choice_of(origin)])
        return func(*args, **kwargs)

    def with_layout(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """Return the result of a call, with a note where its strides hang on what data choose."""
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        seen: dict[int, frozenset[Line] | None] = {}
        branches = [found for each in given if (found := _laid_out_by(each, seen)) is not None]
        if not branches:
            return result
        places = {storage_of(each) for each in given}
        if func in COPYING and storage_of(result) in places:
            copy = result.clone(memory_format=torch.contiguous_format)
            self.copied(copy, args[0], frozenset().union(*branches))
            result = copy
        for each in pytree.tree_leaves(result):
            is_new = isinstance(each, Tensor) and each.dim() > 1 and storage_of(each) not in places
            if is_new and func is not Tensor.contiguous:
                setattr(each, LAID_OUT, frozenset().union(*branches))
        return result


def _of_tensor(func: Any, rest: Sequence[Any], kwargs: Mapping[str, Any], value: Any) -> Any:
    """Return what a function tells of a tensor; of a number, for which PyTorch raises an error, what tells nothing."""
    return func(value, *rest, **kwargs) if isinstance(value, Tensor) else object()


_FOR_CALLER = (__file__, *map(inspect.getfile, (Tensor.register_hook, torch.overrides)))
"""Files in which something is asked for a caller."""


_FAKES = inspect.getfile(FakeTensor)
"""File of PyTorch's fake tensors."""


def _is_asked_by_model() -> bool:
    return kind_of(calling_frame(_FOR_CALLER).f_code.co_filename) != HIDDEN


def _require_layout(name: str, tensor: Any) -> None:
    """Raise LoopError for a tensor whose strides only data tell."""
    if isinstance(tensor, Tensor) and (branches := getattr(tensor, LAID_OUT, None)) is not None:
        raise LoopError(ASKED.format(question=name), branches)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    """Return how a tensor lies in memory, in a form that can be compared."""
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided:
            return (tensor.layout,)
        return tuple(str(each) for each in (tensor.stride(), tensor.storage_offset()))


def _laid_out_by(value: Any, seen: dict[int, frozenset[Line] | None]) -> frozenset[Line] | None:
    """Return the lines by which the strides of a tensor hang on data; None where they do not.

    `seen` has the answers for tensors that others were chosen from: a branch behind many has each of them many times.
    """
    if not isinstance(value, Tensor):
        return None
    if (known := getattr(value, LAID_OUT, None)) is not None:
        return known
    origin, _ = origin_of(value)
    choice = _choice_of(origin)
    if choice is None:
        return getattr(origin, LAID_OUT, None)
    if id(origin) not in seen:
        own = _layout(origin)[:1]
        tensors = [each.stand_in for each in choice.values if isinstance(each.stand_in, Tensor)]
        is_other = any(_laid_out_by(each, seen) is not None or _layout(each)[:1] != own for each in tensors)
        seen[id(origin)] = choice.branches if is_other else None
    return seen[id(origin)]


# What is asked through Python -----------------------------------------------------------------------------------------


@contextmanager
def alternatives_asked(copied: Copied) -> Iterator[Asked]:
    """Ask meanwhile all that a tensor may be what the model asks of it for attributes of its own.

    Yields the part of a function mode that asks what the model asks through PyTorch.

    Args:
        copied: Is told of a copy that may be a view, of what it may be a view of, and of the lines of the branches.
    """
    laid_out: list[bool] = []
    token = _any_laid_out.set(laid_out)
    try:
        with (
            mock.patch.object(Tensor, "__getattr__", _attribute, create=True),
            mock.patch.object(Tensor, "__setattr__", _assigned),
        ):
            yield Asked(laid_out, copied)
    finally:
        _any_laid_out.reset(token)


def _attribute(tensor: Tensor, name: str) -> Any:
    """Return an attribute that a tensor does not have, of all that it may be."""
    if not name.startswith(_OWN) and is_chosen(tensor) and _is_asked_by_model():
        found = agreed(f"'{name}'", lambda each: getattr(each, name, MISSING), tensor)
        if found is not MISSING:
            return found
    raise AttributeError(f"'{type(tensor).__name__}' object has no attribute '{name}'")


_set = Tensor.__setattr__


def _assigned(tensor: Tensor, name: str, value: Any) -> None:
    """Set an attribute.

    Raises:
        LoopError: It may be one of a tensor that the model has by another name; or a body sets it outside of itself,
            which is not undone.
    """
    is_of_pytorch = sys._getframe(1).f_code.co_filename == _FAKES  # which sets a dozen on each
    if not is_of_pytorch and not name.startswith(_OWN) and not hasattr(Tensor, name) and _is_asked_by_model():
        identity_of(tensor)
        if is_outside(tensor):
            raise LoopError(f"it sets '{name}' of a tensor that is there before it")
    _set(tensor, name, value)
