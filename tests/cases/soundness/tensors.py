"""What is known of a tensor after a write, `.data`, views and copies, and what the model holds after an export."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, ELSEWHERE, FLAT, ROWS, SIZES, Row, drawn, of


class PlacesMoved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        places = (x > 0.5).nonzero()
        places += 1
        return x.new_zeros(9, 9).index_put((places[:, 0], places[:, 1]), torch.ones(()))


class PlacesOfAMaskThatChanged(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        hit = x > 0
        rows, columns = hit.nonzero(as_tuple=True)
        hit.zero_()
        y = x.clone()
        y[rows, columns] *= 2
        return y + hit.sum()


class PlacesThroughAnAlias(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        hit = x[:, 0] > 0
        alias = hit.view(-1)
        rows = hit.nonzero()[:, 0]
        alias.logical_not_()
        return x[hit].sum(0) * 10 + x[rows].sum(0)


class CountThatChanged(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = (x > 0).sum()
        first = int(count)
        count += 1
        return x * first + int(count)


class DecidedTwice(nn.Module):
    """The same question of the same tensor has another answer after a write."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        if y.sum() > 0:
            y.neg_()
        if y.sum() > 0:
            y.mul_(2)
        return y


class DataSet(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        z = y
        y.data = x * 3
        return y + z


class DataWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        y.data.mul_(2)
        y.detach().add_(1)
        return y


class DataOfAWrittenBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.mul_(0.5).add_(x)
        self.seen.data[0] = 5
        return x * self.seen


class DataOfSharedStorage(nn.Module):
    """The view keeps the storage that the tensor had."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        view = y[1:]
        y.data = x * 3
        y[1] = 100.0
        return y.sum() + view.sum() * 10


class DataOfAnAttribute(nn.Module):
    """A tensor that is no buffer, with a view that keeps its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(4)

    def forward(self, x: Tensor) -> Tensor:
        view = self.table[1:]
        self.table.data = x * 3  # other memory
        self.table[1] = 100.0
        return self.table.sum() + view.sum() * 10


class DataInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        z = y
        if x.sum() > 0:
            y.data = x * 3
        return y + z * 10


class FlattenedTranspose(nn.Module):
    """A view where there is one column, a copy elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        flat = x.t().flatten()
        flat += 1
        return x


class ContiguousWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        y = x.t().contiguous()
        y.mul_(2)
        return x + y.t()


class ReshapedAlways(nn.Module):
    """A view at every size."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        flat = x.reshape(-1)
        flat[0] = 100.0
        return x


class StrideRead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.stride(0) + x.t().is_contiguous()


class AddressRead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.data_ptr() == 0:  # asks for an address
            x = x + 1
        return x * 2


class TriedByValue(nn.Module):
    """`cholesky` fails for some values."""

    def forward(self, x: Tensor) -> Tensor:
        try:  # may fail
            return torch.linalg.cholesky(x)  # may fail
        except torch.linalg.LinAlgError:
            return x


class TriedByACheck(nn.Module):
    """The model's own check raises for some values, and the model goes on."""

    def check(self, x: Tensor) -> Tensor:
        if x.sum() < 0:  # raises for some
            raise ValueError("negative")
        return x.sqrt()

    def forward(self, x: Tensor) -> Tensor:
        x = x.abs() - 0.5
        try:
            return self.check(x)
        except ValueError:
            return x


class TriedByIndex(nn.Module):
    """An index beyond the size is an IndexError."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            return x[x.sum().to(torch.int64)] + x  # may be too far
        except IndexError:
            return x


class TriedByShape(nn.Module):
    """What raises does so whatever the values are."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            y = x.reshape(3, 7)
        except RuntimeError:
            y = x.reshape(2, 2)
        return y + 1


class RankOfTheData(nn.Module):
    """If only one row is chosen, the output has one axis less."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x[:, 0] > 0]
        return chosen.squeeze(0)  # a rank that data decides on


class Aliases(nn.Module):
    """One tensor in a list, a dict, an attribute and a closure."""

    kept: Tensor

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        held, named = [y], {"y": y[0]}
        self.kept = y
        read = lambda: y.sum()  # noqa: E731
        for row in held:
            if row.sum() > 0:
                row.mul_(2)
        if read() > 1:
            self.kept += 1
            named["y"].zero_()
        return held[0] + read() + self.kept


class Default(nn.Module):
    """A default argument and a list of the model that hold tensors of the last call."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {}

    def mean(self, x: Tensor, last: list[Tensor] = []) -> Tensor:  # noqa: B006
        last[:] = [x]
        return last[0].mean()

    def forward(self, x: Tensor) -> Tensor:
        self.cache["x"] = x
        return self.cache["x"] * self.mean(x)


class Remembered(nn.Module):
    """The first call fills a cache, by a key that is a size."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        if n not in self.tables:  # asks for a size
            self.tables[n] = torch.arange(n) * 0.5
        return x + self.tables[n]


def positive(seed: int, sign: float) -> tuple[Tensor]:
    x = drawn(3, 3, seed=seed)
    return (x @ x.T + sign * torch.eye(3),)


NARROW: tuple[tuple[Any, ...], ...] = tuple((drawn(4, n, seed=n),) for n in (3, 1, 2))
"""[4, n]; a transpose of one column is contiguous."""

CASES = (
    *of(
        "knowledge that outlives a write",
        Row("indices that are moved", PlacesMoved, SIZES, ROWS),
        Row("of a mask that is cleared", PlacesOfAMaskThatChanged, SIZES, ROWS),
        Row("through an alias", PlacesThroughAnAlias, SIZES, ROWS),
        Row("a count", CountThatChanged, FLAT),
        Row("a test", DecidedTwice, FLAT),
        Row("a rank", RankOfTheData, SIZES, ROWS, "# a rank that data decides on"),
    ),
    *of(
        "y.data = z",
        Row("beside another name", DataSet, FLAT),
        Row("writes into .data", DataWritten, FLAT),
        Row("in a branch", DataInABranch, FLAT),
        Row("an item of .data after two writes", DataOfAWrittenBuffer, FLAT),
        Row("of shared storage", DataOfSharedStorage, FLAT),
        Row("of an attribute with a view", DataOfAnAttribute, FLAT, None, "# other memory"),
    ),
    *of(
        "views and copies that depend on the size",
        Row("a transpose that is flattened", FlattenedTranspose, NARROW, COLUMNS, or_right=True),
        Row("a contiguous transpose", ContiguousWritten, NARROW, COLUMNS, or_right=True),
        Row("a view at every size", ReshapedAlways, NARROW, COLUMNS),
        Row("strides", StrideRead, NARROW, COLUMNS, or_right=True),
        Row("an address", AddressRead, FLAT, None, "# asks for an address"),
    ),
    *of(
        "try decided by values",
        Row(
            "cholesky",
            TriedByValue,
            (positive(0, 1.0), positive(1, -3.0)),
            None,
            "# may fail",
        ),
        Row("a check", TriedByACheck, FLAT, None, "# raises for some"),
        Row("an index", TriedByIndex, FLAT, None, "# may be too far"),
        Row("a shape", TriedByShape, FLAT),
    ),
    *of(
        "aliases",
        Row("a list, a dict, an attribute, a closure", Aliases, SIZES, ROWS),
    ),
    *of(
        "what is held after an export",
        Row("a default argument, a cache", Default, FLAT),
        Row(
            "a cache by sizes",
            Remembered,
            NARROW,
            COLUMNS,
            "# asks for a size",
            or_right=True,
            known_gap=ELSEWHERE,
        ),
    ),
)
