"""Tensors beside the weights, whose values are the same in each run: what Python asks of them, and writes to them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, SIZES, Row, drawn, of


class Steps(nn.Module):
    """A schedule that is made in forward, by NumPy and by PyTorch, and looked up step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = [torch.linspace(0.1, 0.9, 20)]

    def forward(self, x: Tensor) -> Tensor:
        noise = np.array(((1 - self.tables[0]) / self.tables[0]) ** 0.5)
        steps = torch.from_numpy(np.linspace(0, 19, 4).round()[::-1].copy()).to(torch.int64)
        levels = torch.cat([torch.tensor(noise)[steps], torch.zeros(1)])
        for step in steps:
            place = int((steps == step).nonzero()[0])
            x = x * levels[place + 1] + (x.relu() if step > 9 else -x) * float(levels[place])
        return x


class Selected(nn.Module):
    """Choose elements of a constant: how many is known."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(10)
        chosen, groups = places[places % 3 == 0], torch.unique(places // 4)
        counts = torch.bincount(places // 5)
        chosen += 1
        return x * chosen.numel() + groups.sum() + counts[0] + len(groups) * chosen[1].item()


class Filled(nn.Module):
    """Constants that forward writes to, by themselves and through views, are none any more."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        made = torch.zeros(4)
        view, other = made.view(2, 2), made.detach()
        known = 2 if made[0] > 0 else 3
        if self.way == "item":
            made[0] = x[0]
        elif self.way == "view":
            view.add_(x.view(2, 2))
        elif self.way == "out":
            torch.add(x, 1, out=made)
        elif self.way == "list":
            torch._foreach_add_([made], [x])
        elif self.way == "data":
            made.data = x * 1
            other = view = made
        return x * known * (5 if other[0] > 0 else 7) * (1 if view.sum() > 0 else 2)


class State(nn.Module):
    """A tensor of the model's that changes with each call, so that a question has other answers."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        known = 2 if self.total[0] > 0 else 3
        self.total += x
        return x * known * (5 if self.total[0] > 0 else 7)


class Cut(nn.Module):
    """A slice of a constant by a size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(9.0)

    def forward(self, x: Tensor) -> Tensor:
        part = self.table[: x.shape[0]]
        return x * part[:, None] * (2 if self.table[1:].max() > 3 else 1)


class Drawn(nn.Module):
    """A draw of the size of a constant, and a question about it: another answer in each run."""

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.rand_like(torch.ones(4)) * 0 + 1
        return x * (2 if drawn[0] > 0.5 else 3)


class Aliased(nn.Module):
    """A state by other names: what gives its argument, and does not say so, included."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.held = [torch.zeros(4)]
        self.register_buffer("buffer", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "buffer":
            self.get_buffer("buffer").add_(x)
            return x * (2 if [self.get_buffer("buffer")][0][0] > 0 else 3)
        alias = {
            "to": lambda t: t.to(x.device, x.dtype),
            "contiguous": lambda t: t.contiguous(),
            "dropout": lambda t: nn.functional.dropout(t, training=False),
            "axes": torch.atleast_1d,
        }[self.way](self.held[0])
        known = 5 if self.held[0][0] > 0 else 7
        alias[1:] = x[1:]
        return (x + self.held[0]) * known * (2 if self.held[0][1] > 0 else 3)


class SelectedOfAState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.zeros(4)]

    def forward(self, x: Tensor) -> Tensor:
        self.held[0].copy_(x)
        chosen = self.held[0][self.held[0] > 0]
        return x * chosen.numel() + chosen.sum()


class NothingSelected(nn.Module):
    """A selection of nothing has its other sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        table = torch.zeros(3, 4)
        rows = table[table[:, 0] > 1]
        return x * rows.shape[-1] + len(rows), (table > 0).nonzero()


class Counting(nn.Module):
    """A number that begins as a constant, and is another one in each iteration of a loop."""

    def forward(self, x: Tensor) -> Tensor:
        total, y = torch.zeros(1), x[0] * 0
        for i in range(x.shape[0]):
            y = y + x[i] * (2 if total[0] > 50 else 3)
            total = total + 1
        return y


class ArrayMadeATensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = torch.zeros(4)
        other = torch.from_numpy(made.numpy())
        other += x  # writes to the first one
        return x + made * 2


class ArrayOfAConstant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = torch.zeros(4)
        array = made.numpy()
        made.copy_(x)  # writes to the array of a constant
        return x * float(array[0])


CASES = of(
    "values of constants",
    Row("a schedule", Steps, FLAT),
    Row("selections of constants", Selected, FLAT),
    *(
        Row(f"a constant that is written to, {way}", lambda way=way: Filled(way), FLAT)
        for way in ("nothing", "item", "view", "out", "list", "data")
    ),
    Row("a tensor that is a state", State, FLAT),
    Row("a slice of a constant", Cut, SIZES, ({0: "n"},), or_right=True),
    Row("a draw like a constant", Drawn, FLAT),
    *(
        Row(f"a state by another name, {way}", lambda way=way: Aliased(way), FLAT, None, "class Aliased", or_right=True)
        for way in ("buffer", "to", "contiguous", "dropout", "axes")
    ),
    Row("a selection of a state", SelectedOfAState, FLAT),
    Row("a selection of nothing", NothingSelected, FLAT),
    Row("a count in a loop", Counting, tuple((drawn(n, 3, seed=n),) for n in (4, 49, 60, 300)), ({0: "n"},)),
    Row("a tensor of an array of a constant", ArrayMadeATensor, FLAT, None, "# writes to the first one"),
    Row("an array of a constant", ArrayOfAConstant, FLAT, None, "# writes to the array of a constant"),
)
