"""Places that hold Python values, by kind: how their contents are read and written back."""

from __future__ import annotations

import array
import functools
import itertools
import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from fxport.exporter.capture.settings import Setting


class Absent(Enum):
    """The type of MISSING."""

    MISSING = "missing"


MISSING = Absent.MISSING
"""The value of a name, an attribute or an item that is not there."""

MOST_BYTES = 1 << 20
"""Of a NumPy array whose values are looked at; a larger one is a table."""

REGISTERED: Mapping[str, object] = {
    name: object() for name, value in vars(torch.nn.Module()).items() if isinstance(value, (dict, set))
}
"""Attributes of every module that hold its layers, parameters, buffers and hooks, each with a mark for its end."""

NAMED = frozenset({"_parameters", "_buffers", "_modules"})
"""The ones of them that hold attributes of the module."""

UNREAD_OF_CLASSES = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "_abc_impl"})


Contents = tuple[Sequence[Any] | None, list[Any]]
"""Keys and values of a holder at one moment, in lists of their own. None stands for the keys 0, 1, 2, …"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of holder: how its contents are read and written, and how people name what it holds.

    Attributes:
        read: Gives the contents of a holder.
        write: Puts contents back that `read` gave; None where Python has no way to.
        style: "attribute" (`a.b`), "item" (`a[0]`), "name" (`b`), or "itself" for what is named as its holder is.
        is_memo: Whether the contents only save work, as those of functools.lru_cache: changing them is no effect.
        is_random: Whether it is a generator of random numbers that is none of PyTorch's.
    """

    read: Callable[[Any], Contents]
    write: Callable[[Any, Contents], None] | None
    style: str
    is_memo: bool = False
    is_random: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Namespace:
    """Some names of a module: those that code speaks of which may run, each with the first function that does."""

    variables: dict[str, Any]
    names: dict[str, FunctionType | None]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The attributes that an object keeps in slots of its classes."""

    owner: Any
    slots: tuple[MemberDescriptorType, ...]


@dataclass(frozen=True, slots=True)
class Frozen:
    """A copy of a value without identity, such as the state of a generator; equal to others by its bytes."""

    key: bytes
    value: Any = field(compare=False)


Path = tuple["Path | None", str, Any]
"""Location of a value: the path of its holder, the style of the step, and the key."""


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """Something that holds values and can be given others.

    Attributes:
        owner: The object itself; for globals a `Namespace`, for slots a `Slots`.
        kind: How its contents are read and written.
        path: How it was found.
        function: The function through whose code it was found first, for a place in the source; None if through none.
    """

    owner: Any
    kind: Kind
    path: Path | None
    function: FunctionType | None = None

    @property
    def name(self) -> str:
        """Return it as people write it: "layer.counts", "COUNTS", "Model.calls"; "" for a root without a name."""
        return _name(self.path)

    def name_of(self, key: Any) -> str:
        """Return what it holds under this key, as people write it: "layer.counts[0]"."""
        return _name((self.path, self.kind.style, key))


def _name(path: Path | None) -> str:
    if path is None:
        return ""
    parent, style, key = path
    if style == "name":
        return str(key)
    around = _name(parent)
    if style == "item":
        return f"{around}[{'a tensor' if isinstance(key, torch.Tensor) else repr(key)}]"
    if style == "itself":
        return around
    attribute = key[0] if isinstance(key, tuple) else key
    return f"{around}.{attribute}" if around else str(attribute)


def _read_attributes(owner: Any) -> Contents:
    return [*vars(owner)], [*vars(owner).values()]


def _write_attributes(owner: Any, contents: Contents) -> None:
    vars(owner).clear()
    vars(owner).update(paired(contents))


def _base(owner: dict[Any, Any]) -> Any:
    """Return the class whose methods know what a dict holds, whatever a class of the user's makes of them."""
    return OrderedDict if isinstance(owner, OrderedDict) else dict


def _read_dict(owner: dict[Any, Any]) -> Contents:
    base = _base(owner)
    return [*base.keys(owner)], [*base.values(owner)]


def _write_dict(owner: dict[Any, Any], contents: Contents) -> None:
    base = _base(owner)
    base.clear(owner)
    for key, value in paired(contents).items():
        base.__setitem__(owner, key, value)


def _write_set(owner: set[Any], contents: Contents) -> None:
    set.clear(owner)
    set.update(owner, contents[1])


def _write_deque(owner: deque[Any], contents: Contents) -> None:
    deque.clear(owner)
    deque.extend(owner, contents[1])


def _read_registered(owner: torch.nn.Module) -> Contents:
    """Read what all of these hold, one after the other, with the end of each between them.

    An entry of a set, or of hooks, goes by the attribute and the entry, as a buffer may have its name.
    """
    keys: list[Any] = []
    values: list[Any] = []
    for name, end in REGISTERED.items():
        entries = vars(owner).get(name, ())
        keys += (*(entries if name in NAMED else ((name, each) for each in entries)), end)
        values += (*(entries.values() if isinstance(entries, dict) else entries), None)
    return keys, values


def _write_registered(owner: torch.nn.Module, contents: Contents) -> None:
    pairs = iter(paired(contents).items())
    for name, end in REGISTERED.items():
        before = [*itertools.takewhile(lambda pair, end=end: pair[0] is not end, pairs)]
        own = [(key if name in NAMED else key[1], value) for key, value in before]
        entries = vars(owner).get(name, {})
        entries.clear()
        entries.update(own if isinstance(entries, dict) else (key for key, _ in own))


OF_CAPTURES: Mapping[type, frozenset[str]] = {
    FakeTensor: frozenset({"constant", "dispatch_keys", "fake_mode", "pytype", "real_tensor"}),
    FunctionalTensor: frozenset({"elem"}),
}
"""Attributes that PyTorch gives the tensors of a capture, and no model, by the class of the tensor."""


def _marks(owner: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor, str]]:
    """Yield the name of each parameter and buffer, the tensor, and an attribute of it that is not PyTorch's own."""
    for entries in (owner._parameters, owner._buffers):
        for name, tensor in entries.items():
            if tensor is not None:
                own = OF_CAPTURES.get(type(tensor), ())
                yield from (
                    (name, tensor, each) for each in vars(tensor) if not each.startswith("_") and each not in own
                )


def _read_marks(owner: torch.nn.Module) -> Contents:
    found = [*_marks(owner)]
    return [f"{name}.{each}" for name, _, each in found], [vars(tensor)[each] for _, tensor, each in found]


def _write_marks(owner: torch.nn.Module, contents: Contents) -> None:
    before = paired(contents)
    for name, tensor, each in [*_marks(owner)]:
        if f"{name}.{each}" not in before:
            delattr(tensor, each)
    for key, value in before.items():
        name, _, attribute = key.rpartition(".")
        setattr(owner._parameters.get(name, owner._buffers.get(name)), attribute, value)


def _read_namespace(owner: Namespace) -> Contents:
    return [*owner.names], [owner.variables.get(name, MISSING) for name in owner.names]


def _write_namespace(owner: Namespace, contents: Contents) -> None:
    for name, value in paired(contents).items():
        if value is not MISSING:
            owner.variables[name] = value
        else:
            owner.variables.pop(name, None)


def _read_slots(owner: Slots) -> Contents:
    return [slot.__name__ for slot in owner.slots], [_in_slot(slot, owner.owner) for slot in owner.slots]


def _in_slot(slot: MemberDescriptorType, owner: Any) -> Any:
    try:
        return slot.__get__(owner)
    except AttributeError:
        return MISSING


def _write_slots(owner: Slots, contents: Contents) -> None:
    for slot, value in zip(owner.slots, contents[1], strict=True):
        if value is not MISSING:
            slot.__set__(owner.owner, value)
        elif _in_slot(slot, owner.owner) is not MISSING:
            slot.__delete__(owner.owner)


def _read_class(owner: type) -> Contents:
    own = {name: value for name, value in vars(owner).items() if name not in UNREAD_OF_CLASSES}
    return [*own], [*own.values()]


def _write_class(owner: type, contents: Contents) -> None:
    before, now = paired(contents), dict(vars(owner))
    for name in now.keys() - before.keys() - UNREAD_OF_CLASSES:
        type.__delattr__(owner, name)
    for name, value in before.items():
        if now.get(name, MISSING) is not value:
            type.__setattr__(owner, name, value)


def _read_cell(owner: CellType) -> Contents:
    try:
        return None, [owner.cell_contents]
    except ValueError:  # a name that is not bound
        return None, [MISSING]


def _write_cell(owner: CellType, contents: Contents) -> None:
    (value,) = contents[1]
    if value is not MISSING:
        owner.cell_contents = value
    elif _read_cell(owner)[1][0] is not MISSING:
        del owner.cell_contents


def _read_memo(owner: Any) -> Contents:
    info = owner.cache_info()
    return None, [info.misses, info.currsize, info.hits]


def _write_memo(owner: Any, contents: Contents) -> None:
    if _read_memo(owner)[1][:2] != contents[1][:2]:  # it holds something else
        owner.cache_clear()


def _read_variable(owner: ContextVar[Any]) -> Contents:
    try:
        return None, [owner.get()]
    except LookupError:
        return None, [MISSING]


def paired(contents: Contents) -> dict[Any, Any]:
    """Return the values by their keys."""
    keys, values = contents
    return dict(enumerate(values)) if keys is None else dict(zip(keys, values, strict=True))


def _by_value(
    get: Callable[[Any], Any],
    put: Callable[[Any, Any], Any],
    key: Callable[[Any], bytes] = lambda value: repr(value).encode(),
    *,
    is_random: bool = False,
) -> Kind:
    """Make a kind of holder with one value that is compared by its bytes, and replaced as a whole."""

    def read(owner: Any) -> Contents:
        value = get(owner)
        return None, [Frozen(key(value), value)]

    return Kind(read, lambda owner, contents: put(owner, contents[1][0].value), "itself", is_random=is_random)


def kinds_of_numpy() -> Mapping[type, Kind]:
    """Return the kinds of holders that NumPy has; none where it is not loaded, for then no model has them."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return {}

    def put_array(owner: Any, value: Any) -> None:
        if value is not None:
            owner[...] = value

    def put_state(owner: Any, value: Any) -> None:
        owner.bit_generator.state = value

    return {
        numpy.ndarray: _by_value(
            lambda owner: owner.copy() if owner.nbytes <= MOST_BYTES and not owner.dtype.hasobject else None,
            put_array,
            lambda value: b"" if value is None else value.tobytes(),
        ),
        numpy.random.RandomState: _by_value(
            lambda o: o.get_state(), lambda o, value: o.set_state(value), is_random=True
        ),
        numpy.random.Generator: _by_value(lambda o: o.bit_generator.state, put_state, is_random=True),
    }


ATTRIBUTES = Kind(_read_attributes, _write_attributes, "attribute")
SLOTS = Kind(_read_slots, _write_slots, "attribute")
CLASS = Kind(_read_class, _write_class, "attribute")
MEMBERS = Kind(_read_registered, _write_registered, "attribute")
"""The layers, parameters, buffers and hooks of a module."""
MARKS = Kind(_read_marks, _write_marks, "attribute")
"""The attributes that the parameters and buffers of a module were given."""
GLOBALS = Kind(_read_namespace, _write_namespace, "name")
MODULE = Kind(_read_namespace, _write_namespace, "attribute")
"""Variables of a Python module that is reached by its name."""
CELL = Kind(_read_cell, _write_cell, "itself")
DICT = Kind(_read_dict, _write_dict, "item")
LIST = Kind(lambda o: (None, [*list.__iter__(o)]), lambda o, was: list.__setitem__(o, slice(None), was[1]), "item")
TUPLE = Kind(lambda o: (None, [*tuple.__iter__(o)]), None, "item")  # a class of the user's may list others
FROZEN_SET = Kind(lambda o: (None, [*frozenset.__iter__(o)]), None, "itself")
SET = Kind(lambda o: ([*map(id, o)], [*set.__iter__(o)]), _write_set, "itself")
DEQUE = Kind(lambda o: (None, [*deque.__iter__(o)]), _write_deque, "item")
BYTES = Kind(lambda o: (None, [bytes(o)]), lambda o, was: bytearray.__setitem__(o, slice(None), was[1][0]), "itself")
VARIABLE = Kind(_read_variable, lambda o, was: None if was[1][0] is MISSING else o.set(was[1][0]), "itself")
MEMO = Kind(_read_memo, _write_memo, "itself", is_memo=True)

LEAVES: Mapping[type, Kind] = {
    bytearray: BYTES,
    ContextVar: VARIABLE,
    array.array: _by_value(
        lambda owner: owner[:],
        lambda owner, value: owner.__setitem__(slice(None), value),
        lambda value: value.tobytes(),
    ),
    functools._lru_cache_wrapper: MEMO,
    threading.local: ATTRIBUTES,
    Setting: _by_value(lambda owner: owner.get(), lambda owner, value: owner.put(value)),
    random.Random: _by_value(lambda o: o.getstate(), lambda o, value: o.setstate(value), is_random=True),
    torch.Generator: _by_value(
        lambda o: o.get_state(), lambda o, value: o.set_state(value), lambda value: bytes(value.tolist())
    ),
}
"""By exact type, the kinds of holders that have no attributes to walk through."""
