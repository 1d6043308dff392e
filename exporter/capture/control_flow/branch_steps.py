"""An `if` on a tensor as a cond: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import SymBool, Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    free_unbacked_symbols,
    statically_known_true,
)
from torch.utils import _pytree as pytree

from exporter.capture.control_flow import merging
from exporter.capture.control_flow.lifting import Outside, is_rehearsal, lifted, read_by
from exporter.capture.control_flow.merging import LoopError, form_of, opaque
from exporter.capture.control_flow.settings import Settings, holder
from exporter.capture.faults import is_our_fault

KINDS: Mapping[str, str] = {
    "Mult": "mul",
    "Div": "truediv",
    "BitOr": "or_",
    "BitAnd": "and_",
    "BitXor": "xor",
    "MatMult": "matmul",
}
"""Operators of Python by the names of their nodes, where these differ in more than case."""

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name.lower()) for name in ("Eq", "Lt", "Gt")},
    "NotEq": operator.ne,
    "LtE": operator.le,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda one, many: one in many,
    "NotIn": lambda one, many: one not in many,
}
"""Comparisons of Python by the names of their nodes."""

UNKNOWN = (GuardOnDataDependentSymNode, DataDependentOutputException)
"""What PyTorch raises where a capture would have to know a value."""

Branch = Callable[..., Any]
UNSET, holds = merging.UNSET, holder


def depends_on_data(test: Any) -> bool:
    """Whether only a run of the model can tell if this is true."""
    return isinstance(test, Tensor) or (isinstance(test, SymBool) and bool(free_unbacked_symbols(test)))


def not_(test: Any) -> Any:
    if isinstance(test, Tensor):
        return test.logical_not()
    return torch.sym_not(test) if depends_on_data(test) else not test


def and_(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second`; both are computed where the first is a tensor."""
    if not depends_on_data(first):
        return first and second()
    other = second()
    return predicate(first).logical_and(predicate(other)) if depends_on_data(other) else first if other else other


def or_(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second`; both are computed where the first is a tensor."""
    if not depends_on_data(first):
        return first or second()
    other = second()
    return predicate(first).logical_or(predicate(other)) if depends_on_data(other) else other if other else first


def both(first: Any, second: Callable[[], Any]) -> Any:
    """The value of `first and second`."""
    if not depends_on_data(first):
        return first and second()
    return and_(first, second) if _is_truth(first) else chosen(first, second, lambda: first, ())


def either(first: Any, second: Callable[[], Any]) -> Any:
    """The value of `first or second`."""
    if not depends_on_data(first):
        return first or second()
    return or_(first, second) if _is_truth(first) else chosen(first, lambda: first, second, ())


def _is_truth(value: Any) -> bool:
    return not isinstance(value, Tensor) or (value.dtype is torch.bool and value.dim() == 0)


def compared(first: Any, *rest: tuple[str, Callable[[], Any]]) -> Any:
    """`first < second < third`, each with the name of the node that compares it with the one before."""
    (kind, second), *more = rest
    value = second()
    truth = COMPARISONS[kind](first, value)
    return both(truth, lambda: compared(value, *more)) if more else truth


def among(value: Any, many: Any) -> Any:
    """`value in many`, of which it may be a tensor or a number that data tells."""
    if not depends_on_data(value == value):
        return value in many
    return reduce(lambda one, each: or_(one, lambda: value == each), many, False)


def refused(test: Any) -> Any:
    """The test of an `if` that raises: a graph raises nothing, and is for inputs that the model accepts."""
    return False if depends_on_data(test) else test


def chosen(test: Any, then: Branch, other: Branch, values: tuple[Any, ...]) -> Any:
    """What the branch that is taken gives for the values; neither branch changes them."""
    if not depends_on_data(test):
        return then(*values) if test else other(*values)
    try:
        return _cond(test, then, other, values)
    except Exception as error:
        if is_our_fault(error) or (isinstance(test, Tensor) and not isinstance(error, LoopError)):
            raise
        try:  # there may be an answer to a question about sizes, or whether there is any, which keeps this error
            taking = bool(test)
        except UNKNOWN:
            taking = None
        if taking is None:
            raise
    return then(*values) if taking else other(*values)


def _cond(test: Any, then: Branch, other: Branch, values: tuple[Any, ...]) -> Any:
    decides = predicate(test)  # first: what is around reads it, whatever the ways read
    leaves, spec = pytree.tree_flatten(values)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    given = [leaves[i] for i in places]

    def on_copies(branch: Branch) -> Callable[..., Any]:
        def run(*tensors: Tensor) -> Any:
            own = {place: tensor.clone() for place, tensor in zip(places, tensors, strict=True)}
            return branch(*pytree.tree_unflatten([own.get(i, leaf) for i, leaf in enumerate(leaves)], spec))

        return run

    ways, settings = (on_copies(then), on_copies(other)), Settings()
    found, outside = read_by([partial(settings.found, way) for way in ways], given)
    settings.without_undecided(*(ends for _, ends in found))
    results = [(result, settings.ends(ends)) for result, ends in found]
    form = form_of(*results)
    if is_rehearsal():
        return _kept(settings, form.value(form.tensors(results[0])))

    def lifted_way(way: Branch) -> Branch:
        return lifted(lambda *tensors: form.tensors(settings.run(way, settings.starts(), *tensors)), given, outside)

    operands = (*given, *outside.starts(), *outside.values)
    after = torch.ops.higher_order.cond(decides, *map(lifted_way, ways), operands)
    return _kept(settings, form.value(_returned(after, outside)))


def _kept(settings: Settings, result: tuple[Any, tuple[Any, ...]]) -> Any:
    """The result alone; the attributes have what stands behind it."""
    settings.set(result[1])
    return result[0]


def repeated(test: Branch, body: Branch, values: tuple[Any, ...]) -> Any:
    """What the values are once the test fails; the body gives their next ones. Known turns are taken one by one."""
    while not _is_open(going := test(*values)):
        if not going:
            return values
        values = body(*values)
    predicate(going)  # what is around reads it
    settings = Settings()
    copies = pytree.tree_map_only(Tensor, _copied, values)
    ((after, ends),), _ = read_by([lambda: settings.found(body, *copies)], ())
    settings.without_undecided(ends)
    begin = (values, settings.starts())
    form = form_of(begin, (after, settings.ends(ends)), changing=True)
    start = form.tensors(begin)
    if is_rehearsal():
        return _kept(settings, form.value(start))

    def goes_on(*tensors: Tensor) -> list[Tensor]:
        own, held = form.value([opaque(tensor) for tensor in tensors])
        return [predicate(settings.run(test, held, *own)[0])]

    def turn(*tensors: Tensor) -> list[Tensor]:
        own, held = form.value([_copied(tensor) for tensor in tensors])
        return form.tensors(settings.run(body, held, *own))

    _, outside = read_by((goes_on, turn), start)
    again, turned = lifted(goes_on, start, outside, is_test=True), lifted(turn, start, outside)
    carried = (*start, *outside.starts())
    results = torch.ops.higher_order.while_loop(lambda *inputs: again(*inputs)[0], turned, carried, outside.values)
    return _kept(settings, form.value(_returned(results, outside)))


def _is_open(test: Any) -> bool:
    """Whether another run, or another size, may take another number of turns."""
    known = isinstance(test, SymBool) and (statically_known_true(test) or statically_known_true(torch.sym_not(test)))
    return isinstance(test, (Tensor, SymBool)) and not known


def _returned(results: Sequence[Tensor], outside: Outside) -> Sequence[Tensor]:
    """What the ways themselves give; behind it stands what they left in tensors of outside."""
    count = len(results) - len(outside.written)
    outside.write(results[count:])
    return results[:count]


def _copied(tensor: Tensor) -> Tensor:
    """With what the turn before left in it."""
    return opaque(tensor.clone())


def written(before: Any, after: Any) -> Any:
    """What a branch has written to, with what it then holds; other names of it see that as well."""
    if before is after or before is UNSET:
        return after
    if isinstance(before, Tensor):
        return before.copy_(after)
    if isinstance(before, dict):
        before.clear()
        before.update(after)
        return before
    if isinstance(before, list):
        before[:] = after
        return before
    if is_dataclass(before) and not isinstance(before, type):
        for field in fields(before):
            object.__setattr__(before, field.name, getattr(after, field.name))
        return before
    return after


def added(before: Any, kind: str, value: Any) -> Any:
    """`before += value`, where `before` is an attribute. `kind` is the name of the operator's node: "Add"."""
    function = getattr(operator, KINDS.get(kind, kind.lower()))
    result = function(before, value)
    return result.to(before.dtype) if isinstance(before, Tensor) else result


def predicate(test: Any) -> Tensor:
    """Whether it is true, as a tensor of no axes."""
    if isinstance(test, Tensor):
        return test.reshape(()).bool()
    return torch.scalar_tensor(test, dtype=torch.bool)
