"""Models of many fields as their authors publish them: writes in place, loops, and indices that are computed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases.models import Example, ModelCase


class TextLines(nn.Module):
    """Reads a line of text, with an LSTM over its columns, and drops blanks and repeated letters from the best path."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
            nn.AdaptiveAvgPool2d((1, None)),
        )  # fmt: skip
        self.lstm = nn.LSTM(8, 8, bidirectional=True)
        self.letters = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        columns, _ = self.lstm(self.features(x).squeeze(2).permute(2, 0, 1))
        scores = F.log_softmax(self.letters(columns), -1)
        best = scores.argmax(-1)
        keep = torch.ones_like(best, dtype=torch.bool)
        keep[1:] = best[1:] != best[:-1]
        keep &= best != 0
        return scores, best * keep


def text_lines() -> Example:
    return Example(TextLines(), (torch.randn(2, 1, 16, 40),), {}, ({0: "batch", 3: "width"},))


class Points(nn.Module):
    """Local maxima of a map of scores, the best of them, and the features that lie there."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(1, 8, 8, stride=8)
        self.scores = nn.Conv2d(8, 65, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.features(x)
        scores = F.softmax(self.scores(features), 1)[:, :-1]
        batch, _, height, width = scores.shape
        scores = scores.permute(0, 2, 3, 1).reshape(batch, height, width, 8, 8).permute(0, 1, 3, 2, 4)
        scores = scores.reshape(batch, height * 8, width * 8)
        scores = scores.where(scores == F.max_pool2d(scores[:, None], 9, 1, 4)[:, 0], 0)
        values, places = scores.flatten(1).topk(12)
        points = torch.stack([places % (width * 8), places // (width * 8)], -1).float()
        grid = (points - 3.5) / torch.tensor([width * 8 - 4.5, height * 8 - 4.5])[None] * 2 - 1
        found = F.grid_sample(F.normalize(features, dim=1), grid.view(batch, 1, -1, 2), align_corners=True)
        return points, values, F.normalize(found.reshape(batch, 8, -1), dim=1)


def points() -> Example:
    return Example(Points(), (torch.rand(2, 1, 48, 64),), {}, ({0: "batch", 2: "height", 3: "width"},))


class Beams(nn.Module):
    """Four steps of a beam search, as a loop that reorders what it has so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(12, 8), nn.GRUCell(8, 8), nn.Linear(8, 12)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, width = state.size(0), 3
        state = state.unsqueeze(1).expand(batch, width, 8).reshape(batch * width, 8)
        token = torch.zeros(batch * width, dtype=torch.long)
        score = torch.tensor([0.0, -1e9, -1e9]).repeat(batch)
        tokens = token[:, None]
        for _ in range(4):
            state = self.cell(self.embed(token), state)
            scores = F.log_softmax(self.out(state), -1) + score[:, None]
            score, index = scores.view(batch, -1).topk(width)
            token = (index % 12).view(-1)
            rows = (torch.arange(batch)[:, None] * width + index // 12).view(-1)
            state, tokens, score = state[rows], torch.cat([tokens[rows], token[:, None]], 1), score.view(-1)
        return tokens.view(batch, width, -1), score.view(batch, width)


def beams() -> Example:
    return Example(Beams(), (torch.randn(2, 8),), {}, ({0: "batch"},))


CASES = tuple(ModelCase(build.__name__, build) for build in (text_lines, points, beams))
