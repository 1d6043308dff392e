"""Custom ops that write to their arguments, as PyTorch's op for it: the same call on copies, which it returns."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from fxport.fx_passes.graph import call

hop = torch.ops.higher_order


def is_custom_write(target: Any) -> bool:
    """Return True if a custom op writes to tensors and returns nothing that shares their storage.

    Lists of tensors that are written to are left to PyTorch.
    """
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable or target.namespace == "aten":
        return False
    kinds = [str(argument.type) for argument in target._schema.arguments if is_written(argument)]
    return all(kind in ("Tensor", "Optional[Tensor]") for kind in kinds) and all(
        result.alias_info is None for result in target._schema.returns
    )


def called_op(node: Node) -> Any:
    """Return the op that a node calls: for a custom op that writes, the op itself."""
    return node.args[0] if node.target is hop.auto_functionalized else node.target


def custom_write(node: Node) -> tuple[Node, ...]:
    """Return the tensors that the call writes, in the schema's order; take its results from the new call.

    Given:   %r = mine::scale_(%x, 2.0)
    Result:  %a = auto_functionalized(mine::scale_, x=%x, by=2.0); %r = getitem(%a, 0); %new = getitem(%a, 1)
    """
    target: Any = node.target
    schema = target._schema
    names = [argument.name for argument in schema.arguments]
    given: dict[str, Any] = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    fake = node.meta.get("val")
    returned = fake if isinstance(fake, (tuple, list)) else (fake,)  # also where it returns nothing: None
    changed = [given.get(argument.name) for argument in schema.arguments if is_written(argument)]
    news = [each.meta["val"] if isinstance(each, Node) else None for each in changed]
    whole = call(node, hop.auto_functionalized, (target,), given, val=(*returned, *news))
    if len(schema.returns) == 1:
        node.replace_all_uses_with(_part(node, whole, 0)) if node.users else None
    for user in list(node.users):
        user.replace_input_with(node, whole)  # a getitem of the same number
    places = [place for place, each in enumerate(changed, len(returned)) if isinstance(each, Node)]
    return tuple(_part(node, whole, place) for place in places)


def _part(node: Node, whole: Node, place: int) -> Node:
    return call(node, operator.getitem, (whole, place), val=whole.meta["val"][place])


def is_written(argument: Any) -> bool:
    """Return True if an op writes to this argument of its schema."""
    return argument.alias_info is not None and argument.alias_info.is_write
