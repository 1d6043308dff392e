"""Blocks that a model repeats: their calls while it is captured, run or copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from torch._dynamo.exc import TorchDynamoException
from torch._subclasses import FakeTensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import PythonKeyTracer, get_proxy_mode
from torch.nn import Module

from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.reachable import HOOKS_OF_ALL
from fxport.exporter.capture.repeated.likeness import (
    Attribute,
    Call,
    UnlikeError,
    differences,
    leads_elsewhere,
    speaks_of,
)
from fxport.exporter.capture.repeated.recorded import NotCopiedError, Recorded
from fxport.exporter.capture.snapshot import Snapshot

FEWEST = 3
"""Blocks of one kind, of which the first and the last are captured in full."""

MOST_IN_VAIN = 4
"""Calls of a group that are recorded without a call that could be copied from them."""

LOOKING = frozenset({"__dict__", "vars", "__getstate__", "__getattribute__", "getattr_static"})
"""Names by which code looks at attributes without `__getattr__`."""

Forward = Callable[..., Any]


@dataclass(eq=False)
class Group:
    """Modules of one class that one module holds, in its order, and those among them whose calls were recorded."""

    blocks: Sequence[Module]
    recorded: list[Template] = field(default_factory=list)
    in_vain: int = 0
    is_unfit: bool = False


@dataclass(eq=False)
class Template:
    """A recorded call, of which copies may be made.

    Attributes:
        block: The block that was called.
        recorded: The nodes of the call.
        read: The attributes that the call has read, among those in which blocks of the group differ.
        state: All that its code can reach, as it was.
        last: The block whose call shows whether the copies are right.
        copies: The paths of the blocks whose calls were copied.
        is_proven: The call of the last block was compared, and is as a copy would be.
    """

    block: Module
    recorded: Recorded
    read: set[Attribute]
    state: Snapshot
    last: Module
    copies: list[str] = field(default_factory=list)
    is_proven: bool = False

    def serves(self, call: Call, different: set[Attribute] | None) -> bool:
        """Return whether the call of a block with such differences would run in the same way as the recorded one."""
        is_alike = self.recorded.call.key == call.key and different is not None and not different & self.read
        return is_alike and not any(self.state.changes())


def is_users(state: Snapshot) -> bool:
    """Return whether code of the user's own files can be reached."""
    return any(kind_of(each.__code__.co_filename) == USER for each in state.functions())


class Repeats:
    """The groups of blocks that a model repeats, and what became of their calls in a trace.

    Args:
        model: The model; None: nothing is copied.
        watched: Tells what a capture has noted so far; what a call adds to would not be noted for a copy of it.
    """

    def __init__(self, model: Module | None, watched: Callable[[], object]) -> None:
        self.watched = watched
        self.groups = [] if model is None else [*_groups(model)]
        self.group_of = {block: group for group in self.groups for block in group.blocks}
        self.gradients = {
            block: [(each.requires_grad, each.grad is None) for each in block.parameters()] for block in self.group_of
        }
        weights = () if model is None else (*model.parameters(), *model.buffers())
        self.has_values = not any(each.is_meta or isinstance(each, FakeTensor) for each in weights)
        self.modules = set() if model is None else {id(each) for each in model.modules()}
        self.is_busy = False
        self.has_misled = False
        self.called: set[Module] = set()

    @property
    def copies(self) -> list[str]:
        """The paths of the blocks whose calls were copied."""
        return [path for group in self.groups for template in group.recorded for path in template.copies]

    @property
    def copied_of_user(self) -> list[str]:
        """The paths of those of them whose code is the user's own."""
        recorded = (template for group in self.groups for template in group.recorded if is_users(template.state))
        return [path for template in recorded for path in template.copies]

    @property
    def are_proven(self) -> bool:
        """Tell whether each kind of which there are copies was compared with the call of the last block."""
        return all(each.is_proven for group in self.groups for each in group.recorded if each.copies)

    @contextmanager
    def copied(self) -> Iterator[None]:
        """Copy calls while a model is traced."""
        self.called.clear()
        for group in self.groups:
            group.recorded.clear()
            group.in_vain, group.is_unfit = 0, False
        with ExitStack() as entered:
            for group in self.groups:
                for block in group.blocks:
                    entered.enter_context(forward_by(block, _Calls(self, block)))
            yield

    def call(self, block: Module, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of a block, or copy it."""
        group, traced = self.group_of[block], get_proxy_mode()
        if self.is_busy or group.is_unfit or block in self.called or traced is None:
            return forward(*args, **kwargs)
        self.called.add(block)
        tracer = traced.tracer
        if not isinstance(tracer, PythonKeyTracer) or any(HOOKS_OF_ALL.values()):
            return forward(*args, **kwargs)
        try:
            call = Call.of(block, args, kwargs, tracer)
        except UnlikeError:
            return forward(*args, **kwargs)
        served = (each for each in group.recorded if each.serves(call, self.differences(each.block, block)))
        template = next(served, None)
        self.is_busy = True
        try:
            if template is None:
                return self._record(group, block, call, (args, kwargs), tracer, lambda: forward(*args, **kwargs))
            if template.last is block:
                return self._compare(group, template, call, tracer, lambda: forward(*args, **kwargs))
            path = tracer.path_of_module(block)
            template.copies.append(path)
            group.in_vain = 0
            return template.recorded.copied(path, call, tracer)
        finally:
            self.is_busy = False

    def differences(self, one: Module, other: Module) -> set[Attribute] | None:
        """Return the attributes in which two blocks differ; None if they are unlike in more than these."""
        return differences(one, other) if self.gradients[one] == self.gradients[other] else None

    def _record(
        self,
        group: Group,
        block: Module,
        call: Call,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        tracer: PythonKeyTracer,
        run: Callable[[], Any],
    ) -> Any:
        later = {each: self.differences(block, each) for each in group.blocks[group.blocks.index(block) + 1 :]}
        alike = {each: found for each, found in later.items() if found is not None}
        state, noted, read = Snapshot.of({"": block}), self.watched(), set[Attribute]()
        unproven = not self.has_values and is_users(state)  # which cannot be run beside the model
        group.is_unfit = unproven or group.in_vain >= MOST_IN_VAIN or leads_elsewhere(state, block, self.modules)
        if group.is_unfit or len(alike) + 1 < FEWEST:
            return run()
        before = next(iter(reversed(tracer.graph.nodes)), None)
        try:
            with _reads_noted(block, set().union(*alike.values()), read, state):
                results = run()
        except TorchDynamoException:  # Dynamo looks for attributes in ways of its own, and finds none that are taken
            self.has_misled = True
            raise
        group.in_vain += 1
        if self.watched() != noted or any(state.changes()):
            group.is_unfit = True
            return results
        served = [each for each, different in alike.items() if not different & read]
        if len(served) + 1 < FEWEST:
            return results
        try:
            call = replace(call, key=Call.of(block, *given, tracer).key)  # PyTorch may have learned of equal sizes
            recorded = Recorded.of(tracer.path_of_module(block), call, _since(tracer, before), results, tracer)
        except (NotCopiedError, UnlikeError):
            return results
        group.recorded.append(Template(block, recorded, read, state, served[-1]))
        return results

    def _compare(
        self, group: Group, template: Template, call: Call, tracer: PythonKeyTracer, run: Callable[[], Any]
    ) -> Any:
        noted, before = self.watched(), next(iter(reversed(tracer.graph.nodes)), None)
        results = run()
        try:
            other = Recorded.of(tracer.path_of_module(template.last), call, _since(tracer, before), results, tracer)
        except NotCopiedError:
            return results
        unchanged = self.watched() == noted and not any(template.state.changes())
        template.is_proven = unchanged and template.recorded.is_like(other)
        return results


@dataclass(eq=False)
class _Calls:
    """The calls of a block. Those of two blocks are alike as the blocks are: their groups are no part of this."""

    repeats: Repeats
    block: Module

    def __call__(self, forward: Forward, *args: Any, **kwargs: Any) -> Any:
        return self.repeats.call(self.block, forward, args, kwargs)


def _since(tracer: PythonKeyTracer, before: Node | None) -> Sequence[Node]:
    """Return the nodes that were made since, the oldest first."""
    found: list[Node] = []
    for node in reversed(tracer.graph.nodes):
        if node is before:
            break
        found.append(node)
    return found[::-1]


def _groups(model: Module) -> Iterator[Group]:
    """Yield the modules of one class that one module holds, at least three, of which no other module holds a part."""
    places = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    for module in places:
        kinds: dict[type, list[Module]] = {}
        for child in module._modules.values():
            if child is not None and child._modules and all(places[each] == 1 for each in child.modules()):
                kinds.setdefault(type(child), []).append(child)
        for blocks in kinds.values():
            if len(blocks) >= FEWEST and type(blocks[0]).forward is not Module.forward:
                yield Group(blocks)


# Attributes -----------------------------------------------------------------------------------------------------------


@contextmanager
def _reads_noted(block: Module, attributes: set[Attribute], read: set[Attribute], state: Snapshot) -> Iterator[None]:
    """Note which of some attributes of a block are read.

    They are taken from their modules until Python looks for them in vain and asks `__getattr__`. A class that has one
    of its own, or code that looks at all attributes of an object, is taken to read them all.
    """
    looks = speaks_of(LOOKING, state)
    look, modules = Module.__getattr__, {path: block.get_submodule(path) for path, _ in attributes}
    taken: dict[int, dict[str, Attribute]] = {}
    values: dict[Attribute, Any] = {}
    orders = [(vars(module), [*vars(module)]) for module in modules.values()]
    for attribute in attributes:
        path, name = attribute
        if not looks and _is_asked_for(modules[path], name):
            values[attribute] = vars(modules[path]).pop(name)
            taken.setdefault(id(vars(modules[path])), {})[name] = attribute
        else:
            read.add(attribute)

    def found(self: Module, name: str) -> Any:
        attribute = taken.get(id(vars(self)), {}).get(name)
        if attribute not in values:
            return look(self, name)
        read.add(attribute)
        vars(self)[name] = values.pop(attribute)
        return vars(self)[name]

    try:
        with mock.patch.object(Module, "__getattr__", found):
            yield
    finally:
        for variables, order in orders:
            left = {name: values[each] for name, each in taken.get(id(variables), {}).items() if each in values}
            now = {**left, **variables}
            variables.clear()
            variables.update({name: now[name] for name in order if name in now} | now)


def _is_asked_for(module: Module, name: str) -> bool:
    """Return whether Python asks `Module.__getattr__` for an attribute that a module has, once it is taken away."""
    kind = type(module)
    own = kind.__getattr__ is not Module.__getattr__ or kind.__getattribute__ is not object.__getattribute__
    return not own and name in vars(module) and not any(name in vars(each) for each in kind.__mro__)
