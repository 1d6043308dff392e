"""The example call with other values, where sizes inside of the model depend on them: `x[mask]`, `nonzero`, `.item()`.

New values are drawn from those that the tensor holds, so that ids stay in their tables and lengths within their bounds.
Fractions shrink a little where they are drawn again, as in `resizing`. Only the inputs from which a size comes are
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.padded import refitted
from fxport.exporter.capture.sizes.resizing import shrunk
from fxport.fx_passes.program import Program

SEED = 0
DRAWS = 32
"""Number of draws of new values for others that do not come to the same sum."""

Change = Callable[[Tensor], Tensor]


def _drawn_again(x: Tensor) -> Tensor:
    """Draw each element anew from the tensor's; a lone one becomes the number before it, or its contrary."""
    if x.numel() == 1:
        return x.logical_not() if x.dtype is torch.bool else x if x.is_floating_point() else (x - 1).clamp(min=0)
    drawn, generator = x, torch.Generator().manual_seed(SEED)
    for _ in range(DRAWS):
        index = torch.randint(x.numel(), (x.numel(),), generator=generator).to(x.device)
        drawn = shrunk(x.reshape(-1)[index], 0, _repetition(index)).reshape(x.shape)
        if drawn.sum() != x.sum():  # as many in a mask, and as much in all, would mostly make the same size
            break
    return drawn


def _repetition(index: Tensor) -> Tensor:
    """Return how often each index occurs before its own position."""
    ordered, places = index.sort(stable=True)
    before = torch.arange(len(index), device=index.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(index).scatter_(0, places, before)


def _lowest(x: Tensor) -> Tensor:
    """Fill with the lowest of the tensor's elements; a lone number becomes 0."""
    return torch.zeros_like(x) if x.numel() == 1 else x.amin().expand(x.shape).clone()


def _highest(x: Tensor) -> Tensor:
    return x.amax().expand(x.shape).clone()


OTHER: Mapping[str, Change] = {"other values": _drawn_again}
HARD: Mapping[str, Change] = {**OTHER, "the lowest values": _lowest, "the highest values": _highest}
"""By label, what becomes of an input that sizes depend on. Of a mask the lowest are none, the highest all."""


def at_other_values(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield (label, call) with other sizes that depend on values, as far as chance gives them."""
    return _changed(module, call, program, OTHER)


def at_hard_values(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield as `at_other_values` does, also with values that mostly make the sizes 0 and as large as they can be."""
    return _changed(module, call, program, HARD)


def _changed(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, changes: Mapping[str, Change]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    decide = deciding(program)
    if not decide:
        return
    args, kwargs = call
    arguments = arguments_of(module, args, kwargs)
    paths = [leaf.path for leaf in leaves_of(arguments)]
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    seen = [leaves]
    for label, change in changes.items():
        fresh = [
            change(leaf.detach()) if path in decide and _has_values(leaf) else leaf
            for path, leaf in zip(paths, leaves, strict=True)
        ]
        if not any(_same(fresh, other) for other in seen):
            seen.append(fresh)
            yield label, refitted(pytree.tree_unflatten(fresh, spec))


def deciding(program: Program) -> set[str]:
    """Return the paths of the inputs from which the operations come that make such sizes."""
    paths = {node: entry.path for node, entry in zip(program.placeholders, program.inputs, strict=True) if entry.path}
    found: set[str] = set()
    seen: set[Node] = set()
    waiting = [node for node in program.graph_module.graph.nodes if _makes_a_size(node)]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            found |= {paths[node]} if node in paths else set()
            waiting += node.all_input_nodes
    return found


def _makes_a_size(node: Node) -> bool:
    """Return whether a size that no input determines is first seen here."""
    before = set().union(*(_unknown(operand) for operand in node.all_input_nodes))
    return bool(_unknown(node) - before)


def _unknown(node: Node) -> set[Any]:
    values = pytree.tree_leaves(node.meta.get("val"))
    return set().union(*(free_unbacked_symbols(v) for v in values if isinstance(v, Tensor | torch.SymInt)))


def _has_values(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.numel() > 0 and not leaf.is_complex()


def _same(one: list[Any], other: list[Any]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b
        for a, b in zip(one, other, strict=True)
    )
