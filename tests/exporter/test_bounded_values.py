"""Layers of experts that count in Python how many tokens each expert has, and other values with a known bound."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported

WIDTH, EXPERTS = 8, 3


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))


class Split(Experts):
    """Tokens in the order of their experts, in as many parts as there are experts."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.gate(x).argmax(-1)
        order = chosen.argsort()
        counts = torch.bincount(chosen, minlength=EXPERTS).tolist()
        parts = [expert(part) for expert, part in zip(self.experts, x[order].split(counts), strict=True)]
        mixed = torch.cat(parts)
        return torch.zeros_like(mixed).index_copy(0, order, mixed)


class Ends(Experts):
    """The best two for each token, and where the tokens of each expert end."""

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        flat = chosen.view(-1)
        order = flat.argsort(stable=True)
        out, start = torch.zeros_like(x), 0
        for i, end in enumerate(flat.bincount(minlength=EXPERTS).cumsum(0).tolist()):
            if start == end:
                continue
            rows = order[start:end] // 2
            made = self.experts[i](x[rows]) * weights.view(-1)[order[start:end]].unsqueeze(-1)
            out.index_add_(0, rows, made)
            start = end
        return out


class Occurring(Experts):
    """Only the experts that are chosen at all."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i in torch.unique(chosen).tolist():
            mask = chosen == i
            out[mask] += self.experts[i](x[mask])
        return out


class Weighed(nn.Module):
    """Sums of weights by remainders; a tensor that is written to has no bound."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        numbers = torch.arange(x.shape[0]) % 3
        sums = torch.bincount(numbers, x[:, 0], minlength=4), torch.bincount(numbers, numbers, minlength=3)
        numbers += 2
        return *sums, torch.bincount(numbers, minlength=3), torch.unique(numbers % 2)


@pytest.mark.parametrize("model", [Split(), Ends(), Occurring(), Weighed()], ids=lambda each: type(each).__name__)
def test_as_many_counts_as_can_be(model: nn.Module) -> None:
    """One token leaves experts without any."""
    torch.manual_seed(0)
    model.load_state_dict({name: torch.randn_like(each) for name, each in model.state_dict().items()})
    calls = [(torch.randn(5, WIDTH),), (torch.randn(1, WIDTH),), (torch.randn(9, WIDTH),)]
    log = Log()
    with torch.no_grad():
        results = run_exported(model.eval(), calls, dynamic_shapes={"x": {0: "n"}}, log=log)
        for call, result in zip(calls, results, strict=True):
            found = model(*call)
            assert_same(result, found if isinstance(found, tuple) else (found,))
    assert [str(finding.message) for finding in log.findings if finding.level is not Level.NOTE] == []
