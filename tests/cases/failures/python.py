"""Programs that leave the tensors: other libraries, other types, constructs of Python that cannot be captured."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)


class Numpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_numpy(x.detach().numpy().cumsum(0))


class NumpyFunction(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = np.tanh(x)
        return y * 2


class Seeded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return x @ torch.randn(6, 3, generator=generator)


class Rows(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.sin()


class Pair:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class OwnType(nn.Module):
    def forward(self, pair: Pair) -> torch.Tensor:
        return pair.x + 1


class GeneratorOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        return (part * 2 for part in x.unbind(0))


class FunctionOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x * 2
        return y, lambda: y + 1


class SetOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return {x + 1, x * 2}


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] != 8:
            raise ValueError(x.shape[-1])
        return x


class Recursive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.deeper(x)

    def deeper(self, x: torch.Tensor) -> torch.Tensor:
        return self.deeper(x + 1)


class Missing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


class Threaded(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:  # in a thread
        results: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: results.append(x * 2))
        thread.start()
        thread.join()
        return results[0] + 1


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x * 2
        return x


class UsesScripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Scripted())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return self.inner(y)


class ScriptedLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class CopiedScripted(nn.Module):
    """The parameters of a copied TorchScript module are no leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = copy.deepcopy(torch.jit.script(ScriptedLayer()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # of a copied script
        return self.inner(x + 1)


class Compiled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.compile(BranchesInside(), backend="eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


class BranchesInside(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.prod() > 0:
            return x * 2
        return x


class Backward(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        loss = (x * x).sum()
        loss.backward()
        return x.grad


class DataPointer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() % 64:
            x = x.clone()
        return x * 2


CASES = (
    FailureCase(
        "leaves torch for numpy", "numpy", "FXP1004", "torch.from_numpy(«x.detach().numpy()».cumsum(0))", Numpy, (X,)
    ),
    FailureCase("a numpy function", "numpy", "FXP1004", "y = «np.tanh(x)»", NumpyFunction, (X,)),
    FailureCase(
        "a generator of random numbers",
        "generator",
        "FXP1003",
        "return x @ «torch.randn(6, 3, generator=generator)»",
        Seeded,
        (X,),
    ),
    FailureCase(
        "a nested tensor among the inputs",
        "tensor form",
        "FXP1011",
        "«def forward(self, rows: torch.Tensor) -> torch.Tensor:»",
        Rows,
        (torch.nested.nested_tensor([X[:2], X], layout=torch.jagged),),
    ),
    FailureCase(
        "a type that is no container",
        "own type",
        "FXP1011",
        "«def forward(self, pair: Pair) -> torch.Tensor:»",
        OwnType,
        (Pair(X),),
    ),
    FailureCase(
        "a generator as output",
        "output",
        "FXP1011",
        "«return (part * 2 for part in x.unbind(0))»",
        GeneratorOutput,
        (X,),
    ),
    FailureCase("a function as output", "output", "FXP1011", "«return y, lambda: y + 1»", FunctionOutput, (X,)),
    FailureCase("a set as output", "output", "FXP1011", "«return {x + 1, x * 2}»", SetOutput, (X,)),
    FailureCase(
        "an exception of the model's own",
        "exception",
        "FXP1023",
        "«raise ValueError(x.shape[-1])»",
        Raises,
        (X,),
    ),
    FailureCase(
        "endless recursion", "recursion", "FXP1023", "return «self.deeper(x + 1)»", Recursive, (X,), exact=False
    ),
    FailureCase("a part that is missing", "exception", "FXP1023", "return «self.head»(x)", Missing, (X,)),
    FailureCase(
        "a thread", "thread", "FXP1003", "«def forward(self, x: torch.Tensor) -> Any:  # in a thread»", Threaded, (X,)
    ),
    FailureCase("a scripted part", "script", "FXP1003", "return «self.inner(y)»", UsesScripted, (X,)),
    FailureCase(
        "a copied scripted part",
        "script",
        "FXP1003",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # of a copied script»",
        CopiedScripted,
        (X,),
    ),
    FailureCase(
        "a scripted model", "script", "FXP1003", "«if bool(x.sum() > 0):»", lambda: torch.jit.script(Scripted()), (X,)
    ),
    FailureCase("a compiled part", "compile", "FXP1002", "if «x.prod() > 0»:", Compiled, (X,)),
    FailureCase("backward in forward", "backward", "FXP1004", "«loss.backward()»", Backward, (X,)),
    FailureCase("address of the data", "data pointer", "FXP1003", "if «x.data_ptr()» % 64:", DataPointer, (X,)),
)
