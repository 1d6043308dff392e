"""Buffers and parameters that `forward` assigns while a model is captured: each becomes a write to what it was before.

PyTorch notes an assignment of a buffer by the node of the tensor, for the outermost module alone, and mistakes the
input for it where the tensor is one that the graph did not make.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import _trace
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from fxport.exporter.capture.control_flow.merged import may_share
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.assignments import place_of_assignment
from fxport.exporter.capture.patches.bookkeeping import modes_away

OTHER_DTYPE = "it assigns to '{name}', which holds {old}, a tensor of {new}"
REPLACED = "it makes '{name}' None, or a buffer of a parameter, or the other way round"
OTHER_SIZES = "it assigns a tensor of other sizes to '{name}'"
CALL_ONCE = "If the sizes follow from the input's, call the model once on the example before the export: they fit then."
CAST = "Cast it: `value.to({name}.dtype)`; or register the tensor in the dtype that it gets."
ALIASED = (
    "it makes '{name}' and '{other}' one tensor, or may do so as data has it, and writes to its memory: the next call"
    " would write to both"
)
TIED = (
    "it assigns to '{name}', which was one tensor with '{other}': that keeps its value, and the graph has one of them"
)
WRITE = "Register two tensors; or write into the one: `{name}.copy_(…)`."
COPY = "Assign a copy: `{name} = … .clone()`."


@dataclass(frozen=True, slots=True)
class _Entry:
    """A buffer or parameter of a module: the dictionary that has it, its key there, and its path in the model."""

    holder: dict[str, Any]
    key: str
    path: str
    root: torch.nn.Module
    is_outermost: bool

    @property
    def tensor(self) -> Tensor | None:
        return self.holder.get(self.key)

    def refusal(self, reason: str, cure: str, **facts: object) -> RefusedError:
        """Make an error about it that stands at the line that assigns it."""
        place = place_of_assignment(self.root, self.path)
        told = reason.format(name=self.path, **facts)
        return RefusedError(told, place=place, cure=cure.format(name=f"self.{self.path}"))


@contextmanager
def assignments_written(model: torch.nn.Module, lost: list[str]) -> Iterator[None]:
    """Write what `forward` assigns to buffers and parameters into the tensors that they were, when it returns.

    Paths of those that were None go to `lost`: they become None again. A buffer that gets other sizes is left to
    PyTorch, if it is the outermost module's. Raises RefusedError for another dtype or None, and where a later call
    would write to two of them at once.
    """
    nodes: dict[str, str] = {}

    def register(module: torch.nn.Module, assigned: dict[str, str]) -> RemovableHandle:
        nonlocal nodes
        nodes = assigned
        return RemovableHandle(OrderedDict())

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling() or not _is_traced(entries := [*_entries(model)]):
            return forward(*args, **kwargs)
        nodes.clear()
        before = {entry.path: entry.tensor for entry in entries}
        with modes_away():
            versions = {path: version(tensor) for path, tensor in before.items() if tensor is not None}
        result = forward(*args, **kwargs)
        assigned = [entry for entry in entries if entry.tensor is not before[entry.path]]
        with modes_away():
            _require_apart(entries, before, versions)
            _require_own(assigned, before)
        result = _written(assigned, before, lost, result)
        if get_proxy_mode() is not None:
            nodes.update({entry.key: _node_of(entry) for entry in assigned if entry.tensor is not before[entry.path]})
        return result

    with mock.patch.object(_trace, "register_buffer_assignment_hook", register), forward_by(model, call):
        yield


def _is_traced(entries: Iterable[_Entry]) -> bool:
    """Return whether forward runs in a trace, or in the run before one in which PyTorch looks for what it writes to."""
    return get_proxy_mode() is not None or any(isinstance(entry.tensor, FunctionalTensor) for entry in entries)


def _entries(model: torch.nn.Module) -> Iterator[_Entry]:
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # which has left Python
            continue
        for holder in (module._buffers, module._parameters):
            for key in holder:
                yield _Entry(holder, key, f"{name}.{key}" if name else key, model, module is model)


def _written(assigned: Iterable[_Entry], before: Mapping[str, Tensor | None], lost: list[str], result: Any) -> Any:
    """Write the new values, all read before the first is written, and put the old tensors back."""
    writes: list[tuple[Tensor, Tensor]] = []
    for entry in assigned:
        old, new = before[entry.path], entry.tensor
        if old is None:
            lost.append(entry.path)
        elif new is None:
            raise entry.refusal(REPLACED, COPY)
        elif old.dtype != new.dtype:
            raise entry.refusal(OTHER_DTYPE, CAST, old=old.dtype, new=new.dtype)
        elif old.shape != new.shape:
            continue
        else:
            writes.append((old, new))
        entry.holder[entry.key] = old
    overwritten = {_memory(old) for old, _ in writes}
    result = pytree.tree_map_only(Tensor, lambda each: each.clone() if _memory(each) in overwritten else each, result)
    values = [new.clone() for _, new in writes]  # of a weight, too, which would be no result of the graph
    with torch._C.DisableTorchFunction():  # it is no write of the model's, and changes no other name of the old tensors
        for (old, _), value in zip(writes, values, strict=True):
            old.copy_(value)
    return result


def _node_of(entry: _Entry) -> str:
    """Return the node of a buffer's new value, which PyTorch then makes the value of the buffer."""
    traced, tensor = get_proxy_mode(), entry.tensor
    if isinstance(tensor, FunctionalTensor):
        tensor = tensor.from_functional()
    slot = get_proxy_slot(tensor, traced.tracer, None) if traced is not None and tensor is not None else None
    if not entry.is_outermost or slot is None:
        raise entry.refusal(OTHER_SIZES, CALL_ONCE)
    return slot.proxy.node.name


def _require_apart(
    entries: Iterable[_Entry], before: Mapping[str, Tensor | None], versions: Mapping[str, int | None]
) -> None:
    """Raise RefusedError where two entries have come to share memory that `forward` writes to."""
    known = Counter(_memory(tensor) for tensor in before.values() if tensor is not None)
    written = {
        _memory(tensor) for path, tensor in before.items() if tensor is not None and version(tensor) != versions[path]
    }
    held: dict[int, str] = {}
    for entry in entries:
        tensor = entry.tensor
        memory = None if tensor is None else _memory(tensor)
        for each in () if tensor is None or memory is None else {memory, *may_share(tensor)}:
            other = held.setdefault(each, entry.path)
            if other != entry.path and known[each] < 2 and each in written:
                raise entry.refusal(ALIASED, COPY, other=other)


def _require_own(assigned: Iterable[_Entry], before: Mapping[str, Tensor | None]) -> None:
    """Raise RefusedError where what is assigned was one tensor under two names, of which the other keeps its value."""
    for entry in assigned:
        old = before[entry.path]
        shared = [
            path
            for path, other in before.items()
            if old is not None
            and other is not None
            and path != entry.path
            and _memory(other) is not None
            and _memory(other) == _memory(old)
        ]
        if shared:
            raise entry.refusal(TIED, WRITE, other=shared[0])


def _memory(tensor: Tensor) -> int | None:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
