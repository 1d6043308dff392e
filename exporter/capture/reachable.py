"""All Python state that the code of a model can reach: everything that holds values and can be given others.

These are attributes of modules and of objects, also in slots, attributes of classes and functions, lists, dicts, sets,
deques, bytearrays and NumPy arrays, cells of closures, the globals that reached code names, memos of functools,
iterators, and generators of random numbers. Default arguments are reached through their functions.

Tensors are none of these: whether one was written to is told by its `_version`. Code of PyTorch, of Python's library
and of fxport is not looked into, nor are objects of their classes other than modules. What is reached by other roads is
not seen, such as a module that is imported by a computed name, or what an extension in C keeps.
"""

from __future__ import annotations

import functools
import gc
import queue
import random
import sys
import weakref
from collections import ChainMap, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import local
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.utils.weak import WeakIdKeyDictionary

from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.holders import (
    ATTRIBUTES,
    CELL,
    CLASS,
    DEQUE,
    DICT,
    FROZEN_SET,
    GLOBALS,
    LEAVES,
    LIST,
    MARKS,
    MEMBERS,
    MODULE,
    REGISTERED,
    SET,
    SLOTS,
    TUPLE,
    Contents,
    Holder,
    Kind,
    Namespace,
    Path,
    Slots,
    kinds_of_numpy,
    paired,
)
from fxport.exporter.capture.settings import SETTINGS
from fxport.exporter.capture.streams import ITERATOR, STREAMS

SCALARS = frozenset({bool, int, float, complex, str, bytes, type(None)})
"""Types whose values are compared by value, not by identity."""

ATOMS = SCALARS | {torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device, range, slice, type(...)}
"""Types of values that hold nothing."""

FOREIGN = frozenset(
    {"fxport", "builtins"} | {"torch", "torchgen", "functorch", "numpy", "sympy"} | sys.stdlib_module_names
    | {"pytest", "_pytest", "pluggy"}
)  # fmt: skip
"""Packages whose code and objects are not looked into. An assert that pytest has rewritten reaches the test session."""

PLAIN = (
    *(SimpleNamespace, local, UserDict, UserList, ChainMap, weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
    *(
        WeakIdKeyDictionary,
        queue.Queue,
        torch.optim.Optimizer,
        torch.optim.lr_scheduler.LRScheduler,
        torch.amp.GradScaler,
    ),
)
"""Classes of Python's library and of PyTorch whose objects hold what users put in."""

IMMUTABLE = 1 << 8
"""The flag of a class that is made in C and cannot be changed."""

PARTS: Mapping[type, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
    functools._lru_cache_wrapper: ("__wrapped__",),
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    defaultdict: ("default_factory",),
}
"""The attributes of what stands around functions, by exact type."""


ENTRIES = ("forward",)
"""Methods that are called by no name in the user's code."""

MAKING = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods that are called where code speaks of the class."""

UNCALLED = (
    MAKING
    | {"__repr__", "__str__", "__format__", "__dir__", "__del__", "__init_subclass__", "__sizeof__"}
    | {*("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__")}
)
"""Methods with names of Python's that no operator calls."""

METHODS = (FunctionType, *PARTS)

CONTAINERS: Mapping[type, Kind] = {dict: DICT, list: LIST, set: SET, deque: DEQUE, random.Random: LEAVES[random.Random]}

HOOKS_OF_ALL: Mapping[str, dict[Any, Any]] = {
    name: value for name, value in vars(modules).items() if "_global_" in name and isinstance(value, dict)
}
"""Hooks that are called for all modules of the process, by their names in PyTorch."""

Visit = Callable[[Any, Path | None, FunctionType | None], None]


def reachable(roots: Mapping[str, Any]) -> list[tuple[Holder, Contents]]:
    """Return the holders that can be reached from the roots, the nearest first, each with its contents.

    The hooks that are called for all modules are roots as well, and the settings of the process.

    The keys of `roots` name them in what is told; that of a model is "".
    """
    walk = _Walk()
    for name, root in (*roots.items(), *HOOKS_OF_ALL.items(), *SETTINGS.items()):
        walk.waiting.append((root, (None, "name", name) if name else None, None))
    while walk.waiting:
        walk.visit(*walk.waiting.popleft())
    return [*walk.found, *((each, each.kind.read(each.owner)) for each in walk.namespaces.values())]


class _Walk:
    """Holders found so far, and values yet to be looked at, each with its path and the function it came by."""

    def __init__(self) -> None:
        self.found: list[tuple[Holder, Contents]] = []
        self.waiting: deque[tuple[Any, Path | None, FunctionType | None]] = deque()
        self.seen: dict[int, Any] = {}  # held, so that no id is used twice
        self.namespaces: dict[int, Holder] = {}
        self.slots: dict[type, tuple[MemberDescriptorType, ...]] = {}
        self.visits: dict[type, Visit | None] = {}
        self.called: set[str] = set(ENTRIES)
        self.uncalled: dict[str, list[Any]] = {}
        self.leaves = {**LEAVES, **STREAMS, **kinds_of_numpy()}

    def visit(self, value: Any, path: Path | None, function: FunctionType | None) -> None:
        if id(value) in self.seen:
            return
        self.seen[id(value)] = value
        kind = type(value)
        if kind not in self.visits:
            self.visits[kind] = self.visit_for(kind)
        if (visit := self.visits[kind]) is not None:
            visit(value, path, function)

    def visit_for(self, kind: type) -> Visit | None:
        """Return how values of a type are looked at; None if they hold nothing."""
        if kind in self.leaves:
            return partial(self.visit_leaf, self.leaves[kind])
        if kind.__flags__ & IMMUTABLE and hasattr(kind, "__next__"):
            return partial(self.visit_leaf, ITERATOR)
        table: Mapping[type, Visit | None] = {
            torch.jit.ScriptModule: None,  # its state is in C++
            torch.nn.Module: self.visit_module,
            FunctionType: self.visit_function,
            type: self.visit_class,
            ModuleType: self.visit_variables,
            random.SystemRandom: None,
            **{container: partial(self.visit_container, held_by) for container, held_by in CONTAINERS.items()},
            tuple: partial(self.visit_elements, TUPLE),
            frozenset: partial(self.visit_elements, FROZEN_SET),
        }
        is_plain = _is_own(kind) or issubclass(kind, PLAIN)
        other = self.visit_parts if kind in PARTS else self.visit_object if is_plain else None
        return next((visit for each, visit in table.items() if issubclass(kind, each)), other)

    def visit_leaf(self, kind: Kind, value: Any, path: Path | None, function: FunctionType | None) -> None:
        self.hold(value, kind, path, function)
        self.visit_parts(value, path, function)
        if kind.is_memo:
            self.waiting.extend((each, path, function) for each in memoized(value) if type(each) not in ATOMS)

    def visit_parts(self, value: Any, path: Path | None, function: FunctionType | None) -> None:
        self.waiting.extend((getattr(value, name), path, function) for name in PARTS.get(type(value), ()))

    def visit_container(self, kind: Kind, value: Any, path: Path | None, function: FunctionType | None) -> None:
        self.hold(value, kind, path, function)
        self.visit_parts(value, path, function)
        if _is_own(type(value)):
            self.visit_object(value, path, function)

    def visit_elements(self, kind: Kind, value: Any, path: Path | None, function: FunctionType | None) -> None:
        """Visit what a value holds that nothing can take from it; it is a holder if tensors in it may be written to."""
        _, values = kind.read(value)
        if any(isinstance(each, torch.Tensor) for each in values):
            self.hold(value, kind, path, function)
        else:
            self.add(range(len(values)), values, (path, "item"), function)

    def hold(self, owner: Any, kind: Kind, path: Path | None, function: FunctionType | None) -> None:
        """Note a holder, and what it holds as to be looked at."""
        keys, values = contents = kind.read(owner)
        self.found.append((Holder(owner, kind, path, function), contents))
        self.add(range(len(values)) if keys is None else keys, values, (path, kind.style), function)

    def add(
        self, keys: Iterable[Any], values: list[Any], step: tuple[Path | None, str], function: FunctionType | None
    ) -> None:
        """Note values as to be looked at, each with its key in what they were found in."""
        if not ATOMS.issuperset(map(type, values)):
            found = (pair for pair in zip(keys, values, strict=True) if type(pair[1]) not in ATOMS)
            self.waiting.extend((value, (*step, key), function) for key, value in found)

    def visit_module(self, module: torch.nn.Module, path: Path | None, function: FunctionType | None) -> None:
        registered = (vars(module).get(name) for name in REGISTERED)
        self.seen |= {id(each): each for each in registered}
        self.visit_object(module, path, function)
        self.hold(module, MEMBERS, path, function)  # restored behind the attributes, which have the dicts themselves
        self.hold(module, MARKS, path, function)

    def visit_object(self, value: Any, path: Path | None, function: FunctionType | None) -> None:
        """Visit the attributes of an object, and its classes as far as they are the user's."""
        if type(value).__dictoffset__:
            self.hold(value, ATTRIBUTES, path, function)
        if type(value) not in self.slots:
            self.slots[type(value)] = _slots(type(value))
            self.waiting.extend((each, None, None) for each in type(value).__mro__)
        if slots := self.slots[type(value)]:
            self.hold(Slots(value, slots), SLOTS, path, function)

    def visit_class(self, kind: type, _: Path | None = None, __: FunctionType | None = None) -> None:
        """Visit the attributes of a class, and those of its methods that reached code names."""
        if not _is_own(kind):
            return
        path = (None, "name", kind.__name__)
        contents = CLASS.read(kind)
        self.waiting.append((type(kind), None, None))
        self.found.append((Holder(kind, CLASS, path), contents))
        for name, value in paired(contents).items():
            called = kind.__name__ if name in MAKING else name
            if not isinstance(value, METHODS) or called in self.called or (name[:2] == "__" and name not in UNCALLED):
                self.add([name], [value], (path, "attribute"), None)
            else:
                self.uncalled.setdefault(called, []).append(value)

    def visit_variables(self, module: ModuleType, path: Path | None, function: FunctionType | None) -> None:
        if _is_own_package(module.__name__):
            self.visit_names(vars(module), vars(module), path, function)

    def visit_function(self, function: FunctionType, _: Path | None = None, __: FunctionType | None = None) -> None:
        """Visit the cells, defaults and attributes of a function, and the globals that its code names.

        Of a function that is not the user's only the cells: where it is a decorator's, one of them has the user's own.
        """
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            if id(cell) not in self.seen:
                self.seen[id(cell)] = cell
                self.hold(cell, CELL, (None, "name", name), function)
        if not _is_own_package(function.__globals__.get("__name__")):
            return
        values = function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        for name, value in (*zip(names, values, strict=False), *(function.__kwdefaults__ or {}).items()):
            self.waiting.append((value, (None, "name", name), function))
        self.hold(function, ATTRIBUTES, (None, "name", function.__qualname__), function)
        self.visit_names(function.__globals__, dict.fromkeys(_names(code)), None, function)

    def visit_names(
        self, variables: dict[str, Any], names: Mapping[str, Any], path: Path | None, function: FunctionType | None
    ) -> None:
        """Visit variables of a Python module; `names` may be of attributes as well, which code does not tell apart."""
        holder = self.namespaces.get(id(variables))
        if holder is None:
            holder = Holder(Namespace(variables, {}), GLOBALS if path is None else MODULE, path, function)
            self.namespaces[id(variables)] = holder
        for name in [name for name in names if name not in self.called]:
            self.called.add(name)
            self.waiting.extend((each, None, None) for each in self.uncalled.pop(name, ()))
        known = holder.owner.names
        new = [name for name in names if name not in known]
        known.update(dict.fromkeys(new, function))
        if path is not None and not new:  # reached through another one, which this one may name in turn
            return
        for name in names:
            value = variables[name] if name in variables else sys.modules.get(name)
            at = (holder.path, holder.kind.style, name)
            if type(value) in ATOMS:
                continue
            if not isinstance(value, ModuleType):
                self.waiting.append((value, at, function))
            elif _is_own_package(value.__name__):
                self.visit_names(vars(value), names, (None, "name", value.__name__), function)


def _names(code: CodeType) -> Iterator[str]:
    """Return the names of globals and attributes in code, and in that of functions in it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _slots(kind: type) -> tuple[MemberDescriptorType, ...]:
    """Return the slots of a class that are the user's to fill."""
    own = (slot for each in kind.__mro__ if _is_own(each) for slot in vars(each).values())
    return tuple(slot for slot in own if isinstance(slot, MemberDescriptorType))


def memoized(owner: Any) -> list[Any]:
    """Return the results that a function of `functools.lru_cache` holds, perhaps among its arguments.

    The garbage collector sees them before their table, and that before the function.
    """
    held = gc.get_referents(owner)
    *links, table = held[: next((i for i, each in enumerate(held) if each is owner.__wrapped__), 0)] or [{}]
    return [*table.values()] if owner.cache_parameters()["maxsize"] is None else links


def may_change(value: Any) -> bool:
    """Return whether a value is a container that can be changed, or an object of a class of the user's."""
    return type(value) in CONTAINERS or _is_own(type(value))


def _is_own(kind: type) -> bool:
    """Return whether a class is the user's, or of a library that we look into."""
    return not kind.__flags__ & IMMUTABLE and _is_own_package(kind.__module__)


@functools.lru_cache(maxsize=4096)
def _is_own_package(name: Any) -> bool:
    """Return whether a module is the user's, or of a library that we look into; it may have a name of Python's."""
    package = name.partition(".")[0] if isinstance(name, str) else ""
    if package not in FOREIGN:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return package in sys.stdlib_module_names and file is not None and kind_of(file) == USER
