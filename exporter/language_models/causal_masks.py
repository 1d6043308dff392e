"""Masks of attention read as conditions on tokens: the nodes that compute one are evaluated as functions of indices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from fxport.exporter.language_models.generation import CACHE, IDS, MASK
from fxport.exporter.lowering.ir_passes.patterns import constant_of

Key = int | str
Terms = Mapping[Key, int]
"""A linear function: the factor of each index, by its axis from the right, and of each named size; "" is 1."""

BATCH_AXIS, QUERY_AXIS, KEY_AXIS = -4, -2, -1
"""Axes of a mask [batch, heads, new tokens, all tokens]."""

SIZES: Mapping[str, Sequence[Terms]] = {
    IDS: ({"batch": 1}, {"new": 1}),
    MASK: ({"batch": 1}, {"past": 1, "new": 1}),
    CACHE: ({"batch": 1}, {}, {"past": 1}),
}
"""The sizes of inputs of the graph; of a tensor of the cache, whose heads are not asked for here."""


class UnknownMaskError(ValueError):
    """A mask that is not understood. The text says why."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Integers of `rank` axes, each a linear function of its indices. An axis without a factor has size 1."""

    rank: int
    terms: Terms

    def mapped(self, rank: int, change: Callable[[Terms], Terms]) -> _Numbers:
        return _Numbers(rank, change(self.terms))

    def all_terms(self) -> Iterable[Terms]:
        return (self.terms,)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Truth values of `rank` axes: all of `least` are at least 0, and the attention mask is set at all of `seen`."""

    rank: int
    least: tuple[Terms, ...] = ()
    seen: tuple[tuple[Terms, Terms], ...] = ()

    def mapped(self, rank: int, change: Callable[[Terms], Terms]) -> _Conditions:
        seen = tuple((change(row), change(column)) for row, column in self.seen)
        return _Conditions(rank, tuple(map(change, self.least)), seen)

    def all_terms(self) -> Iterable[Terms]:
        return (*self.least, *(each for pair in self.seen for each in pair))


_Value = _Numbers | _Conditions


def window_of(mask: ir.Value) -> int | None:
    """The number of tokens that a causal mask shows of those before, with the token itself; None for all.

    Args:
        mask: Truth values [batch or 1, heads or 1, new tokens, all tokens].

    Raises:
        UnknownMaskError: It is not shown that a token sees all tokens of its text up to itself, or the last of them.
    """
    found = _Reader().read(mask)
    if not isinstance(found, _Conditions):
        raise UnknownMaskError("its mask has numbers, not truth values")
    causal, windows = False, []
    for terms in map(_plain, found.least):
        size = terms.get("", 0) + 1
        if terms == {"past": 1, QUERY_AXIS: 1, KEY_AXIS: -1}:
            causal = True
        elif size > 0 and _plain({**terms, "": 0}) == {"past": -1, QUERY_AXIS: -1, KEY_AXIS: 1}:
            windows.append(size)
        else:
            raise UnknownMaskError("its mask has another condition than those of causal attention and windows")
    if not causal:
        raise UnknownMaskError("its mask shows later tokens too")
    if [(_plain(row), _plain(column)) for row, column in found.seen] != [({BATCH_AXIS: 1}, {KEY_AXIS: 1})]:
        raise UnknownMaskError("its mask does not hide what fills up texts")
    return min(windows, default=None)


def _plain(terms: Terms) -> dict[Key, int]:
    return {key: factor for key, factor in terms.items() if factor}


def _sum(one: Terms, other: Terms, sign: int = 1) -> Terms:
    """The sum, or the difference; an axis whose factors cancel out stays, with 0."""
    return {key: one.get(key, 0) + sign * other.get(key, 0) for key in _distinct((*one, *other))}


class _Reader:
    """Evaluates nodes, each once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, _Value] = {}

    def read(self, value: ir.Value | None) -> _Value:
        assert value is not None
        if value not in self._known:
            self._known[value] = self._evaluated(value)
        return self._known[value]

    def numbers(self, value: ir.Value | None) -> _Numbers:
        found = self.read(value)
        if not isinstance(found, _Numbers):
            raise UnknownMaskError("its mask computes with truth values")
        return found

    def constants(self, value: ir.Value | None) -> list[int]:
        """The numbers of a constant."""
        array = constant_of(value)
        if array is None:
            raise UnknownMaskError("its mask has a shape that is computed")
        found: list[int] = array.reshape(-1).tolist()
        return found

    def _evaluated(self, value: ir.Value) -> _Value:
        if (array := constant_of(value)) is not None:
            if array.size != 1 or array.dtype.kind not in "bi" or (array.dtype.kind == "b" and not array.item()):
                raise UnknownMaskError("its mask has a constant of several numbers")
            return _Conditions(array.ndim) if array.dtype.kind == "b" else _Numbers(array.ndim, {"": int(array.item())})
        if value.is_graph_input() and value.name == MASK:
            return _Conditions(2, seen=(({-2: 1}, {-1: 1}),))
        node = value.producer()
        if node is None or node.domain or node.op_type not in RULES:
            what = f"the operator {node.op_type}" if node is not None else f"the input '{value.name}'"
            raise UnknownMaskError(f"its mask has {what}")
        return RULES[node.op_type](self, node)


def _shape(reader: _Reader, node: ir.Node) -> _Value:
    name = str(node.inputs[0].name if node.inputs[0] is not None else "")
    sizes = SIZES.get(CACHE if name.startswith(f"{CACHE}.") else name, ())
    start, end = _attribute(node, "start", 0), _attribute(node, "end", None)
    if end != start + 1 or not 0 <= start < len(sizes) or not sizes[start]:
        raise UnknownMaskError(f"its mask asks for the sizes of '{name}'")
    return _Numbers(1, sizes[start])


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    return node.attributes[name].value if name in node.attributes else default


def _unsqueeze(reader: _Reader, node: ir.Node) -> _Value:
    value = reader.read(node.inputs[0])
    rank = value.rank + len(axes := reader.constants(node.inputs[1]))
    new = {axis % rank for axis in axes}
    return _moved(value, rank, [axis for axis in range(rank) if axis not in new])


def _squeeze(reader: _Reader, node: ir.Node) -> _Value:
    value = reader.read(node.inputs[0])
    if len(node.inputs) < 2 or node.inputs[1] is None:
        raise UnknownMaskError("its mask has a Squeeze without axes")
    gone = {axis % value.rank for axis in reader.constants(node.inputs[1])}
    kept = iter(range(value.rank))
    return _moved(value, value.rank - len(gone), [None if axis in gone else next(kept) for axis in range(value.rank)])


def _reshape(reader: _Reader, node: ir.Node) -> _Value:
    """Axes that are copied keep their place; one of the others, which have size 1 but for it, is that of -1."""
    value, shape = reader.read(node.inputs[0]), reader.constants(node.inputs[1])
    wide = {axis + value.rank for terms in value.all_terms() for axis in terms if isinstance(axis, int)}
    copied = {axis for axis, size in enumerate(shape) if size == 0}
    left = sorted(wide - copied)
    if any(size not in (-1, 0, 1) for size in shape) or len(left) > shape.count(-1) or copied - {*range(value.rank)}:
        raise UnknownMaskError("its mask is reshaped")
    places = [axis if axis in copied else shape.index(-1) if axis in left else None for axis in range(value.rank)]
    return _moved(value, len(shape), places)


def _moved(value: _Value, rank: int, places: Sequence[int | None]) -> _Value:
    """The value with its axes at other places; None for those that are gone, which have size 1."""

    def change(terms: Terms) -> Terms:
        found: dict[Key, int] = {}
        for key, factor in terms.items():
            place = places[key + value.rank] if isinstance(key, int) else None
            if isinstance(key, int) and place is None:
                raise UnknownMaskError("its mask loses an axis")
            found[key if place is None else place - rank] = factor
        return found

    return value.mapped(rank, change)


def _range(reader: _Reader, node: ir.Node) -> _Value:
    start, _, step = map(reader.numbers, node.inputs)
    if step.terms != {"": 1}:
        raise UnknownMaskError("its mask counts by other steps than 1")
    return _Numbers(1, {**start.terms, -1: 1})


def _gather(reader: _Reader, node: ir.Node) -> _Value:
    """The index along an axis becomes the number that is looked up."""
    value, index = reader.read(node.inputs[0]), reader.numbers(node.inputs[1])
    if index.rank != 1:
        raise UnknownMaskError("its mask is looked up by several axes")
    axis = _attribute(node, "axis", 0) % value.rank - value.rank
    looked_up = {axis if key == -1 else key: factor for key, factor in index.terms.items()}

    def change(terms: Terms) -> Terms:
        factor = terms.get(axis, 0)
        rest = {key: each for key, each in terms.items() if key != axis}
        return _sum(rest, {key: factor * each for key, each in looked_up.items()})

    return value.mapped(value.rank, change)


def _cast(reader: _Reader, node: ir.Node) -> _Value:
    value = reader.read(node.inputs[0])
    if isinstance(value, _Conditions) != (_attribute(node, "to", None) == ir.DataType.BOOL.value):
        raise UnknownMaskError("its mask is cast to other numbers")
    return value


def _added(sign: int) -> Callable[[_Reader, ir.Node], _Value]:
    def add(reader: _Reader, node: ir.Node) -> _Value:
        one, other = map(reader.numbers, node.inputs)
        return _Numbers(max(one.rank, other.rank), _sum(one.terms, other.terms, sign))

    return add


def _compared(sign: int, more: int) -> Callable[[_Reader, ir.Node], _Value]:
    """`sign * (left - right) - more` is at least 0."""

    def compare(reader: _Reader, node: ir.Node) -> _Value:
        one, other = map(reader.numbers, node.inputs)
        difference = _sum(one.terms, other.terms, -1)
        least = _sum({key: sign * factor for key, factor in difference.items()}, {"": -more})
        return _Conditions(max(one.rank, other.rank), (least,))

    return compare


def _and(reader: _Reader, node: ir.Node) -> _Value:
    parts = [reader.read(value) for value in node.inputs]
    found = [part for part in parts if isinstance(part, _Conditions)]
    assert len(found) == len(parts)  # And takes truth values alone
    least, seen = (_distinct(each for part in found for each in getattr(part, name)) for name in ("least", "seen"))
    return _Conditions(max(part.rank for part in found), tuple(least), tuple(seen))


def _distinct(values: Iterable[Any]) -> Collection[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


RULES: Mapping[str, Callable[[_Reader, ir.Node], _Value]] = {
    "Shape": _shape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Range": _range,
    "Gather": _gather,
    "Cast": _cast,
    "Add": _added(1),
    "Sub": _added(-1),
    "LessOrEqual": _compared(-1, 0),
    "Less": _compared(-1, 1),
    "GreaterOrEqual": _compared(1, 0),
    "Greater": _compared(1, 1),
    "And": _and,
}
"""Operators that masks are made of, and what each gives."""
