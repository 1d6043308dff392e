"""Snapshots of the Python state that a model can reach: what has changed since, and putting it back.

    state = Snapshot.of({"": model})        # roots by their names: modules, functions, variables of a frame, anything
    ...                                     # run Python that may change something
    for change in state.changes():          # what is held otherwise now, by name, with both values
        print(change.name, change.before, change.after)
    state.restore()                         # the same objects, and in each container what it held
    for holder in state.left_over():        # what could not be put back and holds fake tensors or symbolic numbers
        print(holder.name)

What counts as reachable is told in `fxport.exporter.capture.reachable`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from fxport.exporter.capture.holders import MISSING, Contents, Frozen, Holder, paired
from fxport.exporter.capture.reachable import SCALARS, reachable

MERGED_STATE = "_fxport_merged_state"
"""The attribute of a value that a branch or a loop left outside of variables: what was there before, if it is taken."""

CAPTURED = (FakeTensor, FunctionalTensor, torch.SymInt, torch.SymFloat, torch.SymBool, torch.fx.Proxy)
"""Types of values that mean nothing outside of the capture that made them."""

DEEPEST = 4
"""Steps from a memo or a generator to what it holds: its table, an entry, a tuple of results, a result."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value that a holder has no longer, or anew: MISSING stands for none."""

    holder: Holder
    key: Any
    before: Any
    after: Any

    @property
    def name(self) -> str:
        """Return it as people write it: "layer.counts[0]"."""
        return self.holder.name_of(self.key)

    def undo(self) -> None:
        """Put this value back, and leave what else the holder has now."""
        keys, values = self.holder.kind.read(self.holder.owner)
        now = {**paired((keys, values)), self.key: self.before}
        kept = {key: value for key, value in now.items() if value is not MISSING}
        if self.holder.kind.write is not None:
            self.holder.kind.write(self.holder.owner, (None if keys is None else [*kept], [*kept.values()]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Holders with what they held at one moment, which it keeps alive."""

    held: Sequence[tuple[Holder, Contents]]

    @classmethod
    def of(cls, roots: Mapping[str, Any]) -> Snapshot:
        """Return what can be reached from the roots, as it is now."""
        return cls(reachable(roots))

    def functions(self) -> Iterator[FunctionType]:
        """Yield the functions that can be reached."""
        yield from (holder.owner for holder, _ in self.held if isinstance(holder.owner, FunctionType))

    def values(self) -> Iterator[tuple[Holder, Any, Any]]:
        """Yield what was held: the holder, the key and the value."""
        yield from ((holder, *each) for holder, before in self.held for each in paired(before).items())

    def anew(self) -> Snapshot:
        """Return the same holders with what they hold now; what else can be reached by now is not in it."""
        return Snapshot([(holder, holder.kind.read(holder.owner)) for holder, _ in self.held])

    def changes(self) -> Iterator[Change]:
        """Yield what is held now and was not, or was and is no longer; equal numbers and strings are the same."""
        for holder, before in self.held:
            now = holder.kind.read(holder.owner)
            if not holder.kind.is_memo and not _identical(before, now):
                yield from (Change(holder, *each) for each in _differences(before, now))

    def counted(self) -> Iterator[Holder]:
        """Yield the memos that have been asked since."""
        for holder, before in self.held:
            if holder.kind.is_memo and not _identical(before, holder.kind.read(holder.owner)):
                yield holder

    def reordered(self) -> Iterator[Holder]:
        """Yield the dicts that hold in another order what they held before and hold now."""
        for holder, before in self.held:
            if not isinstance(holder.owner, dict) or _identical(before, now := holder.kind.read(holder.owner)):
                continue
            old, new = paired(before), paired(now)
            if [key for key in old if key in new] != [key for key in new if key in old]:
                yield holder

    def restore(self) -> None:
        """Put back what was held, as far as Python has a way to; a memo that has grown is emptied."""
        for holder, before in self.held:
            if holder.kind.write is not None and _differ(before, holder.kind.read(holder.owner)):
                holder.kind.write(holder.owner, before)

    def remembered(self) -> Iterator[tuple[Holder, list[torch.Tensor]]]:
        """Yield the memos, each with the tensors that it holds now."""
        for holder, _ in self.held:
            if holder.kind.is_memo:
                yield holder, [each for each in within(holder.owner) if isinstance(each, torch.Tensor)]

    def left_over(self) -> Iterator[Holder]:
        """Yield the holders that could not be put back, and hold what means nothing outside of a capture."""
        for holder, before in self.held:
            changed = holder.kind.write is None and _differ(before, holder.kind.read(holder.owner))
            if changed and any(isinstance(each, CAPTURED) for each in within(holder.owner)):
                yield holder


def same(one: Any, other: Any) -> bool:
    """Return whether two values are one object, equal scalars of one type, or tuples of such; -0.0 is not 0.0."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) in (float, complex):
        return repr(one) == repr(other)
    if type(one) is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    return (type(one) in SCALARS or isinstance(one, Frozen)) and one == other


def _identical(one: Contents, other: Contents) -> bool:
    (keys, values), (other_keys, others) = one, other
    if len(values) != len(others) or not all(map(is_, values, others)):
        return False
    return keys is other_keys or all(map(is_, keys or (), other_keys or ()))


def _differ(one: Contents, other: Contents) -> bool:
    """Return whether something else is held, or in another order."""
    if _identical(one, other):
        return False
    return any(_differences(one, other)) or [*map(id, one[0] or ())] != [*map(id, other[0] or ())]


def _differences(before: Contents, now: Contents) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (key, value before, value now) for all that is not the same."""
    old, new = paired(before), paired(now)
    for key in {**old, **new}:
        was, has = old.get(key, MISSING), new.get(key, MISSING)
        if not same(was, has):
            yield key, was, has


def within(value: Any) -> Iterator[Any]:
    """Yield what an object holds, as the garbage collector sees it, a few steps deep, without modules and code."""
    level, seen = [value], {id(value)}
    for _ in range(DEEPEST):
        level = [
            each
            for each in gc.get_referents(*level)
            if id(each) not in seen and not isinstance(each, (type, ModuleType, FunctionType, CodeType))
        ]
        seen |= {*map(id, level)}
        yield from level
        level = [each for each in level if not isinstance(each, (torch.Tensor, *CAPTURED))]
