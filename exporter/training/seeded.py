"""Random ops of PyTorch, drawing from a seed, or from numbers that are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.control_flow.lifting import is_rehearsal
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.training.draws import Draws
from fxport.exporter.training.generator import Known, at_least, key_of, rows_of, uniform

aten = torch.ops.aten

DRAWN_BEFORE = "Draw the numbers before the step and pass them in the batch, or export with rng='native'."

IN_BODY = "it draws random numbers in a branch or a loop, where they do not follow the seed"
BEFORE_BODY = (
    "Draw them before it and use them inside: for a dropout of 0.5, `kept = (torch.rand_like(x) >= 0.5) / 0.5`."
)


class UnseededError(RefusedError, FxportError, ValueError):
    """A random op that cannot draw from a seed. The text says which, and what to do."""

    def __init__(self, op: Any) -> None:
        super().__init__(f"{op} draws random numbers that no seed gives", cure=DRAWN_BEFORE)


class SeededRandom(TorchDispatchMode):
    """While it is on, random ops of PyTorch draw from a seed instead of the global generator.

    It stands below autograd, so gradients are those of the ops themselves. Raises UnseededError for random ops that
    are not in the table.
    """

    supports_higher_order_operators = True
    """Branches and bodies are let through."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that Dynamo works while the mode is on: it finds the parameters that a branch or a body
        reads.
        """
        return True

    def __init__(self, seed: torch.Tensor) -> None:
        super().__init__()
        self.seed = seed
        self.stream = 0
        self.known: Known = {}
        self.draws = Draws()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        if rule is None and _draws(func):
            raise UnseededError(func)
        return func(*args, **(kwargs or {})) if rule is None else rule(self, *args, **(kwargs or {}))

    def next_stream(self) -> int:
        """The number of the next draw. Raises RefusedError in a branch or a loop: how often it draws is not known."""
        if is_rehearsal():
            raise RefusedError(IN_BODY, cure=BEFORE_BODY)
        self.stream += 1
        return self.stream

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        """The next numbers in [0, 1), of the shape of `like`."""
        return self._drawn(uniform, like)

    def at_least(self, like: torch.Tensor, limit: float) -> torch.Tensor:
        """Compute as BOOL where the next numbers are not below a limit."""
        return self._drawn(at_least, like, limit)

    def _drawn(self, draw: Callable[..., torch.Tensor], like: torch.Tensor, *limit: float) -> torch.Tensor:
        stream = self.next_stream()
        rows_of(like, self.known)  # which are no part of what is alike
        key = key_of(self.seed, stream, self.known)
        return self.draws.drawn((draw, *limit), key, like, lambda key: draw(key, like, self.known, *limit))


def _draws(func: Any) -> bool:
    """Return True if an operator always draws random numbers."""
    tags, packet = getattr(func, "tags", ()), getattr(func, "overloadpacket", None)
    return torch.Tag.nondeterministic_seeded in tags and packet not in FOR_DROPOUT


class GivenRandom(SeededRandom):
    """While it is on, random ops take the next of some numbers in [0, 1) that were drawn for them."""

    def __init__(self, numbers: Sequence[torch.Tensor]) -> None:
        super().__init__(torch.tensor(0))
        self.numbers = numbers

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        number = self.next_stream()
        if number > len(self.numbers):
            raise ValueError(f"the step draws more often than the {len(self.numbers)} times that were seen before")
        return self.numbers[number - 1]

    def at_least(self, like: torch.Tensor, limit: float) -> torch.Tensor:
        return self.draw(like) >= limit


class RecordedRandom(SeededRandom):
    """While it is on, random ops draw from the global generator, and `numbers` has what they drew, in [0, 1)."""

    def __init__(self) -> None:
        super().__init__(torch.tensor(0))
        self.numbers: list[torch.Tensor] = []

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        self.numbers.append(torch.rand(like.shape, device=like.device))
        return self.numbers[-1]

    def at_least(self, like: torch.Tensor, limit: float) -> torch.Tensor:
        return self.draw(like) >= limit


def _native_dropout(
    source: SeededRandom, x: torch.Tensor, p: float, train: bool | None = True
) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = source.at_least(x, p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return x * (kept.to(x.dtype) * scale), kept  # the factor is that of the gradient


def _bernoulli(source: SeededRandom, x: torch.Tensor, p: float | None = None, *, generator: Any = None) -> torch.Tensor:
    return (source.draw(x) < (x if p is None else p)).to(x.dtype)


def _bernoulli_(source: SeededRandom, x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    """Ones where native_dropout keeps: PyTorch calls this with 1 - p in its place."""
    return x.copy_(source.at_least(x, 1 - p).to(x.dtype))


def _uniform_(
    source: SeededRandom, x: torch.Tensor, start: float = 0.0, end: float = 1.0, *, generator: Any = None
) -> torch.Tensor:
    return x.copy_(source.draw(x) * (end - start) + start)


def _rand_like(source: SeededRandom, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return source.draw(x).to(dtype or x.dtype)


def _rand(
    source: SeededRandom, size: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    return source.draw(torch.empty(size, device=options.get("device"))).to(dtype or torch.get_default_dtype())


def _normal(source: SeededRandom, like: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958."""
    radius = torch.sqrt(-2 * torch.log1p(-source.draw(like)))
    return radius * torch.cos(2 * math.pi * source.draw(like))


def _normal_(
    source: SeededRandom, x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> torch.Tensor:
    return x.copy_(_normal(source, x) * std + mean)


def _randn_like(source: SeededRandom, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _normal(source, x).to(dtype or x.dtype)


def _randn(
    source: SeededRandom, size: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    return _normal(source, torch.empty(size, device=options.get("device"))).to(dtype or torch.get_default_dtype())


def _randint(
    source: SeededRandom, low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    numbers = source.draw(torch.empty(size, device=options.get("device"))).double()
    return ((numbers * (high - low)).floor() + low).to(dtype or torch.int64)


def _randint_below(source: SeededRandom, high: int, size: Sequence[int], **options: Any) -> torch.Tensor:
    return _randint(source, 0, high, size, **options)


def _randperm(
    source: SeededRandom, n: int, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> torch.Tensor:
    """The order of as many numbers."""
    return source.draw(torch.empty(n, device=device)).argsort().to(dtype or torch.int64)


def _exponential(source: SeededRandom, like: torch.Tensor) -> torch.Tensor:
    return -torch.log1p(-source.draw(like))


def _exponential_(source: SeededRandom, x: torch.Tensor, lambd: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    return x.copy_(_exponential(source, x) / lambd)


def _multinomial(
    source: SeededRandom, x: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> torch.Tensor:
    """With replacement by the running sum; without by a race of exponential clocks, of which the first ones win."""
    if not replacement:
        return (_exponential(source, x) / x).topk(num_samples, largest=False).indices
    shares = x.cumsum(-1) / x.sum(-1, keepdim=True)
    drawn = source.draw(x.new_empty((*x.shape[:-1], num_samples)))
    return (shares[..., None, :-1] <= drawn[..., None]).sum(-1)


def _rrelu_with_noise(
    source: SeededRandom,
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> torch.Tensor:
    """The slope of each negative element is drawn; its gradient reads it from `noise`."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)
    drawn = source.draw(x) * (upper - lower) + lower
    noise.copy_(torch.where(x <= 0, drawn.to(x.dtype), 1.0))
    return x * noise


def _rrelu_with_noise_(source: SeededRandom, x: torch.Tensor, noise: torch.Tensor, *rest: Any) -> torch.Tensor:
    return x.copy_(_rrelu_with_noise(source, x, noise, *rest))


FOR_DROPOUT = frozenset(
    [
        *(aten.scaled_dot_product_attention, aten._scaled_dot_product_flash_attention_for_cpu),
        *(aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu),
    ]
)
"""Operators that draw for their dropout alone, which they leave to `native_dropout` or do not have."""

RULES: Mapping[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli_.float: _bernoulli_,
    aten.uniform_.default: _uniform_,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand_like,
    aten.normal_.default: _normal_,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
    aten.randint.default: _randint_below,
    aten.randint.low: _randint,
    aten.randperm.default: _randperm,
    aten.exponential_.default: _exponential_,
    aten.multinomial.default: _multinomial,
    aten.rrelu_with_noise.default: _rrelu_with_noise,
    aten.rrelu_with_noise_.default: _rrelu_with_noise_,
}
"""Random ops of PyTorch, and how each draws from [0, 1)."""
