"""Every ONNX pass sees what stands in the branches of an If as it sees the main graph: the same nodes are left."""

from __future__ import annotations

import copy
from collections import Counter

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from fxport import OnnxProgram, export
from fxport.exporter.lowering.ir_passes import pipeline
from fxport.exporter.lowering.lower import folding
from fxport.fx_passes.weight_folds import Folds
from tests.running import assert_same, run_session, session_of


class Normalized(nn.Module):
    """FoldBatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4)
        self.norm(torch.randn(5, 4))  # statistics that are not those of initialization

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class Flattened(nn.Module):
    """UnflattenProducts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, 8), self.weight).reshape(*x.shape[:-1], 5).relu()


class Transposed(nn.Module):
    """TransposedProducts."""

    def forward(self, x: Tensor) -> Tensor:
        return (x[0] @ x[1].mT).relu()


class Turned(nn.Module):
    """FuseRotary, and FoldConstants."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x[:, None] * torch.ones(2, 1, 1)
        angles = torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
        table = torch.cat([angles, angles], -1)[None].expand(x.shape[0], -1, -1) + x[:, :, :1] * 0
        cos, sin = table.cos()[:, None], table.sin()[:, None]
        return heads * cos + torch.cat([-heads[..., 4:], heads[..., :4]], -1) * sin


class Divided(nn.Module):
    """MoveScalars; the scalar that moves is computed behind what is scaled."""

    def forward(self, x: Tensor) -> Tensor:
        by = x.mean()
        return x.exp() * by.exp() / (x.cosh() / by.cos() + by.sigmoid())


class Arranged(nn.Module):
    """FoldArrangements, and FoldTransposes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.randn(8, 4)), nn.Parameter(torch.randn(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.cat([self.one, self.other], 1)


class Branch(nn.Module):
    """The inner model as a branch; the other branch is half of a copy of it, of weights of its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.other = inner, copy.deepcopy(inner)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: self.inner(a), lambda a: self.other(a) * 0.5, (x,))


def operators(graph: ir.Graph) -> Counter[str]:
    return Counter(node.op_type for node in graph)


def then(program: OnnxProgram) -> ir.Graph:
    (node,) = [node for node in program.model.graph if node.op_type == "If"]
    return node.attributes["then_branch"].as_graph()


MODELS = (Normalized, Flattened, Transposed, Turned, Divided, Arranged)


@pytest.mark.parametrize("kind", MODELS)
def test_a_branch_is_left_as_the_main_graph_is(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(folding, "folds_of", lambda *_: Folds())  # of the main graph alone, before all ONNX passes
    model, cases = kind().eval(), [(torch.randn(2, 3, 8) + 1,), (torch.randn(2, 3, 8) - 1,)]
    flat, branched = export(model, cases[0]), export(Branch(model), cases[0])
    assert operators(then(branched)) == operators(flat.model.graph)
    session = session_of(branched)
    for case in cases:
        with torch.no_grad():
            assert_same(run_session(session, branched, case), [Branch(model)(*case)], tol=(1e-5, 1e-5))
    monkeypatch.setattr(pipeline, "FINISH", ())
    assert operators(export(model, cases[0]).model.graph) != operators(flat.model.graph)
