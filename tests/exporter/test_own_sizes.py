"""Loops whose turns each give as much as their own data says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported


class Joined(nn.Module):
    """What is no padding of each sequence, one after the other."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.cat([x[i, :n] * 2 for i, n in enumerate(lengths.tolist())])


class Wide(nn.Module):
    """Along the second axis of what a turn gives, with something carried from turn to turn."""

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        parts, total = [], x.new_zeros(2)
        for row, n in zip(x, lengths, strict=True):
            total = total + row.sum(0)
            parts.append(row[:n].t() + total[:, None])
        return torch.cat(parts, 1), total


class Chosen(nn.Module):
    """Turns that give equally much can still be stacked."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(x.shape[1]) < lengths[0]
        return torch.stack([row[mask] for row in x])


@pytest.mark.parametrize("model", [Joined(), Wide(), Chosen()], ids=lambda each: type(each).__name__)
def test_parts_of_their_own_sizes(model: nn.Module) -> None:
    """Some are of no length, and one is of all."""
    calls = [(torch.randn(len(each), 5, 2), torch.tensor(each)) for each in ([2, 5, 3], [1], [0, 4, 0, 1])]
    log = Log()
    results = run_exported(model, calls, dynamic_shapes={"x": {0: "n"}, "lengths": {0: "n"}}, log=log)
    for call, result in zip(calls, results, strict=True):
        found = model(*call)
        assert_same(result, found if isinstance(found, tuple) else (found,))
    assert all(finding.level is Level.NOTE for finding in log.findings)
