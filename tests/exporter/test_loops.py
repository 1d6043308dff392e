"""Python loops over dynamic sizes: kept as scans, and equal to eager PyTorch at every number of turns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fxport import ExportError, export
from fxport.diagnostics import rules
from tests.capture import OLDEST, numbers_of
from tests.running import assert_same, run_exported


class Recurrent(nn.Module):
    """A state from turn to turn, a list of outputs, and the last output after the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = x.new_zeros(x.shape[0], 5)
        outputs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            doubled = h * 2
            outputs.append(doubled)
        return torch.stack(outputs, dim=1), h, doubled


class Writing(nn.Module):
    """Rows written in place, to a view as well, read at `t` and at `t : t + 1`, beside an axis made by None."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros_like(x[:, 0])
        out = torch.zeros(x.shape[0], x.shape[1], 2, 4)
        view = out[:, :, 1]
        for t in range(x.size(1)):
            step = y[..., t, None] * x[:, t : t + 1].squeeze(1)
            total = total + step
            view[:, t] = total
        return out, total


class Backwards(nn.Module):
    """From the end to the start, with a list that is joined by `cat` and had an element before."""

    def forward(self, x: Tensor) -> Tensor:
        h = x[0]
        found = [h[None]]
        for t in range(x.shape[0] - 1, -1, -1):
            h = torch.tanh(h + x[t] * (t + 1))
            found.append(h[None])
        return torch.cat(found, 0)


class Transposed(nn.Module):
    """A weight and its transpose in one turn; the state begins as one element that stands for many."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) / 4)

    def forward(self, x: Tensor) -> Tensor:
        spread = torch.eye(4).expand(x.shape[0], 4, 4)
        found = []
        for t in range(x.shape[1]):
            spread = self.weight @ spread @ self.weight.T + 0.1 * torch.eye(4)
            found.append((spread @ x[:, t, :, None])[..., 0])
        return torch.stack(found, 1)


class Pair(nn.Module):
    """Two loops, the first with two states of which one is a tuple; a branch on a number that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)
        self.scale = 2

    def forward(self, x: Tensor) -> Tensor:
        state = (torch.zeros(x.shape[1], 4), torch.ones(x.shape[1], 4))
        first = []
        for t in range(len(x)):
            state = self.cell(x[t], state)
            value = state[0]
            if self.scale > 1:
                value = value * self.scale
            first.append(value)
        inner = torch.stack(first)
        total = torch.zeros(x.shape[1], 4)
        for t in range(inner.shape[0]):
            total = total * 0.5 + inner[t]
        return total


class Iterated(nn.Module):
    """A loop over the tensor itself, over an axis of it, and over two at once with a number."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = torch.zeros(x.shape[1], 4)
        for row in x:
            first = torch.maximum(first, row)
        second = torch.zeros(x.shape[0], 4)
        for column in x.unbind(1):
            second = second - column
        found = []
        for i, (one, two) in enumerate(zip(x.unbind(dim=1), x.cos().unbind(1), strict=True)):
            found.append(one * i + two)
        return first, second, torch.stack(found)


class Summed(nn.Module):
    """Numbers that tensors are added to and multiplied by, and the sum of a generator."""

    def forward(self, x: Tensor) -> tuple[Tensor | float, Tensor | int, Tensor]:
        total: Tensor | float = 0.0
        product: Tensor | int = 1
        for t in range(x.shape[1]):
            total = total + x[:, t].sum(-1)
            product = product * x[:, t]
        mean = sum(x[:, t].cos() for t in range(x.shape[1])) / x.shape[1]
        return total, product, torch.as_tensor(mean) + sum([x[:, t] > 0 for t in range(x.shape[1])], start=1)


X = torch.arange(24.0).reshape(2, 3, 4).sin()
LONG = torch.arange(80.0).reshape(4, 5, 4).cos()


class Pooling(nn.Module):
    """A mean over as many steps of each row as another tensor tells, and the rows read behind a slice."""

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        means, first = [], []
        for i, length in enumerate(lengths):
            means.append(x[i, :length].std(dim=0))
            first.append(x[:2, :][:, 0] + x[:2, 0] * length)
        for t in range(x.shape[1]):
            first.append(x[:2, t, 1:3].sum(-1, keepdim=True) + x[:2, t])
        return torch.stack(means), torch.stack(first)


class Parts(nn.Module):
    """Parts of sizes that a tensor tells, each brought into another form, joined again; and a list of its numbers."""

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lengths = counts.sum(-1)
        rows = [part.reshape(-1, 2) for part in x.split(lengths.tolist())]
        whole = torch.split(x, lengths.tolist(), dim=0)
        sums = []
        for first, second in counts.tolist():
            sums.append(x[0] * first + second)
        return torch.cat(rows), torch.cat(whole, 0), torch.stack(sums)


class Padded(nn.Module):
    """Parts of sizes that a tensor tells, each padded to the longest, behind and before."""

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        parts = list(x.split(counts.tolist()))
        before = pad_sequence(parts, batch_first=True, padding_value=2.5, padding_side="left")
        return pad_sequence(parts), before


class Placed(nn.Module):
    """Parts of each row written at places that a tensor tells, one read again: a table resized for each picture."""

    def forward(self, x: Tensor, shapes: Tensor) -> Tensor:
        table = torch.arange(64.0).reshape(1, 4, 4, 4).sin()
        out = torch.empty(x.shape)
        for i in range(shapes.shape[0]):
            height, width = shapes[i].tolist()
            torch._check(height > 0)
            torch._check(width > 0)
            torch._check(height * width <= x.shape[1])
            resized = nn.functional.interpolate(table, (height, width), mode="bilinear", antialias=True)
            out[i, : height * width] = resized.reshape(4, height * width).transpose(0, 1)
            out[i, height * width :] = out[i, 0] * 2
        return x + out


class Chunked(nn.Module):
    """Chunks of which the first is as long as the whole, so that there is one: Encodec without a chunk length."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        chunks, sums = [], {}
        for start in range(0, length, length):
            chunks.append(x[:, start : start + length].cumsum(1))
            sums[start] = chunks[-1].sum()
        for end in range(length, 0, -length):
            chunks.append(x[:, :end] * 2)
        return torch.stack(chunks) + sums[0]


GRIDS = torch.tensor([[1, 3], [1, 2]]), torch.tensor([[2, 2], [1, 4], [1, 1], [1, 5]])
COUNTS = torch.tensor([[1, 0], [0, 1]]), torch.tensor([[1, 1], [0, 1], [1, 0]])
LENGTHS = torch.tensor([3, 2]), torch.tensor([2, 5, 3, 4])

CASES = {
    "pooling": (
        Pooling,
        (X, LENGTHS[0]),
        (LONG, LENGTHS[1]),
        {"x": {0: "b", 1: "t"}, "lengths": {0: "b"}},
    ),
    "parts": (Parts, (X, COUNTS[0]), (LONG[:, :3], COUNTS[1]), {"x": {0: "n"}, "counts": {0: "b"}}),
    "padded": (Padded, (LONG[0], torch.tensor([1, 3, 1])), (LONG[1], torch.tensor([4, 0, 1])), None),
    "placed": (Placed, (X, GRIDS[0]), (LONG, GRIDS[1]), {"x": {0: "b", 1: "t"}, "shapes": {0: "b"}}),
    "recurrent": (Recurrent, (X,), (LONG,), {"x": {0: "b", 1: "t"}}),
    "writing": (Writing, (X, X[..., 0]), (LONG, LONG[..., 0]), {"x": {0: "b", 1: "t"}, "y": {0: "b", 1: "t"}}),
    "backwards": (Backwards, (X,), (LONG,), {"x": {0: "t", 1: "b"}}),
    "summed": (Summed, (X,), (LONG,), {"x": {0: "b", 1: "t"}}),
    "transposed": (Transposed, (X,), (LONG,), {"x": {0: "b", 1: "t"}}),
    "iterated": (Iterated, (X,), (LONG,), {"x": {0: "b", 1: "t"}}),
    "pair": (Pair, (X,), (LONG,), {"x": {0: "t", 1: "b"}}),
    "chunked": (Chunked, (X,), (LONG,), {"x": {0: "b", 1: "t"}}),
}


SINCE = {"pooling": (2, 13)}
"""The first PyTorch that traces a row; an older one asks for the value of a number that was read from data."""


@pytest.mark.parametrize("name", CASES)
def test_loop(name: str) -> None:
    if numbers_of(torch.__version__) < SINCE.get(name, OLDEST):
        pytest.skip(f"PyTorch {torch.__version__} cannot trace it")
    torch.manual_seed(0)
    make, example, other, shapes = CASES[name]
    model = make().eval()
    results = run_exported(model, [example, other], dynamic_shapes=shapes)
    for call, result in zip((example, other), results, strict=True):
        expected = model(*(each.clone() for each in call))
        assert_same(result, expected if isinstance(expected, tuple) else (expected,))


def test_function_is_as_it_was() -> None:
    code = Recurrent.forward.__code__
    export(Recurrent().eval(), (X,), dynamic_shapes={"x": {1: "t"}})
    assert Recurrent.forward.__code__ is code


class Numbered(nn.Module):
    """A loop over parts whose turns differ in more than the part: no capture may take one for all."""

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        return torch.cat([part * i for i, part in enumerate(x.split(counts.tolist()))])


def test_parts_are_counted() -> None:
    calls = [(X[..., 0], torch.tensor([1, 1])), (X[..., 0].repeat(3, 1), torch.tensor([2, 3, 1]))]
    results = run_exported(Numbered(), calls, dynamic_shapes={"x": {0: "n"}, "counts": {0: "b"}})
    for call, result in zip(calls, results, strict=True):
        assert_same(result, (Numbered()(*call),))


class Counting(nn.Module):
    """It stops by what it has counted."""

    def forward(self, x: Tensor) -> Tensor:
        h = x[0]
        for t in range(x.shape[0]):
            if t > 1:
                break
            h = h + x[t]
        return h


def test_loop_that_stops_by_its_number() -> None:
    calls = [(X[:2],), (torch.cat([X, X, X]),), (X,)]
    for (x,), result in zip(calls, run_exported(Counting(), calls, dynamic_shapes={"x": {0: "t"}}), strict=True):
        assert_same(result, (Counting()(x),))


class Growing(nn.Module):
    """A loop that is no scan: what it carries grows."""

    def forward(self, x: Tensor) -> Tensor:
        h = x[0]
        for t in range(x.shape[0]):
            h = torch.cat([h, x[t]])
        return h


def test_loop_that_is_no_scan() -> None:
    with pytest.raises(ExportError) as caught:
        export(Growing(), (X,), dynamic_shapes={"x": {0: "t"}})
    assert [f.rule for f in caught.value.log.findings] == [rules.DIMENSION_SPECIALIZED]
