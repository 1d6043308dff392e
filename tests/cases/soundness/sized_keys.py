"""Dicts and sets that are asked for a dynamic size: caches, and tables of numbers."""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[Any, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in self.cache:  # under a size
            self.cache[n] = torch.tril(torch.ones(n, n))
        return self.cache[n] @ x


class CachedByTuple(Cached):
    def forward(self, x: Tensor) -> Tensor:
        key = (x.shape[0], x.device.type)
        if key not in self.cache:  # under a tuple
            self.cache[key] = torch.tril(torch.ones(x.shape[0], x.shape[0]))
        return self.cache[key] @ x


class CachedByTrial(Cached):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        try:
            mask = self.cache[n]
        except KeyError:
            mask = torch.arange(n)[:, None].float()
            self.cache[n] = mask  # where there is none
        return x * mask


class CachedByDefault(Cached):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        return x * self.cache.setdefault(n, torch.arange(n)[:, None].float())  # by default


class Counted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counts: dict[int, int] = defaultdict(int)
        return x + counts[x.shape[0]]  # makes an entry


class CachedAlone(nn.Module):
    """The cure: one value beside its size."""

    def __init__(self) -> None:
        super().__init__()
        self.size, self.mask = -1, torch.ones(())

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if self.size != n:
            self.size, self.mask = n, torch.tril(torch.ones(n, n))
        return self.mask @ x


class NumberOfASize(nn.Module):
    """A number that is asked for may be equal to a size under which something was put."""

    def forward(self, x: Tensor) -> Tensor:
        found: dict[int, Tensor] = {}
        found[x.shape[0]] = x  # a number later
        if 7 not in found:
            found[7] = x * 2
        return found[7]


class Table(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {2: 0.5, 5: 0.25}.get(x.shape[0], 1.0)


class TableWithout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {3: 0.5, 5: 0.25}[x.shape[0]]


class TableOfShapes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {(n, 4): n + 0.5 for n in range(3, 12)}.get(tuple(x.shape), 9.0)


class TableOfData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {True: 2.0, -1: 3.0, 2.0: 4.0, 1.5: 5.0}.get(x.sum().round().clamp(-3, 3).item(), 9.0)


class TableOfTenths(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        nearly = int(x[0, 0] > 0) / 10 + int(x[0, 1] > 0) * 1e-12
        return x * {0.1: 2.0, 0.0: 3.0, 7: 4.0}.get(nearly, 9.0) * {1: 2.0, 7: 3.0}.get(1 + nearly, 4.0)


class TableOfLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.ReLU(), nn.Sigmoid(), nn.Tanh()))
        self.by_size = {3: self.layers[0], 5: self.layers[1]}

    def forward(self, x: Tensor) -> Tensor:
        return self.by_size.get(x.shape[0], self.layers[2])(x)


class TableOfItsOwn(nn.Module):
    """A dict that looks up in another way than Python's."""

    def forward(self, x: Tensor) -> Tensor:
        return x * Doubled({3: 0.5, 5: 0.25}).get(x.shape[0], 1.0)


class Doubled(dict[int, float]):
    def get(self, key: int, default: Any = None) -> Any:
        return 2 * dict.get(self, key, default)  # of its own


class Kind(IntEnum):
    SINGLE = 1
    PAIR = 2
    FEW = 3


class TableOfKinds(nn.Module):
    """Keys that are equal to whole numbers, and of other types."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        k = {Kind.PAIR: 2.0, np.int64(3): 3.0}.get(n, 5.0) + {Kind.FEW: 0.5}.get(int(x.sum().abs()), 0.0)
        return x * k if n != Kind.SINGLE else x + Kind.FEW * n


class ComparedExactly(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == Fraction(3) else x  # with a fraction


class ListThatChanges(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        functions = [torch.relu, torch.tanh, torch.sigmoid]
        chosen = functions[x.shape[0] % 3]
        functions.reverse()
        return chosen(x)


class ByRemainder(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * (2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0)[-(x.shape[0] % 8)]


class LayerByRemainder(TableOfLayers):
    def forward(self, x: Tensor) -> Tensor:
        return self.layers[x.shape[0] % 3](x)


class FunctionByRemainder(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (torch.relu, lambda y: y * 2, torch.tanh)[x.shape[0] % 3](x)


class InSet(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] in {2, 5}:
            return x * 2
        return x - 1


class InSetOfShapes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if tuple(x.shape) in {(2, 4), (3, 4), (3, 5)} else x - 1


class SetOfSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(x.shape[0])  # into a set
        return x * 2


MORE: Inputs = (*SIZES, (drawn(7, 4, seed=4),), (drawn(1, 4, seed=6),))

CASES = of(
    "what is looked up by a size",
    Row("a cache", Cached, MORE, ROWS, "# under a size"),
    Row("a cache by tuples", CachedByTuple, MORE, ROWS, "# under a tuple"),
    Row("a cache that is tried", CachedByTrial, MORE, ROWS, "# where there is none"),
    Row("a cache with a default", CachedByDefault, MORE, ROWS, "# by default"),
    Row("a dict with a factory", Counted, MORE, ROWS, "# makes an entry"),
    Row("a cache of one value", CachedAlone, MORE, ROWS),
    Row("a number that may be a size", NumberOfASize, MORE, ROWS, "# a number later"),
    Row("a table with a default", Table, MORE, ROWS),
    Row("a table without one", TableWithout, SIZES[:2], ROWS),
    Row("a table of shapes", TableOfShapes, MORE, ROWS),
    Row("a table of what data tell", TableOfData, MORE, ROWS),
    Row("a table of tenths", TableOfTenths, MORE, ROWS),
    Row("a table of layers", TableOfLayers, MORE, ROWS),
    Row("a table that looks up otherwise", TableOfItsOwn, MORE, ROWS, "# of its own"),
    Row("a table of kinds", TableOfKinds, MORE, ROWS),
    Row("a fraction", ComparedExactly, MORE, ROWS, "# with a fraction"),
    Row("a list that changes", ListThatChanges, MORE, ROWS),
    Row("a number by a remainder", ByRemainder, MORE, ROWS),
    Row("a layer by a remainder", LayerByRemainder, MORE, ROWS),
    Row("a function by a remainder", FunctionByRemainder, MORE, ROWS),
    Row("a set", InSet, MORE, ROWS),
    Row("a set of shapes", InSetOfShapes, MORE, ROWS),
    Row("a set of sizes", SetOfSizes, MORE, ROWS, "# into a set"),
)
