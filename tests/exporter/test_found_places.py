"""Loops over the places where a mask holds, each of which is the number of a module: one If for each place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported

WIDTH, EXPERTS = 8, 3


class Experts(nn.Module):
    """The best two of a few experts for each token; `mix` says how it goes through the experts that are chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.named = nn.ModuleDict({f"expert_{i}": each for i, each in enumerate(self.experts)})

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, WIDTH)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2, -1)
        return self.mix(tokens, weights, F.one_hot(chosen, EXPERTS).permute(2, 1, 0)).view_as(x)

    def mix(self, tokens: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


class Rows(Experts):
    def mix(self, tokens: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        out = torch.zeros_like(tokens)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert in hit:
            rank, row = torch.where(mask[expert].squeeze(0))
            out.index_add_(0, row, self.experts[expert](tokens[row]) * weights[row, rank, None])  # type: ignore[call-overload]
        return out


class Names(Experts):
    def mix(self, tokens: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        out = torch.zeros_like(tokens)
        for expert in (mask.sum(dim=(-1, -2)) > 0).nonzero():
            rank, row = torch.where(mask[expert].squeeze(0))
            made = self.named[f"expert_{expert[0]}"](tokens[row]) * weights[row, rank, None]
            made *= 0.5
            out.index_add_(0, row, made)
        return out


class Numbers(Experts):
    def mix(self, tokens: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        out = torch.zeros_like(tokens)
        for expert in torch.where(mask.sum(dim=(-1, -2)) > 0)[0].tolist():
            rank, row = torch.where(mask[expert])
            if row.shape[0] == 0:
                continue
            out.index_add_(0, row, self.experts[expert](tokens[row]) * weights[row, rank, None])
        return out


class Places(nn.Module):
    """Places of a mask of dynamic size, in a loop that a scan can do."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(())
        for place in (x[:, 0, 0] > 0).nonzero():
            total = total + x[place].sum()
        return total


@pytest.mark.parametrize("model", [Rows(), Names(), Numbers(), Places()], ids=lambda each: type(each).__name__)
def test_each_place_has_its_turn(model: nn.Module) -> None:
    """One token chooses two of three experts, so that a place without a turn is among them."""
    calls = [(torch.randn(2, 5, WIDTH),), (torch.randn(1, 1, WIDTH),), (torch.randn(3, 4, WIDTH),)]
    log = Log()
    with torch.no_grad():
        results = run_exported(model.eval(), calls, dynamic_shapes={"x": {0: "batch", 1: "sequence"}}, log=log)
        for call, result in zip(calls, results, strict=True):
            assert_same(result, (model(*call),))
    assert all(finding.level is Level.NOTE for finding in log.findings)
