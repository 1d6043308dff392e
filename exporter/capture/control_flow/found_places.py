"""`for i in hit.nonzero()` over the places of a mask of known size: one turn for each place, under a condition.

Layers of experts do so, with the place as the number of a module, of which a scan has no more than one:

for expert in hit.nonzero():             found = Found.of(hit.nonzero())
    y = self.experts[expert](x)          for k in found.known:
    out.index_add_(0, rows, y)               if found.holds(k):
                                                 expert = found.place(k)
                                                 y = self.experts[expert](x)
                                                 out.index_add_(0, rows, y)
                                         for expert in found.rest:
                                             the turn as it was
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fxport.exporter.capture.analysis.names import own_nodes
from fxport.exporter.capture.control_flow.symbolic_lists import SymbolicList, unwrap
from fxport.exporter.capture.control_flow.syntax import expression
from fxport.exporter.capture.knowledge import known, note

SOURCES = frozenset({"nonzero", "tolist", "squeeze", "flatten"})
"""Methods that a loop over places may call in its head."""

MOST = 2**8
"""Masks of more places are not gone through one by one."""

ORIGIN = "places of"
"""The fact of a tensor of places that is the mask in which they were found; a write to either ends it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A loop over the places of a mask, one by one, or over anything else as it is."""

    known: Sequence[int] = ()
    rest: Any = ()
    mask: Tensor | None = None
    place: Callable[[int], Any] = int

    @staticmethod
    def of(value: Any) -> Found:
        whole = unwrap(value) if isinstance(value, SymbolicList) else value
        mask = known(whole, ORIGIN)
        if mask is None:
            return Found(rest=value)
        mask = mask.clone()  # the loop itself may write to it
        rows, device = whole.dim() == 2, whole.device
        listed = whole is not value

        def place(k: int) -> Any:
            return k if listed else torch.tensor([k] if rows else k, device=device)

        return Found(range(mask.shape[0]), (), mask, place)

    def holds(self, k: int) -> Tensor:
        assert self.mask is not None
        return self.mask[k] != 0


def noted(places: Any, mask: Tensor) -> Any:
    """Places that were found in a mask, which they then know if it has one axis of a known, small size."""
    if mask.dim() == 1 and type(mask.shape[0]) is int and mask.shape[0] <= MOST:
        for each in places if isinstance(places, tuple) else (places,):
            note(each, ORIGIN, mask, mask)
    return places


def _nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    return noted(torch.nonzero(x, as_tuple=as_tuple), x)


def _where(condition: Tensor, *rest: Any, **kwargs: Any) -> Any:
    return NotImplemented if rest or kwargs else noted(torch.where(condition), condition)


def _reformed(method: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make the function note that the places along one axis stay the same ones."""

    def made(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        mask = known(x, ORIGIN)
        if mask is None:
            return NotImplemented
        result = method(x, *args, **kwargs)
        return noted(result, mask) if result.dim() == 1 else result

    return made


FINDING: Mapping[Any, Callable[..., Any]] = {
    torch.nonzero: _nonzero,
    Tensor.nonzero: _nonzero,
    torch.where: _where,
    **{each: _reformed(each) for each in (Tensor.squeeze, Tensor.flatten, Tensor.view, Tensor.reshape)},
}
"""Functions that make indices of elements, which are recorded; each returns NotImplemented for anything else."""


def places_as_turns(function: ast.FunctionDef, lines: set[int]) -> bool:
    """Rewrites each loop at these lines that may run over places. Whether there was one."""
    found = False
    for parent in [*own_nodes(function)]:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and any(_is_candidate(node, lines) for node in block):
                setattr(parent, field, [new for node in block for new in _turned(node, lines)])
                found = True
    if found:
        ast.fix_missing_locations(function)
    return found


def _is_candidate(node: ast.stmt, lines: set[int]) -> bool:
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return False
    if node.orelse or node.lineno not in lines:
        return False
    source = node.iter
    called = isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr in SOURCES
    return (called or isinstance(source, ast.Name)) and any(map(_writes, ast.walk(node)))


def _writes(node: ast.AST) -> bool:
    """`y.index_add_(...)`, `y[rows] += ...`: what a scan cannot do."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Subscript)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_")


def _turned(node: ast.stmt, lines: set[int]) -> list[ast.stmt]:
    if not _is_candidate(node, lines):
        return [node]
    assert isinstance(node, ast.For)
    name, place = f"_found_{node.lineno}_{node.col_offset}", f"_place_{node.lineno}_{node.col_offset}"
    taken = ast.Assign([node.target], expression(f"{name}.place({place})"))
    branch = ast.If(expression(f"{name}.holds({place})"), [taken, *copy.deepcopy(node.body)], [])
    new = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Call(expression("_steps.Found.of"), [node.iter], [])),
        ast.For(ast.Name(place, ast.Store()), expression(f"{name}.known"), [branch], []),
        ast.For(node.target, expression(f"{name}.rest"), node.body, []),
    ]
    own = {id(each) for part in (branch.body[1:], node.body, [node.iter]) for top in part for each in ast.walk(top)}
    for each in (each for top in new for each in ast.walk(top)):
        if id(each) not in own and "lineno" in each._attributes:
            ast.copy_location(each, node)
    return new
