"""Half tensors times Python numbers: PyTorch multiplies by the number itself, and rounds the product once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from tests.running import run_session, session_of

X = torch.cat(
    [torch.randn(500, generator=torch.Generator().manual_seed(0)) * 4, torch.tensor([0.5, 0.01, 0.0, 1000.0])]
)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "a product": lambda x: x * 1.0037,
    "a product with a large number": lambda x: x * 1e5,
    "a product from the left": lambda x: 1.0037 * x,
    "a product in place": lambda x: x.clone().mul_(1.0037),
    "a quotient": lambda x: x / 1.0037,
    "a quotient by a small number": lambda x: x / 1e-8,
    "a product with a size": lambda x: x * (x.shape[0] * 0.37),
    "a product with a tensor of one number": lambda x: x * torch.tensor(1e5),
    "a product with a float64": lambda x: x * torch.tensor(1.0037, dtype=torch.float64),
    "a product from the left with a tensor, which is rounded": lambda x: torch.tensor(1.0037) * x,
    "a quotient by a tensor of one number": lambda x: x / torch.tensor(1.0037),
    "a whole quotient by a tensor of one number": lambda x: torch.div(x, torch.tensor(1.0037), rounding_mode="floor"),
    "a sum with a tensor of one number, which is rounded": lambda x: x + torch.tensor(1.0037),
    "a sum, which rounds the number": lambda x: x + 1.0037,
    "a difference": lambda x: 1.0037 - x,
}


class Applied(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_each_bit_is_that_of_eager_pytorch(name: str, dtype: torch.dtype) -> None:
    model, x = Applied(FUNCTIONS[name]), X.to(dtype)
    program = export(model, (x,), dynamic_shapes=({0: "n"},))
    (got,) = run_session(session_of(program), program, (x,))
    assert got.dtype == dtype
    assert torch.equal(got, model(x))


def test_a_number_that_the_type_holds_needs_no_casts() -> None:
    program = export(Applied(lambda x: x * 0.5 / 4), (X.half(),))
    assert [node.op_type for node in program.model.graph] == ["Mul", "Div"]
