"""Sigmoids far below zero are as small in ONNX Runtime as in PyTorch where a logarithm or a quotient shows it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fxport import Options, export
from tests.exporter.test_ir_passes import operators
from tests.fx_passes.test_passes import Forward
from tests.running import assert_same, run_session, session_of

X = torch.tensor([[-85.0, -60.0, -30.0, -18.0, -12.0, -9.0], [-1.0, 0.0, 1.0, 12.0, 18.0, 60.0]])


def focal_loss(x: Tensor) -> Tensor:
    p = x.sigmoid().gather(1, torch.tensor([[0, 1, 2], [3, 4, 5]]))
    return -((1 - p) ** 2) * torch.log(p.clamp(min=1e-37))


SHOWN = {
    "logarithm": lambda x: x.sigmoid().log(),
    "quotient": lambda x: 1 / x.sigmoid(),
    "root": lambda x: x.sigmoid().sqrt(),
    "power": lambda x: x.sigmoid() ** 0.3,
    "logit": lambda x: torch.logit(x[:, :5].sigmoid()),
    "shares": lambda x: (x.sigmoid() / x.sigmoid().sum(1, keepdim=True)).log(),
    "product": lambda x: (x.sigmoid() * 0.5 * x[:, :1].sigmoid()).log(),
    "focal loss": focal_loss,
    "an output itself": lambda x: ((p := x.sigmoid()), p.log()),
    "in a branch": lambda x: torch.cond(x.sum() < 0, lambda p: p.log(), lambda p: 1 / p, (x.sigmoid(),)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SHOWN)
def test_what_shows_small_numbers_gets_them(name: str, dtype: torch.dtype) -> None:
    x, model = X.to(dtype), Forward(SHOWN[name])
    for options in (Options(), Options(optimize=False)):
        program = export(model, (x,), options=options)
        assert_same(run_session(session_of(program), program, (x,)), tree_leaves(model(x)), tol=(1e-5, 0.0))


KEPT = {
    "alone": lambda x: x.sigmoid() * 2 + 1,
    "square": lambda x: x.sigmoid() ** 2,
    "gate": lambda x: x.sigmoid() * x.tanh(),
    "normalized swish": lambda x: nn.functional.rms_norm(nn.functional.silu(x), (6,)),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay_the_faster_operator(name: str) -> None:
    assert operators(export(Forward(KEPT[name]), (X,)))["Exp"] == 0
