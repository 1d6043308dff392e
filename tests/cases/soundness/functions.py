"""Functions whose source is missing, ambiguous or not what runs; generators, coroutines and recursion."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, ROWS, SIZES, Row, of

NAMESPACE: dict[str, Any] = {}
exec(
    """
def halved(x):
    return x * 0.5

def lowered(x):
    if x.sum() > 0:
        return x - 1
    return x
""",
    NAMESPACE,
)


class FromExec(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return NAMESPACE["halved"](x)
        return x


class FromExecOnData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        return NAMESPACE["lowered"](y)  # has no source


class Lambdas(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        up, down = (lambda y: y + 1 if y.sum() > 0 else y), (lambda y: y - 1 if y.sum() > 0 else y * 3)  # two lambdas
        return up(x) * 10 + down(x)  # two lambdas


class LambdaArguments(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        both = [part(x) for part in (lambda y: y * 2, lambda y: y + 1)]
        if x.sum() > 0:
            both = [part(both[0]) for part in (lambda y: y * 3, lambda y: y + 4)]
        return both[0] + both[1]


def twice(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Tensor:
        return function(*args, **kwargs) + function(*args, **kwargs)

    return run


class Decorated(nn.Module):
    @twice
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x + 1


def above(limit: float, factor: float) -> Callable[[Tensor], Tensor]:
    def check(x: Tensor) -> Tensor:
        if x.sum() > limit:
            return x * factor
        return x

    return check


class Generated(nn.Module):
    """Two functions of one code, with closures of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = [above(0.0, 2.0), above(1.0, 3.0), functools.partial(scaled, factor=0.5)]

    def forward(self, x: Tensor) -> Tensor:
        for check in self.checks:
            x = check(x)
        return x


def scaled(x: Tensor, factor: float = 2.0, *, add: float = 1.0) -> Tensor:
    if x.sum() > 0:
        return x * factor + add
    return x


class Defaults(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        factor = 3.0

        def inner(y: Tensor, factor: float = factor, *rest: float, add: float = factor * 2) -> Tensor:
            if y.sum() > 0:
                return y * factor + add + sum(rest)
            return y

        factor = 5.0
        return inner(x) + inner(x, 1.0, 2.0, add=4.0) * factor


def parts_of(x: Tensor) -> Iterator[Tensor]:
    for row in x:
        yield row * 2
    yield x.sum(0)


class Generators(nn.Module):
    """A generator on which data does not decide."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for part in parts_of(x):
            total = torch.tanh(total + part)
        return total


def parts_on_data(x: Tensor) -> Generator[Tensor]:
    for row in x:
        if row.sum() > 0:
            yield row


class GeneratorOnData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for part in parts_on_data(x):
            total = torch.tanh(total + part)
        return total


def written_between(x: Tensor) -> Iterator[Tensor]:
    yield x
    if x.sum() > 0:
        x.mul_(2)
        yield from (x, x + 1)


class GeneratorThatWrites(nn.Module):
    """The loop and the generator take turns in writing to one tensor."""

    def forward(self, x: Tensor) -> Tensor:
        x, count = x * 1.0, 0
        for part in written_between(x):
            x -= part * 0.5
            count += 1
        return x * count


class GeneratorLeft(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for part in written_between(x * 1.0):  # leaves a generator
            if part.max() > 1:
                break
            x = x + part
        return x


async def awaited(x: Tensor) -> Tensor:
    if x.sum() > 0:  # a coroutine
        return x * 2
    return x


class Coroutine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            awaited(x).send(None)  # a coroutine
        except StopIteration as done:
            return done.value
        return x


class Recursion(nn.Module):
    """Sizes decide how deep it goes."""

    def halved(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            return x if x.sum() > 0 else -x
        middle = x.shape[0] // 2
        return torch.cat([self.halved(x[:middle]), self.halved(x[middle:]) * 2])

    def forward(self, x: Tensor) -> Tensor:
        return self.halved(x)


class RecursionOnData(nn.Module):
    def halved(self, x: Tensor) -> Tensor:
        if x.abs().sum() > 1:  # data decides how deep it goes
            return self.halved(x * 0.5)  # data decides how deep it goes
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.halved(x) + 1  # data decides how deep it goes


class GeneratorWithin(nn.Module):
    """The function around generators is rewritten, and they are not."""

    def forward(self, x: Tensor) -> Tensor:
        count = 0

        def scaled(y: Tensor) -> Iterator[Tensor]:
            nonlocal count
            for i in range(3):
                count += 1
                yield y * i + count

        @contextlib.contextmanager
        def offset(number: int) -> Iterator[int]:
            yield number + count

        y = torch.zeros(4)
        for row in range(x.shape[0]):
            y = y + x[row]
        with offset(2) as number:
            if x.sum() > 0:
                for each in scaled(y):
                    y = y + each
                y = y * number
        return y + count


class GeneratorAskedInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def numbers() -> Iterator[int]:
            yield from (1, 2, 3)

        left = numbers()
        x = x + next(left)
        if x.sum() > 0:  # asks on one way
            x = x * next(left)
        return x + next(left)


CASES = (
    *of(
        "functions without a source of their own",
        Row("from exec", FromExec, FLAT),
        Row("lambdas as arguments", LambdaArguments, FLAT),
        Row("decorated", Decorated, FLAT),
        Row("made by a function", Generated, FLAT),
        Row("default arguments", Defaults, FLAT),
        Row("from exec, and data decides", FromExecOnData, FLAT, None, "# has no source"),
        Row("two lambdas of one line", Lambdas, FLAT, None, "# two lambdas", or_right=True),
    ),
    *of(
        "generators, coroutines and recursion",
        Row("a generator", Generators, SIZES[:1]),
        Row("a generator of rows", Generators, SIZES, ROWS),
        Row("recursion on sizes", Recursion, FLAT),
        Row("a generator on data", GeneratorOnData, SIZES, ROWS),
        Row("generators in a function", GeneratorWithin, SIZES, ROWS),
        Row("a generator that one arm asks", GeneratorAskedInABranch, FLAT, None, "# asks on one way"),
        Row("a generator that writes", GeneratorThatWrites, FLAT),
        Row("a generator that is left", GeneratorLeft, FLAT, None, "# leaves a generator"),
        Row("a coroutine on data", Coroutine, FLAT, None, "# a coroutine", or_right=True),
        Row("recursion on data", RecursionOnData, FLAT, None, "# data decides how deep it goes"),
    ),
)
