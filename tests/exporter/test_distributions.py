"""torch.distributions inside of forward, as a policy or a variational model has them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal, StudentT, kl_divergence
from torch.nn.functional import softplus

from tests.running import assert_same, run_exported


class Policy(nn.Module):
    """Log-probabilities, entropies and means of what an agent may do."""

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, ...]:
        mean, deviation = x[:, :2], softplus(x[:, 2:4])
        policy = Independent(Normal(mean, deviation), 1)
        choice = Categorical(logits=x)
        tail = StudentT(softplus(x[:, 0]) + 2, x[:, 1], softplus(x[:, 2]))
        prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
        return (
            policy.log_prob(action),
            policy.entropy(),
            choice.probs,
            choice.log_prob(x.argmax(-1)),
            tail.variance,
            kl_divergence(Normal(mean, deviation), prior).sum(-1),
        )


def test_distributions() -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(n, 4), torch.randn(n, 2)) for n in (3, 5)]
    checked = Distribution._validate_args
    results = run_exported(Policy(), calls, dynamic_shapes=({0: "b"}, {0: "b"}))
    assert Distribution._validate_args == checked
    for call, result in zip(calls, results, strict=True):
        assert_same(result, Policy()(*call))
