"""Packed sequences as inputs and outputs of a model: padded values and lengths, which ONNX has types for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.utils import rnn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from fxport.exporter.capture.forward import forward_by


@dataclass(frozen=True)
class Padded:
    """A PackedSequence as `pad_packed_sequence` gives it: values [time, batch, *], lengths [batch].

    `in_order` tells whether the sequences stand longest first, and the PackedSequence has no order of its own.
    """

    values: Any
    lengths: Any
    in_order: bool


def _keyed(padded: Padded) -> tuple[list[tuple[Any, Any]], bool]:  # torch's keys do not keep its own protocol
    pairs = [(pytree.GetAttrKey(name), getattr(padded, name)) for name in ("values", "lengths")]
    return pairs, padded.in_order


def _from(children: Iterable[Any], in_order: Any) -> Padded:
    values, lengths = children
    return Padded(values, lengths, in_order)


pytree.register_pytree_node(
    Padded,
    lambda padded: ([padded.values, padded.lengths], padded.in_order),
    _from,
    serialized_type_name="torch.nn.utils.rnn.PackedSequence",
    flatten_with_keys_fn=_keyed,
)


def as_padded(tree: Any) -> Any:
    """Return the same arguments or results with `Padded` in the place of each PackedSequence."""
    return _replaced(tree, PackedSequence, _padded)


def as_packed(tree: Any) -> Any:
    """Return the same arguments or results with a PackedSequence in the place of each `Padded`."""
    return _replaced(tree, Padded, _packed)


class _Hidden:
    """A `Padded` where its tensors are not to be seen."""

    def __init__(self, padded: Padded) -> None:
        self.padded = padded


def beside_padded(function: Callable[[Any], Any], tree: Any) -> Any:
    """Call a function on a tree without its looking into each `Padded`, as torch's own treat a PackedSequence."""
    return _replaced(function(_replaced(tree, Padded, _Hidden)), _Hidden, lambda hidden: hidden.padded)


def call_padded(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    """Call the module with arguments that hold `Padded`, and return results that do."""
    return as_padded(module(*as_packed(args), **as_packed(kwargs)))


def padded_calls(module: torch.nn.Module) -> AbstractContextManager[None]:
    """Make the model take and give `Padded` while it is captured."""
    return forward_by(
        module, lambda forward, *args, **kwargs: as_padded(forward(*as_packed(args), **as_packed(kwargs)))
    )


def _replaced(tree: Any, kind: type, form: Any) -> Any:
    """Replace values of a kind in a tree; one without any is returned as it is, as some containers hold more."""
    leaves, spec = pytree.tree_flatten(tree, is_leaf=lambda each: isinstance(each, kind))
    if not any(isinstance(leaf, kind) for leaf in leaves):
        return tree
    return pytree.tree_unflatten([form(leaf) if isinstance(leaf, kind) else leaf for leaf in leaves], spec)


def _padded(packed: PackedSequence) -> Padded:
    values, lengths = rnn.pad_packed_sequence(packed)
    return Padded(values, lengths, packed.sorted_indices is None)


def _packed(padded: Padded) -> PackedSequence:
    return rnn.pack_padded_sequence(padded.values, padded.lengths, enforce_sorted=padded.in_order)


def refitted(tree: Any) -> Any:
    """Return the same call with lengths that fit the values, where both were resized on their own.

    The longest sequence is as long as the values are, and the longest stand first where they have to.
    """
    return _replaced(tree, Padded, _refitted)


def _refitted(padded: Padded) -> Padded:
    lengths = (padded.lengths + len(padded.values) - padded.lengths.max()).clamp(min=1)
    return replace(padded, lengths=lengths.sort(descending=True).values if padded.in_order else lengths)
