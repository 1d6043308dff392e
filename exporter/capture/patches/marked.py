"""Attributes of tensors beside their values: those that `forward` sets on parameters, and asks of what it computes."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture.control_flow import alternatives
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.guards.askers import calling_frame
from fxport.exporter.capture.patches.outside import Effects
from fxport.exporter.capture.patches.trainable import TrainableTold, is_asked_by_model

SETTING: Mapping[Any, str] = {
    Tensor.grad.__set__: "grad",  # type: ignore[attr-defined]  # descriptors
    Tensor.requires_grad.__set__: "requires_grad",  # type: ignore[attr-defined]
    Tensor.requires_grad_: "requires_grad",
    Tensor.register_hook: "hooks",
    Tensor.register_post_accumulate_grad_hook: "hooks",
}
"""Functions that set something on a tensor, with what they set."""

ASKING: Mapping[Any, str] = {
    Tensor.requires_grad.__get__: "requires_grad",  # type: ignore[attr-defined]
    Tensor.grad_fn.__get__: "grad_fn",  # type: ignore[attr-defined]
    Tensor.is_leaf.__get__: "is_leaf",  # type: ignore[attr-defined]
    Tensor._version.__get__: "_version",  # type: ignore[attr-defined]
}
"""Attributes of tensors that are others where gradients are recorded, or writes are counted otherwise."""

VERSION = Tensor._version.__get__  # type: ignore[attr-defined]

_FOR_CALLER = frozenset(map(inspect.getfile, (torch.nn.Module, Tensor.register_hook, torch.overrides)))
"""Files of PyTorch in which these are called for the caller: `module.requires_grad_()`."""


class MarksNoted(Part):
    """Note what is set on the parameters and buffers of a model, and what is asked of the tensors that it computes.

    Args:
        effects: Gets what was set or asked, and where.
        trainable: Knows which parameters require a gradient, and is told of what becomes of that.
    """

    functions = SETTING.keys() | ASKING.keys()

    def __init__(self, effects: Effects, trainable: TrainableTold) -> None:
        self.effects, self.trainable = effects, trainable
        self.names: dict[int, str] = {}
        self.given: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = self.names.get(id(args[0]))
        if func in ASKING:
            if self.is_another_in_eager(func, args[0]):
                self.effects.reads.note(f"Tensor.{ASKING[func]}", calling_frame((__file__, alternatives.__file__)))
        elif name is not None and is_asked_by_model(_FOR_CALLER):
            mark = SETTING[func]
            was = self.was(mark, *args, **(kwargs or {}))
            if was is not None:
                place = place_of_stack([*traceback.walk_stack(sys._getframe(1))])
                self.effects.marked.setdefault(f"{name}.{mark}", (place, was))
        return func(*args, **(kwargs or {}))

    def is_another_in_eager(self, func: Any, tensor: Tensor) -> bool:
        """Return whether an attribute may be another one in eager PyTorch, which records gradients of parameters."""
        if func == VERSION:
            return True
        is_computed = id(tensor) not in self.names and id(tensor) not in self.given
        return is_computed and bool(self.trainable.trainable) and not torch.is_grad_enabled()

    def was(self, mark: str, tensor: Tensor, value: Any = True, *, requires_grad: bool = True) -> str | None:
        """Return in words what there was before; None if it stays."""
        if mark == "hooks":
            return "a tensor of other hooks"
        if mark == "grad":
            return None if value is None and tensor.grad is None else "another gradient"
        held, is_wanted = self.trainable.trainable, bool(value and requires_grad)
        was = id(tensor) in held
        if is_wanted:
            held[id(tensor)] = tensor
        else:
            held.pop(id(tensor), None)
        return None if was == is_wanted else f"'{was}'"


@contextmanager
def marks_noted(model: torch.nn.Module, part: MarksNoted) -> Iterator[None]:
    """Let the part know the parameters and buffers, as they are when `forward` is called."""

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        part.given = {id(each) for each in pytree.tree_leaves((args, kwargs))}
        part.names = {id(each): name for name, each in (*model.named_parameters(), *model.named_buffers())}
        return forward(*args, **kwargs)

    with forward_by(model, call):
        yield
