"""Elements of lists and tuples, of which only data tell which one: `self.layers[int(k)]`, `(0.1, 0.2, 0.5)[n % 3]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NoReturn

import torch
from torch import SymBool, SymInt, Tensor, nn

from fxport.exporter.capture.annotations import CHOSEN, noted
from fxport.exporter.capture.control_flow.branches import chosen
from fxport.exporter.capture.control_flow.merging import DTYPES, PLAIN, LoopError
from fxport.exporter.capture.control_flow.replaced import watch_replaced
from fxport.exporter.capture.control_flow.truth import as_tensor, depends_on_data
from fxport.exporter.capture.patches.numbers import number

CALLED = (nn.Module, FunctionType, BuiltinFunctionType, MethodType)
"""Of what is there to be called."""

MOST_CHOICES = 16
"""Elements among which data may choose, unless they are numbers: they are the branches of conditions in each other."""


def is_index_of_data(index: Any) -> bool:
    """Return whether an index is a whole number that only data tell."""
    if isinstance(index, Tensor):
        return index.numel() == 1 and not index.dtype.is_floating_point and index.dtype is not torch.bool
    return isinstance(index, (SymInt, SymBool)) and depends_on_data(index)


def as_asked(index: Any) -> Any:
    """Return an index; of a dynamic size the example's number, which is asked for as by `if index == 3`."""
    hint = index.node.hint if isinstance(index, SymInt) else None
    return hint if hint is not None and index == hint else index


def chosen_at(values: Sequence[Any], index: Any) -> Any:
    """Return `values[index]`, where there is an element and data tell which.

    Raises:
        LoopError: There are too many elements to choose from.
    """
    at = as_tensor(number(index)).reshape(())
    at = torch.where(at < 0, at + len(values), at)
    if type(values[0]) in PLAIN and all(type(each) is type(values[0]) for each in values):
        return torch.tensor([*values], dtype=DTYPES[type(values[0])])[at].item()
    if len(values) > MOST_CHOICES:
        raise LoopError(f"data tells which of {len(values)} elements it takes, which are more than {MOST_CHOICES}")
    if all(isinstance(each, CALLED) for each in values):
        return OneOf([*values], at)  # the list may be changed before it is called
    result = _chosen_of([lambda each=each: each for each in values], at)
    for each in values:  # `lists[index].append(x)` would append to a new list
        watch_replaced(each, result, frozenset())
    return result


class OneOf:
    """One of several modules or functions, of which data tell which: it is called as that, and has its attributes.

    Who asks which one it is, of what kind, or changes it, is refused.
    """

    _fxport_choice = True
    _of: Sequence[Any]
    _at: Any

    def __init__(self, modules: Sequence[Any], index: Any) -> None:
        vars(self).update({"_of": modules, "_at": index})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        calls = [lambda each=each: each(*args, **kwargs) for each in self._of]
        return _chosen_of(calls, self._at)

    def __getattr__(self, name: str) -> Any:
        return _chosen_of([lambda each=each: getattr(each, name) for each in self._of], self._at)

    @property
    def __class__(self) -> Any:  # type: ignore[override]  # it cannot be set
        """The type of all of them, which `isinstance` asks for."""
        kinds = {type(each) for each in self._of}
        return kinds.pop() if len(kinds) == 1 else refuse_choice()

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_choice()

    def __delattr__(self, name: str) -> None:
        refuse_choice()

    def __eq__(self, other: object) -> bool:
        return self is other or refuse_choice()

    def __hash__(self) -> int:
        return refuse_choice()


def refuse_choice() -> NoReturn:
    """Raise LoopError: which module it is, only data tell."""
    raise LoopError("it asks more of a module or a function that data choose than to be called, or for an attribute")


def _chosen_of(values: Sequence[Callable[[], Any]], at: Tensor, first: int = 0) -> Any:
    """Return what one of these functions gives, of which the first has this number."""
    if len(values) == 1:
        return values[0]()
    half = len(values) // 2
    with noted(CHOSEN, (first, first + half, first + len(values))):
        return chosen(
            at < first + half,
            _unnoted(lambda: _chosen_of(values[:half], at, first)),
            _unnoted(lambda: _chosen_of(values[half:], at, first + half)),
        )


def _unnoted(branch: Callable[[], Any]) -> Callable[[], Any]:
    """Return a branch whose own conditions are none of the index."""

    def run() -> Any:
        with noted(CHOSEN, None):
            return branch()

    return run
