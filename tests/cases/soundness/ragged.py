"""Rows that are written as far as data tell, and parts of different sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class MaskOfLengths(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
        for i, n in enumerate(lengths):
            mask[i, :n] = True
        behind = torch.zeros(x.shape[:2])
        for i in range(len(lengths)):
            behind[i, int(lengths[i]) :] = -1
        return mask, behind


class RowsCutOff(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x.clone()
        for i, n in enumerate(lengths.tolist()):
            x[i, n:] = 0.5
            x[i, :n] = x[i, :n] * 2
        return x


class RowsJoined(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        joined = torch.cat([x[i, :n] for i, n in enumerate(lengths.tolist())])
        return joined, torch.stack([row[:n].mean(0) for row, n in zip(x, lengths, strict=True)])


class CutBoxes(nn.Module):
    def forward(self, image: Tensor, boxes: Tensor) -> Tensor:
        image = image.clone()
        for y, x, h, w in boxes:
            image[:, y : y + h, x : x + w] = 0
        return image


class RowsThroughAView(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x.clone()
        for i, n in enumerate(lengths):
            row = x[i]
            row[:n] = 1
        return x


class PartsReduced(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = x.split(sizes.tolist())
        sums = torch.stack([part.sum(0) for part in parts])
        most = torch.stack([part.max(0).values for part in torch.split(x, sizes.tolist(), 0)])
        return sums, most, torch.cat([part.softmax(0) for part in x.split(sizes.tolist())])


class PartsNumbered(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        return torch.cat([part * i for i, part in enumerate(x.split(sizes.tolist()))])


class PartsCarried(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        total = torch.zeros(3)
        for part in x.split(sizes.tolist()):
            total = total * 0.5 + part.mean(0)
        return total


class PartsPadded(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        one = pad_sequence(x.split(sizes.tolist()), batch_first=True, padding_value=-1.0)
        return one, pad_sequence([part * 2 for part in x.split(sizes.tolist())])


class PartsOfOneSize(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.stack([part.sum(0) for part in x.split(4)]), torch.cat([part.flip(0) for part in x.split(4)])


class PartsStacked(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        parts = x.split(sizes.tolist())
        return torch.stack(parts)  # stacks parts of different sizes


class PartsTransposed(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        parts = [torch.split(each, sizes.tolist()) for each in (x, x.cos(), x.exp())]
        return torch.cat([torch.softmax(q @ k.T, -1) @ v for q, k, v in zip(*parts, strict=True)])


class PartsReturned(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> list[Tensor]:
        return [part * 2 for part in x.split(sizes.tolist())]  # a list of outputs


class PartsPaddedAhead(nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        parts = x.split(sizes.tolist())
        return pad_sequence(parts, padding_side="left")  # pads before each part


class PartsOfOne(nn.Module):
    """Each part has one row, for layers that ask how many there are."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows = torch.cat([F.group_norm(each, 2) for each in x.split(1)])
        columns = [F.avg_pool1d(each.t(), 2).t() * each.sum() for each in x.t().split(1, dim=-1)]
        named = [F.layer_norm(each, (1, 4)) for each in torch.split(x[None], split_size_or_sections=1, dim=1)]
        return rows, torch.cat(columns, 1), torch.cat(named, -2)


LENGTHS: Inputs = tuple(
    (drawn(len(lengths), time, 3, seed=time), torch.tensor(lengths))
    for time, lengths in ((5, (5, 1, 3)), (4, (4,)), (7, (2, 7, 1, 6)), (2, (1, 2)))
)
"""Inputs of [batch, time, 3], and as many lengths."""

SIZES: Inputs = tuple(
    (drawn(sum(sizes), 3, seed=len(sizes)), torch.tensor(sizes)) for sizes in ((2, 1, 3), (4,), (1, 5, 2, 2), (1, 1))
)
"""Inputs of [n, 3], and the sizes of its parts."""

BOXES: Inputs = tuple(
    (drawn(2, height, width, seed=height), torch.tensor(boxes))
    for height, width, boxes in (
        (6, 7, ((0, 1, 2, 3), (3, 3, 2, 2))),
        (5, 4, ((1, 0, 4, 1),)),
        (8, 9, ((0, 0, 1, 1), (6, 6, 5, 5), (2, 3, 0, 4))),
    )
)

BOTH = ({0: "batch", 1: "time"}, {0: "batch"})
PARTS = ({0: "n"}, {0: "parts"})

CASES = (
    *of(
        "rows written as far as data tell",
        Row("a mask of lengths", MaskOfLengths, LENGTHS, BOTH),
        Row("rows cut off", RowsCutOff, LENGTHS, BOTH),
        Row("rows joined", RowsJoined, LENGTHS, BOTH),
        Row("boxes cut out", CutBoxes, BOXES, ({1: "h", 2: "w"}, {0: "boxes"})),
        Row("through a view", RowsThroughAView, LENGTHS, BOTH),
    ),
    *of(
        "parts of different sizes",
        Row("reduced", PartsReduced, SIZES, PARTS),
        Row("numbered", PartsNumbered, SIZES, PARTS),
        Row("carried", PartsCarried, SIZES, PARTS),
        Row("padded", PartsPadded, SIZES, PARTS),
        Row("all but the last of one size", PartsOfOneSize, tuple((drawn(n, 3),) for n in (6, 1, 4, 9)), ROWS),
        Row("of one element", PartsOfOne, tuple((drawn(n, 4),) for n in (5, 2, 7)), ROWS),
        Row("stacked", PartsStacked, SIZES, PARTS, "x.split(sizes.tolist())"),
        Row("several tensors, transposed", PartsTransposed, SIZES, PARTS),
        Row("returned", PartsReturned, SIZES, PARTS, "# a list of outputs"),
        Row("padded before them", PartsPaddedAhead, SIZES, PARTS, "x.split(sizes.tolist())"),
    ),
)
