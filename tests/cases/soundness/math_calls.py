"""Functions of `math`, of numbers from data."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, of


class OfFloats(nn.Module):
    def forward(self, p: Tensor, q: Tensor) -> Tensor:
        a, b = p.item(), q.item()
        found = [math.asinh(a), math.cbrt(a), *math.modf(a), math.ldexp(a, 3), *math.frexp(a)]
        found += [math.copysign(1.0, a), math.hypot(a, b, 1.0), math.dist((a, b), (1.0, 2.0)), math.radians(a)]
        return torch.tensor([*found, float(math.isclose(a, b))], dtype=torch.float64)


class OfSome(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        a = p.item()
        found = [math.log1p(a), math.expm1(a), math.exp2(a), math.acosh(a + 1), math.log(a + 2, a + 3)]
        return torch.tensor([*found, math.atanh(a / 8)], dtype=torch.float64)


class OfWhole(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        k = n.item()
        found = [math.comb(k, 2), math.comb(k, 3), math.perm(k, 2), math.factorial(k), math.prod([k, k, 2])]
        return torch.tensor([*found, int(math.cbrt(k**3)), int(math.ldexp(1.5, k))])


class OfALine(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        a = p.item()
        y = math.sin(a)
        y += math.cos(a)
        y += math.tan(a)
        y += math.asin(a)
        y += math.acos(a)
        y += math.atan(a)
        y += math.sinh(a)
        y += math.cosh(a)
        y += math.tanh(a)
        y += math.exp(a)
        y += math.sqrt(a)
        y += math.log1p(a)
        y += math.expm1(a)
        y += math.erf(a)
        return torch.tensor(y)


class OfTensors(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return p + math.sin(p) + math.floor(p) + math.hypot(p, 2.0)


class Products(nn.Module):
    def forward(self, v: Tensor) -> Tensor:
        return torch.tensor(math.prod(v.tolist()))


class RoundedOnce(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return torch.tensor(math.fsum([p.item(), 1.0, -1e16]))  # a sum without rounding


class Neighbours(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return torch.tensor(math.nextafter(p.item(), 2.0))  # the next float


class OfBoth(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        return torch.tensor(math.comb(n.item() + 3, n.item()))  # both from data


class Caught(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        try:
            return torch.tensor(math.acosh(p.item()))  # an error that is caught
        except ValueError:
            return torch.tensor(-1.0)


def _pairs(*pairs: tuple[float, float]) -> Inputs:
    return tuple(tuple(torch.tensor(each, dtype=torch.float64) for each in pair) for pair in pairs)


FLOATS = _pairs(
    (1.5, 2.0), (0.25, -0.5), (-0.0, 1.0), (3e3, -3.0), (0.0, -0.0), (-27.0, 0.3), (1e-9, 1e9), (64.0, 64.0)
)
EDGES = _pairs((float("nan"), 1.0), (float("inf"), -2.0), (float("-inf"), 0.0), (5e-324, 1.0), (1e300, 1e300))
SOME: Inputs = tuple((torch.tensor(n, dtype=torch.float64),) for n in (0.5, 0.0, 3.0, 1e-12, 7.5))
UNIT: Inputs = tuple((torch.tensor(n),) for n in (0.5, 0.0, 1.0, 0.25, 0.875))
WHOLE: Inputs = tuple((torch.tensor(n),) for n in (5, 0, 1, 2, 20))
LISTS: Inputs = tuple((torch.tensor(each),) for each in ([2, 3, 4], [5], [1, -1], [0, 7, 2, 9], [3, 3]))

CASES = of(
    "functions of math",
    Row("of floats", OfFloats, FLOATS),
    Row("of floats at the edges", OfFloats, EDGES[3:] + FLOATS[:3]),
    Row("of floats, NaN and infinity", OfFloats, (FLOATS[0], *EDGES[:3])),
    Row("of some floats", OfSome, SOME),
    Row("of whole numbers", OfWhole, WHOLE),
    Row("fourteen lines", OfALine, UNIT),
    Row("of tensors", OfTensors, UNIT),
    Row("a product of a list", Products, LISTS, ({0: "n"},)),
    Row("a sum without rounding", RoundedOnce, UNIT, None, "# a sum without rounding"),
    Row("the next float", Neighbours, UNIT, None, "# the next float"),
    Row("subsets of both", OfBoth, WHOLE, None, "# both from data"),
    Row("an error that is caught", Caught, UNIT, None, "# an error that is caught"),
)
