"""`if` and `while` on values of the data as `cond` and `while_loop`: what rewritten functions call while captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fxport.exporter.capture.control_flow.absent_gradients import (
    is_recorded,
    note_turns,
    selected,
)
from fxport.exporter.capture.control_flow.alternatives import note_alternatives
from fxport.exporter.capture.control_flow.carried import Carried
from fxport.exporter.capture.control_flow.differentiated import recorded_cond
from fxport.exporter.capture.control_flow.effects import Changes, Effects
from fxport.exporter.capture.control_flow.lifting import Outside, is_rehearsal, lifted, read_by, require_end
from fxport.exporter.capture.control_flow.lists import counted
from fxport.exporter.capture.control_flow.local_objects import Local
from fxport.exporter.capture.control_flow.merged import told_apart, watch_merged
from fxport.exporter.capture.control_flow.merging import LoopError, blaming, form_of, opaque
from fxport.exporter.capture.control_flow.truth import depends_on_data, is_open, predicate
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.guards.answers import refusals
from fxport.exporter.capture.guards.askers import Line, line_that_asks
from fxport.exporter.capture.guards.caught import require_uncaught
from fxport.exporter.capture.rewritten import note_rewritten
from fxport.exporter.capture.sizes.as_data import in_arm, is_about_inputs, require_time

UNKNOWN = (GuardOnDataDependentSymNode, DataDependentOutputException)
"""The errors that PyTorch raises where a capture would have to know a value."""

Branch = Callable[[], Any]


def refused(test: Any, kind: Callable[[], Any] = lambda: Exception) -> Any:
    """Return the test of an `if` that raises: a graph raises nothing, and is for inputs that the model accepts.

    Args:
        test: The test's value.
        kind: Gives the type of the error.

    Raises:
        RefusedError: The test depends on data, and the model would catch the error.
    """
    if not depends_on_data(test):
        return test
    if is_about_inputs(test):
        raise LoopError("it limits the sizes of inputs, which is told")
    raised = kind()
    require_uncaught(raised if isinstance(raised, type) else Exception)
    return False


def chosen(test: Any, then: Branch, other: Branch, *, dead: Sequence[str] = (), local: Local | None = None) -> Any:
    """Run the branch that the test chooses, or both as a cond where only data tells, and return what it gives.

    Args:
        test: The test's value, a Python value, a symbolic one or a tensor of one element.
        then: The branch for true; it binds variables that it shares with the function around it.
        other: The branch for false.
        dead: The variables that the branches bind and that nothing reads afterwards.
        local: What ends with the function, where the branches return from it.

    Raises:
        LoopError: The test depends on data, and no operator can give what the branches give or change.
    """
    test = counted(test)
    if not depends_on_data(test):
        return then() if test else other()
    hidden = refusals()
    known = len(hidden)
    try:
        leave = _cond(test, then, other, dead, local)
    except Exception as error:
        if is_our_fault(error) or (isinstance(test, Tensor) and not isinstance(error, LoopError)):
            raise
        asked = len(hidden)
        try:  # there may be an answer to a question about sizes, or whether there is any, which keeps this error
            taking = bool(test)
        except UNKNOWN:
            taking = None
        if taking is None:
            hidden[asked:] = [error]  # a `try` of the model's may hide it
            raise
        del hidden[known:]
        return then() if taking else other()
    return leave()  # what fails here has changed something: no branch may run on top of it


MOST_NESTED = 6
"""Branches of one line within each other, at most: each is traced twice for each around it."""

_around: ContextVar[tuple[frozenset[Line], ...]] = ContextVar("around", default=())
"""The lines of the branches that are being traced, outermost first."""


def _cond(test: Any, then: Branch, other: Branch, dead: Sequence[str], local: Local | None) -> Branch:
    """Record both branches; return a function that leaves what they change, and returns the result."""
    require_time()
    around, here = _around.get(), _here()
    if here and around.count(here) >= MOST_NESTED:
        raise RefusedError(f"it runs itself again within this branch, more than {MOST_NESTED} times")
    token = _around.set((*around, here))
    try:
        return _recorded(test, (then, other), here, dead, local)
    finally:
        _around.reset(token)


def _recorded(
    test: Any, ways: tuple[Branch, Branch], here: frozenset[Line], dead: Sequence[str], local: Local | None
) -> Branch:
    """Record them as operators, or find that nothing has to be."""
    require_end()
    decides = predicate(test)  # first: what is around reads it, whatever the branches read
    effects = Effects.of(ways, dead, local=local, branches=here)
    arms = [*zip(ways, (True, False), strict=True)]

    def observed(way: Branch, answer: bool) -> Any:
        with in_arm(test, answer):
            return effects.observe(way)

    found, outside = read_by([partial(observed, *arm) for arm in arms], (), effects.numbers)

    def ends(result: Any, changes: Changes) -> Any:
        return result, effects.ends(changes), effects.appended(changes)

    with blaming(here):
        ways_taken = [changes for _, changes in found]
        effects.set_aside_undecided(*ways_taken)
        effects.require_added_by_all(*ways_taken)
        for result, changes in found:
            effects.require_new(changes, result)
        every = [ends(*each) for each in found]
        form = form_of(*every)
    if is_rehearsal():
        results = told_apart(form.tensors(every[0]), map(form.leaves_of, every), here)
        return partial(_left, effects, form.value(results))

    if not outside.written and not form.leaves_of(every[0]):
        return partial(_left, effects, form.value(()))  # the ways do the same, or nothing

    def run(way: Branch, answer: bool) -> list[Tensor]:
        with in_arm(test, answer):
            return form.tensors(ends(*effects.run(way, {})))

    note_rewritten("if")
    operands = (*outside.starts(), *outside.values)
    bodies = [lifted(partial(run, *arm), (), outside) for arm in arms]
    after = recorded_cond(decides, bodies, operands, [*chain(*map(form.leaves_of, every))])

    def leave() -> Any:
        merged = _returned(after, outside)
        leaves = [form.leaves_of(each) for each in every]
        note_alternatives(merged, leaves, here)
        watch_merged(merged, leaves, outside, [(decides, True), (decides, False)], branches=here)
        return _left(effects, form.value(merged))

    return leave


def _here() -> frozenset[Line]:
    """Return the line of the statement that runs."""
    line = line_that_asks()
    return frozenset() if line is None else frozenset({line})


def _left(effects: Effects, given: tuple[Any, tuple[Any, ...], Any]) -> Any:
    """Return the result alone; variables, attributes and lists have what the statement leaves in them."""
    result, values, appended = given
    with blaming(effects.branches):
        effects.leave(values, appended)
    return result


def repeated(test: Branch, body: Branch, *, dead: Sequence[str] = (), calls: Sequence[Callable[..., Any]] = ()) -> None:
    """Run the body while the test holds. Known turns are taken one by one; the others are a while_loop.

    Args:
        test: Gives the test's value.
        body: Runs one turn; it binds variables that it shares with the function around it and with the test.
        dead: The variables that a turn binds and that neither another turn nor anything later reads.
        calls: What the body calls, where that binds the variables.

    Raises:
        LoopError: The test depends on data, and no operator can give what the turns change.
    """
    while not is_open(going := test()):
        if not going:
            return
        body()
    holds = predicate(going)  # what is around reads it
    effects = Effects.of((test, body, *calls), dead, is_loop=True)
    numbers = effects.numbers
    try:
        carried = Carried(effects, body, numbers)
        if effects.grown:
            raise LoopError("it appends to a list in a loop of which only the data tells how often it turns")
    except LoopError as error:
        error.is_unrecorded = True
        refusals().append(error)  # a `try` of the model's may hide it
        raise
    form, start = carried.form, carried.tensors()
    if is_rehearsal():
        effects.leave(form.value(told_apart(start, carried.ways)))
        return
    leaves: list[Any] = []

    def goes_on(*tensors: Tensor) -> list[Tensor]:
        values = carried.places([opaque(tensor) for tensor in tensors])
        result, changes = effects.run(test, values)
        if any(end is not start for end, start in zip(effects.ends(changes), values.values(), strict=True)):
            raise LoopError("its test changes what the turns read")
        return [predicate(result)]

    def turn(*tensors: Tensor) -> list[Tensor]:
        _, ends, leaves[:] = carried.turn([opaque(tensor.clone()) for tensor in tensors])
        return ends

    note_rewritten("while")
    _, outside = read_by((goes_on, turn), start, numbers)
    carried.require_unwritten(outside)
    again, turned = lifted(goes_on, start, outside, is_test=True), lifted(turn, start, outside)
    begun = (*start, *outside.starts())
    recorded = is_recorded((*begun, *outside.values))
    inputs = _asking_for_gradients(begun) if recorded else begun
    ways = [form.leaves_of(carried.starts), [*leaves], *carried.inherited]
    after = torch.ops.higher_order.while_loop(lambda *given: again(*given)[0], turned, inputs, outside.values)
    note_turns(after, turned, inputs, (), outside.values, has_turn=True)
    results = _returned(_begun_or_ended(holds, inputs, after) if recorded else after, outside)
    note_alternatives(results, carried.ways, frozenset())
    watch_merged(results, ways, outside, [None for _ in ways], ways[0])
    effects.leave(form.value(results))


def _asking_for_gradients(starts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return what a loop begins with, so that gradients go through each of its turns.

    PyTorch's gradient of a loop leaves out what a turn has from the one before it where what is carried asked for no
    gradient before the first: a layer that the turns call brings one.
    """
    return tuple(
        each.detach().requires_grad_() if each.is_floating_point() and not each.requires_grad else each
        for each in starts
    )


def _begun_or_ended(holds: Tensor, begun: Sequence[Tensor], ended: Sequence[Tensor]) -> list[Tensor]:
    """Return what a loop ends with; what it began with where it has no turn.

    The values are the same. PyTorch's gradient of a loop without a turn is that of one turn.
    """
    pairs = zip(begun, ended, strict=True)
    return [selected(holds, end, start) if start.is_floating_point() else end for start, end in pairs]


def _returned(results: Sequence[Tensor], outside: Outside) -> Sequence[Tensor]:
    """Return what the ways themselves give; behind it stands what they left in tensors of outside."""
    count = len(results) - len(outside.written)
    outside.write(results[count:])
    return results[:count]
