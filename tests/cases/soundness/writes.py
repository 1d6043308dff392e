"""Writes in place in branches and behind them: to tensors with several names, and to views."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, ROWS, SIZES, Row, of


def relu_(x: Tensor) -> Tensor:
    """Writes to its argument, as `Tensor.relu_`, and returns it."""
    x[x < 0] = 0.0
    return x


class OtherNames(nn.Module):
    """A name of one tensor or of another, and a name of that: writes to each show in all that it may be."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x + 1, x * 2
        c = a if x.sum() > 0 else b
        d = c if x.mean() > 0.25 else a
        d.mul_(0.5)
        a[0] = 7.0
        c.add_(1)
        return a + b * 10 + c * 100 + d * 1000


class ViewOfNobody(nn.Module):
    """The branches give rows that no name holds."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        row = x[0] if x.sum() > 0 else x[-1]
        x.mul_(2)
        return x + row


class Residual(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        kept = x
        if x.sum() > 0:
            x = relu_(x)
        return x + kept


class InPlaceOnAView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        head, pairs = y[:2], {"tail": y[2:]}
        if x.sum() > 0:
            head.mul_(2)
            pairs["tail"] += 1
        else:
            y.neg_()
        return torch.cat([head, pairs["tail"]]) + y


class ViewsOfViews(nn.Module):
    """Branches and loops within each other, each with views of its own and of those around it."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        left, right = y[:, :2], y[:, 2:].t()
        for t in range(y.shape[0]):
            first = left[t]
            if first.sum() > 0:
                corner = first[:1]
                corner += 1
                if right[0].sum() > 0:
                    right[1] *= 2
                    first -= corner.clone()
            y[0] += right[:, t].sum() * 0.25
        return y + left.sum() + right.sum()


class TransposedInPlace(nn.Module):
    """A view whose axes change after it was made."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        view = y[:2, :3]
        view.t_()
        if x.sum() > 0:  # writes to both
            y.mul_(2)
            view[0] += 1
        return y.sum() + (view * torch.arange(2.0)).sum()


class ReshapedAndWritten(nn.Module):
    """Tensors that get other axes in place, between writes to them and to views of them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        first, same = y[0], y
        y.unsqueeze_(1)
        first.add_(1)
        same[:, 0, 1] = 5
        red, green, *_ = (x / (x.amax(-1) * 2).unsqueeze_(-1)).unbind(-1)
        return y.squeeze_(1), first, red.sub_(green)


class OneNameOrTheOther(nn.Module):
    """Data decides which of two tensors is written to."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x + 1, x - 1
        if x.sum() > 0:
            chosen = a
        else:
            chosen = b
        chosen.mul_(3)
        return a * 10 + b


class SameOrACopy(nn.Module):
    """What is written to is the argument on one way only."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        z = y if x.sum() > 0 else y * 2
        z += 1
        return y + z * 10


class RankOnOneWay(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        if x.sum() > 0:  # decides on the rank
            x.unsqueeze_(0)  # decides on the rank
        return x


class KeptByAllTurns(nn.Module):
    """The loop has a turn for certain, but none of them need change `x`."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        y = x
        for i in range(x.shape[0]):
            if y[i].sum() < -1:
                x = y * 0.5
        y.sub_(0.5)  # may write to x
        return x * 0.5 + y * 0.75


class BufferOfAMask(nn.Module):
    """As many values as data have are copied into buffers: one fills all places."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.zeros(3))
        self.register_buffer("parts", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.buffer.copy_(x[x > 0])
        self.parts[1:].copy_(x[x > 0])
        return self.buffer + self.parts


class TradedByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        a, b = x, x * 2
        for i in range(x.shape[0]):
            if x[i].sum() < 0:
                a, b = b, a
        x.sub_(0.5)  # may write to a or b
        return a * 0.5 + b * 0.75


CHOSEN = tuple(
    (torch.tensor(each),) for each in ([1.0, -1.0, 2.0, 3.0], [-1.0, -1.0, 2.0, -3.0], [1.0, 1.0, 1.0, -1.0])
)
"""Three values, one, and three, are positive."""


class WrittenPart(nn.Module):
    """The parts have sizes that are computed: the end of the first is the start of the second."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        first, second = y.chunk(2) if x.shape[0] > 1 else (y, y)
        first.mul_(2)
        second.sub_(1)
        return y


CASES = (
    *of("in place on parts", Row("halves", WrittenPart, SIZES, ROWS)),
    *of("values that data choose", Row("copied into a buffer", BufferOfAMask, CHOSEN)),
    *of("in place on tensors with other axes", Row("between writes and views", ReshapedAndWritten, SIZES, ROWS)),
    *of(
        "in place in a branch",
        Row("a residual connection", Residual, FLAT),
        Row("through views", InPlaceOnAView, FLAT),
        Row("through views of views", ViewsOfViews, SIZES, ROWS),
        Row("through a view with other axes", TransposedInPlace, FIXED, None, "# writes to both"),
        Row("one of two tensors", OneNameOrTheOther, FLAT),
        Row("the tensor or a copy", SameOrACopy, FLAT),
        Row("the other names", OtherNames, FLAT),
        Row("a view that nothing holds", ViewOfNobody, SIZES, ROWS),
        Row("kept by all turns of a loop", KeptByAllTurns, SIZES, ROWS, "# may write to x"),
        Row("traded by data", TradedByData, SIZES, ROWS, "# may write to a or b"),
        Row("a rank on one way", RankOnOneWay, FLAT, None, "# decides on the rank"),
    ),
)
