"""Slices and ranges of which data tell the bounds or the step, and what state machines and beams make lists of."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, of


class Bounds(nn.Module):
    def forward(self, x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        i, j = int(a), b.item()
        y = x.clone()
        y[i:j] = 0
        return x[i:j], x[i:], x[:j], x[-j:], y


class EachNth(nn.Module):
    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        n = int(k)
        return x[::n]  # a step from data


class EachNthWritten(nn.Module):
    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        y, n = x.clone(), k.item()
        y[1::n] = 0  # a step from data, written
        return y


class ByNumbers(nn.Module):
    def forward(self, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        n = k.item()
        return x[torch.arange(0, len(x), n)], torch.arange(3, 3 * n + 1, n, dtype=torch.float32)


class NonMaximumSuppression(nn.Module):
    """The intervals, best first, that overlap none before them by more than half; those of low scores are left out."""

    def forward(self, spans: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        likely = scores > 0.3
        spans, scores = spans[likely], scores[likely]
        order = scores.argsort(descending=True)
        spans, scores = spans[order], scores[order]
        low, high = spans.unbind(1)
        shared = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
        keep = torch.ones_like(scores, dtype=torch.bool)
        for j in range(spans.shape[0]):
            if keep[j]:
                keep[j + 1 :] &= shared[j, j + 1 :] < 0.5
        return spans[keep], scores[keep]


def _spans(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    low, length, scores = torch.rand(3, count, generator=generator).unbind()
    return torch.stack([low * 3, low * 3 + length + 0.2], 1), scores


MANY = tuple(_spans(count, seed) for seed, count in enumerate((8, 8, 5, 13, 1)))
SPANS: Inputs = (*MANY, (_spans(4, 9)[0], torch.zeros(4)))


class Voice(nn.Module):
    """Two thresholds: what is on goes off below the lower one, what is off goes on above the upper one."""

    def forward(self, p: Tensor) -> Tensor:
        on, found = False, []
        for i in range(p.shape[0]):
            if on and p[i] < 0.35:
                on = False
            elif not on and p[i] > 0.5:
                on = True
            found.append(on)
        return torch.tensor(found)


class Beam(nn.Module):
    def forward(self, table: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        beams = [(start[None], torch.tensor(0.0))]
        for _ in range(3):
            further = []
            for ids, score in beams:
                best, at = table[ids[-1]].topk(2)
                for i in range(2):
                    further.append((torch.cat([ids, at[i : i + 1]]), score + best[i]))
            beams = sorted(further, key=lambda each: each[1], reverse=True)[:2]
        return beams[0]


class WritesWhatItSorted(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        pairs = sorted([(y[0], y[0].sum()), (y[1], y[1].sum())], key=lambda each: each[1])
        pairs[0][0].add_(1)  # a row of y
        return y, pairs[0][0]


class PlaceReadAgain(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        k, y = i.item(), x.clone()
        for j in range(x.shape[0]):
            row = y[i]
            row += j
            y[i, :2] *= 2
            y[i, 0] += k
        return y, y[i, 1:]


def _rows(*cases: tuple[int, ...]) -> Inputs:
    return tuple(
        (torch.arange(3.0 * n).reshape(n, 3), *(torch.tensor(each) for each in numbers)) for n, *numbers in cases
    )


BOUNDS = _rows((8, 2, 5), (5, 0, 8), (3, 5, 2), (6, -3, -1), (7, 3, 100), (4, 2, 2), (4, -9, 1))
STEPS = _rows((8, 3), (5, 1), (2, 9), (4, 4), (9, 2))
PLACES = _rows((4, 1), (3, 0), (5, 4), (4, -1), (2, -2))
FRAMES: Inputs = tuple(
    (torch.tensor(each),)
    for each in (
        [0.1, 0.6, 0.4, 0.3, 0.9],
        [0.9],
        [0.2, 0.4, 0.45, 0.36],
        [0.51, 0.35, 0.34, 0.5, 0.51, 0.1],
        [float("nan"), 0.6, float("nan"), 0.2],
    )
)
TABLE = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
STARTS: Inputs = tuple((TABLE, torch.tensor(each)) for each in range(5))
PAIRS: Inputs = tuple((torch.tensor(each),) for each in ([[1.0, 2.0], [0.0, 1.0]], [[0.0, 0.0], [3.0, 1.0]]))
N = ({0: "n"}, None)

CASES = of(
    "steps and bounds from data",
    Row("bounds", Bounds, BOUNDS, (*N, None)),
    Row("bounds, fixed", Bounds, tuple(case for case in BOUNDS if len(case[0]) == 4)),
    Row("a step", EachNth, STEPS, N, "# a step from data"),
    Row("a step, written", EachNthWritten, STEPS, N, "# a step from data, written"),
    Row("by numbers", ByNumbers, STEPS, N),
    Row("non-maximum suppression of likely ones", NonMaximumSuppression, SPANS, ({0: "n"}, {0: "n"})),
    Row("a voice with two thresholds", Voice, FRAMES, ({0: "n"},)),
    Row("beams in a list", Beam, STARTS),
    Row("a sorted row that is written to", WritesWhatItSorted, PAIRS, None, "# a row of y"),
    Row("a place that is also read as a number", PlaceReadAgain, PLACES, N),
)
