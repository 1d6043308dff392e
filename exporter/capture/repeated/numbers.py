"""Whole numbers in which blocks differ, such as the number of a layer: what a call asks them, noted as it asks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch.nn import Module

Attribute = tuple[str, str]
"""The path of a module within a block, and the name of an attribute of it."""

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

Comparison = tuple[Callable[[int, int], bool], int, bool]
"""Operator, other number and result of a comparison."""

CALCULATIONS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, divmod, pow),
    *(operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor),
)
"""Calculations with two numbers."""

CONVERSIONS = (
    *("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil"),
    *("int", "float", "index", "bool", "hash", "str", "repr", "format"),
)
"""Special methods that give away the value of a number."""


@dataclass(frozen=True)
class Reads:
    """Attributes in which blocks differ, as far as a call has read them.

    Attributes:
        values: Those whose values it has used.
        numbers: Those that it has seen as numbers, each with all that it has compared them with.
    """

    values: set[Attribute] = field(default_factory=set)
    numbers: dict[Attribute, set[Comparison]] = field(default_factory=dict)

    def are_same_for(self, block: Module, different: Iterable[Attribute]) -> bool:
        """Return whether the call would have read the same of another block, which differs in some attributes."""
        return not any(self._tells_apart(block, each) for each in different)

    def _tells_apart(self, block: Module, attribute: Attribute) -> bool:
        if attribute in self.values or attribute not in self.numbers:
            return attribute in self.values
        path, name = attribute
        value = vars(block.get_submodule(path)).get(name)
        return type(value) is not int or any(
            compare(value, other) is not result for compare, other, result in self.numbers[attribute]
        )


class Number:
    """Stands for a whole number. It can be handed on and compared; all else is noted as a use of its value.

    It is no `int`, as code in C would read one unseen.
    """

    __slots__ = ("attribute", "reads", "value")

    def __init__(self, value: int, attribute: Attribute, reads: Reads) -> None:
        self.value, self.attribute, self.reads = value, attribute, reads
        reads.numbers.setdefault(attribute, set())

    @property
    def __class__(self) -> type:  # for isinstance
        return int

    @__class__.setter
    def __class__(self, _: type) -> None:
        raise TypeError("__class__ assignment only supported for mutable types or ModuleType subclasses")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.read(), name)

    def __reduce_ex__(self, _: Any) -> Any:
        return int, (self.read(),)

    def read(self) -> int:
        """Return the value, and note that it is used."""
        self.reads.values.add(self.attribute)
        return self.value


def _comparing(compare: Callable[[Any, Any], Any]) -> Callable[[Number, Any], Any]:
    def compared(self: Number, other: Any) -> Any:
        if other is None or type(other) is str:
            return NotImplemented
        if type(other) not in (int, bool):
            return compare(self.read(), other.read() if type(other) is Number else other)
        result = compare(self.value, other)
        self.reads.numbers[self.attribute].add((compare, int(other), result))
        return result

    return compared


def _calculating(calculate: Callable[[Any, Any], Any], *, reflected: bool) -> Callable[[Number, Any], Any]:
    def calculated(self: Number, other: Any) -> Any:
        own, other = self.read(), other.read() if type(other) is Number else other
        return calculate(other, own) if reflected else calculate(own, other)

    return calculated


def _converting(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def converted(self: Number, *others: Any) -> Any:
        return method(self.read(), *others)

    return converted


for _compare in COMPARISONS:
    setattr(Number, f"__{_compare.__name__}__", _comparing(_compare))
for _calculate in CALCULATIONS:
    _name = _calculate.__name__.rstrip("_")
    setattr(Number, f"__{_name}__", _calculating(_calculate, reflected=False))
    setattr(Number, f"__r{_name}__", _calculating(_calculate, reflected=True))
for _name in CONVERSIONS:
    setattr(Number, f"__{_name}__", _converting(f"__{_name}__"))
