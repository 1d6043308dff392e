"""Builtins, functions that `forward` makes, errors that it catches and reads behind a short circuit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, ROWS, SIZES, Row, of


class LargestByKey(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        best = max([x[0], x[1] * 2, x[-1] - 1], key=lambda row: row.sum())
        return best + min(x[0, 0], x[-1, 1])


class LargestWritten(nn.Module):
    """The result is one of the two."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        largest = max(y[0], y[1])
        largest += 10  # writes to one of two
        return y


class LargestOfNaN(nn.Module):
    """Python keeps the first where a comparison with NaN is false."""

    def forward(self, x: Tensor) -> Tensor:
        return max(x[1], x[0].log()) + min(x[0].log(), x[2])


class KeyOfData(nn.Module):
    """A truth of the data as a key."""

    def forward(self, x: Tensor) -> Tensor:
        count: dict[bool, int] = {}
        for row in x.unbind(1):
            sign = bool(row.sum() > 0)  # is a key
            count[sign] = count.get(sign, 0) + 1
        return x * len(count)


class FloatOrNumber(nn.Module):
    """A float that is 0 or 1 by the data, and stands for a truth."""

    def forward(self, x: Tensor) -> Tensor:
        some = float(x.mean() > 0)
        if some:
            x = x + 1
        return x * (some or 2)


class MadeInForward(nn.Module):
    @staticmethod
    def above(limit: float, factor: float) -> Callable[[Tensor], Tensor]:
        def check(y: Tensor) -> Tensor:
            if y.sum() > limit:
                return y * factor
            return y

        return check

    def forward(self, x: Tensor) -> Tensor:
        for check in (self.above(0.0, 0.5), self.above(0.5, 0.25)):
            x = check(x)
        return x


class IndexBehindATest(nn.Module):
    """The second operand fails where the first one is false."""

    def forward(self, x: Tensor) -> Tensor:
        i = 0
        while i < x.shape[0] and x[i].sum() > 0:
            i += 1
        return x * i


class TriedBySize(nn.Module):
    """Whether it raises depends on the size."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            return x.reshape(-1, 8).sum(1)  # raises for some sizes
        except RuntimeError:
            return x.sum(1)


class AddedByAll(nn.Module):
    """An attribute and an item that both branches add."""

    def forward(self, x: Tensor) -> Tensor:
        held: dict[str, Tensor] = {}
        if x.sum() > 0:
            held["y"], self.made = x * 2, x + 1
        else:
            held["y"], self.made = x - 1, x * 3
        made = self.made
        del self.made
        return held["y"] + made


class AddedByOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held: dict[str, Tensor] = {}
        if x.sum() > 0:
            held["y"] = x * 2
        return x + len(held)


class Suppressed(nn.Module):
    """Raises or not, by the values."""

    def forward(self, x: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):
            x = torch.linalg.cholesky(x)  # raises for some values
        return x + 1


class OtherErrorCaught(nn.Module):
    """The clause does not catch the error of the check."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            if x.sum() > 1e6:
                raise ValueError("too large")
            return x * 2
        except KeyError:
            return x * 3


class ErrorTold(nn.Module):
    """The clause raises another error: nothing goes on after one."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            places = torch.bincount(x.clamp(min=0).long(), minlength=12)
        except RuntimeError as error:
            if x.dim() > 1:
                raise ValueError("one axis") from error
            raise
        return x + places[:4]


class ErrorToldAndCaught(nn.Module):
    """The error that the clause raises is caught by another one."""

    def scaled(self, x: Tensor) -> Tensor:
        try:
            return x / (1 / x.sum().item())  # tells an error
        except ZeroDivisionError as error:
            raise ValueError("no sum") from error

    def forward(self, x: Tensor) -> Tensor:
        try:
            return self.scaled(x)
        except ValueError:
            return x


class CheckCaught(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            if x.sum() > 0:  # is caught
                raise ValueError("too large")
            return x * 2
        except ValueError:
            return x * 3


class LargestOfTensorAndNumber(nn.Module):
    """A tensor without axes, and a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x * max(x.sum(), 0.5) + min(x.mean(), 1) + max(0, x.amax())


class LargestOfTwoDtypes(nn.Module):
    """The dtype of the result hangs on the data."""

    def forward(self, x: Tensor) -> Tensor:
        return x * max(x.sum(), (x > 0).sum())


class ViewOfAMergedName(nn.Module):
    """A view of what a branch in a branch gives, which is another name of one of two."""

    def forward(self, x: Tensor) -> Tensor:
        y, z = x + 1, x * 2
        if x.sum() > 0:
            if x.mean() > 0.5:
                chosen = y
            else:
                chosen = z
            part = chosen[:2]
        else:
            part = y[1:3]
        part.add_(10)
        return y + z


class SqueezedInABranch(nn.Module):
    """Rank that the number of selected rows decides on, in a branch."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # a rank of the data
            return x[x[:, 0] > 0].squeeze(0).sum(0)
        return x.sum(0)


CASES = (
    *of(
        "builtins",
        Row("max and min by key", LargestByKey, FIXED),
        Row("max that is written to", LargestWritten, FLAT, None, "# writes to one of two"),
        Row("max of NaN", LargestOfNaN, FLAT),
        Row("a truth as a key", KeyOfData, FIXED, None, "# is a key"),
        Row("a float as a truth", FloatOrNumber, FLAT),
        Row("max of a tensor and a number", LargestOfTensorAndNumber, FLAT),
        Row("max of two dtypes", LargestOfTwoDtypes, FLAT),
    ),
    *of(
        "functions and errors",
        Row("functions that forward makes", MadeInForward, FLAT),
        Row("an index behind a test", IndexBehindATest, SIZES, ROWS),
        Row("an error by the size", TriedBySize, SIZES, ROWS, "# raises for some sizes"),
        Row("added by all branches", AddedByAll, FLAT),
        Row("added by one branch", AddedByOne, FLAT),
        Row("suppressed", Suppressed, ((torch.eye(3),), (-torch.eye(3),)), None, "# raises for some values"),
        Row("another error is caught", OtherErrorCaught, FLAT),
        Row("an error that is told", ErrorTold, FLAT),
        Row("an error that is told, and caught", ErrorToldAndCaught, FLAT, None, "# tells an error"),
        Row("a check is caught", CheckCaught, FLAT, None, "# is caught"),
        Row("a view of a merged name", ViewOfAMergedName, FLAT),
        Row("a rank of the data in a branch", SqueezedInABranch, SIZES, ROWS, "# a rank of the data", or_right=True),
    ),
)
"""What stands around calls."""
