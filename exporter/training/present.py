"""Parameters without a gradient in some runs: eager PyTorch leaves these out of the update, and so does the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from fxport.diagnostics import Place
from fxport.exporter.capture.control_flow.absent_gradients import (
    Presence,
    Unknown,
    any_of,
    deciding,
    edges_of,
    either,
    nodes_behind,
)
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.training.alike import is_known
from fxport.exporter.training.optimizers import State
from fxport.exporter.training.parts import Parts

CURE = (
    "Let each step read the parameter, so that its gradient is 0 and not None in PyTorch, too: add "
    "`0 * parameter.sum()` to the loss, for each parameter of the layer."
)


class Presences:
    """While gradients are computed, follows through autograd's graph which are present.

    Attributes:
        found: The presence for each leaf, by its id, where the gradient may be absent.
        lines: The lines that decide about those.
    """

    def __init__(self) -> None:
        self.found: dict[int, Presence] = {}
        self.lines: dict[int, Line | None] = {}
        self._behind: dict[Any, dict[int, Presence]] = {}
        self._by: dict[Any, Line | None] = {}
        self._readers: Counter[Any] = Counter()

    def of(self, leaf: Tensor) -> Presence:
        """Return whether a leaf's gradient is present."""
        return self.found.get(id(leaf), True)

    def masked(self, leaf: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of a leaf; zeros where it is absent."""
        presence = self.of(leaf)
        return only_where(presence, gradient) if isinstance(presence, Tensor) else gradient

    def add(self, present: dict[str, Presence], lines: dict[str, Line | None], leaves: Mapping[str, Tensor]) -> None:
        """Add the presence of gradients in one more micro-batch, and the lines that decide, by the names of leaves."""
        for name, leaf in leaves.items():
            present[name] = either(present.get(name, False), self.of(leaf))
            lines.setdefault(name, self.lines.get(id(leaf)))

    @contextmanager
    def followed(self, loss: Tensor) -> Iterator[None]:
        """Follow the gradient of a loss in the block, if an operator that decides about gradients is behind it."""
        nodes = [] if loss.grad_fn is None else [*nodes_behind(loss.grad_fn)]
        if not any(map(deciding, nodes)):
            yield
            return
        self._behind = {loss.grad_fn: {loss.output_nr: True}}
        self._readers = Counter(each for node in nodes for each, _ in edges_of(node))
        leaves = {node: leaf for node in nodes if (leaf := getattr(node, "variable", None)) is not None}
        handles = [node.register_hook(self._hook(node)) for node in nodes if node not in leaves]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        for node, leaf in leaves.items():
            presence = self._behind.get(node, {}).get(0, True)
            if presence is not True:
                self.found[id(leaf)], self.lines[id(leaf)] = presence, self._by.get(node)

    def _hook(self, node: Any) -> Callable[..., Any]:
        def passed(inputs: Sequence[Tensor | None], _: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
            results, decides = self._behind.get(node, {}), deciding(node)
            if decides is None:
                presences, line = [any_of(results.values())] * len(inputs), self._by.get(node)
            else:
                results = [results.get(place, False) for place in range(max(results, default=-1) + 1)]
                presences, line = decides.of_operands(results), decides.line
            given = zip(edges_of(node), inputs, presences, strict=True)
            return tuple(self._passed(*each, line) for each in given)

        return passed

    def _passed(
        self, edge: tuple[Any, int], gradient: Tensor | None, presence: Presence, line: Line | None
    ) -> Tensor | None:
        """Pass a gradient on; where it is absent, what follows from its zeros, such as NaN, does not come to others."""
        node, place = edge
        if node is None or gradient is None:
            return gradient
        held = self._behind.setdefault(node, {})
        held[place] = either(held.get(place, False), presence)
        if presence is not True:
            self._by.setdefault(node, line)
        return only_where(presence, gradient) if isinstance(presence, Tensor) and self._readers[node] > 1 else gradient


def only_where(present: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient; zeros where it is absent."""
    return torch.where(present, gradient, torch.zeros((), dtype=gradient.dtype, device=gradient.device))


def require_leavable(
    present: Mapping[str, Presence], parts: Parts, optimizers: Sequence[Optimizer], lines: Mapping[str, Line | None]
) -> None:
    """Raise RefusedError for a parameter of which no graph can tell that its optimizer leaves it as it is."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = parts.names[id(parameter)]
                reason = _reason(present.get(name, True), parameter, optimizer, group)
                if reason is not None:
                    line = lines.get(name)
                    place = None if line is None else Place(*line)
                    raise RefusedError(
                        f"it decides whether '{name}' has a gradient, without which it stays as it is, {reason}",
                        place=place,
                        cure=CURE,
                    )


def _reason(presence: Presence, parameter: Tensor, optimizer: Optimizer, group: Mapping[str, Any]) -> str | None:
    """Return why an update cannot be left out by data; None where it can, or is nothing without a gradient."""
    if presence is True:
        return None
    if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
        return "and a hook of the parameter would run in the graph all the same"
    if not is_known(optimizer):
        return f"and what {type(optimizer).__name__} or its hooks make of that is not known"
    if isinstance(presence, Unknown) and not _is_neutral(optimizer, group):
        return "in a branch within a branch or a loop, of which the graph does not tell afterwards whether it ran"
    return None


def _is_neutral(optimizer: Optimizer, group: Mapping[str, Any]) -> bool:
    """Return whether an update by a gradient of zeros changes nothing."""
    return type(optimizer) is torch.optim.SGD and not group["momentum"] and not group["weight_decay"]


def leave_absent(
    present: Mapping[str, Presence],
    before: tuple[Mapping[str, Tensor], State],
    after: tuple[dict[str, Tensor], State],
) -> None:
    """Put back parameters and their state where the gradient is absent, as far as data tell.

    Args:
        present: Whether the gradient is present, by the parameter's name.
        before: The parameters and the state before the update.
        after: Those behind it, which are changed.
    """
    (parameters, state), (new_parameters, new_state) = before, after
    for name, presence in present.items():
        if isinstance(presence, Tensor):
            new_parameters[name] = torch.where(presence, new_parameters[name], parameters[name])
            held = state.get(name, {})
            new_state |= {
                name: {key: torch.where(presence, each, held[key]) for key, each in new_state.get(name, {}).items()}
            }
        elif presence is False:
            new_state |= {name: state[name]} if name in state else {}
