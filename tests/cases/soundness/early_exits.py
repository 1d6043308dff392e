"""Layers that are left early, and what such models return: each of their ways ends, by a jump or by the last layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))


class OrTheLast(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for number, (layer, head) in enumerate(zip(self.layers, self.heads, strict=True)):
            x = layer(x).relu()
            y = head(x)
            if y.softmax(-1).max() > 0.7 or number == len(self.layers) - 1:
                return y
        raise AssertionError


class OrTheLastAlone(Layers):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[return]  # the last layer returns
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 2 or x.max() > 1:
                return x


class LastFirst(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[return]  # the same
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 2:
                return x, torch.tensor(number)
            if x.max() > 1:
                return x * 2, torch.tensor(number)


class NeverLeft(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
            if x.max() > -9:
                return x
        raise ValueError("no layer is enough")


class OneWayOrAnother(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        raise ValueError("the sum is not positive")


class LeavesAByName(Layers):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if x.max() > 1 and number > 0:
                return {"y": x, "layer": torch.tensor(number)}
        return {"y": x, "layer": torch.tensor(-1)}


class OfItsOwn(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found = {"y": x}
        if x.sum() > 0:
            return found
        return {"y": -x}


class WrittenBehind(nn.Module):
    """A list of the function around is given back on one of the ways: what is added to it is seen there."""

    def forward(self, x: Tensor) -> list[Tensor]:
        given = [x * 2]

        def picked(value: Tensor) -> list[Tensor]:
            made = [value]
            if value.sum() > 0:  # gives what has another name
                return given
            return made

        picked(x).append(x * 5)
        return given


class HeldElsewhere(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = nn.Identity()
        kept.found = {"y": x}  # type: ignore[assignment]  # no module

        def picked() -> dict[str, Tensor]:
            found = kept.found
            if x.sum() > 0:  # gives what an attribute holds
                return found  # type: ignore[return-value]
            return {"y": x + 1}

        picked()["y"] = x * 9
        return kept.found["y"], x


class ReturnsNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def doubled(y: Tensor) -> None:
            if y.sum() > 0:
                return
            y.mul_(2)

        x = x * 1
        doubled(x)
        return x


class NothingOrATensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[return]  # it may be None
        if x.sum() > 0:  # the other way returns None
            return x * 2


INPUTS: Inputs = tuple((drawn(rows, 4, seed=rows) * scale,) for rows, scale in ((4, 1), (1, 0.1), (2, 9), (6, 0.01)))
POSITIVE: Inputs = tuple((drawn(rows, 4, seed=rows).abs(),) for rows in (4, 1, 7))

CASES = of(
    "layers that are left early",
    Row("or the last", OrTheLast, INPUTS, ROWS),
    Row("or the last, and nothing behind it", OrTheLastAlone, INPUTS, ROWS),
    Row("the last asked first", LastFirst, INPUTS, ROWS),
    Row("an error where none is enough", NeverLeft, INPUTS, ROWS),
    Row("an error otherwise", OneWayOrAnother, POSITIVE, ROWS),
    Row("a dict", LeavesAByName, INPUTS, ROWS),
    Row("a dict of the function's own", OfItsOwn, INPUTS, ROWS),
    Row("a list of the function around", WrittenBehind, INPUTS, ROWS, "# gives what has another name"),
    Row("a dict of an attribute", HeldElsewhere, INPUTS, ROWS, "# gives what an attribute holds"),
    Row("a function that returns nothing", ReturnsNothing, INPUTS, ROWS),
    Row("a tensor or nothing", NothingOrATensor, INPUTS, ROWS, "# the other way returns None"),
)
