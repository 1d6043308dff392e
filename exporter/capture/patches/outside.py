"""Effects of `forward` outside of tensors while it is captured: random numbers of Python, attributes, globals, layers.

The graph has what there was in that one run. The model is given back as it was.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

import torch
from torch.nn.modules import module as modules

from fxport.diagnostics import Level, Log, Place, Rule, rules
from fxport.diagnostics.calls import scope_of
from fxport.diagnostics.source import USER, kind_of, lines_of
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.holders import (
    ATTRIBUTES,
    CLASS,
    DEQUE,
    DICT,
    GLOBALS,
    LIST,
    MARKS,
    MEMBERS,
    MISSING,
    SET,
    SLOTS,
    Frozen,
    Holder,
    Namespace,
)
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.environment import Reads, environment_watched
from fxport.exporter.capture.patches.generators import SHARED
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.patches.restoration import restore_state
from fxport.exporter.capture.places import Around, is_of_layer, place_of_change, place_of_function, place_of_module
from fxport.exporter.capture.reachable import HOOKS_OF_ALL, SCALARS, may_change, memoized
from fxport.exporter.capture.settings import Setting
from fxport.exporter.capture.snapshot import MERGED_STATE, Change, Snapshot, same
from fxport.exporter.capture.streams import ITERATOR, STREAMS

_ITEM = re.compile(r"\[.*$")
"""Pattern of the text after the name of a container."""

CONTAINERS = (DICT, LIST, SET, DEQUE)

NEW_ENTRY = "without this entry"
"""Text for a memo that holds something new which can be changed; later calls tell whether that matters."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change that a capture has made outside of tensors.

    Attributes:
        rule: What it is told as.
        name: What has changed, as people write it.
        before: The value that it had.
        holder: Who holds it.
        key: Where the holder holds it; None if the holder has changed as a whole.
        level: How grave it is: an error where data decides on the change.
        in_words: Whether `before` tells what there was, and is not the value.
        written: What the line that makes the change speaks of, if it is not its name.
    """

    rule: Rule
    name: str
    before: Any
    holder: Holder
    key: Any = None
    level: Level | None = None
    in_words: bool = False
    written: frozenset[str] = frozenset()

    @property
    def was(self) -> str:
        """The value or the words, as a sentence has them behind "it was"."""
        return str(self.before) if self.in_words else f"'{self.before}'"


@dataclass(frozen=True, slots=True)
class Effects:
    """The Python state that a model reaches, what a capture changed of it, and what it read of the process.

    Attributes:
        state: What can be reached.
        seen: What has changed, by rule and name.
        reads: What was read, and where PyTorch was given a seed.
        marked: What was set on parameters and buffers beside their values: where, and in words what there was before.
    """

    state: Snapshot
    seen: dict[tuple[Rule, str], Effect] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    marked: dict[str, tuple[Place | None, str]] = field(default_factory=dict)

    def note(self, before: Snapshot) -> list[Change]:
        """Note what has changed since, and return all of it, also what is not told."""
        changes = [*map(_from_class, before.changes())]
        for change in changes:
            if same(change.before, change.after):  # the object has from now on what its class gave it
                continue
            told = self.effect_of_exchange(change) or effect_of(change) or self.effect_of_first(change)
            self.add(told or self.effect_on_object(change))
        for holder, tensors in self.state.remembered():
            if any(version(each) for each in tensors):  # the next call would find it so
                self.add(_baked(holder.name, "another tensor", holder))
        for holder in before.counted():
            known = {id(each.owner) for each, _ in before.held}
            if any(may_change(each) and id(each) not in known for each in memoized(holder.owner)):
                self.add(_baked(holder.name, NEW_ENTRY, holder))
        if self.asks("cache_info"):
            for holder in before.counted():
                self.add(_baked(holder.name, "a memo of other counts", holder))
        return changes

    def asks(self, name: str) -> bool:
        """Return whether code that can be reached speaks of an attribute."""
        return any(name in each.__code__.co_names for each in self.state.functions())

    def add(self, effect: Effect | None) -> None:
        if effect is not None:
            self.seen.setdefault((effect.rule, effect.name), effect)

    def effect_of_exchange(self, change: Change) -> Effect | None:
        """Return what is told of a layer in whose place stands another one of the model, or none."""
        if change.holder.kind is not MEMBERS or not isinstance(change.before, torch.nn.Module):
            return None
        # A trace has proxies of layers, with their attributes
        known = {id(vars(each.owner)) for each, _ in self.state.held if each.kind is MEMBERS}
        is_new = isinstance(change.after, torch.nn.Module) and id(vars(change.after)) not in known
        return None if is_new else _baked(change.name, "another layer", change.holder, change.key)

    def effect_of_first(self, change: Change) -> Effect | None:
        """Return what is told of an attribute or a buffer that was not there, if code may ask whether it is."""
        is_buffer = change.holder.kind is MEMBERS and isinstance(change.after, torch.Tensor)
        is_value = change.holder.kind in (ATTRIBUTES, SLOTS, CLASS, GLOBALS) and type(change.after) in SCALARS
        is_mark = change.holder.kind is MARKS
        if change.before is not MISSING or not (is_buffer or is_value or is_mark):
            return None
        name = change.key.rpartition(".")[2]
        is_asked = any(name in words or words & UNBOUND for words in map(words_of, self.state.functions()))
        return _baked(change.name, "not there", change.holder, change.key) if is_asked else None

    def effect_on_object(self, change: Change) -> Effect | None:
        """Return what is told of a tensor, an object or a container that was replaced, but for what is registered."""
        holder, values = change.holder, (change.before, change.after)
        is_of_model = holder.kind is MEMBERS and holder.owner in self.modules
        are_layers = holder.kind in CONTAINERS and all(isinstance(each, torch.nn.Module) for each in values)
        is_untold = not are_layers and (isinstance(change.after, UNTOLD) or _equal(*values))
        if is_of_model or is_untold or MISSING in values:
            return None
        return Effect(rules.STATE_LOST, change.name, None, holder, change.key)

    @property
    def modules(self) -> set[torch.nn.Module]:
        """The modules of the model, which is what is reached first."""
        roots = (holder.owner for holder, _ in self.state.held if isinstance(holder.owner, torch.nn.Module))
        return {*next(roots, torch.nn.Module()).modules()}

    def lost(self, told: Collection[str]) -> Iterator[Effect]:
        """Yield what others have replaced, but for attributes that are told and what is in them."""
        told = {*told, *(_ITEM.sub("", name) for rule, name in self.seen if rule is not rules.STATE_LOST)}
        for (rule, name), effect in self.seen.items():
            if rule is rules.STATE_LOST and not any(re.match(rf"{re.escape(each)}($|[.\[])", name) for each in told):
                yield _baked(name, "another object", effect.holder, effect.key)


UNTOLD = (torch.nn.Module, torch.nn.Parameter, weakref.ref, Frozen)
"""Types of objects that a capture replaces by others of its own, or that are told by what is in them."""


def _equal(one: Any, other: Any) -> bool:
    """Return whether containers hold the same; objects are the same only as one object."""
    if type(one) is not type(other) or not isinstance(one, (dict, list, tuple, set, deque)):
        return same(one, other) or isinstance(one, UNTOLD)
    if isinstance(one, set):
        return one == other
    if isinstance(one, dict):
        return [*one] == [*other] and all(map(_equal, one.values(), other.values()))
    return len(one) == len(other) and all(map(_equal, one, other))


UNBOUND = {"AttributeError", "NameError"}


def _from_class(change: Change) -> Change:
    """Return the change with the value that a class gave, where an attribute hides that from now on."""
    holder, owner = change.holder, change.holder.owner
    if change.before is not MISSING or holder.kind not in (ATTRIBUTES, CLASS) or not isinstance(change.key, str):
        return change
    kinds = type(owner).__mro__ if holder.kind is ATTRIBUTES else (*owner.__mro__[1:], *type(owner).__mro__)
    given = next((vars(each)[change.key] for each in kinds if change.key in vars(each)), MISSING)
    return change if isinstance(given, HANDLERS) else replace(change, before=given)


HANDLERS = (FunctionType, property, functools.cached_property, MemberDescriptorType, GetSetDescriptorType)
"""Types of what a class may have for a name that is no value: methods, and what makes a value or keeps it elsewhere."""


def words_of(function: FunctionType) -> set[str]:
    """Return the texts in the code of a function, and the names of errors that it speaks of."""
    code = function.__code__
    return {each for each in code.co_consts if isinstance(each, str)} | UNBOUND.intersection(code.co_names)


OTHER_ENTRIES = "a container of other entries"
HOOKING = frozenset(
    name for name in (*vars(torch.nn.Module), *vars(modules)) if name.startswith("register_") and name.endswith("hook")
)
"""Methods and functions that add a hook."""

UNHOOKING = frozenset({"remove", "clear"})
"""Methods that take one out."""


METHODS: Mapping[str, frozenset[str]] = {"training": frozenset({"eval", "train"})}
"""Methods of PyTorch's that set an attribute, by its name."""


def _baked(name: str, before: str, holder: Holder, key: Any = None) -> Effect:
    return Effect(rules.PYTHON_STATE_BAKED, name, before, holder, key, in_words=True)


def effect_of(change: Change) -> Effect | None:
    """Return what is told of a change; None for PyTorch's own changes, such as fake weights, and for tensors."""
    holder = change.holder
    if holder.kind is MEMBERS and isinstance(change.after, torch.nn.Module):
        return Effect(rules.LAYER_MADE, change.name, change.before, holder, change.key)
    if holder.kind.is_random:
        return Effect(rules.PYTHON_RANDOM_BAKED, change.name, None, holder)
    is_entry = holder.kind is MEMBERS and isinstance(change.key, tuple)
    if is_entry or any(holder.owner is each for each in HOOKS_OF_ALL.values()):
        return _hooked(change, is_entry)
    if holder.kind in (*STREAMS.values(), ITERATOR):
        return _baked(holder.name, "at another place", holder)
    if type(change.before) in SCALARS:
        merged_with = getattr(change.after, MERGED_STATE, MISSING)
        level = Level.ERROR if merged_with is not MISSING and same(merged_with, change.before) else None
        return Effect(rules.PYTHON_STATE_BAKED, change.name, change.before, holder, change.key, level)
    if isinstance(holder.owner, Setting):
        return replace(_baked(holder.name, "another one", holder), written=frozenset({holder.owner.changed_by}))
    if isinstance(change.before, Frozen) and not isinstance(holder.owner, torch.Generator):
        return _baked(holder.name, "an array of other values", holder)
    if holder.kind in CONTAINERS and MISSING in (change.before, change.after):
        return _baked(holder.name, OTHER_ENTRIES, holder)
    return None


def _hooked(change: Change, is_entry: bool) -> Effect | None:
    """Return what is told of an entry in the sets of a module, or in the hooks of all: None if it is no hook."""
    if is_entry and not change.key[0].endswith("_hooks"):
        return None
    name, key = (change.name, change.key) if is_entry else (change.holder.name, None)
    written = UNHOOKING if change.after is MISSING else HOOKING
    return replace(_baked(name, OTHER_ENTRIES, change.holder, key), written=written)


@contextmanager
def nothing_lost(model: torch.nn.Module, log: Log) -> Iterator[Effects]:
    """Put back what the model changes, and report it once the model has been captured.

    Yields:
        What somebody else may note changes in: state may be put back before this sees it.
    """
    states = {name: generator.state for name, generator in SHARED.items()}
    seed = torch.default_generator.get_state()
    state = Snapshot.of({"": model})
    effects = Effects(state)
    effects.reads.note_names(state.functions())
    try:
        with restore_process(), restore_state(state):
            try:
                with environment_watched(effects.reads):
                    yield effects
            finally:
                effects.note(state)
                drawn = [name for name, before in states.items() if SHARED[name].state != before]
                if not effects.reads.seeded and not torch.equal(torch.default_generator.get_state(), seed):
                    effects.reads.seeded["", "", 0] = place_of_module(model)
    finally:
        for holder in state.left_over():
            at = place_of_effect(model, _baked(holder.name, "", holder))
            log.report(rules.STATE_LEFT, at=at, name=holder.name)
    functions = [*state.functions()]
    made = {name for rule, name in effects.seen if rule is rules.LAYER_MADE}
    for (rule, name), effect in effects.seen.items():
        if rule is rules.PYTHON_RANDOM_BAKED:
            written = re.compile(rf"(\w+\.)*{re.escape(name.rpartition('.')[2])}\.\w+")
            log.report(rule, at=_place_of_draw(model, written), name=name)
        elif rule is rules.LAYER_MADE or (rule is not rules.STATE_LOST and name not in made):
            at = place_of_effect(model, effect, functions)
            facts = {"value": effect.before, "was": effect.was, "of_layer": is_of_layer(name, model)}
            log.report(rule, at=at, level=effect.level, name=name, **facts)
    for name, (place, was) in effects.marked.items():
        log.report(rules.PYTHON_STATE_BAKED, at=place, name=name, value=was, was=was)
    for name in drawn:
        log.report(rules.PYTHON_RANDOM_BAKED, at=_place_of_draw(model, SHARED[name].written), name=name)
    for (name, _, _), place in effects.reads.places.items():
        log.report(rules.ENVIRONMENT_BAKED, at=place, name=name)


def attributes_watched(model: torch.nn.Module, effects: Effects) -> AbstractContextManager[None]:
    """Note what `forward` has changed when it returns, for PyTorch then puts attributes back.

    What only the capture knows, such as a symbolic number, is put back here: PyTorch would compare it.
    """

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = effects.state.anew()
        result = forward(*args, **kwargs)
        for change in effects.note(before):
            if type(change.before) in SCALARS and not isinstance(change.after, (*SCALARS, torch.Tensor)):
                change.undo()
        return result

    return forward_by(model, call)


def place_of_effect(model: torch.nn.Module, effect: Effect, functions: Sequence[FunctionType] = ()) -> Place | None:
    """Return the line that changes what a holder holds, in the function or module through which it is reached.

    Where that has none, it is one of `functions`, which are those that can be reached.
    """
    holder = effect.holder
    function = holder.owner.names.get(effect.key) if isinstance(holder.owner, Namespace) else holder.function
    owner, attribute = _owner_of(model, _ITEM.sub("", holder.name_of(effect.key)))
    at = place_of_module(model, owner) if function is None else place_of_function(function)
    written = frozenset({effect.key if holder.kind is CLASS and effect.key is not None else attribute})
    return place_of_change(at, functions, effect.written or written, METHODS.get(attribute, frozenset()))


def _owner_of(model: torch.nn.Module, name: str) -> tuple[str, str]:
    """Return the layer that an attribute is of, and its name in it: ("layer", "count") of "layer.count.first"."""
    module, owner, parts = model, [], name.split(".")
    while len(parts) > 1 and (child := module._modules.get(parts[0])) is not None:
        owner.append(parts.pop(0))
        module = child
    return ".".join(owner), parts[0]


def _functions(model: torch.nn.Module) -> Iterator[Any]:
    """Yield the functions of the user's around a model, and the `forward` of each class in it, once."""
    if isinstance(model, Around):
        yield from (each for each in model.functions if inspect.isfunction(each) and _is_users(each))
        model = model.around[0]
    modules = (module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule))
    kinds = dict.fromkeys(type(module) for module in modules)
    for kind in kinds:
        function = kind.forward
        if inspect.isfunction(function) and _is_users(function):
            yield function


def _is_users(function: FunctionType) -> bool:
    return kind_of(function.__code__.co_filename) == USER


def _lines_of(function: FunctionType) -> range:
    """Return the lines of a function in its file."""
    lines, first = inspect.getsourcelines(function)
    return range(first, first + len(lines))


def _place_of_draw(model: torch.nn.Module, written: re.Pattern[str]) -> Place | None:
    """Return the first call of a generator in a class of the model's, or in its file, else `forward`."""
    functions = list(_functions(model))
    classes = {function.__qualname__.rpartition(".")[0] for function in functions}
    for path in dict.fromkeys(function.__code__.co_filename for function in functions):
        lines = lines_of(path)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            continue
        inside = [node for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) for node in ast.walk(each)]
        calls = [node for node in inside if isinstance(node, ast.Call) and written.fullmatch(ast.unparse(node.func))]
        if calls:
            within = {line for each in functions if each.__code__.co_filename == path for line in _lines_of(each)}
            text = "".join(lines)
            owned = [
                node
                for node in calls
                if node.lineno in within or scope_of(text, node.lineno).rpartition(".")[0] in classes
            ]
            first = min(owned or calls, key=lambda node: node.lineno)
            return Place(path, first.lineno, call=ast.unparse(first.func).rpartition(".")[2])
    return place_of_module(model)
