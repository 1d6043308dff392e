"""Views of tensors, and how each was made: a body that writes to a tensor makes its views anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.function_mode import Part

MADE = "_fxport_made"
"""The attribute of a view that holds the step by which it was made."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call that made a view of its first argument; `index` is the view's place where it made several."""

    function: Callable[..., Any]
    base: Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    index: int | None

    def view_of(self, base: Tensor) -> Tensor:
        """Make the same view of another tensor."""
        made = self.function(base, *self.args, **self.kwargs)
        return made if self.index is None else made[self.index]

    @property
    def operands(self) -> list[Any]:
        """The arguments other than the base, without their structure."""
        return pytree.tree_leaves((self.args, self.kwargs))


class ViewsNoted(Part):
    """Note how views are made."""

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(args) and isinstance(args[0], Tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            _note(result, Step(func, args[0], args[1:], kwargs or {}, None))
        elif isinstance(result, (tuple, list)):
            for i, each in enumerate(result):
                if isinstance(each, Tensor):
                    _note(each, Step(func, args[0], args[1:], kwargs or {}, i))
        return result


def _note(view: Tensor, step: Step) -> None:
    base = step.base
    if view.layout is not torch.strided or base.layout is not torch.strided or hasattr(view, MADE):
        return
    try:
        is_shared = storage_of(view) == storage_of(base)
    except NotImplementedError:  # within a function of torch.func, whose tensors end with it
        return
    if is_shared and not any(each is view for each in _chain(base)):
        setattr(view, MADE, step)


def _chain(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor and all that it was made of; `view._base` gives one of these back."""
    yield tensor
    while (step := getattr(tensor, MADE, None)) is not None:
        tensor = step.base
        yield tensor


def origin_of(tensor: Tensor) -> tuple[Tensor, list[Step]]:
    """Return the tensor that others are views of, and the steps from it to a view."""
    steps: list[Step] = []
    while (step := getattr(tensor, MADE, None)) is not None:
        steps.append(step)
        tensor = step.base
    return tensor, steps[::-1]


def are_repeatable(origin: Tensor, steps: Sequence[Step], view: Tensor) -> bool:
    """Return whether the steps make this view; one of the tensors may have got other memory or axes since."""
    if any(isinstance(each, Tensor) for step in steps for each in step.operands):
        return False
    return is_like(again(origin, steps), view) and storage_of(origin) == storage_of(view)


def is_like(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same type, sizes, strides and offset, as far as that is certain."""
    first, second = (
        [str(each.dtype), str(each.shape), str(each.stride()), str(each.storage_offset())] for each in (one, other)
    )
    return first == second


def storage_of(tensor: Tensor) -> int:
    """Return a number that is the same for all tensors that share memory."""
    return tensor.untyped_storage()._cdata  # with all modes: a tensor that was `set_` has another one without them


def again(origin: Tensor, steps: Sequence[Step]) -> Tensor:
    """Make the view of a tensor to which these steps lead."""
    for step in steps:
        origin = step.view_of(origin)
    return origin
