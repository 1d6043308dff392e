"""Side effects of a part of a statement: changes of variables, attributes, items of containers, globals.

Where only a run of the model decides which part is taken, or how often, nothing of it may stay: one snapshot of all
that the part can reach is taken before it is traced, what it changed is noted, and everything is put back. The changes
are then results of the operator that stands for the statement, like what the part gives; what no operator can give is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Any

from torch import SymBool, SymFloat, SymInt, Tensor
from torch.utils._pytree import tree_leaves

from fxport.exporter.capture import holders
from fxport.exporter.capture.arguments.structures import register_dataclasses
from fxport.exporter.capture.control_flow.attributes import plain_attributes
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.local_objects import Local
from fxport.exporter.capture.control_flow.merging import UNSET, LoopError, blaming, containers_in, form_of
from fxport.exporter.capture.control_flow.replaced import watch_replaced
from fxport.exporter.capture.control_flow.stacked_items import AtFront, ListRead, MaybeItem, StackedItems, Unread
from fxport.exporter.capture.control_flow.truth import predicate
from fxport.exporter.capture.control_flow.turns import turns_entered
from fxport.exporter.capture.control_flow.undecided import can_be_undecided, is_undecided, note_undecided
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.holders import MISSING, Holder
from fxport.exporter.capture.reachable import reachable
from fxport.exporter.capture.snapshot import MERGED_STATE, Snapshot

NUMBERS = (SymInt, SymFloat, SymBool)

Place = tuple[Holder, Any]
"""A holder of values and the key of one of them."""

Item = tuple[Any, Any]
"""An element that was appended to a list, and whether it was."""

CARRIED = (
    *(holders.CELL, holders.ATTRIBUTES, holders.MEMBERS, holders.SLOTS),
    *(holders.DICT, holders.LIST, holders.DEQUE, holders.GLOBALS, holders.CLASS),
)
"""The kinds of holders whose values an operator can give."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one run of a part: values by their places, and items that it appended to lists.

    `before` are the values that the places had, which another part may leave as they are.
    """

    values: Mapping[Place, Any]
    grown: Mapping[Holder, Sequence[Item]]
    before: Sequence[Any]
    unbound: frozenset[Place] = frozenset()
    """The variables that it leaves without a value."""

    def leaves(self) -> list[Any]:
        """Return all values, without their structure."""
        return tree_leaves(([*self.values.values()], [*self.grown.values()], [*self.before]))


@dataclass
class Effects:
    """Side effects of the parts of one statement, with the values before it.

    `dead` are the ids of variables and objects that nothing reads behind the parts.
    """

    snapshot: Snapshot
    dead: set[int]
    before: dict[Place, Any] = field(default_factory=dict)
    grown: dict[Holder, int] = field(default_factory=dict)
    """Lists that grow, with the most elements that a part appends."""
    undecided: list[Place] = field(default_factory=list)
    is_loop: bool = False
    """True if a part may find in a list the items that other runs of it have appended."""
    branches: frozenset[Line] = frozenset()
    """The line of the statement, if it is a branch."""
    number: Any = None
    """Of the turn that runs now, from 0 on, in a loop whose turns are counted."""
    counted: set[Holder] = field(default_factory=set)
    """Lists of which a turn asks how many elements the turns before have appended."""
    fronts: dict[Holder, bool] = field(default_factory=dict)
    """True for lists at whose head a part puts elements, and not at the end."""
    kept: set[Place] = field(default_factory=set)
    """Places that one of the parts changes and another leaves as they are."""
    is_over: bool = False
    """True behind the statement, where a gradient may run a part once more."""

    @staticmethod
    def of(
        parts: Sequence[Callable[..., Any]],
        dead: Sequence[str] = (),
        *,
        is_loop: bool = False,
        local: Local | None = None,
        branches: frozenset[Line] = frozenset(),
        also: Any = None,
    ) -> Effects:
        """Take the snapshot of all that the parts can reach.

        Args:
            parts: The parts of the statement.
            dead: The variables that the parts bind and that nothing reads behind them.
            is_loop: Whether a part may find what other runs of it have left.
            local: What ends with the function, where that ends with the parts.
            branches: The line of the statement, if it is a branch.
            also: What else runs with the parts, such as what makes the items of a loop.
        """
        held = Snapshot.of({**{str(i): part for i, part in enumerate(parts)}, "": also}).held
        lists = (holder for holder, _ in held if isinstance(holder.owner, ScanList) and vars(holder.owner))
        followed = [Holder(each.owner, holders.ATTRIBUTES, each.path) for each in lists]
        snapshot = Snapshot([*held, *((each, each.kind.read(each.owner)) for each in followed)])
        cells = {id(cell) for part in parts for cell in cells_of(part, dead)}
        dead_ids = cells | (local.objects(parts) if local is not None else set())
        return Effects(snapshot, dead_ids, is_loop=is_loop, branches=branches)

    def observe(
        self, part: Callable[..., Any], *inputs: Any, values: Mapping[Place, Any] = MappingProxyType({})
    ) -> tuple[Any, Changes]:
        """Run a part and note the places that it changes; return its result and the changes, which are put back.

        Args:
            part: A part of the statement.
            inputs: What it is given.
            values: The values that places have where it begins.
        """
        for place, value in values.items():
            put(place, value)
        result, changes = self._run(part, *inputs)
        held = {id(holder): contents for holder, contents in self.snapshot.held}
        for holder, key in changes.values:
            values = holders.paired(held[id(holder)])
            self.before.setdefault((holder, key), values.get(key, MISSING))
        for holder, items in changes.grown.items():
            self.grown[holder] = max(self.grown.get(holder, 0), len(items))
        return result, changes

    def run(self, part: Callable[..., Any], values: Mapping[Place, Any], *inputs: Any) -> tuple[Any, Changes]:
        """Run a part where the places have these values, and put all of them back.

        Raises:
            LoopError: It changes another place than the parts were seen to change.
        """
        with self._as_before() if self.is_over else nullcontext():
            for place, value in values.items():
                put(place, value)
            result, changes = self._run(part, *inputs)
        known = {*self.before, *self.undecided}
        if not changes.values.keys() <= known or not changes.grown.keys() <= self.grown.keys():
            raise UnseenChangeError("it changes other things from turn to turn")
        return result, changes

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """During the block, all that the parts can reach is as it was before the statement."""
        now = self.snapshot.anew()
        self.snapshot.restore()
        try:
            yield
        finally:
            now.restore()

    def _run(self, part: Callable[..., Any], *inputs: Any) -> tuple[Any, Changes]:
        for holder, each in self.grown.items() if self.is_loop else ():
            list.append(
                holder.owner, Unread(holder.owner, each, lambda: self.number, partial(self._appended_before, holder))
            )
        for place in self.undecided if self.is_loop else ():  # of which another turn may have set it
            _take_away(place, self.branches)
        owned = ((holder.owner, self.fronts.get(holder, False)) for holder, _ in self.snapshot.held)
        lists = [each for each in owned if self.is_loop and isinstance(each[0], ScanList)]
        with plain_attributes(), turns_entered(lists):
            try:
                result = part(*inputs)
                with blaming(self.branches):
                    self._require_ended(result)
                    return result, self._changes()
            finally:
                self.snapshot.restore()

    def _require_ended(self, result: Any) -> None:
        """Raise LoopError for a changed object that is to end with the function, and that the function gives back."""
        changed = {id(change.holder.owner): change for change in self.snapshot.changes()}
        changed = {key: change for key, change in changed.items() if key in self.dead}
        reached = reachable({"result": result}) if changed else ()
        for holder, _ in reached:
            if (change := changed.get(id(holder.owner))) is not None:
                raise LoopError(f"it changes '{change.name}' of what it returns")

    def _changes(self) -> Changes:
        values: dict[Place, Any] = {}
        before: list[Any] = []
        grown: dict[Holder, list[Item]] = {}
        unbound: set[Place] = set()
        for holder in self.snapshot.reordered():
            if id(holder.owner) in self.dead:
                continue
            raise LoopError(f"it changes the order of '{holder.name}'")
        for change in self.snapshot.changes():
            holder, key = change.holder, change.key
            if id(holder.owner) in self.dead:
                continue
            if holder.kind not in CARRIED:
                kind = type(holder.owner).__name__
                raise LoopError(f"it changes '{change.name}', a {kind}, which no value of a graph can be")
            if isinstance(change.after, Unread):
                continue
            if holder.kind is holders.LIST and change.before is MISSING:
                is_front = isinstance(change.after, AtFront)
                if self.fronts.setdefault(holder, is_front) is not is_front:
                    raise LoopError("it puts elements at both ends of a list")
                after = change.after.item if is_front else change.after
                grown.setdefault(holder, []).append(_item(after, takes_several=self.number is not None))
            elif holder.kind is holders.DEQUE and change.before is MISSING:
                raise LoopError(f"it appends to '{holder.name}', a deque that is not full")
            elif change.after is MISSING and holder.kind is not holders.CELL:
                raise LoopError(f"it removes '{change.name}'")
            else:
                values[holder, key] = UNSET if change.after is MISSING else change.after
                unbound |= {(holder, key)} if change.after is MISSING else set()
                before.append(change.before)
        return Changes(values, grown, before, frozenset(unbound))

    def _appended_before(self, holder: Holder) -> Any:
        """Return how many elements the turns before have appended to a list, if each appends as many."""
        if self.number is None:
            raise ListRead(holder.owner, "length")
        self.counted.add(holder)
        return self.number * self.grown[holder]

    @property
    def numbers(self) -> list[Any]:
        """The symbolic numbers that the parts can reach: PyTorch does not see Python compute with them."""
        found = [value for _, (_, values) in self.snapshot.held for value in values]
        return symbolic([*found, *(each.number() for each in found if isinstance(each, Unread))])

    def require_new(self, changes: Changes, result: Any = None) -> None:
        """Raise LoopError for a container of one way that has another name: the operator gives a new one.

        Nor may a way write to a container in whose place another way gives a new one.
        """
        values = (result, *changes.values.values(), *map(tuple, changes.grown.values()))
        register_dataclasses(values)
        known = {id(holder.owner) for holder, _ in self.snapshot.held} - self.dead
        for each in containers_in(values):
            if id(each) in known:
                raise LoopError(f"it gives a {type(each).__name__} that has other names, which show what is done to it")
            known.add(id(each))
        written = {id(holder.owner) for holder, _ in changes.values} | {id(holder.owner) for holder in changes.grown}
        for place in self.before.keys() - changes.values.keys():
            for each in containers_in(self.before[place]):
                if id(each) in written:
                    kind = type(each).__name__
                    raise LoopError(f"it writes to a {kind} on one of its ways and gives another one on another")

    def starts(self) -> tuple[Any, ...]:
        """Return the values of all changed places before the statement, as `form_of` takes them."""
        return tuple(UNSET if value is MISSING else value for value in self.before.values())

    def ends(self, changes: Changes) -> tuple[Any, ...]:
        """Return the values of all changed places after a run of a part, also of those that it does not change."""
        self.kept |= self.before.keys() - changes.values.keys()
        return tuple(
            changes.values.get(place, UNSET if value is MISSING else value) for place, value in self.before.items()
        )

    def appended(self, changes: Changes) -> tuple[tuple[Item, ...], ...]:
        """Return the elements that a run of a part appended to each of the lists, filled up to the most."""
        return tuple(
            (*(items := changes.grown.get(holder, ())), *((UNSET, False),) * (count - len(items)))
            for holder, count in self.grown.items()
        )

    def leave(self, values: Sequence[Any], appended: Sequence[Sequence[Item]] = ()) -> None:
        """Give the places these values, and the lists these elements, for what follows the statement."""
        for (place, before), value in zip(self.before.items(), values, strict=True):
            if place[0].kind is not holders.CELL and isinstance(value, (Tensor, *NUMBERS)):
                setattr(value, MERGED_STATE, before)
            _assign(place, value)
            if self.is_loop or place in self.kept:
                watch_replaced(before, value, self.branches)
        for holder, items in zip(self.grown, appended, strict=False):
            for item, on in items:
                self._append(holder, item, on)
        for place in self.undecided:
            _take_away(place, self.branches)
        for holder, _ in self.snapshot.held:
            if holder.kind is holders.CELL and id(holder.owner) in self.dead:
                put((holder, 0), UNSET)
        self.is_over = True

    def _append(self, holder: Holder, item: Any, on: Any) -> None:
        if on is False:
            return
        if on is not True:
            if not isinstance(holder.owner, ScanList):
                raise LoopError(f"it appends to '{holder.name}', a list made elsewhere, on one of its ways only")
            item = MaybeItem(item, predicate(on), self.branches)
        list.append(holder.owner, AtFront(item) if self.fronts.get(holder) else item)

    def require_added_by_all(self, *ways: Changes) -> None:
        """Raise LoopError for an attribute or an item that was not there before, and is not behind each of the ways.

        Nor may ways add the same items to a dict in another order, which its values and keys show.
        """
        for (holder, key), value in self.before.items():
            added = value is MISSING and holder.kind is not holders.CELL
            if added and not all((holder, key) in way.values for way in ways):
                raise LoopError(f"it adds '{holder.name_of(key)}' on one of its ways only")
        for holder in {holder for holder, _ in self.before if isinstance(holder.owner, dict)}:
            added_keys = {key for (other, key), value in self.before.items() if other is holder and value is MISSING}
            orders = {tuple(key for other, key in way.values if other is holder and key in added_keys) for way in ways}
            if len(orders) > 1:
                raise LoopError(f"its ways add to '{holder.name}' in another order")

    def set_aside_undecided(self, *ways: Changes) -> None:
        """Take out what no operator gives: None, or nothing, before it, and something else behind some of the ways."""
        for place, value in [*self.before.items()]:
            first, *others = (way.values.get(place, value) for way in ways)
            unbound = [place in way.unbound for way in ways]
            if value is not MISSING and any(unbound):
                is_open = not all(unbound) or is_undecided(*place)
            elif value is MISSING:
                is_bound_later = place[0].kind is holders.CELL and not is_undecided(*place)
                is_open = not is_bound_later and not all(place in way.values for way in ways)
            else:
                is_open = value is None and not all(_fits(first, other) for other in others or [value])
            if is_open and can_be_undecided(*place):
                del self.before[place]
                self.undecided.append(place)


def _fits(one: Any, other: Any) -> bool:
    try:
        form_of(one, other)
    except LoopError:
        return False
    return True


def symbolic(values: Iterable[Any]) -> list[Any]:
    """Return those of the values that are symbolic numbers, each once."""
    found = {each.node.expr: each for each in values if type(each) in NUMBERS}
    return [each for expr, each in found.items() if expr.free_symbols]


class UnseenChangeError(LoopError):
    """A run of a part changes a place that earlier ones did not."""


def cells_of(part: Callable[..., Any], names: Sequence[str]) -> Iterator[Any]:
    """Yield the cells of these variables that a function shares with the one around it."""
    if isinstance(part, partial):
        part = part.func
    if isinstance(part, FunctionType):
        pairs = zip(part.__code__.co_freevars, part.__closure__ or (), strict=True)
        yield from (cell for name, cell in pairs if name in names)


def put(place: Place, value: Any) -> None:
    """Give a place a value; UNSET unbinds a variable, and removes an attribute or an item."""
    holder, key = place
    assert holder.kind.write is not None  # as of all kinds in CARRIED
    keys, values = holder.kind.read(holder.owner)
    contents = holders.paired((keys, values)) | {key: MISSING if value is UNSET else value}
    if value is UNSET and holder.kind is not holders.CELL:
        del contents[key]
    holder.kind.write(holder.owner, (None if keys is None else [*contents], [*contents.values()]))


def _take_away(place: Place, branches: frozenset[Line]) -> None:
    put(place, UNSET)
    note_undecided(*place, branches)


def _assign(place: Place, value: Any) -> None:
    """Give a place a value for what follows; PyTorch is to see that a buffer is assigned, as it is by a statement."""
    holder, key = place
    if holder.kind is holders.MEMBERS and key in holder.owner._buffers and isinstance(value, Tensor):
        setattr(holder.owner, key, value)
    else:
        put(place, value)


def _item(value: Any, *, takes_several: bool) -> Item:
    """Return what was appended, which may be all that a loop within a turn has appended."""
    if isinstance(value, MaybeItem):
        return value.item, value.on
    if isinstance(value, StackedItems) and not takes_several:
        raise LoopError("it appends as many elements to a list as a dynamic size has")
    return value, True
