"""Branches in the body of a loop over data, which read rows of tensors by the element of the loop."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, of


class Skip(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(())
        for i in o:
            if k[i]:
                continue
            y = y + x[i].sum()
        return y


class Rows(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for i in o:
            if k[i]:
                out[i] = x[i] * 2
            else:
                out[i] = -x[i]
        return out


class Nms(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        keep = torch.zeros(x.shape[0], dtype=torch.bool)
        dead = k.clone()
        for i in o:
            if dead[i]:
                continue
            keep[i] = True
            dead = dead | ((x - x[i]).abs().sum(1) < 1.5)
        return keep


class Best(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        best = x[0]
        for i in o:
            if x[i].sum() > best.sum():
                best = x[i]
        return best


class Nested(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(3)
        for i in o:
            if k[i]:
                if x[i, 0] > 0:
                    y = y + x[i]
                else:
                    y = y - x[i] * 0.5
        return y


class Number(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(())
        for i in o:
            n = i.item()
            if k[n]:
                y = y + x[n].sum() * n
            else:
                y = y - n
        return y


class Until(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(3)
        for i in o:
            if k[i]:
                break
            y = y + x[i]
        return y


class Negative(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(3)
        for i in o:
            if k[-1 - i]:
                y = y + x[-1 - i]
        return y


class Slice(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        y = x.new_zeros(3)
        for i in o:
            if k[i]:
                y = y + x[: i + 1].sum(0)
        return y


class Outside(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        i = o[0]
        if k[i]:
            return x[i] * 2
        return x[i] - 1


class WriteView(nn.Module):
    def forward(self, x: Tensor, o: Tensor, k: Tensor) -> Tensor:
        x = x * 1
        for i in o:
            if k[i]:
                x[i].mul_(2)
        return x


def _case(rows: int, order: list[int], truths: list[int]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 3, generator=generator), torch.tensor(order), torch.tensor(truths, dtype=torch.bool)


INPUTS: Inputs = (
    _case(5, [2, 0, 4], [0, 1, 0, 0, 1]),
    _case(5, [1, 4, 3, 0], [0, 0, 0, 0, 0]),
    _case(3, [0], [1, 1, 1]),
    _case(4, [3, 3, 2, 2, 1], [0, 1, 0, 1]),
    _case(7, [6, 5, 4, 3, 2, 1, 0], [0, 0, 1, 0, 0, 1, 0]),
    _case(2, [0, 1], [1, 0]),
)
SIZES = ({0: "rows"}, {0: "places"}, {0: "rows"})

CASES = of(
    "branches in loops over data",
    Row("what is skipped", Skip, INPUTS, SIZES),
    Row("rows written either way", Rows, INPUTS, SIZES),
    Row("suppression of what is near", Nms, INPUTS, SIZES),
    Row("the best row", Best, INPUTS, SIZES),
    Row("a branch in a branch", Nested, INPUTS, SIZES),
    Row("numbers of data", Number, INPUTS, SIZES),
    Row("until a row", Until, INPUTS, SIZES),
    Row("from the end", Negative, INPUTS, SIZES),
    Row("parts", Slice, INPUTS, SIZES),
    Row("no loop", Outside, INPUTS, SIZES),
    Row("a row written in place", WriteView, INPUTS, SIZES),
)
