"""Blocks that a model repeats: their calls while it is captured, run or copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch._dynamo.exc import TorchDynamoException
from torch._subclasses import FakeTensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import PythonKeyTracer, get_proxy_mode
from torch.nn import Module

from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.arguments.caches import is_layered
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.reachable import HOOKS_OF_ALL
from fxport.exporter.capture.repeated.attributes import reads_noted
from fxport.exporter.capture.repeated.likeness import Call, UnlikeError, differences, leads_elsewhere
from fxport.exporter.capture.repeated.numbers import Attribute, Reads
from fxport.exporter.capture.repeated.recorded import NotCopiedError, Recorded
from fxport.exporter.capture.snapshot import Snapshot

FEWEST = 3
"""Blocks of one kind, of which the first and the last are captured in full."""

MOST_IN_VAIN = 4
"""Calls of a group that are recorded without a call that could be copied from them."""

Forward = Callable[..., Any]


class MisledError(Exception):
    """A call of a block was run with numbers that are watched, and cannot be copied: it has to be run without."""


@dataclass(eq=False)
class Group:
    """Modules of one class that one module holds, in its order, and those among them whose calls were recorded.

    Attributes:
        blocks: The modules.
        numbers: The number of each module that was asked for it; None: it has none.
        recorded: The recorded calls.
        in_vain: Calls that were recorded since one was copied.
        is_unfit: Nothing more is recorded.
        is_misled: A call was run with numbers that are watched, and cannot be copied.
    """

    blocks: Sequence[Module]
    numbers: dict[Module, int | None] = field(default_factory=dict)
    recorded: list[Template] = field(default_factory=list)
    in_vain: int = 0
    is_unfit: bool = False
    is_misled: bool = False

    @property
    def is_proven(self) -> bool:
        """Tell whether all that the graph has of recorded calls is shown to be what the model does.

        A call was compared with that of the last block. Where it was run with numbers that are watched, and is copied
        nowhere, it is enough that such a run of a block that reads the same was.
        """
        shown = [each for each in self.recorded if each.is_proven]
        open_ = [each for each in self.recorded if not each.is_proven and (each.copies or each.read.numbers)]
        return not self.is_misled and all(
            not each.copies and each.read in [one.read for one in shown] for each in open_
        )


@dataclass(eq=False)
class Template:
    """A recorded call, of which copies may be made.

    Attributes:
        block: The block that was called.
        recorded: The nodes of the call.
        read: What the call has read of the attributes in which blocks of the group differ.
        state: All that its code can reach, as it was.
        last: The block whose call shows whether the copies are right.
        copies: The paths of the blocks whose calls were copied.
        is_proven: The call of the last block was compared, and is as a copy would be.
    """

    block: Module
    recorded: Recorded
    read: Reads
    state: Snapshot
    last: Module
    copies: list[str] = field(default_factory=list)
    is_proven: bool = False

    def serves(self, block: Module, call: Call, different: set[Attribute] | None) -> bool:
        """Return whether the call of a block with such differences would run in the same way as the recorded one."""
        if different is None or self.recorded.call.key != call.key or not self.read.are_same_for(block, different):
            return False
        return not any(self.state.changes())


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
        return all(group.is_proven for group in self.groups)

    def leave(self) -> None:
        """Copy no more of the groups that are not proven; of none if all are, as something else has failed."""
        self.groups = [group for group in self.groups if group.is_proven] if not self.are_proven else []

    @contextmanager
    def copied(self) -> Iterator[None]:
        """Copy calls while a model is traced."""
        self.called.clear()
        for group in self.groups:
            group.recorded.clear()
            group.in_vain, group.is_unfit, group.is_misled = 0, False, False
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
            number = self._number(group, block) if any(map(is_layered, (*args, *kwargs.values()))) else None
            call = Call.of(block, args, kwargs, tracer, number)
        except UnlikeError:
            return forward(*args, **kwargs)
        served = (each for each in group.recorded if each.serves(block, call, self.differences(each.block, block)))
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
            results, held = template.recorded.copied(path, call, tracer)
            call.cached.take(held)
            return results
        finally:
            self.is_busy = False

    def differences(self, one: Module, other: Module) -> set[Attribute] | None:
        """Return the attributes in which two blocks differ; None if they are unlike in more than these."""
        return differences(one, other) if self.gradients[one] == self.gradients[other] else None

    def _number(self, group: Group, block: Module) -> int | None:
        """Return the whole number that a block holds where another one holds another: None if it is not one alone."""
        if block not in group.numbers:
            alike = ((each, self.differences(block, each)) for each in group.blocks if each is not block)
            other, different = next((each for each in alike if each[1] is not None), (block, None))
            places = (
                (vars(block.get_submodule(path)), vars(other.get_submodule(path)), name)
                for path, name in different or ()
            )
            values = {
                mine[name] for mine, theirs, name in places if type(mine.get(name)) is type(theirs.get(name)) is int
            }
            group.numbers[block] = values.pop() if len(values) == 1 else None
        return group.numbers[block]

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
        state, noted, read, cached = Snapshot.of({"": block}), self.watched(), Reads(), call.cached
        unproven = not self.has_values and is_users(state)  # which cannot be run beside the model
        group.is_unfit = unproven or group.in_vain >= MOST_IN_VAIN or leads_elsewhere(state, block, self.modules)
        if group.is_unfit or len(alike) + 1 < FEWEST:
            return run()
        before, others, held = next(iter(reversed(tracer.graph.nodes)), None), cached.others(), cached.state()
        # Code of the user's own may ask whether a number is a certain object: what stands for it cannot see that.
        as_numbers = bool(cached.caches) and not is_users(state)
        noting = reads_noted(block, set().union(*alike.values()), read, state, as_numbers=as_numbers)
        try:
            with cached.watched() as watch, noting:
                results = run()
        except TorchDynamoException:  # Dynamo looks for attributes in ways of its own, and finds none that are taken
            self.has_misled = True
            raise
        except Exception:
            group.is_misled |= bool(read.numbers)
            raise
        group.in_vain += 1
        served = [each for each, different in alike.items() if read.are_same_for(each, different)]
        if self.watched() != noted or any(state.changes()):
            group.is_unfit = True
        elif len(served) + 1 >= FEWEST and not watch.is_passed and cached.others() == others:
            try:
                with cached.holding(held):  # PyTorch may have learned of equal sizes
                    call = replace(call, key=Call.of(block, *given, tracer, cached.number).key)
                nodes = _since(tracer, before)
                recorded = Recorded.of(tracer.path_of_module(block), call, nodes, cached.with_state(results), tracer)
            except (NotCopiedError, UnlikeError):
                pass
            else:
                group.recorded.append(Template(block, recorded, read, state, served[-1]))
                return results
        if read.numbers:  # for which others stood: the call has to be run again
            group.is_misled = True
            raise MisledError
        return results

    def _compare(
        self, group: Group, template: Template, call: Call, tracer: PythonKeyTracer, run: Callable[[], Any]
    ) -> Any:
        noted, before, others = self.watched(), next(iter(reversed(tracer.graph.nodes)), None), call.cached.others()
        results = run()
        path, nodes = tracer.path_of_module(template.last), _since(tracer, before)
        try:
            other = Recorded.of(path, call, nodes, call.cached.with_state(results), tracer)
        except NotCopiedError:
            return results
        unchanged = self.watched() == noted and not any(template.state.changes()) and call.cached.others() == others
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
