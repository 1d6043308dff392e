"""`for` over a dynamic number of items as a `scan`: what rewritten functions call while they are captured."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.control_flow.absent_gradients import Presence, note_turns
from fxport.exporter.capture.control_flow.alternatives import note_alternatives
from fxport.exporter.capture.control_flow.appended import items_left, tensors_of
from fxport.exporter.capture.control_flow.branches import UNKNOWN, repeated
from fxport.exporter.capture.control_flow.carried import Carried
from fxport.exporter.capture.control_flow.effects import Effects, Item, cells_of, symbolic
from fxport.exporter.capture.control_flow.generators import Pushed
from fxport.exporter.capture.control_flow.items import Items, items_of
from fxport.exporter.capture.control_flow.lifting import Outside, is_rehearsal, lifted, read_by
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.merged import require_unwritten, told_apart, watch_merged
from fxport.exporter.capture.control_flow.merging import LoopError, opaque
from fxport.exporter.capture.control_flow.operators import and_, not_
from fxport.exporter.capture.control_flow.own_sizes import (
    count_of,
    filled,
    joined,
    known_sizes,
    longest_of,
    own_axis,
    some,
)
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.stacked_items import ListRead, StackedItems
from fxport.exporter.capture.control_flow.truth import predicate
from fxport.exporter.capture.control_flow.turns import is_in_turns
from fxport.exporter.capture.control_flow.undecided import asked_for
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.guards.answers import refusals
from fxport.exporter.capture.holders import Holder
from fxport.exporter.capture.rewritten import note_rewritten

scan_module: Any = importlib.import_module("torch._higher_order_ops.scan")  # a function of the same name hides it

Turn = Callable[[Any], None]

MOST_TURNS = 64
"""Turns of a loop that may be branches one in the other: these take seconds each. A longer one is a loop by data."""

MOST_UNROLLED = 256
"""The same, where it can be no loop by data."""

APPENDED = "it appends a tensor to a list, or a part of one, to which its turns write"


def for_each(
    source: Any,
    turn: Turn,
    *,
    dead: Sequence[str] = (),
    late: Sequence[str] = (),
    stopped: Callable[[], Any] | None = None,
) -> None:
    """Run a turn for each item of a source: one by one where Python can, else as a scan.

    Args:
        source: What the loop runs over.
        turn: Runs one turn for an item; it binds variables that it shares with the function around it.
        dead: The variables that a turn binds and that neither another turn nor anything later reads.
        late: Those of which only the value after the last turn is read.
        stopped: Tells whether a turn has left the loop.

    Raises:
        LoopError: The number of items is dynamic, and no operator can give what the turns change.
    """
    items = items_of(source)
    if items is not None:
        _scan(items.used(), turn, dead, late)
        return
    if isinstance(source, Pushed) and source.is_fresh:
        if stopped is not None:
            raise LoopError("it leaves a loop over a generator, which has not come to its end")
        source.run(turn)
        return
    if stopped is not None and type(source) is range and len(source) > MOST_TURNS:
        source = _without_turns_of_data(source, turn, dead, stopped)
    for item in source:
        turn(item)
        if stopped is not None and stopped() is True:
            break


def _without_turns_of_data(source: range, turn: Turn, dead: Sequence[str], stopped: Callable[[], Any]) -> Sequence[int]:
    """Run the turns of a long range that data may end as a loop of which data tell how often it turns.

    Returns:
        The numbers that are left, where the turns can be no such loop and are few enough to be one branch in the other.
    """
    stop = next(iter(stopped.__closure__ or ()))
    number, is_running = source.start, False

    def test() -> Any:
        return and_(not_(stopped()), lambda: number < source.stop if source.step > 0 else number > source.stop)

    def body() -> None:
        nonlocal number, is_running
        item, number, is_running = number, number + source.step, True
        stop.cell_contents = False  # as the test has seen
        turn(item)
        is_running = False

    try:
        repeated(test, body, dead=dead, calls=(turn,))
    except LoopError as error:
        left = range(number, source.stop, source.step)
        if is_running or not error.is_unrecorded or len(left) > MOST_UNROLLED:
            raise
        refusals().remove(error)
        return left
    return ()


def _scan(items: Items, turn: Turn, dead: Sequence[str], late: Sequence[str]) -> None:
    if items.parts is not None and _each_part(items.parts, turn, Effects.of((turn,), dead, is_loop=True)):
        return
    with ExitStack() as followed:
        record = _rehearsed(items, turn, dead, late, followed)
        if isinstance(record, Exception):
            _first_taken(items, turn, record)
            record = _rehearsed(items.behind_first(), turn, dead, late, followed)
        if isinstance(record, Exception):
            refusals().append(record)  # a `try` of the model's may hide it
            raise record
        record()


def _first_taken(items: Items, turn: Turn, why: Exception) -> None:
    """Run the first turn by itself: what it leaves is of another kind than what it gets, as `h` if that was None.

    Raises:
        LoopError: There may be no turn.
    """
    has_one = items.count >= 1
    if not statically_known_true(has_one) and free_unbacked_symbols(items.count):
        raise LoopError(f"{why}, and data tell whether it turns at all") if isinstance(why, LoopError) else why
    if not has_one:  # which limits sizes to those for which there is one
        raise why
    turn(items.at(0))


def _rehearsed(
    items: Items, turn: Turn, dead: Sequence[str], late: Sequence[str], followed: ExitStack
) -> Callable[[], Any] | Exception:
    """Return what records the loop, or why its turns cannot be one.

    What the turns read of a list to which they append is `followed` from here on.
    """
    refused = refusals()
    known = len(refused)
    while True:
        try:
            return _prepared(items, turn, dead, late)
        except ListRead as error:
            if not isinstance(error.owner, ScanList):
                return error
            if error.owner.is_unread or is_in_turns(error.owner):  # the loop around carries it
                raise
            del refused[known:]
            try:
                more = (items.count + 1) * error.each  # PyTorch's scan runs a turn also where there is none
                followed.enter_context(error.owner.following(error.name, more))
            except LoopError as unknown:
                return unknown
        except (*UNKNOWN, RefusedError):  # of a line in the turns, which is to be rewritten, or for good
            raise
        except Exception as error:
            if is_our_fault(error):
                raise
            del refused[known:]
            return asked_for(error)


def _prepared(items: Items, turn: Turn, dead: Sequence[str], late: Sequence[str]) -> Callable[[], Any]:
    """Rehearse the turns; return what records them as a scan, and leaves what they leave."""
    effects = Effects.of((turn,), dead, is_loop=True, also=items.at)
    turns = torch.arange(items.count)
    known = known_sizes(turns)
    numbers = symbolic((*effects.numbers, items.count, *items.numbers))
    is_run = statically_known_true(items.count > 0)
    has_turn = is_run or predicate(items.count > 0)  # before a turn is seen, from where on there seems to be one

    def one(number: Tensor) -> None:
        effects.number = _bounded(number.item(), items.count)
        for holder in effects.grown:
            if isinstance(holder.owner, ScanList):
                holder.owner.learn_length()
        turn(items.at(effects.number))

    sample = _slice(turns)
    carried = Carried(effects, one, numbers, (sample,), frozenset(id(cell) for cell in cells_of(turn, late)), is_run)
    start = carried.tensors()
    init = start or [torch.zeros(())]  # a scan wants to carry something
    count = len(init)
    leaves: list[Any] = []
    appended: list[Tensor] = []

    def run(*tensors: Tensor) -> list[Tensor]:
        state = [opaque(each.clone()) for each in tensors[: len(start)]]
        changes, ends, leaves[:] = carried.turn(state, tensors[count])
        appended[:] = [each for items in effects.appended(changes) for each in tensors_of(items)]
        return [*(ends or [tensors[0].clone()]), *(each.clone() for each in appended)]

    (given,), outside = read_by([run], [*init, sample], numbers)
    carried.require_unwritten(outside)
    for holder, each in effects.grown.items():
        if isinstance(holder.owner, ScanList):
            holder.owner.require_room(items.count * each)
    axes = [own_axis(each, known) for each in given[count:]]
    if is_rehearsal():
        if some(axes):
            raise LoopError("it gives parts of different sizes in a loop within another")
        stacked = [each.expand(items.count, *each.shape) for each in given[count:]]
        results = told_apart(start, carried.ways)
        return lambda: _leave(effects, carried, results, stacked)
    given_to_lists = [*appended]
    require_unwritten(given_to_lists, outside, APPENDED)

    def record() -> None:
        note_rewritten("for")
        before = [None for _ in start] if is_run else carried.form.leaves_of(carried.starts)
        counts: Sequence[Tensor] = ()
        turn_of_all = run
        if some(axes):
            counting = _run(_counting(run, axes), init, sample, turns, numbers, has_turn)[0]
            counts = counting[len(counting) - len(axes) :]
            turn_of_all = _filling(run, axes, [longest_of(each) for each in counts])
        ways = [before, [*leaves], *carried.inherited]
        results, outside = _run(turn_of_all, init, sample, turns, numbers, has_turn)
        kept = len(outside.written)
        outside.write(results[:kept])
        last, stacked = [*results[kept : kept + len(start)]], [*results[kept + count :]]
        for i, axis in enumerate(axes):
            if axis is not None:
                stacked[i] = Ragged(joined(stacked[i], axis, counts[i]), axis, counts[i], stacked[i])  # type: ignore[call-overload]
        listed = _leave(effects, carried, last, stacked)
        none = [None for _ in listed]
        ways = [[*way, *(given_to_lists if i == 1 else none)] for i, way in enumerate(ways)]
        note_alternatives(last, carried.ways, frozenset())
        watch_merged([*last, *listed], ways, outside, [None for _ in ways], carried.ways[0])

    return record


def _bounded(number: Any, count: Any) -> Any:
    """Return the number of a turn, of which the capture then knows what it is below."""
    torch._check(number >= 0)
    torch._check(number < count)
    return number


def _leave(effects: Effects, carried: Carried, last: Sequence[Tensor], stacked: Sequence[Any]) -> list[Tensor]:
    """Give places and lists what they hold after the loop.

    Returns:
        For each of `stacked`, the tensor in a list that it became a part of.
    """
    effects.leave(carried.form.value(last))
    rest, listed = iter(stacked), list[Tensor]()
    for holder, kinds in carried.appended.items():
        if not isinstance(holder.owner, ScanList):
            raise LoopError(f"it appends to '{holder.name}', a list that was made elsewhere")
        items, held = items_left(kinds, rest, vars(holder.owner).get("last"))
        if effects.fronts[holder]:
            holder.owner.insert(0, items.turned())
        else:
            list.append(holder.owner, items)
        listed += held
    return listed


def _run(
    turn: Callable[..., Any],
    init: Sequence[Tensor],
    sample: Tensor,
    turns: Tensor,
    numbers: Sequence[Any],
    has_turn: Presence,
) -> tuple[Sequence[Tensor], Outside]:
    """Return what a scan gives: what was written to, what is carried at the end, and what the turns gave.

    A plain tensor that the model holds is no part of the trace, and PyTorch asks a scan's operands where they lie.
    """
    _, outside = read_by([turn], [*init, sample], numbers)
    body = _carrying(turn, [*init, sample], outside)
    values = tuple(each.clone() if type(each) is Tensor else each for each in outside.values)
    carried = [*outside.starts(), *init]
    results = scan_module.scan_op(body, carried, [turns], values)
    note_turns(results, body, carried, [sample], values, has_turn)
    return results, outside


def _counting(turn: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """Return the turn that gives how much it would give."""

    def run(*tensors: Tensor) -> list[Tensor]:
        results = turn(*tensors)
        given = results[len(results) - len(axes) :]
        counts = [count_of(each, axis) for each, axis in zip(given, axes, strict=True)]
        return [*results[: len(results) - len(axes)], *counts]

    return run


def _filling(turn: Callable[..., Any], axes: Sequence[int | None], longest: Sequence[Tensor]) -> Callable[..., Any]:
    """Return the turn that gives as much as the longest does."""

    def run(*tensors: Tensor) -> list[Tensor]:
        results = turn(*tensors)
        given = results[len(results) - len(axes) :]
        whole = [
            each if axis is None else filled(each, axis, most)
            for each, axis, most in zip(given, axes, longest, strict=True)
        ]
        return [*results[: len(results) - len(axes)], *whole]

    return run


def _carrying(turn: Callable[..., Any], given: Sequence[Tensor], outside: Outside) -> Callable[..., Any]:
    """Return the turn with what it writes to at the head of what it carries."""
    whole, kept, count = lifted(turn, given, outside), len(outside.written), len(given)

    def run(*inputs: Any) -> Any:
        written, own, rest = inputs[:kept], inputs[kept : kept + count], inputs[kept + count :]
        results = whole(*own, *written, *rest)
        end = len(results) - kept
        return (*results[end:], *results[:end])

    return run


def _slice(x: Tensor, dim: int = 0) -> Tensor:
    """Return a tensor like an element along the axis, of which there may be none."""
    return x.new_empty([size for axis, size in enumerate(x.shape) if axis != dim])


def slices_unasked() -> AbstractContextManager[object]:
    """Let PyTorch trace scans without asking whether there is a turn, also where it traces a branch once more."""
    return mock.patch.object(scan_module, "first_slice_copy", _slice)


def _each_part(parts: Ragged, turn: Turn, effects: Effects) -> bool:
    """Run one turn for all parts of a tensor, which have different sizes; return whether it does the same to each."""
    refused = refusals()
    known = len(refused)
    try:
        ((_, changes),), _ = read_by([lambda: effects.observe(turn, parts)], ())
    except Exception as error:
        if is_our_fault(error) or isinstance(error, RefusedError):
            raise
        del refused[known:]
        return False  # it asks more of a part than what all have in common
    if changes.values or not all(_is_part_of_parts(*each) for each in changes.grown.items()):
        return False
    _, changes = effects.run(turn, {}, parts)
    for holder, ((item, _),) in changes.grown.items():
        list.append(holder.owner, StackedItems(item))
    effects.leave(())
    return True


def _is_part_of_parts(holder: Holder, items: Sequence[Item]) -> bool:
    """Return whether what a turn appends to a list is one part of parts of different sizes."""
    whole = len(items) == 1 and items[0][1] is True and isinstance(items[0][0], Ragged)
    return whole and isinstance(holder.owner, ScanList)
