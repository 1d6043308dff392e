"""The model's own parameters and buffers where a step reaches them past the model: in lists, hooks, optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack


class OwnTensors(TorchFunctionMode):
    """While it is on, functions that are given a tensor of the model's work on that of the step in its place.

    The model itself is called with the tensors of the step inside. A list of parameters that was made before, a hook or
    an optimizer has the originals, which would be constants in the graph and get no gradient.

    Attributes:
        values: The tensors of the step, by the ids of the model's own.
        watched: Ids of further tensors, of which `read` gets those that a function was given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[int, torch.Tensor] = {}
        self.watched: frozenset[int] = frozenset()
        self.read: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return func(*self.swapped(args), **{name: self.swapped(value) for name, value in (kwargs or {}).items()})

    def swapped(self, value: Any) -> Any:
        """The value with the tensors of the step, also in lists and tuples."""
        if isinstance(value, torch.Tensor):
            if id(value) in self.watched:
                self.read.add(id(value))
            return self.values.get(id(value), value)
        if type(value) in (list, tuple):
            return type(value)(map(self.swapped, value))
        return value

    @contextmanager
    def instead_of(self, *replaced: tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]) -> Iterator[None]:
        """Turn it on for a block, with pairs of the model's own tensors and those of the step, both by name."""
        self.values = {id(own[name]): value for own, values in replaced for name, value in values.items()}
        apply = vars(torch.autograd.Function)["apply"]  # a class method, of Python or of C
        engine = torch.autograd._engine_run_backward  # pyright: ignore[reportPrivateImportUsage]
        modes = (*_get_current_function_mode_stack(), self)

        def applied(function: Any, *args: Any, **kwargs: Any) -> Any:
            return apply.__get__(None, function)(*self.swapped(args), **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            on = set(_get_current_function_mode_stack())
            with ExitStack() as around:  # all are off within torch.autograd.grad, which calls hooks
                for mode in modes:
                    if mode not in on:
                        around.enter_context(mode)
                return engine(*args, **kwargs)

        with ExitStack() as entered:
            entered.enter_context(mock.patch.object(torch.autograd.Function, "apply", classmethod(applied)))
            entered.enter_context(mock.patch.object(torch.autograd, "_engine_run_backward", run))
            entered.enter_context(self)
            yield
