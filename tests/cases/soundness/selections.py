"""Selections by masks that are computed again, `x[~mask] += f(x[~mask])`, and by masks that only look alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, drawn, of

ROWS = ({0: "n"}, {0: "n"})

MASKED: Inputs = (
    (drawn(5, 4), torch.tensor([True, False, True, False, False])),
    (drawn(3, 4, seed=1), torch.tensor([False, False, True])),
    (drawn(3, 4, seed=2), torch.tensor([True, True, False])),
    (drawn(4, 4, seed=3, shift=-2.0), torch.tensor([False, False, False, False])),
    (drawn(2, 4, seed=4, shift=2.0), torch.tensor([True, True])),
)
"""Rows and a mask of them: also all, none, and one."""


class Experts(nn.Module):
    """Each side of the mask has a layer of its own."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x.clone()
        text, audio = x[~mask].softmax(1), x[mask].tanh()
        x[~mask] += text
        x[mask] *= audio
        return x


class Losses(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        kept = F.mse_loss(x[~mask].tanh(), x[~mask], reduction="none")
        flat = F.smooth_l1_loss(x.masked_select(x > 0), x.exp().masked_select(x > 0), reduction="sum")
        return kept, flat, F.cosine_similarity(x[torch.logical_not(mask)], x[torch.logical_not(mask)].exp())


class OfBranches(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        if x.sum() > 0:
            y = x[~mask].sum(0)
        else:
            y = x[~mask].exp().sum(0)
        z = x[~mask]
        z += x[~mask].exp()
        return y, z


class OtherMasks(nn.Module):
    """Each of these masks is computed like one before it, of other values."""

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        x, mask = x.clone(), mask.clone()
        first = x[x > 0]
        x.sub_(0.5)
        second = x[x > 0]
        before, hidden = x[~mask], ~mask
        hidden[0] = True
        written = x[hidden]
        mask[0] = ~mask[0]
        return first, second, before, written, x[~mask], x[hidden.view(-1)]


class SizesThatMeet(nn.Module):
    """The masks differ, and select as many rows."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = x.clone()
        y[mask] += x.flip(0)[mask.flip(0)]
        chosen = y[mask]
        chosen.addcmul_(x[~~mask], x.flip(0)[mask.flip(0)])
        return chosen


CASES = (
    *of(
        "masks computed again",
        Row("in place on both sides", Experts, MASKED, ROWS),
        Row("losses", Losses, MASKED, ROWS),
        Row("in branches and behind them", OfBranches, MASKED, ROWS),
        Row("of other values", OtherMasks, MASKED, ROWS),
        Row("in place by another mask", SizesThatMeet, MASKED, ROWS),
    ),
)
