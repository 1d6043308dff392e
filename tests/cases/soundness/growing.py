"""Tensors that branches and turns make longer or shorter, and parts of axes that sizes and turns choose."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, ROWS, SIZES, Inputs, Row, drawn, of


class GreedyText(nn.Module):
    """Appends tokens until all texts have ended."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        done = torch.zeros(tokens.shape[0], dtype=torch.bool)
        for _ in range(4):
            token = self.head(self.embedding(tokens).mean(1)).argmax(-1)
            token = torch.where(done, torch.zeros_like(token), token)
            tokens = torch.cat([tokens, token[:, None]], dim=-1)
            done = done | (token == 3)
            if done.all():
                break
        return tokens, done


class Beams(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        tokens, scores = tokens.repeat(3, 1), torch.tensor([0.0, -1e9, -1e9])
        for _ in range(3):
            rows = torch.log_softmax(self.head(self.embedding(tokens).mean(1)), -1)
            scores, best = (scores[:, None] + rows).view(-1).topk(3)
            tokens = torch.cat([tokens[best // 11], (best % 11)[:, None]], 1)
            if (best % 11 == 4).all():
                break
        return tokens, scores


class LongerOrShorter(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.sum() > 0:
            x = torch.cat([x, x[:1]], 0)
        if x.mean() > 0.4:
            x = x[1:]
        return x.sum(0), x * x.shape[0]


class FoundOrNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = []
        for row in x:
            if row.sum() > 0:
                found.append(row)
        return torch.stack(found) if found else torch.zeros(0, 4)


class FoundOrReturned(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for row in x:
            if row.sum() > 0:
                found.append(row)
        if not found:
            return torch.zeros(1, 4), torch.tensor(0)
        return torch.stack(found), torch.tensor(len(found))


class FoundByLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = []
        for row in x:
            if row.sum() > 0:
                found.append(row.sum())
        if len(found) == 0:
            return torch.full((1,), -1.0)
        return torch.stack(found)


class Suppressed(nn.Module):
    """Goes through the rows that data select, and leaves out what is near to one that is kept."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x[:, 0] > 0]
        keep = torch.ones(chosen.shape[0], dtype=torch.bool)
        for i in range(chosen.shape[0]):
            if not keep[i]:
                continue
            near = (chosen[:, 1] - chosen[i, 1]).abs() < 0.5
            near[: i + 1] = False
            keep = keep & ~near
        return chosen[keep]


class WhileTrueReturns(nn.Module):
    def forward(self, mask: Tensor) -> Tensor:
        seed = torch.zeros_like(mask)
        seed[..., 0, :] = mask[..., 0, :]
        while True:
            grown = F.max_pool2d(seed, 3, 1, 1) * mask
            if (grown == seed).all():
                return grown
            seed = grown


class TwoReturns(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.abs() + 0.1
        y, turns = x.clone(), 0
        while True:
            new = 0.5 * (y + x / y)
            turns += 1
            if (new - y).abs().max() < 1e-4:
                return new, torch.tensor(turns)
            if turns >= 6:
                return y, torch.tensor(-1)
            y = new


class WhileNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b = int(x[0, 0].abs() * 20) + 1, int(x[1, 1].abs() * 20) + 1
        while b:
            a, b = b, a % b
        return x * a


class AttributeInTurns(nn.Module):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.step = torch.eye(4) * 0.5

    def forward(self, x: Tensor) -> Tensor:
        state, found = torch.eye(4), []
        for row in x:
            state = self.step @ state
            if row.sum() > 0:
                state = state * 2
            found.append(state)
        return torch.stack(found)


class OverlappingSums(nn.Module):
    def forward(self, frames: Tensor) -> Tensor:
        n = frames.shape[0]
        out = torch.zeros((n - 1) * 2 + 4)
        for i in range(n):
            out[i * 2 : i * 2 + 4] += frames[i]
        return out


class SlidingWindows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        out, count = torch.zeros_like(x), torch.zeros_like(x)
        for i in range(0, height - 8 + 1, 4):
            for j in range(0, width - 8 + 1, 4):
                out[:, :, i : i + 8, j : j + 8] += self.layer(x[:, :, i : i + 8, j : j + 8])
                count[:, :, i : i + 8, j : j + 8] += 1
        return out / count.clamp(min=1)


class EachPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for i in range(x.shape[0] - 1):
            for j in range(x.shape[1] - 1):
                out[i : i + 2, j : j + 2] += x[i : i + 2, j : j + 2] * 2
        return out


class PartlyOutside(nn.Module):
    """Its last windows are shorter, as Python's slices are."""

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for i in range(x.shape[0]):
            found.append(x[i : i + 3].sum(0))
        return torch.stack(found)


class SliceInAnArm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = x[:, 0]
        if x.sum() > 0:
            first = first[:2]
        return first * 2


def _slice(take: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    class Sliced(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return take(x)

    return Sliced


TOKENS: Inputs = tuple(
    (torch.randint(0, 11, sizes, generator=torch.Generator().manual_seed(seed)),)
    for seed, sizes in enumerate(((2, 4), (3, 3), (1, 2), (1, 7)))
)
ONE_TEXT: Inputs = tuple((each[:1],) for (each,) in TOKENS)
NONE: Inputs = (*SIZES, (-drawn(4, 4).abs(),))
"""Inputs of [n, 4], one of them with nothing above 0."""

MASKS: Inputs = tuple(
    ((drawn(1, 1, *sizes, seed=seed) > -0.5).float(),) for seed, sizes in enumerate(((16, 16), (8, 12), (5, 5)))
)
IMAGES: Inputs = tuple((drawn(1, 1, *sizes),) for sizes in ((16, 20), (8, 8), (9, 13), (12, 24)))
FRAMES: Inputs = tuple((drawn(n, 4),) for n in (5, 3, 1, 9))
GRIDS: Inputs = tuple((drawn(*sizes),) for sizes in ((6, 5), (4, 8), (2, 2)))
LONG: Inputs = tuple((drawn(2, n, 3),) for n in (4, 2, 1, 20, 70, 16, 15, 17))
IN_2D = ({2: "h", 3: "w"},)

CASES = (
    *of(
        "branches of other sizes",
        Row("a text that grows until it ends", GreedyText, TOKENS, ({0: "b", 1: "n"},)),
        Row("beams that grow", Beams, ONE_TEXT, COLUMNS),
        Row("longer, and shorter", LongerOrShorter, SIZES, ROWS),
        Row("a list that may be empty", FoundOrNothing, NONE, ROWS),
        Row("a list without elements returns", FoundOrReturned, NONE, ROWS),
        Row("a list of length 0 returns", FoundByLength, NONE, ROWS),
        Row("a loop over rows that data select", Suppressed, NONE, ROWS, or_right=True),
        Row("a loop that ends by a return", WhileTrueReturns, MASKS, IN_2D),
        Row("a loop that ends by either of two returns", TwoReturns, SIZES, ROWS),
        Row("a loop while a number is not 0", WhileNumber, SIZES, ROWS),
        Row("a plain tensor of the model in a loop", AttributeInTurns, SIZES, ROWS),
    ),
    *of(
        "slices by the turn of a loop",
        Row("sums that overlap", OverlappingSums, FRAMES, ROWS),
        Row("windows in both directions", SlidingWindows, IMAGES, IN_2D, or_right=True),
        Row("windows at each place", EachPlace, GRIDS, ({0: "h", 1: "w"},)),
        Row("windows that are partly outside", PartlyOutside, SIZES, ROWS),
    ),
    *of(
        "slices beyond a short axis",
        Row("the last of them", _slice(lambda x: x[:, -16:]), LONG, COLUMNS),
        Row("the first of them", _slice(lambda x: x[:, :16]), LONG, COLUMNS),
        Row("all but the first", _slice(lambda x: x[:, 16:].sum(1)), LONG, COLUMNS),
        Row("all but the last", _slice(lambda x: x[:, :-16].sum(1)), LONG, COLUMNS),
        Row("between two", _slice(lambda x: x[:, 5:18].sum(1)), LONG, COLUMNS),
        Row("between two from the end", _slice(lambda x: x[:, -18:-5].sum(1)), LONG, COLUMNS),
        Row("all but two", _slice(lambda x: x * x[:, 2:].shape[1]), LONG, COLUMNS, or_right=True),
        Row("an arm that takes two", SliceInAnArm, SIZES, ROWS, or_right=True),
        Row("each third", _slice(lambda x: x[:, :16:3]), LONG, COLUMNS),
        Row("of a longer axis", _slice(lambda x: torch.cat([x, x[:, :1]], 1)[:, -16:]), LONG, COLUMNS),
        Row("and a view", _slice(lambda x: x[:, -16:].reshape(2, -1)), LONG, COLUMNS),
        Row("and a product", _slice(lambda x: x[:, -16:] @ x[:, -16:].transpose(1, 2)), LONG, COLUMNS),
        Row("and a write", _slice(lambda x: x.clone().index_fill_(2, torch.tensor([0]), 0.0)[:, :16]), LONG, COLUMNS),
    ),
)
