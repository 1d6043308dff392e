"""`y.data = z` while a model is captured: `y` is another name of the memory of `z` from then on.

No trace sees that. Views of what `y` was before keep the old values; a write to `y` or to `z` is one to both. An input
or a weight is written to once the run has ended, when nothing else is read from its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from weakref import WeakSet

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensor
from torch.autograd.graph import increment_version
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    get_proxy_slot,
    set_proxy_slot,
)
from torch.fx.proxy import TracerBase
from torch.utils import _pytree as pytree
from torch.utils.weak import TensorWeakRef

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.knowledge import version

SET_DATA, GET_DATA = Tensor.data.__set__, Tensor.data.__get__  # type: ignore[attr-defined]  # a descriptor

UNTRACED = "it gives other memory to a tensor where PyTorch traces below autograd"
OTHER_SIZES = "it gives a tensor that was not made here, such as a weight, other sizes or another type"
ALIASED = "it gives other memory to a tensor with a view, an attribute or one from outside of a branch or loop"
KEPT = "in a branch or a loop, it gives a tensor the memory of one that is still held"
COPY = "Write the values into the tensor: `y.copy_(z)` in the place of `y.data = z`."
WRITTEN = "it writes to memory that two tensors have since one was set by .data"


@dataclass
class _Shared:
    """Two tensors that share memory, without sharing PyTorch's count of writes."""

    tensors: tuple[TensorWeakRef, TensorWeakRef]
    versions: list[int | None] = field(default_factory=list)

    @staticmethod
    def of(*tensors: Tensor) -> _Shared:
        one, two = map(TensorWeakRef, tensors)
        return _Shared((one, two), [version(each) for each in tensors])

    @property
    def alive(self) -> list[Tensor]:
        """Both tensors; none once one of them is held no more."""
        found = [each for ref in self.tensors if (each := ref()) is not None]
        return found if len(found) == len(self.tensors) else []

    def count(self) -> bool:
        """Count a write to one of them as one to both; tell whether there was one."""
        now = [version(each) for each in self.alive]
        if not now or now == self.versions:
            return False
        for each, before, new in zip(self.alive, self.versions, now, strict=True):
            if new is not None and new == before:
                increment_version(each)
        self.versions = [version(each) for each in self.alive]
        return True


@dataclass
class _State:
    """Tensors that one run of the model has rebound."""

    root: Any = None
    """The tracer of the whole graph."""
    bound: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Inputs and weights with new memory, each with a name of the memory that it had."""
    names: list[_Shared] = field(default_factory=list)
    """Tensors that share memory in the graph, too."""
    copies: list[_Shared] = field(default_factory=list)
    """Tensors of which the graph has copies, as long as nothing is written to either."""
    passing: list[TensorWeakRef] = field(default_factory=list)
    """Tensors that must be held no more when the next function is called."""


class RebindingFollowed(Part):
    """Follow which tensor is given the memory of another one. Raises RefusedError where that cannot be."""

    functions = frozenset({SET_DATA})

    def __init__(self) -> None:
        self.state = _State()
        self.tracers: WeakSet[Any] = WeakSet()

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        state = self.state
        return bool(state.passing or state.names or state.copies)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        state = self.state
        if state.passing and func != GET_DATA:
            passing, state.passing = state.passing, []
            if any(each() is not None for each in passing):
                raise RefusedError(KEPT, cure=COPY)
        if func == SET_DATA:
            self.give(*args)
            return None
        result = func(*args, **(kwargs or {}))
        for each in state.names:
            each.count()
        if any(each.count() for each in state.copies):
            raise RefusedError(WRITTEN, cure=COPY)
        return result

    def give(self, target: Tensor, source: Tensor) -> None:
        if target is source:  # as `layer.to(dtype)` does with each weight that has this type
            return
        if type(target) not in PLAIN or type(source) not in PLAIN:
            raise RefusedError(UNTRACED, cure=COPY)
        if not isinstance(target, FakeTensor):
            self.copy(target, source)  # an attribute, which the graph holds as a constant
            return
        traced = get_proxy_mode()
        slot = traced and get_proxy_slot(target, traced.tracer, None)
        if traced is not None and slot is not None:
            if slot.proxy.node.op == "placeholder":
                if traced.tracer is not self.state.root:
                    raise RefusedError(ALIASED, cure=COPY)
                _require_alike(target, source)
                self.state.bound.append((target, target.detach()))
            name = get_proxy_slot(source.detach(), traced.tracer)
            with disable_proxy_modes_tracing(), torch._C.DisableTorchFunction():
                SET_DATA(target, source)
            set_proxy_slot(target, traced.tracer, name)
            increment_version([target, source])
            self.state.names.append(_Shared.of(target, source))
            if traced.tracer is not self.state.root:  # the next turn may write to either before it comes here
                self.state.passing.append(TensorWeakRef(source))
        elif any(target in tracer.tensor_tracker for tracer in self.tracers):
            self.copy(target, source)  # a rehearsal of a body, which is given a copy of it when it is traced
        else:
            SET_DATA(target, source)  # one that is made and left where nothing is recorded

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Write the new values into the old memory, of which nothing else may be held."""
        _require_alike(target, source)
        mode = detect_fake_mode((target, source))
        with disable_proxy_modes_tracing():
            seen = target if mode is None or isinstance(target, FakeTensor) else mode.from_tensor(target)
        place = _memory(seen)
        held = [each for tracer in self.tracers for each in [*tracer.tensor_tracker] if each is not seen]
        if any(_memory(each) == place for each in held):
            raise RefusedError(ALIASED, cure=COPY)
        target.copy_(source)
        self.state.copies.append(_Shared.of(target, source))

    def finish(self, results: Any) -> Any:
        """Write to inputs and weights what they have become; results that see their old memory are copied first."""
        if not self.state.bound:
            return results
        memory = {_memory(before) for _, before in self.state.bound}
        results = pytree.tree_map_only(Tensor, lambda each: each.clone() if _memory(each) in memory else each, results)
        values = [tensor.clone() for tensor, _ in self.state.bound]
        for (_, before), value in zip(self.state.bound, values, strict=True):
            before.copy_(value)
        return results


def _require_alike(target: Tensor, source: Tensor) -> None:
    if target.shape != source.shape or target.dtype != source.dtype:
        raise RefusedError(OTHER_SIZES, cure=COPY)


def _memory(tensor: Tensor) -> int | None:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None


@contextmanager
def rebinding_followed(model: torch.nn.Module, part: RebindingFollowed) -> Iterator[None]:
    """Let the part know of each run of the model, and of each tracer that makes a node."""
    create = TracerBase.create_node

    def way(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        traced = get_proxy_mode()
        part.state = _State(traced and traced.tracer)
        return part.finish(forward(*args, **kwargs))

    def create_node(tracer: TracerBase, *args: Any, **kwargs: Any) -> Node:
        if hasattr(tracer, "tensor_tracker"):
            part.tracers.add(tracer)
        return create(tracer, *args, **kwargs)

    with forward_by(model, way), mock.patch.object(TracerBase, "create_node", create_node):
        yield


PLAIN = (Tensor, torch.nn.Parameter, FakeTensor)
