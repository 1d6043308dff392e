"""Likeness of modules, and of calls of them: what Python can tell two of them apart by."""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import PythonKeyTracer, get_proxy_slot
from torch.nn import Module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.arguments.caches import is_layered
from fxport.exporter.capture.frames import own_frames
from fxport.exporter.capture.holders import REGISTERED
from fxport.exporter.capture.knowledge import FACTS, facts_of, version
from fxport.exporter.capture.patches.bookkeeping import modes_away
from fxport.exporter.capture.reachable import ATOMS, IMMUTABLE
from fxport.exporter.capture.repeated.cached import LAYERS, Cached
from fxport.exporter.capture.repeated.numbers import Attribute
from fxport.exporter.capture.snapshot import Snapshot, same, within
from fxport.exporter.capture.streams import ITERATOR, STREAMS
from fxport.fx_passes.traces import SYMBOLIC, described

DEEPEST = 12
"""Steps into containers and objects in which two values are compared; what lies deeper is taken for unlike."""

HELD: Mapping[type, Callable[[Any], list[Any]]] = {
    **dict.fromkeys((list, tuple, deque), list),
    **dict.fromkeys((dict, OrderedDict), lambda each: [*each, *each.values()]),
    **dict.fromkeys((set, frozenset), lambda each: sorted(each, key=repr)),
    MethodType: lambda each: [each.__func__, each.__self__],
    partial: lambda each: [each.func, each.args, each.keywords],
    FunctionType: lambda each: [
        *(id(each.__code__), id(each.__globals__), each.__defaults__, each.__kwdefaults__, vars(each)),
        *(cell.cell_contents for cell in each.__closure__ or ()),
    ],
}
"""Contents of values, by exact type. A function has the code of another one where one line made both."""

MOVING = (*STREAMS.values(), ITERATOR)
"""Kinds of state that is another one each time it is read."""

ASIDE = frozenset(
    {"_getframe", "_current_frames", "currentframe", "exc_info", "cache_info", "globals", "import_module", "__import__"}
)
"""Names of functions by which code looks at what a snapshot does not see, such as who calls it."""

FUNCTIONS: Mapping[ModuleType, Sequence[str]] = {
    owner: [name for name, value in vars(owner).items() if callable(value) and name[0] != "_"]
    for owner in (torch, torch.nn.functional)
}
"""Functions of PyTorch that a model may replace for a while, by their modules."""

PLAIN = (int, bool, str, bytes, float, complex, type(None), torch.dtype, torch.device, torch.layout, torch.Size)
"""Types of arguments that hold nothing which a call can change."""

OWN = frozenset(
    {"fake_mode", "fake_device", "_fake_device", "pytype", "dispatch_keys", "_is_param", "_is_buffer", "persistent"}
)
"""Attributes of each fake tensor, in all versions of PyTorch. Where it has others, a value was read from it."""


class UnlikeError(Exception):
    """A call of a block has arguments, or runs in a state, of which too little is known to compare it with others."""


# Modules --------------------------------------------------------------------------------------------------------------


def differences(one: Module, other: Module) -> set[Attribute] | None:
    """Return the attributes in which two modules differ that are alike in all else; None if they are not.

    All else is their classes, the names of their layers, parameters and buffers, and the absence of hooks within.
    Tensors are compared with the arguments of a call (`Call`).
    """
    found: set[Attribute] = set()
    pairs: dict[int, Module] = {}
    places = [*_twins(one, other)]
    for path, module, twin in places:
        if pairs.setdefault(id(module), twin) is not twin or not _are_of_one_kind(module, twin, inside=path != ""):
            return None
    values = _Values(pairs)
    for path, module, twin in places:
        mine, theirs = vars(module), vars(twin)
        if [name for name in mine if name in theirs] != [name for name in theirs if name in mine]:
            return None
        for name in {**mine, **theirs}.keys() - REGISTERED.keys():
            if name not in mine or name not in theirs or not values.alike(mine[name], theirs[name]):
                found.add((path, name))
    return found


def _twins(one: Module, other: Module, path: str = "") -> Iterator[tuple[str, Module, Module]]:
    """Yield two modules and those in them that have the same places, each with its path; only as far as these do."""
    yield path, one, other
    for name, module in one._modules.items():
        twin = other._modules.get(name)
        if module is not None and twin is not None:
            yield from _twins(module, twin, f"{path}.{name}" if path else name)


def _are_of_one_kind(one: Module, other: Module, *, inside: bool) -> bool:
    """Return whether two modules are of one class without slots, hold the same names, and have no hooks inside."""
    if type(one) is not type(other) or isinstance(one, torch.jit.ScriptModule) or one.training != other.training:
        return False
    if any("__slots__" in vars(each) for each in type(one).__mro__):
        return False
    for name in REGISTERED:
        mine, theirs = vars(one).get(name), vars(other).get(name)
        if name.endswith("_hooks") or "_hooks_" in name:
            if inside and "state_dict" not in name and (mine or theirs):
                return False
        elif isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            if [(key, value is None) for key, value in mine.items()] != [
                (key, value is None) for key, value in theirs.items()
            ]:
                return False
        elif mine != theirs:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Values:
    """Comparison of what two modules hold: an object that both hold may lead to a module, which is then one of them.

    Attributes:
        twins: The other module in the place of each module, by identity.
        seen: The objects that both hold and that were looked into.
    """

    twins: Mapping[int, Module]
    seen: dict[int, Any] = field(default_factory=dict)

    def alike(self, one: Any, other: Any, depth: int = DEEPEST) -> bool:
        """Return whether two values hold the same; modules are so where they have the same place."""
        if isinstance(one, Module) and id(one) in self.twins:
            return self.twins[id(one)] is other
        if one is other and (type(one) in ATOMS or id(one) in self.seen or _is_of_library(type(one))):
            return True
        mine, theirs = _held_by(one), _held_by(other)
        if type(one) is not type(other) or mine is None or theirs is None:
            return same(one, other)
        if not depth or len(mine) != len(theirs):
            return False
        if one is other:
            self.seen[id(one)] = one
        return all(self.alike(*each, depth - 1) for each in zip(mine, theirs, strict=True))


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("fxport", "sympy")


def _held_by(value: Any) -> list[Any] | None:
    """Return what an object holds, which is all that there is to it; None where that cannot be told."""
    kind = type(value)
    if kind in HELD:
        return HELD[kind](value)
    is_made_in_python = not any(each.__flags__ & IMMUTABLE for each in kind.__mro__[:-1])
    if not is_made_in_python or not kind.__dictoffset__ or any("__slots__" in vars(each) for each in kind.__mro__):
        return None
    return [*vars(value), *vars(value).values()]


def leads_elsewhere(state: Snapshot, block: Module, modules: set[int]) -> bool:
    """Return whether what a block reaches tells its place among other modules, or moves on as it is read.

    These are other modules of the model than its own, keys and weak references that are a module or its identity,
    memos of calls with a module, iterators, generators, files, and code that looks at what a snapshot does not see.

    Args:
        state: What the block reaches.
        block: The block.
        modules: The identities of all modules of the model.
    """
    if speaks_of(ASIDE, state):
        return True
    own = set(map(id, block.modules()))
    for holder, (keys, values) in state.held:
        if holder.kind in MOVING or (isinstance(holder.owner, Module) and id(holder.owner) in modules - own):
            return True
        told = (*(keys or ()), *(each for each in values if isinstance(each, (int, weakref.ref))))
        if holder.kind.is_memo:
            told = within(holder.owner)
        named = (each() if isinstance(each, weakref.ref) else each for each in told)
        if any(id(each) in modules or (type(each) is int and each in modules) for each in named):
            return True
    return False


def speaks_of(names: frozenset[str], state: Snapshot) -> bool:
    """Return whether code of the user's own files that can be reached has one of these names."""
    codes = (each.__code__ for each in state.functions())
    return any(names.intersection(code.co_names) and kind_of(code.co_filename) == USER for code in codes)


# Calls ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a block: what it is given, and what holds around it.

    Attributes:
        key: All that Python can tell of the tensors and arguments but values, and the lines around the call: equal if
            two calls are alike.
        tensors: The parameters and buffers of the block and the tensors among the arguments, in an order that the key
            decides.
        nodes: The node that stands for each of these.
        cached: The layers of caches among the arguments that the block may use.
    """

    key: Hashable
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    cached: Cached

    @staticmethod
    def of(
        block: Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tracer: PythonKeyTracer,
        number: int | None = None,
    ) -> Call:
        """Describe a call of the block of a number; None: of blocks that have no numbers.

        Raises UnlikeError where it has arguments that can be told apart by more than that.
        """
        lines = tuple((each.filename, each.lineno) for each in own_frames(sys._getframe(1)))
        with modes_away():
            own = (*block.named_parameters(remove_duplicate=False), *block.named_buffers(remove_duplicate=False))
            given = _Given(number, [tensor for _, tensor in own])
            structure = given.structure((args, tuple(kwargs.items())))
            tensors = tuple(each for each in given.leaves if isinstance(each, Tensor))
            nodes = tuple(_node_of(each, tracer) for each in tensors)
            places: dict[Any, int] = {}
            parts = [
                _tensor(each, places, tracer) if isinstance(each, Tensor) else _number(each) for each in given.leaves
            ]
        around = (lines, surroundings(), _methods((block, *given.held)))
        return Call(
            (around, tuple(name for name, _ in own), structure, *parts), tensors, nodes, Cached(number, given.caches)
        )


@dataclass
class _Given:
    """Arguments of a call, while they are described.

    Attributes:
        number: The number of the block, by which it may use a layer of a cache.
        leaves: The tensors and symbolic numbers that were found.
        caches: The caches that were found.
        held: These caches, and their layers of this number.
    """

    number: int | None
    leaves: list[Any]
    caches: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)

    def structure(self, value: Any) -> Hashable:
        """Return how tuples nest, with the plain values in them; tensors and symbolic numbers are added to `leaves`."""
        if type(value) is tuple:
            return tuple(map(self.structure, value))
        if isinstance(value, (Tensor, *SYMBOLIC)):
            self.leaves.append(value)
            return len(self.leaves)
        if is_layered(value):
            return self._cache(value)
        if type(value) not in PLAIN:
            raise UnlikeError(f"an argument is of the type {type(value).__name__}")
        return type(value), repr(value) if isinstance(value, (float, complex)) else value

    def _cache(self, cache: Any) -> Hashable:
        """Return what a call can tell of a cache and of the layer of its number."""
        layers: list[Any] = cache.layers
        if self.number is None or not 0 <= self.number < len(layers) or type(layers) is not list:
            raise UnlikeError("a cache has no layer of the number of the block")
        layer = layers[self.number]
        if sum(each is layer for each in layers) > 1 or any(each is cache for each in self.caches):
            raise UnlikeError("a layer of a cache has two places")
        if any(map(_has_code_of_user, (*type(cache).__mro__, *type(layer).__mro__))):
            raise UnlikeError("a class of a cache has code of the user's own, whose state is not looked at")
        self.caches.append(cache)
        self.held.extend((cache, layer))
        own = ((name, id(value) if isinstance(value, type) else value) for name, value in vars(cache).items())
        rest = tuple((name, value) for name, value in own if name != LAYERS)
        return id(cache), len(layers), self.structure(rest), type(layer), self.structure(tuple(vars(layer).items()))


def _has_code_of_user(kind: type) -> bool:
    """Return whether a class holds a function of the user's own files, which a model may have put there."""
    codes = (getattr(value, "__code__", None) for value in vars(kind).values())
    return any(code is not None and kind_of(code.co_filename) == USER for code in codes)


def _tensor(tensor: Tensor, places: dict[Any, int], tracer: PythonKeyTracer) -> Hashable:
    """Return what tells a tensor from others. Where more may be known of it than its sizes, that is its identity."""
    told = described(tensor, places)
    if told is None:
        raise UnlikeError("a tensor is not a plain one")
    node = _node_of(tensor, tracer)
    identity = (places.setdefault(("object", id(tensor)), len(places)), places.setdefault(node, len(places)))
    kept = None if tensor.is_floating_point() else node
    if not is_plain(tensor):
        facts = ((name, value if type(value) in PLAIN else id(value)) for name, value in facts_of(tensor).items())
        others = ((name, id(value)) for name, value in vars(tensor).items() if name != FACTS)
        kept = (id(tensor), *facts, *others)
    kind = (type(tensor), isinstance(tensor, torch.nn.Parameter), tensor._is_view(), version(tensor))
    return (*kind, told, *identity, kept)


def is_plain(tensor: Tensor) -> bool:
    """Return whether a fake tensor has no attributes but PyTorch's own: others say what is known of its values."""
    return OWN.issuperset(name for name, value in vars(tensor).items() if value is not None)


def _number(value: Any) -> Hashable:
    expression = value.node.expr
    if described(value, {}) is None:
        raise UnlikeError("a number is read from data")
    return type(value), expression


def _node_of(tensor: Tensor, tracer: PythonKeyTracer) -> Node:
    slot = get_proxy_slot(tensor, tracer, None)
    if slot is None:
        raise UnlikeError("a tensor is not one of the graph")
    return slot.proxy.node


def _methods(owners: Sequence[Any]) -> Hashable:
    """Return the identities of what the classes of a block and others hold: a model may replace methods for a while."""
    modules = (module for each in owners for module in (each.modules() if isinstance(each, Module) else [each]))
    classes = dict.fromkeys(kind for module in modules for kind in type(module).__mro__)
    return tuple((id(kind), *map(id, vars(kind).values())) for kind in classes)


def surroundings() -> Hashable:
    """Return the modes that a call runs in. Raises UnlikeError for one that may see calls of functions."""
    modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
    if any(type(mode).__module__.partition(".")[0] not in ("torch", "fxport") for mode in modes):
        raise UnlikeError("a mode of the user's sees the calls")
    devices = ("cpu", "cuda")
    autocast = tuple((torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in devices)
    cuda = torch.backends.cuda
    kernels = (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())
    functions = tuple(id(vars(owner).get(name)) for owner, names in FUNCTIONS.items() for name in names)
    return (
        *(
            functions,
            tuple(map(id, modes)),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            autocast,
            kernels,
        ),
        torch.get_default_dtype(),
    )
