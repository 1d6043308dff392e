"""An `if` on a tensor as a cond: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.utils import _pytree as pytree

from exporter.capture.faults import is_our_fault
from exporter.capture.rewriting import merging
from exporter.capture.rewriting.lifting import is_rehearsal, lifted, read_by
from exporter.capture.rewriting.merging import LoopError, form_of

KINDS: Mapping[str, str] = {
    "Mult": "mul",
    "Div": "truediv",
    "BitOr": "or_",
    "BitAnd": "and_",
    "BitXor": "xor",
    "MatMult": "matmul",
}
"""Operators of Python by the names of their nodes, where these differ in more than case."""

UNKNOWN = (GuardOnDataDependentSymNode, DataDependentOutputException)
"""What PyTorch raises where a capture would have to know a value."""

Branch = Callable[..., Any]
UNSET = merging.UNSET


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
    return _predicate(first).logical_and(_predicate(other)) if depends_on_data(other) else first if other else other


def or_(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second`; both are computed where the first is a tensor."""
    if not depends_on_data(first):
        return first or second()
    other = second()
    return _predicate(first).logical_or(_predicate(other)) if depends_on_data(other) else other if other else first


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
    leaves, spec = pytree.tree_flatten(values)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    given = [leaves[i] for i in places]

    def on_copies(branch: Branch) -> Callable[..., Any]:
        def run(*tensors: Tensor) -> Any:
            own = {place: tensor.clone() for place, tensor in zip(places, tensors, strict=True)}
            return branch(*pytree.tree_unflatten([own.get(i, leaf) for i, leaf in enumerate(leaves)], spec))

        return run

    ways = on_copies(then), on_copies(other)
    results, outside = read_by(ways, given)
    form = form_of(*results)
    if is_rehearsal():
        return form.value(form.tensors(results[0]))
    bodies = [lifted(lambda *tensors, way=way: form.tensors(way(*tensors)), given, outside) for way in ways]
    return form.value(torch.ops.higher_order.cond(_predicate(test), *bodies, (*given, *outside.values)))


def repeated(test: Branch, body: Branch, values: tuple[Any, ...]) -> Any:
    """What the values are once the test fails; the body gives their next ones. Known turns are taken one by one."""
    while not depends_on_data(going := test(*values)):
        if not going:
            return values
        values = body(*values)
    (after,), _ = read_by([lambda: body(*pytree.tree_map_only(Tensor, torch.clone, values))], ())
    form = form_of(values, after, changing=True)
    start = form.tensors(values)
    if is_rehearsal():
        return form.value(start)

    def goes_on(*tensors: Tensor) -> list[Tensor]:
        return [_predicate(test(*form.value(tensors)))]

    def turn(*tensors: Tensor) -> list[Tensor]:
        return form.tensors(body(*form.value([tensor.clone() for tensor in tensors])))

    _, outside = read_by((goes_on, turn), start)
    again, turned = (lifted(each, start, outside) for each in (goes_on, turn))
    return form.value(
        torch.ops.higher_order.while_loop(lambda *inputs: again(*inputs)[0], turned, tuple(start), outside.values)
    )


def written(before: Any, after: Any) -> Any:
    """A tensor that a branch has written to, with what it then holds."""
    if isinstance(before, Tensor) and before is not after:
        return before.copy_(after)
    return after


def state(before: Any, after: Any) -> Any:
    """What a branch has set an attribute to. Where that depends on data, it was a tensor before."""
    if isinstance(after, (Tensor, SymInt, SymFloat, SymBool)) and not isinstance(before, Tensor):
        raise LoopError("a branch that sets an attribute to something other than a tensor")
    return after


def added(before: Any, kind: str, value: Any) -> Any:
    """`before += value`, where `before` is an attribute. `kind` is the name of the operator's node: "Add"."""
    function = getattr(operator, KINDS.get(kind, kind.lower()))
    result = function(before, value)
    return result.to(before.dtype) if isinstance(before, Tensor) else result


def _predicate(test: Any) -> Tensor:
    if isinstance(test, Tensor):
        return test.reshape(()).bool()
    return torch.scalar_tensor(test, dtype=torch.bool)
