"""Effects of `forward` outside of tensors while it is captured: random numbers of Python, attributes, globals, layers.

The graph has what there was in that one run. The model is given back as it was.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import torch

from fxport.diagnostics import Level, Log, Place, Rule, rules
from fxport.diagnostics.calls import last_change, scope_of
from fxport.diagnostics.source import USER, kind_of, lines_of
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.holders import (
    ATTRIBUTES,
    CLASS,
    DEQUE,
    DICT,
    GLOBALS,
    LIST,
    MEMBERS,
    MISSING,
    SET,
    SLOTS,
    Frozen,
    Holder,
    Namespace,
)
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.environment import environment_watched
from fxport.exporter.capture.patches.generators import SHARED
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.patches.restoration import restore_state
from fxport.exporter.capture.places import Around, of_user, place_of_function, place_of_module
from fxport.exporter.capture.reachable import SCALARS
from fxport.exporter.capture.snapshot import MERGED_STATE, Change, Snapshot, same

_ITEM = re.compile(r"\[.*$")
"""Pattern of the text after the name of a container."""

CONTAINERS = (DICT, LIST, SET, DEQUE)


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
    """

    rule: Rule
    name: str
    before: Any
    holder: Holder
    key: Any = None
    level: Level | None = None
    in_words: bool = False

    @property
    def was(self) -> str:
        """The value or the words, as a sentence has them behind "it was"."""
        return str(self.before) if self.in_words else f"'{self.before}'"


@dataclass(frozen=True, slots=True)
class Effects:
    """The Python state that a model reaches, and what of it a capture was seen to change."""

    state: Snapshot
    seen: dict[tuple[Rule, str], Effect] = field(default_factory=dict)

    def note(self, before: Snapshot) -> list[Change]:
        """Note what has changed since, and return all of it, also what is not told."""
        changes = [*before.changes()]
        for change in changes:
            self.add(effect_of(change) or self.effect_of_first(change) or self.effect_on_object(change))
        for holder, tensors in self.state.remembered():
            if any(version(each) for each in tensors):  # the next call would find it so
                self.add(_baked(holder.name, "another tensor", holder))
        return changes

    def add(self, effect: Effect | None) -> None:
        if effect is not None:
            self.seen.setdefault((effect.rule, effect.name), effect)

    def effect_of_first(self, change: Change) -> Effect | None:
        """Return what is told of an attribute or a buffer that was not there, if code may ask whether it is."""
        is_buffer = change.holder.kind is MEMBERS and isinstance(change.after, torch.Tensor)
        is_value = change.holder.kind in (ATTRIBUTES, SLOTS, CLASS, GLOBALS) and type(change.after) in SCALARS
        if change.before is not MISSING or not (is_buffer or is_value):
            return None
        is_asked = any(change.key in words or words & UNBOUND for words in map(words_of, self.state.functions()))
        return _baked(change.name, "not there", change.holder, change.key) if is_asked else None

    def effect_on_object(self, change: Change) -> Effect | None:
        """Return what is told of a tensor or an object in whose place is another, but for what is registered."""
        holder, values = change.holder, (change.before, change.after)
        is_of_model = holder.kind is MEMBERS and holder.owner in self.modules
        if is_of_model or MISSING in values or any(isinstance(each, UNTOLD) for each in values):
            return None
        return Effect(rules.STATE_LOST, change.name, None, holder, change.key)

    @property
    def modules(self) -> set[torch.nn.Module]:
        """The modules of the model, which is what is reached first."""
        roots = (holder.owner for holder, _ in self.state.held if isinstance(holder.owner, torch.nn.Module))
        return {*next(roots, torch.nn.Module()).modules()}

    def lost(self, told: Collection[str]) -> Iterator[Effect]:
        """Yield what others have replaced, but for attributes that are told and what is in them."""
        for (rule, name), effect in self.seen.items():
            if rule is rules.STATE_LOST and not any(re.match(rf"{re.escape(each)}($|[.\[])", name) for each in told):
                yield _baked(name, "another object", effect.holder, effect.key)


UNTOLD = (torch.nn.Module, Frozen, dict, list, tuple, set, deque)
"""Types of objects that a capture may replace by equal ones, or that are told by what is in them."""

UNBOUND = {"AttributeError", "NameError"}


def words_of(function: FunctionType) -> set[str]:
    """Return the texts in the code of a function, and the names of errors that it speaks of."""
    code = function.__code__
    return {each for each in code.co_consts if isinstance(each, str)} | UNBOUND.intersection(code.co_names)


def _baked(name: str, before: str, holder: Holder, key: Any = None) -> Effect:
    return Effect(rules.PYTHON_STATE_BAKED, name, before, holder, key, in_words=True)


def effect_of(change: Change) -> Effect | None:
    """Return what is told of a change; None for PyTorch's own changes, such as fake weights, and for tensors."""
    holder = change.holder
    if holder.kind is MEMBERS and isinstance(change.after, torch.nn.Module):
        return Effect(rules.LAYER_MADE, change.name, change.before, holder, change.key)
    if holder.kind.is_random:
        return Effect(rules.PYTHON_RANDOM_BAKED, change.name, None, holder)
    if type(change.before) in SCALARS:
        merged_with = getattr(change.after, MERGED_STATE, MISSING)
        level = Level.ERROR if merged_with is not MISSING and same(merged_with, change.before) else None
        return Effect(rules.PYTHON_STATE_BAKED, change.name, change.before, holder, change.key, level)
    if isinstance(change.before, Frozen) and not isinstance(holder.owner, torch.Generator):
        return _baked(holder.name, "an array of other values", holder)
    if holder.kind in CONTAINERS and MISSING in (change.before, change.after):
        return _baked(holder.name, "a container of other entries", holder)
    return None


@contextmanager
def nothing_lost(model: torch.nn.Module, log: Log) -> Iterator[Effects]:
    """Put back what the model changes, and report it once the model has been captured.

    Yields:
        What somebody else may note changes in: state may be put back before this sees it.
    """
    states = {name: generator.state for name, generator in SHARED.items()}
    state = Snapshot.of({"": model})
    effects = Effects(state)
    try:
        with restore_process(), restore_state(state):
            try:
                with environment_watched() as reads:
                    yield effects
            finally:
                effects.note(state)
                drawn = [name for name, before in states.items() if SHARED[name].state != before]
    finally:
        for holder in state.left_over():
            log.report(rules.STATE_LEFT, at=place_of_change(model, holder, None), name=holder.name)
    made = {name for rule, name in effects.seen if rule is rules.LAYER_MADE}
    for (rule, name), effect in effects.seen.items():
        if rule is rules.PYTHON_RANDOM_BAKED:
            written = re.compile(rf"self\.{re.escape(name.rpartition('.')[2])}\.\w+")
            log.report(rule, at=_place_of_draw(model, written), name=name)
        elif rule is rules.LAYER_MADE or (rule is not rules.STATE_LOST and name not in made):
            at = place_of_change(model, effect.holder, effect.key)
            log.report(rule, at=at, level=effect.level, name=name, value=effect.before, was=effect.was)
    for name in drawn:
        log.report(rules.PYTHON_RANDOM_BAKED, at=_place_of_draw(model, SHARED[name].written), name=name)
    for (name, _, _), place in reads.items():
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


def place_of_change(model: torch.nn.Module, holder: Holder, key: Any) -> Place | None:
    """Return the line that changes what a holder holds, in the function or module through which it is reached."""
    function = holder.owner.names.get(key) if isinstance(holder.owner, Namespace) else holder.function
    owner, attribute = _owner_of(model, _ITEM.sub("", holder.name_of(key)))
    at = place_of_module(model, owner) if function is None else place_of_function(function)
    line = last_change("".join(lines_of(at.path)), at.line, attribute) if at is not None else None
    return at if at is None or line is None else replace(at, line=line)


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
        model = of_user(model)
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
