"""Elements that the turns of a loop append to lists: as tensors that a scan gives, and as items that then stand there.

A turn may append tensors, numbers, tuples of these, and what a loop within it has appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.merging import DTYPES, LoopError, are_of_one_kind, in_words
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.stacked_items import StackedItems, StackedTuples, tensor_of
from fxport.exporter.capture.control_flow.truth import as_tensor, predicate

Item = tuple[Any, Any]
"""An element that was appended to a list, and whether it was."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One of the elements that each turn appends to a list.

    Attributes:
        parts: The values in it: one, or those of a tuple.
        spec: The form of the tuple.
        always: Whether it is appended in any case.
    """

    parts: Sequence[Any]
    spec: Any
    always: bool

    @classmethod
    def of(cls, item: Item) -> Appended:
        value, on = item
        if not _is_tuple(value):
            return cls((value,), None, on is True)
        parts, spec = pytree.tree_flatten(value)
        return cls(parts, spec, on is True)

    @property
    def is_several(self) -> bool:
        """True if it is as many elements as a loop in the turn has appended."""
        return isinstance(self.parts[0], StackedItems)


def tensors_of(items: Sequence[Item]) -> list[Tensor]:
    """Return the parts of what a turn appended to a list as tensors, each element's test behind it if data tell that.

    Raises:
        LoopError: It appends what no tensor holds.
    """
    found: list[Tensor] = []
    for item in items:
        made = Appended.of(item)
        found += [_tensor(each) for each in made.parts]
        found += [] if made.always else [predicate(item[1])]
    return found


def items_left(kinds: Sequence[Appended], stacked: Iterator[Any], last: Any) -> tuple[StackedItems, list[Tensor]]:
    """Return the items that turns leave in a list, and the tensors in it that each of their tensors became a part of.

    Args:
        kinds: The elements that each turn appends.
        stacked: Gives the tensors of `tensors_of`, each of all turns.
        last: The last of the elements, where the loop has carried that.

    Raises:
        LoopError: No tensor holds what they are together.
    """
    columns: list[list[Any]] = []
    tests: list[Tensor | None] = []
    for kind in kinds:
        columns.append([next(stacked) for _ in kind.parts])
        tests.append(None if kind.always else next(stacked))
    spec = kinds[0].spec
    if any(kind.spec != spec for kind in kinds):
        raise LoopError("it appends tuples of different forms to a list")
    several = [kind.is_several for kind in kinds]
    made: list[StackedItems] = []
    for i, parts in enumerate(zip(*columns, strict=True)):
        values = [kind.parts[i] for kind in kinds]
        numbers = are_of_one_kind(values) or all(isinstance(each, StackedItems) and each.numbers for each in values)
        rows = _interleaved([*zip(parts, tests, strict=True)], several)
        made.append(StackedItems(rows, last if spec is None else None, numbers=numbers))
    held = [each.stacked.whole if isinstance(each.stacked, Ragged) else each.stacked for each in made]
    listed = [tensor for kind in kinds for tensor in (*held, *([] if kind.always else held[:1]))]
    return made[0] if spec is None else StackedTuples(spec, made, last), listed


def _is_tuple(value: Any) -> bool:
    """Return whether a value is a tuple of tensors, numbers and such tuples: nobody can change what it holds."""
    if not isinstance(value, tuple) or not value or pytree._get_node_type(value) not in pytree.SUPPORTED_NODES:
        return False
    return all(isinstance(each, (Tensor, *DTYPES)) or _is_tuple(each) for each in value)


def _tensor(value: Any) -> Tensor:
    if isinstance(value, StackedItems):  # of a loop in the turn
        return tensor_of(value)
    if not isinstance(value, (Tensor, *DTYPES)):
        raise LoopError(f"it appends {in_words(value)} to a list")
    return as_tensor(value)


def _interleaved(rows: Sequence[tuple[Any, Tensor | None]], several: Sequence[bool]) -> Any:
    """Return the elements of all turns in their order, those of one turn together, without what was not appended.

    Of `several` of the rows, each turn gives as many elements as a loop in it has appended.
    """
    if len(rows) == 1 and rows[0][1] is None:
        return _one_by_one(rows[0][0]) if several[0] else rows[0][0]
    if any(isinstance(each, Ragged) for each, _ in rows):
        raise LoopError("it appends some of the parts of different sizes")
    if any(several):
        if any(on is not None for _, on in rows):
            raise LoopError("it appends what a loop in it gives, and by a test")
        parts = [each if inner else each.unsqueeze(1) for (each, _), inner in zip(rows, several, strict=True)]
        return torch.cat(parts, 1).flatten(0, 1)
    items = torch.stack([each for each, _ in rows], 1).flatten(0, 1)
    if all(on is None for _, on in rows):
        return items
    whether = [torch.ones_like(each.flatten(1)[:, 0], dtype=torch.bool) if on is None else on for each, on in rows]
    return items[torch.stack(whether, 1).flatten()]


def _one_by_one(stacked: Tensor | Ragged) -> Tensor:
    """Return in one row each what a loop in the turns gave: of [turns, inner, ...], or of parts of different sizes."""
    if not isinstance(stacked, Ragged):
        return stacked.flatten(0, 1)
    if stacked.axis:
        raise LoopError("it appends the parts of different sizes that a loop in it gives")
    return stacked.whole
