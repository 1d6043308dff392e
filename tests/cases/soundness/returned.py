"""Objects of a function's own that a branch changes and that the function returns."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Row, of


class ReturnedObject(nn.Module):
    def scaled(self, x: Tensor) -> SimpleNamespace:
        made = SimpleNamespace(value=x * 2)
        if x.sum() > 1e4:  # changes what it returns
            made.value = x * 7
            return made
        return made

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(x).value + 1


class ReturnedList(nn.Module):
    def parts(self, x: Tensor) -> list[Tensor]:
        found = [x * 2]
        if x.sum() > 1e4:  # changes what it returns
            found.append(x * 7)
            return found
        return found

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.parts(x)


class ReadBeforeTheReturn(nn.Module):
    """Return what an object and a list hold, and neither of them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        made, found = SimpleNamespace(value=x * 2), [x * 2]
        if x.sum() > 1e4:
            made.value = x * 7
            found.append(x * 7)
            return found[-1], made.value
        found.append(x * 5)
        return found[-1], made.value


class NewOnEachWay(nn.Module):
    def parts(self, x: Tensor) -> list[Tensor]:
        if x.sum() > 1e4:
            found = [x * 2]
            found[0] = x * 3
            return found
        return [x * 7]

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(self.parts(x))


FLAT = tuple((torch.tensor(values),) for values in ([1.0, 2.0, 3.0], [1e5, 2.0, 3.0], [-1.0, -2.0, 0.5]))

CASES = of(
    "objects that are returned",
    Row("an object that a branch changes", ReturnedObject, FLAT, None, "# changes what it returns"),
    Row("a list that a branch fills", ReturnedList, FLAT, None, "# changes what it returns"),
    Row("what they hold", ReadBeforeTheReturn, FLAT),
    Row("a new one on each way", NewOnEachWay, FLAT),
)
