"""Arguments that an op writes to, and the functional op that computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from fxport.fx_passes.graph import asked_at, call, run_fake, size_nodes
from fxport.fx_passes.passes import norm_writes
from fxport.fx_passes.passes.custom_writes import custom_write, is_custom_write
from fxport.fx_passes.sizes import same_sizes

aten = torch.ops.aten

FunctionalForm = Callable[[Node], tuple[Node, ...]]
"""Makes the new values, one for each argument written to, before the node that it is given."""


def written(node: Node) -> list[Node]:
    """The arguments that a node writes to, in the schema's order."""
    if node.target in IMPLICIT:
        return IMPLICIT[node.target][0](node)
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return []
    names = [argument.name for argument in node.target._schema.arguments]
    given: dict[str, Any] = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return [
        given[argument.name]
        for argument in node.target._schema.arguments
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and isinstance(given.get(argument.name), Node)
    ]


def writes(node: Node) -> bool:
    """Return True if a node writes at all: `_foreach_add_` does, to lists of tensors, of which `written` has none."""
    if written(node):
        return True
    arguments = node.target._schema.arguments if isinstance(node.target, torch._ops.OpOverload) else ()
    return any(
        argument.alias_info is not None and argument.alias_info.is_write and isinstance(given, (list, tuple)) and given
        for argument, given in zip(arguments, node.args, strict=False)
    )


def functional_form(node: Node) -> FunctionalForm | None:
    """Return the function that computes the new values of a writing op; None if that is not known."""
    if node.target in IMPLICIT:
        return IMPLICIT[node.target][1]
    if node.target in FORMS:
        return FORMS[node.target]
    if functional_overload(node.target) is not None:
        return _same_name
    if _gives_out(node):
        return _into_out
    return custom_write if is_custom_write(node.target) else None


@cache
def functional_overload(target: Any) -> torch._ops.OpOverload | None:
    """`aten.add_.Tensor` → `aten.add.Tensor`: the name without its underscore, with arguments of the same types.

    Mostly it has the same overload name, too; that of `pow_.Scalar` is `pow.Tensor_Scalar`. Python's `&=` is
    `aten.__iand__`, beside `aten.__and__`.
    """
    if not isinstance(target, torch._ops.OpOverload) or target in RESHAPING:
        return None
    namespace, name = target._schema.name.split("::")
    plain = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
    packet = getattr(getattr(torch.ops, namespace), plain, None) if plain != name else None
    if packet is None:
        return None
    names = [name for name in packet.overloads() if _types(getattr(packet, name)) == _types(target)]
    best = target._overloadname if target._overloadname in names else next(iter(names), None)
    return getattr(packet, best) if best is not None else None


def _types(overload: torch._ops.OpOverload) -> list[str]:
    return [str(argument.type) for argument in overload._schema.arguments]


@cache
def _without_out(target: Any) -> torch._ops.OpOverload | None:
    """`aten.cumsum.out` → `aten.cumsum.default`: the overload that gives what the other writes to `out`, if one is."""
    arguments = target._schema.arguments if isinstance(target, torch._ops.OpOverload) else ()
    if [each.is_out for each in arguments].count(True) != 1:
        return None
    types = [str(each.type) for each in arguments if not each.is_out]
    namespace, name = target._schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    overloads = [getattr(packet, each) for each in packet.overloads()]
    found = (each for each in overloads if _types(each) == types and not each._schema.is_mutable)
    return next((each for each in found if len(each._schema.returns) == 1), None)


def _gives_out(node: Node) -> bool:
    """Return whether an op writes to `out` what it gives without it, of the same sizes and dtype."""
    if (target := _without_out(node.target)) is None:
        return False
    kwargs, out = _split_out(node)
    with asked_at(node):
        value, there = run_fake(target, node.args, kwargs), out.meta["val"]
    return value.dtype == there.dtype and same_sizes(value, there)


def _split_out(node: Node) -> tuple[dict[str, Any], Node]:
    """Return the keyword arguments without the one that is written to, and that one."""
    kwargs = dict(node.kwargs)
    name = next(each.name for each in node.target._schema.arguments if each.is_out)  # type: ignore[union-attr]  # an op
    return kwargs, kwargs.pop(name)  # type: ignore[return-value]  # PyTorch takes a tensor by its name only


def _into_out(node: Node) -> tuple[Node, ...]:
    kwargs, out = _split_out(node)
    return (call(node, _without_out(node.target), node.args, kwargs, val=out.meta["val"]),)


RESHAPING = frozenset(
    {
        aten.squeeze_.default,
        aten.squeeze_.dim,
        aten.squeeze_.dims,
        aten.unsqueeze_.default,
        aten.transpose_.default,
        aten.t_.default,
        aten.resize_.default,
        aten.resize_as_.default,
        aten.as_strided_.default,
        aten.swapaxes_.default,
        aten.swapdims_.default,
    }
)
"""In-place ops that change the sizes of the tensor object rather than what is in its storage."""


def _same_name(node: Node) -> tuple[Node, ...]:
    target = functional_overload(node.target)
    value = call(node, target, node.args, dict(node.kwargs))
    return (_fit(node, value),)


def _fit(node: Node, value: Node) -> Node:
    """Cast and expand a written value to the dtype and sizes of its target, the first argument of `node`."""
    target: Node = node.args[0]  # type: ignore[assignment]  # an op that writes has a tensor first
    there, here = target.meta["val"], value.meta["val"]
    if here.dtype != there.dtype:
        value = call(node, aten._to_copy.default, (value,), {"dtype": there.dtype})
    if not same_sizes(here, there):
        value = call(node, aten.expand.default, (value, size_nodes(node, target)), val=there)
    return value


def _copy(node: Node) -> tuple[Node, ...]:
    """A buffer that is assigned anew PyTorch captures as a copy into it that has the sizes of the new value."""
    target, source = node.args[:2]
    anew = target.op == "placeholder" and not same_sizes(node.meta["val"], target.meta["val"])  # type: ignore[union-attr]  # nodes
    return (source if anew else _fit(node, source),)  # type: ignore[arg-type, return-value]


def _fill(node: Node) -> tuple[Node, ...]:
    return (call(node, aten.full_like.default, (node.args[0], node.args[1]), val=node.args[0].meta["val"]),)  # type: ignore[union-attr]


def _zero(node: Node) -> tuple[Node, ...]:
    return (call(node, aten.full_like.default, (node.args[0], 0), val=node.args[0].meta["val"]),)  # type: ignore[union-attr]


def _unchanged(node: Node) -> tuple[Node, ...]:
    return (node.args[0],)  # type: ignore[return-value]


def _drawn_by(target: Any, *defaults: float) -> FunctionalForm:
    """Random ops are called otherwise where they do not write; `defaults` are those that only the writing form has."""

    def form(node: Node) -> tuple[Node, ...]:
        return (call(node, target, (*node.args, *defaults[len(node.args) - 1 :])),)

    return form


FORMS: Mapping[Any, FunctionalForm] = {
    aten.copy_.default: _copy,
    aten.fill_.Tensor: _copy,
    aten.fill_.Scalar: _fill,
    aten.zero_.default: _zero,
    aten.detach_.default: _unchanged,
    aten.requires_grad_.default: _unchanged,
    aten.bernoulli_.float: _drawn_by(aten.bernoulli.p, 0.5),
    aten.normal_.default: _drawn_by(aten.normal_functional.default),
    aten.random_.to: _drawn_by(aten.randint_like.default),
}
"""Writes whose new value is said best in other words than by the op of the same name."""


IMPLICIT: Mapping[Any, tuple[Callable[[Node], list[Node]], FunctionalForm]] = {
    aten.batch_norm.default: (norm_writes.filled_statistics, norm_writes.batch_norm),
    aten.native_batch_norm.default: (norm_writes.statistics, norm_writes.native_batch_norm),
    aten.instance_norm.default: (norm_writes.statistics, norm_writes.instance_norm),
}
"""Ops that write although their schema does not say so: what they write to, and their functional form."""
