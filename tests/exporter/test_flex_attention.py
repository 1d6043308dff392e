"""flex_attention against eager PyTorch: score functions with captured values, masks by blocks, grouped heads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from fxport import export
from tests.running import assert_same, run_session, session_of


class Attention(nn.Module):
    """Scores with a learned slope for each head, of what is not later; masked by blocks or by the score."""

    def __init__(self, blocks: bool, grouped: bool) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([0.1, -0.2, 0.3, 0.05]))
        self.blocks, self.grouped = blocks, grouped

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        def score(value: Tensor, b: Tensor, head: Tensor, at: Tensor, of: Tensor) -> Tensor:
            sloped = value + self.slope[head] * (at - of)
            return sloped if self.blocks else torch.where(at >= of, sloped, -float("inf"))

        mask = None
        if self.blocks:
            mask = create_block_mask(lambda b, h, at, of: at >= of, None, None, 8, 8, device="cpu")
        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=self.grouped)  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """Eager flex_attention compiles itself, and Dynamo would take one model's function for another's."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("blocks", "grouped"), [(False, False), (True, False), (True, True)])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention(blocks: bool, grouped: bool) -> None:
    model = Attention(blocks, grouped).eval()
    heads = 2 if grouped else 4
    case = (torch.randn(2, 4, 8, 6), torch.randn(2, heads, 8, 6), torch.randn(2, heads, 8, 6))
    with torch.no_grad():
        expected = model(*case)
    torch._dynamo.reset()
    program = export(model, case)
    assert_same(run_session(session_of(program), program, case), [expected])
