"""Random ops: the distributions, that no two draws are one, and the finding that speaks of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxport import Options, export
from fxport.diagnostics import Log, rules
from tests.running import run_exported

COUNT = 20_000
OPSETS = (21, 23)
"""The last at which ONNX Runtime has the random operators, and one that does without them."""

FAR = 3.0
"""Kolmogorov's distance times sqrt(n), which equal distributions pass by once in 30 million draws."""


@pytest.fixture(autouse=True)
def _seed() -> None:
    """PyTorch's draws are always the same. ONNX Runtime's are not: with a seed all its nodes would draw the same."""
    torch.manual_seed(0)


class Draws(torch.nn.Module):
    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.draw(x)


def drawn(
    draw: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, opset: int = 23, runs: int = 1
) -> list[torch.Tensor]:
    results = run_exported(Draws(draw), [(x,)] * runs, options=Options(opset=opset))
    return [result[0] for result in results]


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two empirical distribution functions, in units in which it has a limit law."""
    a, b = (
        each.double().flatten().mul(1e5).round().sort().values for each in (a, b)
    )  # one value may differ in the last bit
    at = torch.cat((a, b))
    gap = torch.searchsorted(a, at, right=True) / len(a) - torch.searchsorted(b, at, right=True) / len(b)
    return float(gap.abs().max()) * (len(a) * len(b) / (len(a) + len(b))) ** 0.5


DISTRIBUTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: torch.rand(COUNT),
    "rand_double": lambda x: torch.rand(COUNT, dtype=torch.float64),
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(COUNT),
    "randn_like": torch.randn_like,
    "normal": lambda x: torch.normal(x, 2.0),
    "uniform": lambda x: x.clone().uniform_(-1.0, 3.0),
    "exponential": lambda x: x.clone().exponential_(2.0),
    "geometric": lambda x: x.clone().geometric_(0.3),
    "cauchy": lambda x: x.clone().cauchy_(1.0, 2.0),
    "log_normal": lambda x: x.clone().log_normal_(0.5, 0.7),
    "randint": lambda x: torch.randint(-3, 5, (COUNT,)),
    "randint_large": lambda x: torch.randint(2**40, (COUNT,)),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "bernoulli_number": lambda x: x.clone().bernoulli_(0.2),
    "normal_in_place": lambda x: torch.empty(COUNT).normal_(1.0, 2.0),
    "random_in_place": lambda x: x.clone().random_(7),
    "random_between": lambda x: x.clone().random_(-2, to=9),
    "multinomial": lambda x: torch.multinomial(torch.tensor([1.0, 0.0, 3.0, 2.0]), COUNT, replacement=True),
    "poisson": lambda x: torch.poisson(x.abs() * 4),
    "poisson_many": lambda x: torch.poisson(x.abs() * 50 + 10),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 20.0), x.sigmoid()),
    "binomial_many": lambda x: torch.binomial(torch.full_like(x, 500.0), x.sigmoid()),
    "gamma": lambda x: torch.ops.aten._standard_gamma(x.abs() * 3),
    "gamma_double": lambda x: torch.ops.aten._standard_gamma(x.double().abs()),
    "dirichlet": lambda x: torch.ops.aten._sample_dirichlet(x.abs().reshape(-1, 4) + 0.1),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.3, training=True),
    "alpha_dropout": lambda x: torch.nn.functional.alpha_dropout(x, 0.3, training=True),
    "rrelu": lambda x: torch.nn.functional.rrelu(x, 0.1, 0.9, training=True),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution_is_that_of_pytorch(name: str, opset: int) -> None:
    x = torch.randn(COUNT)
    (values,) = drawn(DISTRIBUTIONS[name], x, opset)
    assert distance(values, DISTRIBUTIONS[name](x)) < FAR


def test_distance_sees_a_difference() -> None:
    assert distance(torch.rand(COUNT), torch.rand(COUNT) ** 1.1) > FAR


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("opset", OPSETS)
def test_uniform_halves_are_below_1(dtype: torch.dtype, opset: int) -> None:
    (values,) = drawn(lambda x: torch.rand(COUNT, dtype=dtype), torch.zeros(1), opset)
    assert float(values.min()) >= 0.0
    assert float(values.max()) < 1.0
    assert distance(values, torch.rand(COUNT, dtype=dtype)) < FAR


@pytest.mark.parametrize("opset", OPSETS)
def test_neighbours_are_independent(opset: int) -> None:
    (values,) = drawn(lambda x: torch.randn(COUNT), torch.zeros(1), opset)
    correlation = float((values[1:] * values[:-1]).mean())
    assert abs(correlation) < 5 / COUNT**0.5


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "draw",
    [torch.rand_like, torch.randn_like, torch.bernoulli, lambda x: torch.nn.functional.dropout(x, 0.5)],
    ids=["rand_like", "randn_like", "bernoulli", "dropout"],
)
def test_two_draws_and_two_runs_differ(draw: Callable[[torch.Tensor], torch.Tensor], opset: int) -> None:
    """Equal nodes on equal operands: neither a pass of ours nor one of ONNX Runtime's may make them one."""
    first, second = drawn(lambda x: torch.stack((draw(x), draw(x))), torch.full((100,), 0.5), opset, runs=2)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)


@pytest.mark.parametrize("opset", OPSETS)
def test_permutation(opset: int) -> None:
    (values,) = drawn(lambda x: torch.randperm(200), torch.zeros(1), opset)
    assert not torch.equal(values, torch.arange(200))
    assert torch.equal(values.sort().values, torch.arange(200))


@pytest.mark.parametrize("opset", OPSETS)
def test_multinomial_without_replacement(opset: int) -> None:
    weights = torch.tensor([[1.0, 0.0, 2.0, 3.0], [5.0, 1.0, 1.0, 0.0]]).repeat(500, 1)
    (values,) = drawn(lambda x: torch.multinomial(x, 3), weights, opset)
    assert all(set(row.tolist()) == ({0, 2, 3}, {0, 1, 2})[number % 2] for number, row in enumerate(values))
    first = (values[::2, 0] == 3).float().mean()  # of the weights 1, 2, 3
    assert abs(float(first) - 0.5) < 0.12


def findings(model: torch.nn.Module) -> list[tuple[object, int]]:
    """Op and number of further places of each RandomnessCaptured."""
    log = Log()
    export(model, (torch.randn(2, 3),), log=log)
    return [(f.facts["op"], len(f.related)) for f in log.findings if f.rule is rules.RANDOMNESS_CAPTURED]


def test_each_kind_of_random_op_is_reported_once() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.rand_like(x)
        z = torch.nn.functional.dropout(y, 0.5)
        return torch.nn.functional.dropout(z, 0.5) + torch.randn(3)

    assert findings(Draws(draw)) == [
        ("aten.rand_like.default", 0),
        ("aten.dropout.default", 1),
        ("aten.randn.default", 0),
    ]


def test_place_of_a_random_op() -> None:
    log = Log()
    export(Draws(torch.rand_like), (torch.randn(2, 3),), log=log)
    (found,) = [f for f in log.findings if f.rule is rules.RANDOMNESS_CAPTURED]
    assert found.place is not None
    assert found.place.path.endswith("test_random.py")


def test_what_is_off_is_not_random() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.RReLU(), torch.nn.LSTM(4, 2))
    assert findings(model.eval()) == []
