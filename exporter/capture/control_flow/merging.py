"""Conversion of the results of alternative paths, of which a run takes one, to one common form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.structures import register_dataclasses
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.patches.mixed_kinds import MERGED_TRUTH, kinds_of, marked
from fxport.exporter.capture.snapshot import same


class LoopError(Exception):
    """No operator can stand for a loop or a branch; the text says why. The capture goes on without rewriting it.

    Args:
        reason: Why, in a clause that begins with "it".
        branches: The lines of branches that can be told apart for good: what follows them runs in each of their arms.
    """

    def __init__(self, reason: str, branches: frozenset[Line] = frozenset()) -> None:
        super().__init__(reason)
        self.branches = branches
        self.is_unrecorded = False
        """True where all is as it was before the statement, so that its turns may be taken one by one."""


@contextmanager
def blaming(branches: frozenset[Line]) -> Iterator[None]:
    """Let errors name these branches."""
    try:
        yield
    except LoopError as error:
        error.branches |= branches
        raise


class _Unset:
    """The value of a name that is not bound yet."""

    _fxport_in_words = "nothing on one of its ways"


UNSET = _Unset()

DTYPES: dict[Any, torch.dtype] = {
    **dict.fromkeys((bool, SymBool), torch.bool),
    **dict.fromkeys((int, SymInt), torch.int64),
    **dict.fromkeys((float, SymFloat), torch.float64),
}
"""Of the tensors that numbers travel in."""

PLAIN = (bool, int, float)


class MixedFloat(float):
    """The type of a number that is a float on one way and whole on another."""


class EitherFloat(MixedFloat):
    """The type of such a number behind a branch."""


class EitherInt(int):
    """The type of a number that is a truth value in one arm of a branch and whole in the other."""


DTYPES |= {MixedFloat: torch.float64, EitherFloat: torch.float64, EitherInt: torch.int64}

KINDS_OF: Mapping[Any, frozenset[type]] = {EitherFloat: frozenset({int, float}), EitherInt: frozenset({bool, int})}
"""The kinds that a number of such a type may have."""


def are_of_one_kind(values: Sequence[Any]) -> bool:
    """Return whether all are numbers, and all truth values, whole, or floats."""
    return all(type(each) in DTYPES for each in values) and len(frozenset().union(*map(kinds_of, values))) == 1


IN_WORDS = "_fxport_in_words"
"""The attribute of a stand-in for Python's objects that names it for messages."""

MIXED = "_fxport_mixed"
"""The attribute of such a number: what type a tensor of integers has, once multiplied by it, only data tells."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A leaf that is the same on all ways."""

    value: Any


@dataclass(frozen=True, slots=True)
class Like:
    """A leaf that is such a tensor. It holds none: to ask a tensor from outside for its dtype is to read it."""

    dtype: torch.dtype
    sizes: tuple[Any, ...]
    device: torch.device


Leaf = Like | type | Constant
"""Kind of a leaf: like this tensor, a number of this type, or a constant."""


@dataclass(frozen=True, slots=True)
class Form:
    """Structure of a value made of tensors."""

    spec: Any
    leaves: tuple[Leaf, ...]

    def tensors(self, value: Any, *, whole: bool = False) -> list[Tensor]:
        """Return the tensors of a value of this form: copies, since results of an operator may alias nothing.

        With `whole`, a number in the place of a tensor is one of that tensor's sizes: `total = 0.0` is added to.
        """
        found = _flat(value, self.spec)
        return [
            opaque(_as(leaf, like, whole))
            for leaf, like in zip(found, self.leaves, strict=True)
            if not isinstance(like, Constant)
        ]

    def leaves_of(self, value: Any) -> list[Any]:
        """Return the leaves of a value that travel as tensors, as they are."""
        pairs = zip(_flat(value, self.spec), self.leaves, strict=True)
        return [leaf for leaf, like in pairs if not isinstance(like, Constant)]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Form without sizes, of which each run of a part has other symbols."""
        return self.spec, *((each.dtype, len(each.sizes)) if isinstance(each, Like) else each for each in self.leaves)

    def value(self, tensors: Sequence[Tensor]) -> Any:
        """Return the value that these tensors are."""
        rest = iter(tensors)
        return pytree.tree_unflatten([_of(like, rest) for like in self.leaves], self.spec)


def merged_truth(tensor: Tensor) -> Tensor:
    """Mark a tensor of shape [] as a truth value of Python's, which counts as 0 or 1 in arithmetic."""
    setattr(tensor, MERGED_TRUTH, True)
    return tensor


def opaque(tensor: Tensor) -> Tensor:
    """Return the tensor without what the capture knows of its content: another turn or branch may change that."""
    if isinstance(tensor, FakeTensor):
        tensor.constant = None
    return tensor


def form_of(first: Any, second: Any, *, changing: bool = False) -> Form:
    """Return the form that both values can have. With `changing`, numbers that are equal now may differ later."""
    register_dataclasses((first, second))
    spec = pytree.tree_structure(_whole(first, second))
    pairs = zip(_flat(first, spec), _flat(second, spec), strict=True)
    return Form(spec, tuple(_leaf(one, two, changing) for one, two in pairs))


def containers_in(value: Any) -> Iterator[Any]:
    """Yield the lists, dicts and other containers in a value that may be changed later; each becomes a new one."""
    kind = pytree._get_node_type(value)
    if kind not in pytree.SUPPORTED_NODES:
        return
    is_fixed = isinstance(value, tuple) or getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    if not is_fixed:
        yield value
    for each in pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]:
        yield from containers_in(each)


def _whole(first: Any, second: Any) -> Any:
    """Return a value with the structure of both, where UNSET stands for any."""
    if first is UNSET:
        return second
    if type(first) is type(second) is tuple and len(first) == len(second):
        return tuple(map(_whole, first, second))
    return first


def _flat(value: Any, spec: Any) -> list[Any]:
    """Return the leaves of a value of this structure; UNSET stands for all of them."""
    leaves, own = pytree.tree_flatten(value)
    if own == spec:
        return leaves
    some_unset = any(each is UNSET for each in leaves)
    leaves = pytree._broadcast_to_and_flatten(value, spec) if some_unset else None
    if leaves is None:
        raise LoopError("its ways give values of different structures")
    return leaves


def _leaf(one: Any, two: Any, changing: bool) -> Leaf:
    is_one = one is two
    one, two = (two, two) if one is UNSET else (one, one) if two is UNSET else (one, two)
    if isinstance(one, Tensor) or isinstance(two, Tensor):
        if is_one and not changing:
            return Constant(one)
        like, ranks = _tensor(one, two), {each.dim() if isinstance(each, Tensor) else 0 for each in (one, two)}
        if len(ranks) > 1 and not changing:
            raise LoopError("its ways give values with {} and with {} axes".format(*sorted(ranks)))
        return like
    constant = one is two or (type(one) in (*PLAIN, str) and same(one, two))
    if type(one) in DTYPES and type(two) in DTYPES and not (constant and type(one) in PLAIN and not changing):
        kinds = {DTYPES[kind] for each in (one, two) for kind in kinds_of(each)}
        kind = next(kind for kind in (float, int, bool) if DTYPES[kind] in kinds)
        if len(kinds) == 1:
            return kind
        return (MixedFloat if kind is float else kind) if changing else EitherFloat if kind is float else EitherInt
    if constant:
        return Constant(one)
    raise LoopError(f"its ways give {in_words(one)} and {in_words(two)}, which no value of a graph can be")


def _tensor(one: Any, two: Any) -> Like:
    """Return the tensor that both are: a number becomes one only where that keeps its value and its type promotion."""
    tensor, other = (one, two) if isinstance(one, Tensor) else (two, one)
    if isinstance(other, Tensor):
        if tensor.dtype != other.dtype:
            raise LoopError(f"its ways give tensors of {tensor.dtype} and of {other.dtype}")
    elif type(other) not in DTYPES:
        raise LoopError(f"its ways give a tensor and {in_words(other)}, which no value of a graph can be")
    elif _rank(DTYPES[type(other)]) > _rank(tensor.dtype):
        raise LoopError(
            f"its ways give a tensor of {tensor.dtype} and {in_words(other)}, which such a tensor cannot hold"
        )
    return Like(tensor.dtype, tuple(tensor.shape), tensor.device)


def _rank(dtype: torch.dtype) -> int:
    """Return the category of a dtype in type promotion: boolean, integral, floating-point, complex."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def in_words(value: Any) -> str:
    """Name a value for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype}"
    if value is None or type(value) in (*PLAIN, str):
        return repr(value)
    return getattr(value, IN_WORDS, f"a value of type {type(value).__name__}")


def _as(leaf: Any, like: Like | type, whole: bool) -> Tensor:
    dtype = like.dtype if isinstance(like, Like) else DTYPES[like]
    if isinstance(leaf, Tensor):
        kept = leaf.requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad() if kept else nullcontext():  # PyTorch wants the same order of strides on all ways
            return leaf.clone(memory_format=torch.contiguous_format)
    if leaf is not UNSET:
        if whole and isinstance(like, Like):
            return torch.full(like.sizes, leaf, dtype=dtype, device=like.device)
        return torch.scalar_tensor(leaf, dtype=dtype)
    if not isinstance(like, Like):
        return torch.zeros((), dtype=dtype)
    sizes = [0 if free_unbacked_symbols(size) else size for size in like.sizes]  # which the other way may not know
    return torch.zeros(sizes, dtype=dtype, device=like.device)


def _of(like: Leaf, tensors: Iterator[Tensor]) -> Any:
    if isinstance(like, Constant):
        return like.value
    tensor = next(tensors)
    if isinstance(like, Like) or like is bool:
        return tensor if isinstance(like, Like) else merged_truth(tensor)
    number = marked(tensor.item(), KINDS_OF.get(like, frozenset()))
    if like in (MixedFloat, EitherFloat):
        setattr(number, MIXED, True)
    return number
