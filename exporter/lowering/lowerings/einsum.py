"""Einstein sums, pair by pair, as the fewest of Transpose, Reshape, MatMul, Mul and ReduceSum.

ONNX has Einsum, but ONNX Runtime's kernel takes up to twice the time of these nodes (1.31, CPU, attention-like sums).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.matmul import product_of, widened

aten = torch.ops.aten

Labels = tuple[str, ...]

ELLIPSIS = "..."
"""Its axes get labels of their own, counted from the right as broadcasting does: "...0" is the last of them."""


@dataclass(frozen=True, slots=True)
class Term:
    """An operand or a product of operands: a value with a label for each axis."""

    value: Value
    labels: Labels


@dataclass(frozen=True, slots=True)
class Product:
    """A way to multiply two terms as matrices: [batch, left, summed] times [batch, summed, right]."""

    x: Term
    y: Term
    batch: Labels
    left: Labels
    summed: Labels
    right: Labels

    @property
    def labels(self) -> Labels:
        return self.batch + self.left + self.right

    def transposes(self, output: Labels) -> int:
        """Return the number of operands and results whose order of axes differs from the one this product needs."""
        wanted = tuple(label for label in output if label in self.labels)
        return (
            (self.x.labels != self.batch + self.left + self.summed)
            + (self.y.labels != self.batch + self.summed + self.right)
            + (self.labels != wanted)
        )


@lowering(aten.einsum.default)
def einsum(op: Op, equation: str, tensors: Sequence[Value], *, path: Sequence[int] | None = None) -> Value:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    inputs, output = parse(equation, [op.rank(tensor) for tensor in tensors])
    return _Sum(op, [widened(op, x) for x in tensors], inputs, output).run(path)


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes and of the result's, by PyTorch's rules.

    Without "->" the result has the ellipsis' axes, then the letters that stand once, by the alphabet, capitals first.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = []
    for term, rank in zip(left.split(","), ranks, strict=True):
        inputs.append(tuple(_labels(term, rank - len(term.replace(ELLIPSIS, "")))))
    dots = max((sum(label.startswith(ELLIPSIS) for label in labels) for labels in inputs), default=0)
    if arrow:
        return inputs, tuple(_labels(right, dots))
    letters = [label for labels in inputs for label in labels if not label.startswith(ELLIPSIS)]
    once = sorted(label for label in set(letters) if letters.count(label) == 1)
    return inputs, (*_labels(ELLIPSIS, dots), *once)


def _labels(term: str, dots: int) -> Iterator[str]:
    before, found, after = term.partition(ELLIPSIS)
    yield from before
    if found:
        yield from (f"{ELLIPSIS}{i}" for i in reversed(range(dots)))
    yield from after


class _Sum:
    """One Einstein sum being written: its terms, and the size of each label."""

    def __init__(self, op: Op, tensors: Sequence[Value], inputs: Sequence[Labels], output: Labels) -> None:
        self.op = op
        self.output = output
        self.sizes = _sizes(op, tensors, inputs)
        self.terms = [
            self._without_ones(self._without_repeats(Term(tensor, labels)))
            for tensor, labels in zip(tensors, inputs, strict=True)
        ]

    def run(self, path: Sequence[int] | None) -> Value:
        pairs = iter(path) if path else iter(())
        while len(self.terms) > 1:
            first, second = sorted((next(pairs), next(pairs))) if path else (0, 1)
            y, x = self.terms.pop(second), self.terms.pop(first)
            self.terms.insert(len(self.terms) if path else 0, self._times(x, y))
        (term,) = self.terms
        result = self._ordered(self._summed(term, self.output), self.output)
        return self.op.cast(result.value, self.op.out.dtype)

    # What a term may hold ------------------------------------------------------------------------------------------

    def _without_repeats(self, term: Term) -> Term:
        """A label that stands twice takes the diagonal: every (n + 1)-th element of the two axes in one."""
        for label in term.labels:
            if term.labels.count(label) < 2:
                continue
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            rest = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
            n, labels = self.sizes[label], tuple(term.labels[axis] for axis in rest)
            moved = self._transposed(term.value, (*rest, first, second))
            flat = self.op.reshape(moved, [*(self.sizes[each] for each in labels), n * n])
            picked = self.op.Slice(flat, [0], [2**63 - 1], [-1], self.op.shape([n + 1]))
            labels = (*labels, label)
            return self._without_repeats(Term(self.op.typed(picked, [self.sizes[each] for each in labels]), labels))
        return term

    def _without_ones(self, term: Term) -> Term:
        """An axis of size 1 that broadcasts to another operand's adds nothing to the product."""
        have = self.op.sizes(term.value)
        ones = [axis for axis, label in enumerate(term.labels) if have[axis] == 1 and self.sizes[label] != 1]
        if not ones:
            return term
        labels = tuple(label for axis, label in enumerate(term.labels) if axis not in ones)
        return Term(self.op.Squeeze(term.value, ones), labels)

    # Steps -----------------------------------------------------------------------------------------------------------

    def _times(self, x: Term, y: Term) -> Term:
        """The product of two terms, summed over the labels that nothing else needs."""
        needed = {*self.output, *(label for term in self.terms for label in term.labels)}
        x, y = self._summed(x, needed | {*y.labels}), self._summed(y, needed | {*x.labels})
        summed = {*x.labels} & {*y.labels} - needed
        batch = {*x.labels} & {*y.labels} - summed
        inner = {*x.labels} == {*y.labels}
        if not summed or (inner and batch):
            return self._summed(self._elementwise(x, y), needed)
        return self._as_matrices(
            min(self._products(x, y, batch, summed), key=lambda each: each.transposes(self.output))
        )

    def _summed(self, term: Term, keep: Iterable[str]) -> Term:
        axes = [axis for axis, label in enumerate(term.labels) if label not in keep]
        if not axes:
            return term
        labels = tuple(label for label in term.labels if label in keep)
        return Term(self.op.ReduceSum(term.value, axes, keepdims=0), labels)

    def _elementwise(self, x: Term, y: Term) -> Term:
        labels = self._by_output({*x.labels, *y.labels})
        return Term(self.op.Mul(self._aligned(x, labels), self._aligned(y, labels)), labels)

    def _aligned(self, term: Term, labels: Labels) -> Value:
        """The term's value with an axis of size 1 for each label that it lacks, but for leading ones."""
        term = self._ordered(term, labels)
        start = labels.index(term.labels[0]) if term.labels else len(labels)
        lacking = [at for at, label in enumerate(labels[start:]) if label not in term.labels]
        return self.op.Unsqueeze(term.value, lacking) if lacking else term.value

    def _products(self, x: Term, y: Term, batch: set[str], summed: set[str]) -> Iterator[Product]:
        """Either term first, and what is summed in either's order."""
        for (a, b), leader in itertools.product(((x, y), (y, x)), (x, y)):
            left, right = ({*term.labels} - batch - summed for term in (a, b))
            order = tuple(label for label in leader.labels if label in summed)
            yield Product(a, b, self._by_output(batch), self._by_output(left), order, self._by_output(right))

    def _as_matrices(self, it: Product) -> Term:
        """One MatMul. Without batch axes it takes several left axes as they are; else each group becomes one axis."""
        batch = _each(it.batch)
        left = [it.left] if batch else _each(it.left)
        right = [it.right] if batch or len(it.right) > 1 else _each(it.right)
        rows, columns = [*batch, *left, it.summed], [*batch, it.summed, *right]
        x = self._grouped(self._ordered(it.x, it.batch + it.left + it.summed), rows)
        y = self._grouped(self._ordered(it.y, it.batch + it.summed + it.right), columns)
        result = product_of(self.op, x, y, (len(rows), len(columns)))
        if any(len(group) != 1 for group in (*left, *right)):
            result = self.op.reshape(result, [self.sizes[label] for label in it.labels])
        return Term(result, it.labels)

    def _grouped(self, term: Term, groups: Sequence[Labels]) -> Value:
        """The value with one axis for each group of labels; an empty group is an axis of size 1."""
        if all(len(group) == 1 for group in groups):
            return term.value
        return self.op.reshape(term.value, [math.prod(self.sizes[label] for label in group) for group in groups])

    def _ordered(self, term: Term, labels: Labels) -> Term:
        """The term with its axes in the order that they have among `labels`."""
        wanted = tuple(label for label in labels if label in term.labels)
        order = tuple(term.labels.index(label) for label in wanted)
        return Term(self._transposed(term.value, order), wanted)

    def _transposed(self, value: Value, order: tuple[int, ...]) -> Value:
        return value if order == tuple(range(len(order))) else self.op.Transpose(value, perm=order)

    def _by_output(self, labels: Iterable[str]) -> Labels:
        """Labels as the result has them; those that it has not, by name, behind."""
        places = {label: place for place, label in enumerate(self.output)}
        return tuple(sorted(labels, key=lambda label: (places.get(label, len(places)), label)))


def _each(labels: Labels) -> list[Labels]:
    return [(label,) for label in labels]


def _sizes(op: Op, tensors: Sequence[Value], inputs: Sequence[Labels]) -> Mapping[str, Size]:
    """The size of each label: that of the operands whose axis does not broadcast."""
    sizes: dict[str, Size] = {}
    for tensor, labels in zip(tensors, inputs, strict=True):
        for size, label in zip(op.sizes(tensor), labels, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    return sizes
