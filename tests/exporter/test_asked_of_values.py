"""What forward asks of tensors, sizes and parameters besides values: exact types, and whether they are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.exporter.capture.patches.kinds import Type
from tests.running import session_of

X = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

QUESTIONS: dict[str, Callable[[Any, Tensor], Any]] = {
    "the type of an input": lambda self, x: type(x) is torch.Tensor,
    "the type, compared": lambda self, x: type(x) == torch.Tensor,  # noqa: E721
    "the type as a key": lambda self, x: torch.Tensor in {type(x): 0},
    "the name of the type": lambda self, x: type(x).__name__ == "Tensor",
    "the type of a buffer": lambda self, x: type(self.b) is torch.Tensor,
    "the type of a result": lambda self, x: type(x * 2) is torch.Tensor,
    "the type of a parameter": lambda self, x: type(self.w) is nn.Parameter,
    "the type of a size": lambda self, x: type(x.shape[0]) is int,
    "the type of a size, in a tuple": lambda self, x: type(x.shape[0]) in (int, float),
    "the type of an item": lambda self, x: type(x.sum().item()) is float,
    "the type of a truth value": lambda self, x: type((x.sum() > 0).item()) is bool,
    "a parameter that is trained": lambda self, x: self.w.requires_grad,
    "one that is not": lambda self, x: not self.frozen.requires_grad,
    "all that are trained": lambda self, x: sum(p.numel() for p in self.parameters() if p.requires_grad) == 2,
    "type of a type": lambda self, x: type(nn.Module) is type and isinstance(type(x), type),
    "a type made": lambda self, x: type("Made", (), {"n": 3})().n == 3,
}


class Asking(nn.Module):
    def __init__(self, question: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.question = question
        self.w = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("b", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + (1 if self.question(self, x) else 2)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_eager_pytorch(name: str) -> None:
    model = Asking(QUESTIONS[name])
    assert torch.equal(model(X), X + 1)
    program = export(model, (X,), dynamic_shapes=({0: "n"},))
    (got,) = session_of(program).run(None, {"x": X[:2].numpy()})
    np.testing.assert_allclose(np.asarray(got), X[:2].numpy() + 1)
    assert model.w.requires_grad
    assert "type" not in globals()


def test_the_stand_in_for_type_is_a_type() -> None:
    assert isinstance(int, Type)
    assert issubclass(type, Type)
    assert Type(3) is int
    assert Type[int] == type[int]
