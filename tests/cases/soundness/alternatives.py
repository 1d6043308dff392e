"""Ask a tensor that data choose for its kind, its attributes, its strides and its identity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, Row, of


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))
        self.other = nn.Parameter(torch.ones(4))


class KindOfOne(Weights):
    def forward(self, x: Tensor) -> Tensor:
        chosen = self.weight if x.sum() > 0 else x
        return x * 2 if isinstance(chosen, nn.Parameter) else x + 1


class KindOfBoth(Weights):
    """Ask what both answer alike, in one place and through a function."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.weight if x.sum() > 0 else self.other
        return x * 2 if type(chosen) is nn.Parameter and isinstance(chosen, Tensor) and is_trained(chosen) else x + 1


def is_trained(weight: Tensor) -> bool:
    return weight.requires_grad and weight.is_leaf and weight.grad_fn is None


class TensorOrNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = x.mean() if x.sum() > 0 else 1.0
        return x * scale if isinstance(scale, Tensor) else x + 3


class GradientOfOne(Weights):
    def forward(self, x: Tensor) -> Tensor:
        chosen = self.weight if x.sum() > 0 else x
        return chosen * 2 if chosen.requires_grad else chosen


class KindBehindALoop(Weights):
    def forward(self, x: Tensor) -> Tensor:
        chosen: Tensor = self.weight
        while chosen.sum() < x.sum():
            chosen = chosen + 1
        return x * 2 if isinstance(chosen, nn.Parameter) else x  # asks for the type


class OwnAttributes(nn.Module):
    """Attributes with a default, of one way or of both, and such as are not there."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x * 1, x * 2
        a.tag, a.size_of_all, b.size_of_all = 5, 4, 4  # type: ignore[attr-defined]
        chosen = a if x.sum() > 0 else b
        y = chosen * getattr(chosen, "tag", 1) + chosen.size_of_all  # type: ignore[attr-defined]
        return y + 1 if hasattr(chosen, "nothing") else y


class AttributeSet(nn.Module):
    """Set an attribute of one of two."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x * 1, x * 2
        chosen = a if x.sum() > 0 else b
        chosen.tag = 3  # type: ignore[attr-defined]  # sets it on one
        return a * getattr(a, "tag", 1) + getattr(b, "tag", 1)


class AttributeSetInABranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a = x * 1
        if x.sum() > 0:  # sets it in a branch
            b = x * 2
            b.tag = 4  # type: ignore[attr-defined]
            a = a + b * b.tag  # type: ignore[attr-defined]
            x.tag = 3  # type: ignore[attr-defined]  # sets it in a branch
        return a * getattr(x, "tag", 1)


class OneOfTwoLargest(nn.Module):
    """`max` gives back one of its arguments."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.sum(), x.abs().max()
        largest = max(a, b)
        return x * 2 if largest is a else x  # asks which


class LargestIsInt(nn.Module):
    """The largest is a tensor or a number, which decides whether ints stay ints."""

    def forward(self, x: Tensor) -> Tensor:
        scale = max(x.sum(), 0) * 2 + 1
        return torch.arange(3) * scale  # ints


class LargestIsTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        largest = max(x.sum(), 0)
        return x * 2 if isinstance(largest, Tensor) else x  # a tensor or a number


class LargestOfFloats(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        ints = x.sum().to(torch.int64)
        return (
            x / max(x.sum(), 1),
            torch.arange(3) * max(x.sum(), 0.5),
            torch.arange(3) * max(ints, 2),
            x * min(ints, 3),
        )


class LargestOfIntAndFloat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.arange(3) * max(x.sum().to(torch.int64), 2.5)  # int or float


class LargestOfHalves(nn.Module):
    """No half is 1e-8."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.half()
        return y / max(y.sum(), 1e-8)  # a half or a float


class LeastOfWays(nn.Module):
    """Time warping: what `min` gives is used up before the next write."""

    def forward(self, x: Tensor) -> Tensor:
        cost = torch.zeros(4, 4)
        for i in range(3):
            for j in range(3):
                cost[i + 1, j + 1] = (x[i] - x[j] * 2).abs() + min(cost[i, j + 1], cost[i + 1, j], cost[i, j])
        return cost


class LargestSoFar(nn.Module):
    """Put what `max` gives in the place of one of its arguments."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        for i in range(3):
            y[i + 1] = max(y[i], y[i + 1] * 2)
        return y


class LargestAfterAWrite(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        largest = max(y[0], y[1] * 2)
        y[0] = largest  # writes to what may be the largest
        return y, largest


class LargestBesideItself(nn.Module):
    """Call forward within forward, between what `max` gives and the write."""

    def forward(self, x: Tensor, again: bool = True) -> tuple[Tensor, Tensor]:
        y = x.clone()
        largest = max(y[0], y[1])
        if again:
            self.forward(x, False)
            y.add_(1)  # writes behind the call of itself
        return y, largest


class LargestIsWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        max(y[0], y[1]).add_(1)  # writes to the largest
        return y


class LargestByNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b = x.sum(), x.abs().max()
        largest = max(a, b)
        return x * 2 if id(largest) == id(a) else x  # asks which


class NumberOfTheObject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b = x * 1, x * 2
        scales = {id(a): 3.0, id(b): 5.0}
        chosen = a if x.sum() > 0 else b
        return chosen * scales[id(chosen)]


class AlwaysNew(nn.Module):
    """A tensor that both ways make has a number of its own."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x * 3 if x.sum() > 0 else x * 2
        return chosen * 2 if id(chosen) == id(x) else chosen


class Strides(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = x @ x.T
        chosen = a.T if x.sum() > 0 else a * 2
        return chosen * chosen.stride(0), chosen[0] * chosen[0].stride(0), chosen if chosen.is_contiguous() else -chosen


class StridesOfBoth(nn.Module):
    """Both ways lie in memory alike, and the tensor of the graph does not."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x @ x.T
        chosen = a.T if x.sum() > 0 else (a * 2).T
        return chosen * chosen.stride(0) * chosen.stride()[1], torch.as_strided(a, (2,), (2,)) + chosen.stride(1)


class StridesOfWhatFollows(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x @ x.T
        chosen = a.T if x.sum() > 0 else a
        y = torch.relu(chosen * 2)
        return y if y.is_contiguous() else -y, chosen.T.contiguous() * chosen.contiguous().stride(0)


class Offset(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        chosen = x[1:] if x.sum() > 0 else x[:3]
        return chosen * (int(chosen.storage_offset()) + 1) + int((chosen * 2).storage_offset())


class ViewOrCopy(nn.Module):
    """Write to what is a view on one way alone."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x @ x.T
        chosen = a.T if x.sum() > 0 else a
        flat = chosen.reshape(-1)
        flat += 1
        return chosen * 1, flat


class StridesBehindALoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x @ x.T
        while y.sum() < 100:
            y = (y + 5).T
        return y if y.is_contiguous() else -y  # asks for strides


class MadeContiguous(nn.Module):
    """As many models do."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.T if x.sum() > 0 else x.T * 2
        if not y.is_contiguous():
            y = y.contiguous()
        return y.view(-1) * y.stride(0)


CASES = of(
    "tensors that data choose",
    Row("the kind of one", KindOfOne, FLAT),
    Row("the kind of both", KindOfBoth, FLAT),
    Row("a tensor or a number", TensorOrNumber, FLAT),
    Row("the gradient of one", GradientOfOne, FLAT),
    Row("the kind behind a loop", KindBehindALoop, FLAT, None, "# asks for the type"),
    Row("attributes of their own", OwnAttributes, FLAT),
    Row("an attribute that is set", AttributeSet, FLAT, None, "# sets it on one"),
    Row("an attribute that a branch sets", AttributeSetInABranch, FLAT, None, "# sets it in a branch"),
    Row("the largest of two", OneOfTwoLargest, FLAT, None, "# asks which"),
    Row("the larger one times ints", LargestIsInt, FLAT, None, "# ints"),
    Row("the kind of the larger one", LargestIsTensor, FLAT, None, "# a tensor or a number"),
    Row("the larger one times floats", LargestOfFloats, FLAT),
    Row("the larger one of an int and a float", LargestOfIntAndFloat, FLAT, None, "# int or float"),
    Row("the larger one of halves", LargestOfHalves, FLAT, None, "# a half or a float"),
    Row("the least of ways", LeastOfWays, FLAT),
    Row("the largest so far", LargestSoFar, FLAT),
    Row("the largest after a write", LargestAfterAWrite, FLAT, None, "# writes to what may be the largest"),
    Row("the largest beside itself", LargestBesideItself, FLAT, None, "# writes behind the call of itself"),
    Row("the largest is written to", LargestIsWritten, FLAT, None, "# writes to the largest"),
    Row("the largest by its number", LargestByNumber, FLAT, None, "# asks which"),
    Row("the number of the object", NumberOfTheObject, FLAT),
    Row("a tensor that is always new", AlwaysNew, FLAT),
    Row("strides", Strides, FIXED),
    Row("strides of both", StridesOfBoth, FIXED),
    Row("strides of what follows", StridesOfWhatFollows, FIXED),
    Row("the offset", Offset, FLAT),
    Row("a view or a copy", ViewOrCopy, FIXED),
    Row("strides behind a loop", StridesBehindALoop, FIXED, None, "# asks for strides"),
    Row("made contiguous", MadeContiguous, FIXED),
)
