"""Regions of `nested_compile_region` while a model is captured: traced as they stand, each node with its call."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import StackSummary, extract_stack
from typing import Any
from unittest import mock

from torch.fx import Node
from torch.fx.proxy import TracerBase

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.fx_passes.regions import REGION, Call

# By its path: `torch._higher_order_ops.invoke_subgraph` as an attribute is the operator of that name.
MODULE = "torch._higher_order_ops.invoke_subgraph"


@contextmanager
def regions_noted() -> Iterator[None]:
    """Trace each call of a region with its name and the user's lines, instead of compiling it on its own."""
    running: list[Call] = []
    numbers = itertools.count()
    create = TracerBase.create_node

    def called(region: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        running.append(Call(_name(region), next(numbers), _stack()))
        try:
            return region(*args, **kwargs)
        finally:
            running.pop()

    def create_node(tracer: TracerBase, *args: Any, **kwargs: Any) -> Node:
        node = create(tracer, *args, **kwargs)
        if running:
            node.meta.setdefault("custom", {})[REGION] = tuple(running)
        return node

    placeholder = mock.patch.object(importlib.import_module(MODULE), "invoke_subgraph_placeholder", called)
    with placeholder, mock.patch.object(TracerBase, "create_node", create_node):
        yield


def _name(region: Callable[..., Any]) -> str:
    """Return what the user calls it: the class of a `forward`, else the function."""
    name = getattr(region, "__qualname__", "") or type(region).__name__
    return name.removesuffix(".forward").rpartition(".")[2].strip("<>")


def _stack() -> str:
    frames = [frame for frame in extract_stack() if kind_of(frame.filename) != HIDDEN]
    return "".join(StackSummary.from_list(frames).format())
