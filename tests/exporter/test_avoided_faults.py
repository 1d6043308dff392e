"""Known faults of ONNX Runtime's optimizations: exported models do not meet them, and would without their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import export
from fxport.exporter.lowering.ir_passes import avoid_faults
from fxport.exporter.lowering.ir_passes.avoid_faults import FAULTS
from tests.running import assert_same, run_exported, run_session, session_of


class Calls(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., object], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleDict(modules)

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*inputs, **self.parts)


@dataclass(frozen=True)
class Case:
    """A model that the optimizer of a row breaks where it is exported without the row."""

    name: str
    optimizer: str
    model: nn.Module
    inputs: tuple[Tensor, ...]
    dynamic_shapes: tuple[dict[int, str]] | None = None


CSE = "CommonSubexpressionElimination"
GTS = "GatherToSliceFusion"
CASTS = "RemoveDuplicateCastTransformer"
SCALE = "MatMulScaleFusion"
DOUBLES = 10 * torch.randn(1, 2, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LARGE = torch.tensor([3e9, -5e9, 5.5, -0.5])
IDS = torch.tensor([3, 1, 2, 1, 3])
BELOW = -1 - torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))


def counted(x: Tensor) -> tuple[Tensor, ...]:
    values, places = torch.unique(x, return_inverse=True)
    again, counts = torch.unique(x, return_counts=True)
    return values + 1, places, again * 2, counts


def placed(x: Tensor) -> tuple[Tensor, ...]:
    values, places = torch.unique(x, return_inverse=True)
    again, found = torch.unique(x, return_inverse=True)
    return values + 1, places, again * 2, found


def only_counted(x: Tensor) -> tuple[Tensor, ...]:
    """Reads the values of neither."""
    _, places = torch.unique(x, return_inverse=True)
    _, counts = torch.unique(x, return_counts=True)
    return places, counts


def steps(x: Tensor, cell: nn.Module) -> tuple[Tensor, Tensor]:
    return cell(x)[0] * 2, cell(x)[1] * 3


def to_the_fourth(x: Tensor, norm: nn.Module) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt((d**4).mean(-1, keepdim=True) + 0.01) * norm.weight + norm.bias


CASES = (
    Case("Unique", CSE, Calls(counted), (IDS,)),
    Case("GRU", CSE, Calls(steps, cell=nn.GRU(3, 4)), (torch.randn(5, 2, 3),)),
    Case(
        "max_pool2d",
        "Pad_Fusion",
        Calls(lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 2)),
        (BELOW.double(),),
    ),
    Case(
        "max_pool1d",
        "Pad_Fusion",
        Calls(lambda x: F.max_pool1d(F.pad(x, (1, 1)), 2)),
        (BELOW[0].double(),),
    ),
    Case("whole parts", "DivMulFusion", Calls(lambda x: torch.div(1, x, rounding_mode="trunc") * 7), (IDS,)),
    Case(
        "wrapped around",
        CASTS,
        Calls(lambda x: (x.long().int(), x.double().long().short())),
        (torch.tensor([3e9, -5e9, 1e12, 7.5]),),
    ),
    Case("reversed", GTS, Calls(lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)]), (IDS,), ({0: "rows"},)),
    Case(
        "every second",
        GTS,
        Calls(lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -2))),
        (IDS,),
        ({0: "rows"},),
    ),
    Case("from the end", GTS, Calls(lambda x: x[torch.arange(-x.shape[0], 0)]), (IDS,), ({0: "rows"},)),
    Case("int64 as int32", CASTS, Calls(lambda x: x.long().int()), (LARGE,)),
    Case("int64 as int16", CASTS, Calls(lambda x: x.long().short()), (LARGE,)),
    Case(
        "integers as halves",
        "InsertCastTransformer",
        Calls(lambda x: x.half().softmax(0)),
        (torch.tensor([2049, 2048]),),
    ),
    Case("infinite halves", "InsertCastTransformer", Calls(lambda x: x.half() - 60000), (torch.tensor([70000, 3]),)),
    Case("rounded first", CASTS, Calls(lambda x: x.float().short()), (torch.tensor([16777217, 5]),)),
    Case("attention", SCALE, Calls(lambda x: F.scaled_dot_product_attention(x, x, -x)), (DOUBLES / 10,)),
    Case("scaled product", SCALE, Calls(lambda x: 1e3 * x @ x.mT.exp() * 0.7 / 1e3), (DOUBLES,)),
    Case("divided product", SCALE, Calls(lambda x: (x / 0.7) @ x.mT), (DOUBLES,)),
    Case("fourth power", "LayerNormFusionL1", Calls(to_the_fourth, norm=nn.LayerNorm(4)), (3 * torch.randn(2, 3, 4),)),
)


def hold_against_eager(case: Case) -> None:
    program = export(case.model, case.inputs, dynamic_shapes=case.dynamic_shapes)
    with torch.no_grad():
        want = case.model(*case.inputs)
    want = want if isinstance(want, tuple) else (want,)
    tol = (1e-11, 0.0) if want[0].dtype is torch.float64 else None
    assert_same(run_session(session_of(program), program, case.inputs), want, tol=tol)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_runs_with_all_optimizations(case: Case) -> None:
    hold_against_eager(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_fails_or_differs_without_the_row(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    others = tuple(row for row in FAULTS if row.optimizer != case.optimizer)
    assert len(others) == len(FAULTS) - 1
    monkeypatch.setattr(avoid_faults, "FAULTS", others)
    with pytest.raises((AssertionError, Fail)):
        hold_against_eager(case)


def test_every_output_of_equal_nodes_is_there() -> None:
    program = export(Calls(placed), (IDS,))
    (node,) = [node for node in program.model.graph if node.op_type == "Unique"]
    assert [bool(output.name) for output in node.outputs] == [True, False, True]
    joined = export(Calls(counted), (IDS,))
    (node,) = [node for node in joined.model.graph if node.op_type == "Unique"]
    assert [bool(output.name) for output in node.outputs] == [True, False, True, True]


def test_a_first_output_that_nothing_reads_is_there() -> None:
    """No operator of ONNX leaves out its first output."""
    program = export(Calls(only_counted), (IDS,))
    assert_same(run_session(session_of(program), program, (IDS,)), only_counted(IDS))


def test_other_graphs_stay_as_they_are() -> None:
    def plain(x: Tensor) -> Tensor:
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2) + (1 / x).sum() * x.pow(2).mean()

    program = export(Calls(plain), (BELOW,))
    pad = next(node for node in program.model.graph if node.op_type == "Pad")
    assert len(pad.inputs) < 4
    assert not [node for node in program.model.graph if node.op_type in ("Neg", "Max")]
    assert_same(run_session(session_of(program), program, (BELOW,)), [plain(BELOW)])


def angles(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    along, across = (x * y).sum(1), torch.linalg.cross(x, y).norm(dim=1)
    return torch.atan2(across, along), torch.signbit(along), torch.copysign(x[:, 0], along), torch.atan2(along, x[:, 0])


def test_sums_of_negative_zeros() -> None:
    """PyTorch's sums begin at 0; those of ONNX Runtime at their first term, which may be -0."""
    x = torch.tensor([[1.0, 2, 3], [-1, -2, -3], [1, -2, 3]])
    calls = [(x, torch.zeros(3, 3)), (x, -torch.zeros(3, 3)), (x, x)]
    for call, result in zip(calls, run_exported(Calls(angles), calls), strict=True):
        assert_same(result, angles(*call))
