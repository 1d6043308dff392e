"""What Python answers by the object itself: `is True`, `__class__`, patterns of classes, dispatch by type."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, ROWS, SIZES, Row, of


class IsTrue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        is_positive = (x.sum() > 0).item()
        if is_positive is True:
            return x + 1
        return x - 1


class IsTrueInAChoice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        is_positive = bool(x.sum() > 0)
        return x + (1 if is_positive is True else 5) + (0.5 if is_positive is not False else 7)


class IsOneOfTwo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        is_positive = (x.sum() > 0).item()
        if is_positive:
            return x + 1
        elif not is_positive:
            return x - 1
        return x * 100


class IsEqualToTrue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first, second = (x.sum() > 0).item(), (x[0] > 0).item()
        if first == True:  # noqa: E712
            x = x + 1
        return x * 2 if first == second else x


class ClassOfATensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def is_plain(value: Tensor) -> bool:
            return value.__class__ is torch.Tensor

        return x + 1 if is_plain(x) and x.shape[0].__class__ is int else x - 1


class ClassOfATruth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        truth, whole = bool(x.sum() > 0), 1 if x[0].sum() > 0 else 2
        return x + (1 if truth.__class__ is bool else 3) + isinstance(truth, bool) + (type(whole) is int)


class PatternOfASize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match x.shape:
            case (int(n), int()):
                return x + n
            case _:
                return x - 1


class PatternOfATruth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match (x.sum() > 0).item():
            case True:
                return x + 1
            case False:
                return x - 1
        return x * 100


class PatternWithATruth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match (x.sum() > 0).item(), x.shape[0]:
            case (True, n):  # asks within
                return x + n
        return x * 100


@functools.singledispatch
def weight_of(value: object) -> float:
    return 1.0


@weight_of.register
def _(value: int) -> float:
    return 2.0


@weight_of.register
def _(value: Tensor) -> float:
    return 3.0


class DispatchedByType(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * weight_of(x.shape[0]) + weight_of(x) + weight_of(x.shape[0] / 2)


class OneOfTwo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        chosen = x if x.sum() > 0 else y
        if chosen is x:
            return x + 100
        return y * 2


class CopiedIfTheSame(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = y * 2 if x.sum() > 0 else y
        if z is y:
            z = z.clone()
        z += 1
        return y * 1, z


class OneOfTwoWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.arange(4.0))
        self.second = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        weight = self.first if x.sum() > 0 else self.second
        return scaled(weight, self.first, y)


def scaled(weight: Tensor, special: Tensor, x: Tensor) -> Tensor:
    return x * weight * 10 if weight is special else x * weight


class LargestOfTwo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        largest = max(x, y, key=lambda each: each.sum())
        return x * 0 if largest is x else largest  # only data tells


class LayerAskedForElsewhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Tanh(), nn.Tanh()])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return applied(self.layers[int(x.sum() > 0)], self.layers[1], y)  # tells which layer


def applied(layer: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    if layer is last:
        return x
    return layer(x)


class AreTheyOne(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # may be one
        return x * 2 if x is y else x + y * 3


class EachOnce(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # may be one
        return sum({id(each): each for each in (x, y)}.values(), torch.zeros(()))


class WritesToOne(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # may be one
        x += 1
        return y * 2


class OneOrTwo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + x if x is y else x + y  # the same


PAIRS = tuple((x, y.clone()) for (x,), (y,) in zip(FLAT, reversed(FLAT), strict=True))
"""Three pairs of [4]; the first ones are of a positive sum, of a negative one, and between."""

TWICE = ((FLAT[0][0],) * 2, *PAIRS)
"""One tensor as both inputs of the example, and then others."""

CASES = (
    *of(
        "what an object is",
        Row("is True", IsTrue, FLAT),
        Row("is True in a choice", IsTrueInAChoice, FLAT),
        Row("a truth and its opposite", IsOneOfTwo, FLAT),
        Row("equal to True", IsEqualToTrue, FLAT),
        Row("__class__", ClassOfATensor, SIZES, ROWS),
        Row("__class__ of a truth value", ClassOfATruth, FLAT),
        Row("a pattern of sizes", PatternOfASize, SIZES, ROWS),
        Row("a pattern of a truth value", PatternOfATruth, FLAT),
        Row("a truth value in a pattern", PatternWithATruth, FLAT, None, "# asks within"),
        Row("one of two tensors", OneOfTwo, PAIRS),
        Row("a copy of one of two tensors", CopiedIfTheSame, PAIRS),
        Row("one of two weights, in a function", OneOfTwoWeights, PAIRS),
        Row("the largest of two tensors", LargestOfTwo, PAIRS, None, "# only data tells"),
        Row("a layer that data choose, in a function", LayerAskedForElsewhere, PAIRS, None, "# tells which layer"),
        Row("are two inputs one", AreTheyOne, TWICE, None, "# may be one"),
        Row("inputs by their id", EachOnce, TWICE, None, "# may be one"),
        Row("a write to one of two inputs that are one", WritesToOne, TWICE, None, "# may be one"),
        Row("inputs that are one where it makes no difference", OneOrTwo, TWICE),
        Row("functools.singledispatch", DispatchedByType, SIZES, ROWS),
    ),
)
