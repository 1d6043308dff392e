"""An export inside of `torch.autocast` gives what the model is there, and leaves the region as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import functional

from fxport import ExportError, export
from fxport.diagnostics import Log, rules
from tests.running import assert_same, run_session, session_of


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 3), nn.LayerNorm(3), nn.Conv1d(3, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(self.first(x))
        return y, self.last(y[..., None]).float()


def test_what_autocast_makes_of_a_model_is_exported() -> None:
    model, x = Layers(), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        program = export(model, x, dynamic_shapes=({0: "n"},))
        assert torch.is_autocast_enabled("cpu")
        other = torch.randn(5, 4)
        with torch.no_grad():
            want = list(model(other))
    assert want[0].dtype is torch.bfloat16
    assert "forward" not in vars(model)
    assert_same(run_session(session_of(program), program, (other,)), want, tol=(1e-2, 1e-2))


def _of_labels(x: Tensor) -> Tensor:
    return functional.nll_loss(x.log_softmax(1).bfloat16(), torch.arange(4))


COMPOSITES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: torch.tensordot(x, x, ([1], [1])),
    "inner": lambda x: torch.inner(x, x),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.T, x]),
    "matmul": lambda x: torch.linalg.matmul(x, x.T),
    "matrix_power": lambda x: torch.linalg.matrix_power(x, 3),
    "nll_loss": _of_labels,
    "pad": lambda x: functional.pad(x.bfloat16()[None], (1, 1), mode="reflect"),
    "interpolate": lambda x: functional.interpolate(x.bfloat16()[None], scale_factor=2.0),
}
"""Functions that PyTorch records whole, made of others on which autocast acts."""


class Casting(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = COMPOSITES[self.name](x)
            return y * (2 if y.dtype is torch.bfloat16 else 3)


@pytest.mark.parametrize("name", COMPOSITES)
def test_autocast_acts_within_composite_functions(name: str) -> None:
    model, x = Casting(name), torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    want = model(x)
    (got,) = run_session(session_of(program := export(model, x)), program, (x,))
    assert got.dtype is want.dtype
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


class Without(nn.Module):
    """A region without autocast within one: the last product is one of what it gives."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            coarse = x @ x.T
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                exact = x @ x.T
                if x.sum() > 0:
                    exact = exact @ x
            return coarse, exact, (exact @ x).float()


def test_a_region_without_autocast_within_one_with() -> None:
    model, program = Without(), export(Without(), x := torch.ones(4, 4) / 3)
    for each in (x, -x):
        want = model(each)
        got = run_session(session_of(program), program, (each,))
        assert [one.dtype for one in got] == [one.dtype for one in want]
        torch.testing.assert_close(got[1], want[1])
        assert_same([got[0], got[2]], [want[0], want[2]], tol=(1e-2, 1e-2))


class WithoutInLoop(nn.Module):
    """Around a loop, which is an operator with a body, PyTorch writes a region as two calls."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            state = x.new_zeros(4)
            for row in x:
                with torch.autocast("cpu", enabled=False):
                    state = torch.tanh((state + row) @ torch.eye(4).mul(0.7))
            return state


def test_a_region_without_autocast_in_a_loop() -> None:
    program = export(WithoutInLoop(), torch.randn(3, 4), dynamic_shapes=({0: "n"},))
    for rows in (2, 3, 5):
        x = torch.randn(rows, 4)
        assert_same(run_session(session_of(program), program, (x,)), [WithoutInLoop()(x)])


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.pinv,
        lambda x: F.bilinear(x, x, torch.ones(2, 3, 3)),
        lambda x: F.affine_grid(x[None, :2], [1, 1, 3, 3], align_corners=False),
        lambda x: torch.tensordot(x, x, 2),
    ],
    ids=["pinv", "bilinear", "affine_grid", "tensordot over all axes"],
)
def test_an_operator_that_autocast_casts_in_part_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ExportError, match="autocast acts on a part of this"):
        export(Model(), torch.eye(3))
    assert export(Model(), torch.eye(3))


@pytest.mark.parametrize(("layer", "dtype"), [(nn.LSTM, torch.bfloat16), (nn.RNN, torch.float16)])
def test_a_recurrent_layer_that_autocast_casts_is_refused(layer: type[nn.RNNBase], dtype: torch.dtype) -> None:
    model, x = layer(4, 3).eval(), torch.randn(2, 4)
    with torch.autocast("cpu", dtype), pytest.raises(ExportError, match="autocast acts on a part of this operator"):
        export(model, x)
    assert export(model, x)


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse()


def test_the_region_stays_after_a_failure() -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        with pytest.raises(ExportError):
            export(Failing(), torch.ones(3))
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") is torch.float16


class Exact(nn.Module):
    """Parts that autocast would make coarse, as a library turns it off for them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", enabled=False):
            angles = x.cumsum(1)
            with torch.no_grad():
                scale = x.amax(1, keepdim=True)
        return angles, (angles / scale).relu_()


def test_a_region_without_autocast_costs_no_second_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.export.ExportedProgram, "run_decompositions")
    model, x = Exact(), torch.rand(2, 4)
    program = export(model, x, dynamic_shapes=({0: "n"},))
    other = torch.rand(5, 4)
    assert_same(run_session(session_of(program), program, (other,)), list(model(other)))


class BySize(nn.Module):
    """A setting of PyTorch that a size turns on."""

    def __init__(self, setting: Callable[[bool], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.setting = setting

    def forward(self, x: Tensor) -> Tensor:
        with self.setting(x.shape[0] > 3):
            return self.linear(x)


def test_autocast_by_a_size_limits_the_size() -> None:
    model, log = BySize(lambda on: torch.autocast("cpu", torch.bfloat16, enabled=on)), Log()
    program = export(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), log=log)
    (found,) = (each for each in log.findings if each.rule is rules.DIMENSION_RANGE_NARROWED)
    assert found.facts["range"] == "at least 4"
    other = torch.randn(4, 4)
    want = [model(other).detach()]
    assert want[0].dtype is torch.bfloat16
    assert_same(run_session(session_of(program), program, (other,)), want, tol=(1e-2, 1e-2))


@pytest.mark.parametrize("setting", [torch.set_grad_enabled, torch.inference_mode])
def test_other_settings_by_a_size(setting: Callable[[bool], Any]) -> None:
    model = BySize(setting)
    program = export(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},))
    before = {name: vars(torch.inference_mode)[name] for name in ("__new__", "__init__")}
    other = torch.randn(4, 4)
    assert_same(run_session(session_of(program), program, (other,)), [model(other).detach()])
    assert {name: type(each).__name__ for name, each in before.items()} == {
        "__new__": "staticmethod",
        "__init__": "function",
    }
