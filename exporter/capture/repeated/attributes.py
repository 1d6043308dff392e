"""Attributes in which blocks differ: which of them a call reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn import Module

from fxport.exporter.capture.patches.module_methods import method_in_place, replaced_method
from fxport.exporter.capture.repeated.likeness import speaks_of
from fxport.exporter.capture.repeated.numbers import Attribute, Number, Reads
from fxport.exporter.capture.snapshot import Snapshot

LOOKING = frozenset({"__dict__", "vars", "__getstate__", "__getattribute__", "getattr_static"})
"""Names by which code looks at attributes without `__getattr__`."""


@contextmanager
def reads_noted(
    block: Module, attributes: set[Attribute], read: Reads, state: Snapshot, *, as_numbers: bool
) -> Iterator[None]:
    """Note which of some attributes of a block are read, and what whole numbers are compared with.

    They are taken from their modules until Python looks for them in vain and asks `__getattr__`. A class that has one
    of its own, or code that looks at all attributes of an object, is taken to read them all.

    Args:
        block: The block.
        attributes: Those that are watched.
        read: What is read of them is added to it.
        state: What the code of the block reaches.
        as_numbers: Hand out whole numbers as `Number`, so that one that is handed on alone counts as not read.
    """
    looks = speaks_of(LOOKING, state)
    look, modules = method_in_place("__getattr__"), {path: block.get_submodule(path) for path, _ in attributes}
    taken: dict[int, dict[str, Attribute]] = {}
    values: dict[Attribute, Any] = {}
    orders = [(vars(module), [*vars(module)]) for module in modules.values()]
    for attribute in attributes:
        path, name = attribute
        if not looks and _is_asked_for(modules[path], name):
            values[attribute] = vars(modules[path]).pop(name)
            taken.setdefault(id(vars(modules[path])), {})[name] = attribute
        else:
            read.values.add(attribute)

    def found(self: Module, name: str) -> Any:
        attribute = taken.get(id(vars(self)), {}).get(name)
        if attribute not in values:
            return look(self, name)
        if as_numbers and type(values[attribute]) is int:
            return Number(values[attribute], attribute, read)
        read.values.add(attribute)
        vars(self)[name] = values.pop(attribute)
        return vars(self)[name]

    try:
        with replaced_method("__getattr__", found):
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
