"""Functions of PyTorch's on nested arguments, which it calls some ten times for an operator that it traces.

It describes the nesting first, and builds the results by that description. Tuples, lists and dicts of Python's own,
of which nearly all arguments are, need no description to be mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree


@contextmanager
def plain_trees_mapped() -> Iterator[None]:
    """Map nested tuples, lists and dicts of Python's own without a description of their nesting, while it is active."""
    whole, only, leaves = pytree.tree_map, pytree.tree_map_only, pytree.tree_leaves
    known = pytree.SUPPORTED_NODES

    def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
        kind = type(tree)
        if kind is tuple:
            return tuple([mapped(function, each) for each in tree])
        if kind is list:
            return [mapped(function, each) for each in tree]
        if kind is dict:
            return {key: mapped(function, each) for key, each in tree.items()}
        if kind in known or issubclass(kind, tuple):
            return whole(function, tree)
        return function(tree)

    def collect(tree: Any, found: list[Any]) -> None:
        kind = type(tree)
        if kind is tuple or kind is list:
            for each in tree:
                collect(each, found)
        elif kind is dict:
            for each in tree.values():
                collect(each, found)
        elif kind in known or issubclass(kind, tuple):
            found += leaves(tree)
        else:
            found.append(tree)

    def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
        if rests or is_leaf is not None or torch.compiler.is_dynamo_compiling():
            return whole(func, tree, *rests, is_leaf=is_leaf)
        return mapped(func, tree)

    def tree_map_only(kinds: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
        if is_leaf is not None or not isinstance(kinds, (type, tuple)) or torch.compiler.is_dynamo_compiling():
            return only(kinds, func, tree, is_leaf=is_leaf)
        return mapped(lambda each: func(each) if isinstance(each, kinds) else each, tree)

    def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
        if is_leaf is not None or torch.compiler.is_dynamo_compiling():
            return leaves(tree, is_leaf=is_leaf)
        found: list[Any] = []
        collect(tree, found)
        return found

    with (
        mock.patch.object(pytree, "tree_map", tree_map),
        mock.patch.object(pytree, "tree_map_only", tree_map_only),
        mock.patch.object(pytree, "tree_leaves", tree_leaves),
    ):
        yield
