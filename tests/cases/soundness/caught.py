"""Errors that a model catches: those of the capture are none of its own, and a graph raises none that values decide."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, ROWS, SIZES, Inputs, Row, drawn, of


def _model(function: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    return Model


def factor_or_zeros(x: Tensor) -> Tensor:
    try:
        return torch.linalg.cholesky(x)  # is caught by any clause
    except Exception:  # noqa: BLE001
        return torch.zeros(3, 3)


def inverse_or_itself(x: Tensor) -> Tensor:
    try:
        return torch.inverse(x)  # is caught by a bare clause
    except:  # noqa: E722
        return x * 7


def jittered(x: Tensor) -> Tensor:
    for jitter in (0.0, 1e-6, 1e-4):
        try:
            return torch.linalg.cholesky(x + jitter * torch.eye(3))  # is tried again
        except Exception:  # noqa: BLE001, S110, PERF203
            pass
    return torch.eye(3)


def suppressed(x: Tensor) -> Tensor:
    y = x * 7
    with contextlib.suppress(Exception):
        y = torch.linalg.cholesky(x)  # is suppressed
    return y


def left_by_finally(x: Tensor) -> Tensor:
    y = x * 7
    try:
        y = torch.linalg.cholesky(x)  # is ended by finally
    finally:
        return y  # noqa: B012, SIM107


class Swallowing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        return True


def swallowed(x: Tensor) -> Tensor:
    y = x * 7
    with Swallowing():
        y = torch.linalg.cholesky(x)  # is swallowed
    return y


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    try:
        yield
    except RuntimeError:
        pass


def forgiven(x: Tensor) -> Tensor:
    y = x * 7
    with forgiving():
        y = torch.linalg.cholesky(x)  # is forgiven
    return y


class Timed:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def timed(x: Tensor) -> Tensor:
    with Timed():
        return torch.linalg.cholesky(x @ x.T + torch.eye(3))


def in_memory(x: Tensor) -> Tensor:
    try:
        return torch.from_numpy(x.numpy() * 2)  # has no memory
    except Exception:  # noqa: BLE001
        return x * 7


def best_or_seven(x: Tensor) -> Tensor:
    chosen = x[x[:, 0] > 0]
    try:
        return chosen.max(0).values  # may be of nothing
    except (RuntimeError, IndexError):
        return torch.full((4,), 7.0)


def whole_or_seven(x: Tensor) -> Tensor:
    try:
        factor = int(x.max().item())  # may be of no number
    except (ValueError, OverflowError):
        factor = 7
    return x * factor


def rounded_or_seven(x: Tensor) -> Tensor:
    try:
        factor = round(x.max().item())  # may be the round of no number
    except ValueError:
        factor = 7
    return x * factor


def power_or_seven(x: Tensor) -> Tensor:
    try:
        factor = 0.0 ** x.max().item()  # may be a power of 0
    except ZeroDivisionError:
        factor = 7.0
    return x * factor


def entropy_or_seven(x: Tensor) -> Tensor:
    try:
        return torch.distributions.Categorical(probs=x).entropy()  # may be none of probabilities
    except ValueError:
        return torch.full((3,), 7.0)


def first_or_seven(x: Tensor) -> Tensor:
    chosen = x[x[:, 0] > 0]
    try:
        return chosen[0]  # may have no first
    except IndexError:
        return torch.full((4,), 7.0)


def stacked_or_all(x: Tensor) -> Tensor:
    found = []
    for row in x:
        if row[0] > 0:
            found.append(row)
    try:
        return torch.stack(found)  # may be of an empty list
    except RuntimeError:
        return x * 100


def viewed_or_nothing(x: Tensor) -> Tensor:
    chosen = x[x[:, 0] > 0]
    try:
        return chosen.view(x.shape[0], 4)  # may have other sizes
    except RuntimeError:
        return x * 0


def sum_in_try(x: Tensor) -> Tensor:
    chosen = x[x[:, 0] > 0]
    try:
        return (chosen * 2 + chosen).sum(0)
    except RuntimeError:
        return x[0] * 7


def two_or_all(x: Tensor) -> Tensor:
    y = x.clone()
    try:
        y[x[:, 0] > 0] = torch.ones(2, 4)  # may select another number of rows
    except RuntimeError:
        return x * 7
    return y


def fits_or_not(x: Tensor) -> Tensor:
    fits = True
    try:
        torch.broadcast_shapes(x.shape, (3, 4))  # fits at some sizes
    except RuntimeError:
        fits = False
    return x * 2 if fits else x


def no_key(x: Tensor) -> Tensor:
    table: dict[str, float] = {}
    try:
        return x * table["a"]
    except KeyError:
        return x + 1


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 3
        return x * 2


class AroundABranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        try:
            return self.inner(x)
        except ValueError:
            return x * 7


class AroundALoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        try:
            for row in x:
                h = torch.tanh(h + row)
        except ValueError:
            return x[0]
        return h


class FlagOfABuffer(nn.Module):
    """A branch gives a buffer a new tensor."""

    on: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("on", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.on = torch.tensor(True)
        return self.on.float() + x


class LargeIntegers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 5:
            x = x + 1
        return x * 2


def _positive(scale: float) -> Any:
    return (scale * (torch.eye(3) + 0.3),)


MATRICES: Inputs = (_positive(1.0), _positive(-1.0), _positive(2.0))
NUMBERS: Inputs = tuple((each + 5 * 10**9,) for each in (torch.arange(6).reshape(2, 3), torch.arange(8).reshape(2, 4)))
SELECTED: Inputs = (*SIZES, (-drawn(3, 4).abs() - 0.1,))

CASES = of(
    "errors that the model catches",
    Row("by any clause", _model(factor_or_zeros), MATRICES, None, "# is caught by any clause"),
    Row("by a bare clause", _model(inverse_or_itself), MATRICES, None, "# is caught by a bare clause"),
    Row("to try again", _model(jittered), MATRICES, None, "# is tried again"),
    Row("by suppress", _model(suppressed), MATRICES, None, "# is suppressed"),
    Row("by a return in finally", _model(left_by_finally), MATRICES, None, "# is ended by finally"),
    Row("by a context manager", _model(swallowed), MATRICES, None, "# is swallowed"),
    Row("by a generator's context manager", _model(forgiven), MATRICES, None, "# is forgiven"),
    Row("by none: a context manager that lets errors pass", _model(timed), MATRICES),
    Row("that are of the capture alone", _model(in_memory), MATRICES, None, "# has no memory"),
    Row("of no elements", _model(best_or_seven), SELECTED, ROWS, "# may be of nothing"),
    Row("of a whole number", _model(whole_or_seven), FIXED, None, "# may be of no number"),
    Row("of a rounded number", _model(rounded_or_seven), FIXED, None, "# may be the round of no number"),
    Row("of a power", _model(power_or_seven), FIXED, None, "# may be a power of 0"),
    Row("of a distribution", _model(entropy_or_seven), FIXED, None, "# may be none of probabilities"),
    Row("of no first element", _model(first_or_seven), SELECTED, ROWS, "# may have no first"),
    Row("of an empty list", _model(stacked_or_all), SELECTED, ROWS, "# may be of an empty list"),
    Row("of sizes that do not fit", _model(viewed_or_nothing), SELECTED, ROWS, "# may have other sizes"),
    Row("that cannot occur", _model(sum_in_try), SELECTED, ROWS),
    Row("of as many values as a mask selects", _model(two_or_all), SELECTED, ROWS, "# may select another number"),
    Row("of a size, at the example's alone", _model(fits_or_not), SIZES, ROWS, "# fits at some sizes", or_right=True),
    Row("that Python raises always", _model(no_key), MATRICES),
    Row("around a layer with a branch", AroundABranch, SIZES, ROWS),
    Row("around a loop", AroundALoop, SIZES, ROWS),
    Row("none: a buffer that a branch replaces", FlagOfABuffer, SIZES[:1], None),
    Row("none: large whole numbers", LargeIntegers, NUMBERS, ({1: "n"},)),
)
