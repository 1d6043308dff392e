"""Equations of Einstein sums, as labels: "..." is one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ELLIPSIS = "..."
LABEL = re.compile(r"\.\.\.|[a-zA-Z]")

Labels = tuple[str, ...]


def labels_of(equation: str) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand and those of the result.

    A result that is not given has the labels that stand once in all operands, by name, behind the ellipsis.
    """
    left, arrow, right = equation.partition("->")
    inputs = [tuple(LABEL.findall(term)) for term in left.split(",")]
    if arrow:
        return inputs, tuple(LABEL.findall(right))
    all_of_them = [label for term in inputs for label in term]
    once = sorted(label for label in set(all_of_them) if label != ELLIPSIS and all_of_them.count(label) == 1)
    return inputs, (*((ELLIPSIS,) if ELLIPSIS in all_of_them else ()), *once)


def sizes_of_result(equation: str, shapes: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the sizes of the result; an axis that broadcasts is known as the number 1."""
    inputs, output = labels_of(equation)
    known: dict[str, list[Any]] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        wide, at = len(shape) - len(labels) + 1, 0
        for label in labels:
            count = wide if label == ELLIPSIS else 1
            known[label] = _broadcast(known.get(label, []), shape[at : at + count])
            at += count
    return [size for label in output for size in known[label]]


def _broadcast(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    padded = [*[1] * (len(longer) - len(shorter)), *shorter]
    return [b if isinstance(a, int) and a == 1 else a for a, b in zip(longer, padded, strict=True)]
