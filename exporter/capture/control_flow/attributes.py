"""Attributes of modules, as a part of a statement sets them: without PyTorch's hooks, which look at what is around."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from fxport.exporter.capture.patches.module_methods import method_in_place, replaced_method


@contextmanager
def plain_attributes() -> Iterator[None]:
    """Let attributes of modules be set without PyTorch's hooks, which look for each tensor in the graph around."""
    around = method_in_place("__setattr__")
    if getattr(around, "__module__", None) == __name__:  # by a part around
        yield
        return

    def assign(module: nn.Module, name: str, value: Any) -> None:
        made = "_buffers" not in vars(module)  # by the part itself, as a slice of a ModuleList is
        if made or isinstance(module, GraphModule) or type(module) is nn.Module:  # PyTorch's own, to trace the part
            around(module, name, value)
        elif name in module._buffers and (value is None or isinstance(value, Tensor)):
            module._buffers[name] = value
        else:
            _ASSIGN(module, name, value)

    with replaced_method("__setattr__", assign):
        yield


_ASSIGN = nn.Module.__setattr__
