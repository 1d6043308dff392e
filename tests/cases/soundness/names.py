"""Names that are bound out of sight of an assignment: walrus, match, with, import, del, except."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, REFUSED, ROWS, SIZES, Inputs, Row, of


class WalrusInAComprehension(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last = x[0]
        if x.sum() > 0:
            parts = [last := last + row for row in x[:2]]
        else:
            parts = [last := last - row for row in x[:2]]
        return last + parts[0]


class WalrusInATest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if (top := x.max()) > 1 and (low := x.min()) < 0:
            return x * top + low
        return x - top


EITHER: Inputs = tuple(
    (torch.tensor(values),)
    for values in (
        [-9.0, 5.0, 1.0, 1.0],
        [9.0, 5.0, 1.0, 1.0],
        [0.1, 0.2, -0.1, 0.1],
        [-1.0, -2.0, -3.0, -4.0],
        [1.0, 2.5, -0.5, -2.0],
    )
)
"""Inputs for which the first value of a choice decides, or the second one, either way."""


class WalrusBehindOr(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.min()
        if x.sum() > 0 or (low := x.max()) > 2:
            return x + low
        return x - 1


class WalrusBehindAnd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.min()
        if x.sum() > 0 and (low := x.max()) > 2:
            return x + low
        return x - low


class WalrusInNestedChoices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.min()
        if x.sum() > 0 and ((low := x.max()) > 2 or (low := x.mean()) < 0.3):
            y = x + low
        else:
            y = x * 2
        return y - low


class WalrusOfAnElif(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.min()
        if x.sum() > 9:
            return x
        elif x.sum() > 0 or (low := x.max()) > 2:
            return x + low
        return x - low


class WalrusUnboundBefore(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not (x.sum() > 0 or (high := x.max()) > 2):
            return x - high
        return x + 1


class WalrusOfAnExpression(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        low = x.min()
        y = x if x.sum() > 0 or (low := x.max()) > 2 else x * 3  # binds by choice
        return y - low


class WalrusInALoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(())
        while (size := x.abs().sum()) > 1:
            x = x * 0.5
            total = total + size
        return x * size + total


class MatchSequence(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a = b = x
        match (x * 2, x - 1):
            case (a, b) if x.sum() > 0:
                b = b + 1
            case [first, *_]:
                a = first * 3
        return a + b * 10


class MatchInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b, rest = x, x, [x]
        if x.sum() > 0:
            match {"one": x + 1, "two": x + 2, "three": x}:
                case {"one": a, "two": b, **others}:
                    rest = list(others.values())
        return a * 100 + b * 10 + rest[0]


class MatchSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match x.shape:  # of a size
            case (2, columns):  # of a size
                return x * columns
            case (rows, columns) if rows > columns:  # of a size
                return x + rows
            case _:
                return x - 1


@contextlib.contextmanager
def scaled(x: Tensor) -> Iterator[Tensor]:
    yield x * 2


class WithAs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        if x.sum() > 0:
            with scaled(x) as y:
                x = x + 1
        return x + y * 10


class WithInALoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(4)
        for row in x:
            with scaled(row) as twice, torch.no_grad():
                y = y + twice
        return y + twice


class ImportInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            import math

            x = x * math.pi
        else:
            from math import e

            x = x - e
        return x


class ImportedBehind(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0
        if x.sum() > 0:
            from math import pi as scale
        return x * scale


class DeletedOnOneWay(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        z = x * 2
        if x.sum() > 0:
            z = z + y
            del y
        else:
            y = x
        return z


class DeletedAndRead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        if x.max() > 100:
            del y  # is read below
        return y  # is read below


class ExceptAs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        error = x
        if x.sum() > 0:
            try:
                x = {"scale": x * 2}["none"]
            except KeyError as missing:
                x = x + len(missing.args)
                error = error + 1
            finally:
                x = x * 3
        return x + error


class ExceptUnbinds(nn.Module):
    """`except … as error` deletes the name, which is read behind the branch if data decides so."""

    def forward(self, x: Tensor) -> Tensor:
        error = x
        if x.max() > 100:  # unbinds a name
            try:
                raise KeyError("none")
            except KeyError:  # unbinds a name
                x = x + 1
        return x + error  # unbinds a name


class TupleTargets(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        (a, *b), c = [x, x + 1, x + 2], x
        if x.sum() > 0:
            a, (c, *b) = c * 5, [a * 2, b[0] * 3, b[1] * 4]
        for a, c in zip(b, [c, a], strict=True):
            x = x + a * c
        return x + a


class LoopTargetIsAnItem(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = [x, x]
        for held[0] in x:
            held[1] = held[1] + held[0]
        return held[1] * held[0]


class AugmentedInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = [x, x * 2]
        alias = parts
        if x.sum() > 0:
            parts += [x * 3]
        else:
            parts = parts + [x * 4]  # noqa: RUF005
        return torch.stack(alias).sum(0) + parts[-1] * 10


class ClassInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0
        if x.sum() > 0:

            class Scales:
                half = 0.5

            scale = Scales.half
        return x * scale


class Shadowed(nn.Module):
    """A comprehension, a lambda and a nested function have names of their own."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if x.sum() > 0:
            z = [y * 2 for y in (x, x + 1)][1]
            w = (lambda y: y - 1)(z)
        else:

            def w_of(y: Tensor) -> Tensor:
                x = y * 3
                return x

            w = w_of(y)
        return y + w + x


class Annotated(nn.Module):
    """Names with types, of which one is bound later, and one never."""

    def forward(self, x: Tensor) -> Tensor:
        scale: float | None = None
        if x.sum() > 0:
            y: Tensor
            y = x * 2
            never: int  # noqa: F842  # as users write it
            shift: Tensor = x.max() if x.min() > -1 else x.min()
            scale = 0.5
        else:
            y, shift = x - 1, x[0]
        return y + shift if scale is None else y * scale + shift


CASES = of(
    "names bound out of sight",
    Row("walrus in a comprehension", WalrusInAComprehension, FIXED),
    Row("walrus in a test", WalrusInATest, FLAT),
    Row("walrus behind or", WalrusBehindOr, EITHER),
    Row("walrus behind and", WalrusBehindAnd, EITHER),
    Row("walrus in nested choices", WalrusInNestedChoices, EITHER),
    Row("walrus behind or, of an elif", WalrusOfAnElif, EITHER),
    Row("walrus behind or, unbound before", WalrusUnboundBefore, EITHER),
    Row("walrus behind or, in a conditional expression", WalrusOfAnExpression, EITHER, None, "# binds by choice"),
    Row("walrus in a loop's test", WalrusInALoop, FLAT),
    Row("match of a sequence", MatchSequence, FLAT),
    Row("match of a mapping in a branch", MatchInABranch, FLAT),
    Row("match of a size", MatchSize, SIZES, ROWS, "# of a size", or_right=True),
    Row("with … as in a branch", WithAs, FLAT),
    Row("with … as in a loop", WithInALoop, SIZES, ROWS),
    Row("import in branches", ImportInABranch, FLAT),
    Row("a name that an import binds", ImportedBehind, FLAT),
    Row("del on one way", DeletedOnOneWay, FLAT),
    Row("except … as", ExceptAs, FLAT),
    Row("targets in tuples", TupleTargets, FLAT),
    Row("an item as target", LoopTargetIsAnItem, SIZES, ROWS, known_gap=REFUSED),
    Row("+= of a list on one way", AugmentedInABranch, FLAT),
    Row("a class in a branch", ClassInABranch, FLAT),
    Row("names of inner scopes", Shadowed, FLAT),
    Row("annotated names", Annotated, EITHER),
    Row("del on one way, and read", DeletedAndRead, FLAT, None, "# is read below"),
    Row("except … as, and read", ExceptUnbinds, FLAT, None, "# unbinds a name"),
)
