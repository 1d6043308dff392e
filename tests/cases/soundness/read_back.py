"""Lists that the turns of a loop fill and read: all elements, some by their numbers, from an inner loop, by a test."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class Attending(nn.Module):
    """A decoder that attends to all of its own states."""

    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for t in range(1, x.shape[0]):
            memory = torch.stack(kept)
            kept.append(torch.tanh((memory @ x[t]).softmax(0) @ memory + x[t]))
        return torch.stack(kept)


class EmptyAtFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        found = torch.zeros_like(x[0])
        for row in x:
            if kept:
                found = torch.cat(kept).reshape(-1, 4).amax(0)
            kept.append(torch.tanh(row - found))
        return torch.stack(kept)


class Orthogonal(nn.Module):
    """Gram and Schmidt."""

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for row in x:
            for other in kept:
                row = row - (row @ other) * other
            kept.append(row / (row.norm() + 1.0))
        return torch.stack(kept)


class OrthogonalAtOnce(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for row in x:
            rest = row - sum((row @ other) * other for other in kept) if kept else row
            kept.append(rest / (rest.norm() + 1.0))
        return torch.stack(kept)


class TwoBefore(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0], x[1]]
        for i in range(2, x.shape[0]):
            kept.append(kept[-1] * 0.5 + kept[i - 2] * 0.25 + x[i])
        return torch.stack(kept)


class BestOfBefore(nn.Module):
    """Dynamic programming over all earlier results."""

    def forward(self, x: Tensor) -> Tensor:
        costs = [x[0].sum()]
        for i in range(1, x.shape[0]):
            best = costs[0] + x[i].sum()
            for j in range(i):
                best = torch.minimum(best, costs[j] + x[i].sum() * (i - j))
            costs.append(best)
        return torch.stack(costs)


class LongestRising(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        lengths: list[Tensor] = []
        for i in range(x.shape[0]):
            longest = torch.ones(())
            for j in range(i):
                if x[j, 0] < x[i, 0]:
                    longest = torch.maximum(longest, lengths[j] + 1)
            lengths.append(longest)
        return torch.stack(lengths)


class FarFromKept(nn.Module):
    """As suppression of what is too near to what was kept."""

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for row in x:
            if all((row - other).abs().sum() > 3.0 for other in kept):
                kept.append(row)
        return torch.stack(kept) * len(kept)


class NearestOfKept(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for row in x[1:]:
            nearest = torch.stack([(row - other).norm() for other in kept]).min()
            if nearest > 1.5:
                kept.append(row * nearest)
        return torch.stack(kept)


class LastThree(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for row in x[1:]:
            kept.append(row + torch.stack(kept[-3:]).mean(0))
        return torch.stack(kept)


class TwoLists(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        means, peaks = [x[0]], [x[0].sum()]
        for row in x[1:]:
            means.append(row + torch.stack(means).mean(0))
            means.append(row - means[-1])
            peaks.append(torch.stack(peaks).max() + means[-1].sum())
        return torch.stack(means), torch.stack(peaks)


class SumsOfRows(nn.Module):
    """The list begins with a number."""

    def forward(self, x: Tensor) -> Tensor:
        sums = [0]
        for row in x:
            sums.append(sums[-1] + row)
        return torch.stack(sums[1:])


class OfNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [1.0, 2.0]
        for row in x:
            kept.append(kept[-1] * 0.5 + float(row.sum()) + kept[-2])
        return x * kept[-1]


class FromInnerLoop(nn.Module):
    """The inner loop reads the last element of a list to which the outer one appends."""

    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for row in x[1:]:
            total = torch.zeros_like(row)
            for other in x:
                total = total * 0.5 + kept[-1] * other
            kept.append(total + row)
        return torch.stack(kept)


class PartsOfFilled(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for row in x:
            kept.append(torch.tanh(row))
        return torch.stack(kept[1:]).sum(0), torch.stack(kept[:-1:2]).sum(0)


class FirstWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0] * 1]
        for row in x[1:]:  # writes to the first
            kept[0].add_(row)
            kept.append(row + torch.stack(kept).mean(0))
        return torch.stack(kept)


class WrittenToLater(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for row in x[1:]:  # writes to what it appended
            made = row + torch.stack(kept).mean(0)
            kept.append(made)
            made.mul_(2)
        return torch.stack(kept)


class WrittenToByName(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = x[0] * 1
        kept = [first]
        for row in x[1:]:  # writes to the first by its name
            first.add_(row)
            kept.append(row + torch.stack(kept).mean(0))
        return torch.stack(kept)


class EachWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0] * 1]
        for row in x[1:]:  # writes to each
            for other in kept:
                other.add_(1)
            kept.append(row)
        return torch.stack(kept)


class EarlierWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0] * 1, x[1] * 2]
        for row in x[2:]:  # writes to the one before
            kept.append(row + kept[-2])
            kept[-2].mul_(2)
        return torch.stack(kept)


class OfDifferentKinds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0].long()]
        for row in x[1:]:  # whole numbers and fractions
            kept.append(row + torch.stack([each.float() for each in kept]).mean(0))
        return torch.stack([each.double() for each in kept])


class LastReplaced(nn.Module):
    """Rows are merged into the last one until one begins anew."""

    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for row in x[1:]:
            if row.sum() > 0:
                kept.append(row)
            else:
                kept[-1] = kept[-1] + row
        return torch.stack(kept)


class Relaxed(nn.Module):
    """Each turn puts other elements in the place of all earlier ones."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept = [x[0] * 0 + 9]
        for i in range(1, x.shape[0]):
            kept.append(kept[0] + x[i])
            for j in range(i):
                kept[j] = torch.minimum(kept[j], kept[i] + x[j])
        return torch.stack(kept), kept[0], kept[-1]


class ReplacedBehind(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for row in x:
            kept.append(row * 2)
        kept[0] = kept[0] * 10
        kept[-1] = kept[-1] - 5
        return torch.stack(kept)


class ReplacedInAnother(nn.Module):
    """A loop puts elements in the place of those that another one has appended."""

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for row in x:
            kept.append(row * 2)
        for i in range(x.shape[0]):
            kept[i] = kept[i] * 3 + kept[0] + i
        return torch.stack(kept)


class WrittenBehindReplaced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for row in x:  # an element is written to
            kept.append(row * 2)
        last = kept[-1]
        kept[0] = kept[0] + 1
        last.mul_(3)
        return torch.stack(kept), last


class NumberAmongTensors(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor | float] = []
        for row in x:  # gets a number later
            kept.append(row.sum())
        kept[0] = 3.0
        return torch.stack([torch.as_tensor(each) for each in kept])


class MadeElsewhere(nn.Module):
    """A list that the rewritten function does not make by a name of its own."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = [x[0]]
        for row in x:  # a list of an object
            self.kept.append(row + torch.stack(self.kept).sum(0))
        return torch.stack(self.kept)


MORE: Inputs = (*SIZES, (drawn(7, 4, seed=4),), (drawn(12, 4, seed=5),))
WITH_ONE: Inputs = (*MORE, (drawn(1, 4, seed=6),))

CASES = of(
    "a list that its loop reads",
    Row("a decoder attends to its states", Attending, WITH_ONE, ROWS),
    Row("a list that is empty in the first turn", EmptyAtFirst, WITH_ONE, ROWS),
    Row("Gram and Schmidt", Orthogonal, WITH_ONE, ROWS),
    Row("Gram and Schmidt at once", OrthogonalAtOnce, WITH_ONE, ROWS),
    Row("two elements before", TwoBefore, MORE, ROWS, or_right=True),
    Row("the best of all before", BestOfBefore, WITH_ONE, ROWS),
    Row("the longest rising sequence", LongestRising, WITH_ONE, ROWS),
    Row("rows that are far from those kept", FarFromKept, WITH_ONE, ROWS),
    Row("the nearest of those kept", NearestOfKept, WITH_ONE, ROWS),
    Row("the last three", LastThree, WITH_ONE, ROWS),
    Row("two lists, one of which grows by two", TwoLists, WITH_ONE, ROWS),
    Row("sums of rows, of which the first is a number", SumsOfRows, WITH_ONE, ROWS),
    Row("a list of numbers", OfNumbers, WITH_ONE, ROWS),
    Row("an inner loop reads the last element", FromInnerLoop, WITH_ONE, ROWS),
    Row("parts of a filled list", PartsOfFilled, MORE, ROWS),
    Row("the first element is written to", FirstWrittenTo, MORE, ROWS, "# writes to the first", or_right=True),
    Row("what was appended is written to", WrittenToLater, MORE, ROWS, "# writes to what it appended"),
    Row("an element is written to by its name", WrittenToByName, MORE, ROWS, "# writes to the first by its name"),
    Row("each element is written to", EachWrittenTo, MORE, ROWS, "# writes to each"),
    Row("an earlier element is written to", EarlierWrittenTo, MORE, ROWS, "# writes to the one before"),
    Row("elements of different kinds", OfDifferentKinds, MORE, ROWS, "# whole numbers and fractions"),
    Row("the last element is replaced, by a test", LastReplaced, WITH_ONE, ROWS),
    Row("all elements are replaced", Relaxed, WITH_ONE, ROWS),
    Row("elements are replaced behind the loop", ReplacedBehind, WITH_ONE, ROWS),
    Row("elements are replaced in another loop", ReplacedInAnother, WITH_ONE, ROWS),
    Row("an element is written to behind that", WrittenBehindReplaced, MORE, ROWS, "# an element is written to"),
    Row("a number in the place of a tensor", NumberAmongTensors, MORE, ROWS, "# gets a number later"),
    Row("a list of an object", MadeElsewhere, MORE, ROWS, "# a list of an object"),
)
