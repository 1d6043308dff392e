"""Arithmetic on weights alone: stored as its result, computed when the model is saved; and what is not folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from fxport import OnnxProgram, Options, export
from fxport.exporter.capture.fake import without_memory
from fxport.fx_passes import weight_folds
from tests.running import assert_same, run_session, session_of

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """A function of an input and of the module, which has two weights, a table of indices and a frozen batch norm."""

    def __init__(self, function: Callable[[Model, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.w, self.v = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 8))
        self.row = nn.Parameter(torch.rand(8))
        self.register_buffer("at", torch.randint(8, (3, 8)))
        self.register_buffer("calls", torch.zeros(8))
        self.register_buffer("bits", torch.randint(0, 15, (8, 8)))
        self.register_buffer("packed", torch.randint(-8, 8, (8, 8), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def frozen_norm(m: Model, x: torch.Tensor) -> torch.Tensor:
    scale = m.row.reshape(1, -1) * (m.w[0].abs() + 1e-5).rsqrt().reshape(1, -1)
    return x * scale + (m.v[0].reshape(1, -1) - m.v[1].reshape(1, -1) * scale)


def bias_table(m: Model, x: torch.Tensor) -> torch.Tensor:
    return x + m.w[m.at.view(-1)].view(3, 8, 8).permute(2, 0, 1).contiguous().sum(0)


def mask(m: Model, x: torch.Tensor) -> torch.Tensor:
    return x @ torch.full((8, 200), 2.0).tril(-1).repeat(2, 25).cos()[8:]


def counted(m: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * (m.calls + 1)
    m.calls += 1
    return y


def thick(m: Model, x: torch.Tensor) -> torch.Tensor:
    return x[:, None] + (m.w * 2).sum().expand(3, 4096, 8).cos()


FOLDED = {
    "weight_norm": (lambda: parametrizations.weight_norm(nn.Linear(8, 8)), {"Gemm": 1}),
    "spectral_norm": (lambda: parametrizations.spectral_norm(nn.Linear(8, 8)), {"Gemm": 1}),
    "cat": (lambda: Model(lambda m, x: x @ torch.cat([m.w * 0.5, m.v.t()], 1)), {"MatMul": 1}),
    "frozen_norm": (lambda: Model(frozen_norm), {"Mul": 1, "Add": 1}),
    "bias_table": (lambda: Model(bias_table), {"Add": 1}),
    "mask": (lambda: Model(mask), {"MatMul": 1}),
    "cast": (lambda: Model(lambda m, x: (x.double() * m.row.double()).float()), {"Cast": 2, "Mul": 1}),
    "also_raw": (lambda: Model(lambda m, x: (x @ m.w) @ (m.w * 0.5 + 1)), {"MatMul": 2}),
}
"""A model whose weights alone give what it reads, and the operators that are left."""

LEFT = {
    "random": (lambda: Model(lambda m, x: x @ torch.nn.functional.dropout(m.w)), "Dropout"),
    "written": (lambda: Model(counted), "Add"),
    "tied": (lambda: Model(lambda m, x: torch.softmax(x @ m.w, -1) @ m.w.t()), "Transpose"),
    "large": (lambda: Model(thick), "Expand"),
    "packed": (lambda: Model(lambda m, x: x @ (m.packed.float() * m.row)), "Cast"),
    "bits": (lambda: Model(lambda m, x: x @ ((m.bits >> 2) & 3).float()), "BitwiseAnd"),
    "by_data": (lambda: Model(lambda m, x: x @ m.w[m.w[:, 0] > 0].sum(0, keepdim=True).t()), "Compress"),
}
"""A model, and an operator of what is not folded."""


def operators(program: OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def weights(program: OnnxProgram) -> dict[str, int]:
    held = {name: value.const_value for name, value in program.model.graph.initializers.items()}
    return {name: tensor.nbytes for name, tensor in held.items() if tensor is not None}


@pytest.mark.parametrize("name", FOLDED)
def test_what_weights_alone_give_is_a_weight(name: str) -> None:
    torch.manual_seed(0)
    make, left = FOLDED[name]
    model = make().eval()
    program = export(model, (X,))
    assert operators(program) == left
    assert any(each.endswith(".folded") for each in weights(program))
    assert_same(run_session(session_of(program), program, (X,)), [model(X)])
    assert operators(export(model, (X,), options=Options(optimize=False))).total() > sum(left.values())


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.filterwarnings("ignore")  # dropout's random numbers are reported, which is another test's
def test_what_is_not_folded(name: str) -> None:
    torch.manual_seed(0)
    make, left = LEFT[name]
    model = make()
    program = export(model if name == "random" else model.eval(), (X,))
    assert operators(program)[left], operators(program)
    if name not in ("random", "written"):
        assert_same(run_session(session_of(program), program, (X,)), [model(X)])


def test_results_that_never_pay_leave_others_folded() -> None:
    def many(m: Model, x: torch.Tensor) -> torch.Tensor:
        y = x * m.row.exp()
        for i in range(1, weight_folds.ROUNDS + 5):
            y = y + (x @ (m.w * i).repeat(1, 4096))[:, :8]
        return y

    model = Model(many)
    program = export(model, (X,))
    assert "Exp" not in operators(program)
    assert_same(run_session(session_of(program), program, (X,)), [model(X)])


def test_a_user_s_own_lowering_sees_its_operator() -> None:
    model = Model(lambda m, x: x @ m.w.cos())
    lowering = {torch.ops.aten.cos.default: lambda op, x: op.Identity(op.Cos(x))}
    assert operators(export(model, (X,), lowerings=lowering))["Cos"] == 1


def test_nothing_is_computed_before_the_model_is_saved(tmp_path: Path) -> None:
    model = Model(frozen_norm).eval()
    with torch.no_grad():
        program = export(model, (X,))
        model.w.mul_(2)
    assert_same(run_session(session_of(program), program, (X,)), [model(X)])


def test_weights_of_a_checkpoint_are_folded(tmp_path: Path) -> None:
    model = Model(frozen_norm).eval()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    with without_memory():
        empty = Model(frozen_norm).eval()
    program = export(empty, (X,), weights=tmp_path / "model.pt")
    assert operators(program) == {"Mul": 1, "Add": 1}
    assert_same(run_session(session_of(program), program, (X,)), [model(X)])


def test_other_weights_are_folded_anew() -> None:
    model, other = Model(frozen_norm).eval(), Model(frozen_norm).eval()
    program = export(model, (X,))
    program.apply_weights(other.state_dict())
    assert_same(run_session(session_of(program), program, (X,)), [other(X)])


def test_weights_that_stay_in_their_files_are_not_folded() -> None:
    assert operators(export(Model(frozen_norm), (X,), options=Options(weights_in_place=True)))["Mul"] > 1


def test_the_file_grows_by_a_small_part_of_the_weights_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(lambda m, x: torch.cat([x @ m.w, x @ (m.w * 0.5 + 1), x @ (m.v * 2 + 1), x @ m.v]))
    assert weights(export(model, (X,))).keys() == {"w", "v", "w.folded", "v.folded"}
    monkeypatch.setattr(weight_folds, "LEAST_GROWTH", 256)
    assert operators(export(model, (X,)))["Add"] == 1


class Mixed(nn.Module):
    """A product, which autocast would round, and a quotient of integers, whose type is the default one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(16, 2)), nn.Parameter(torch.randn(2, 16))
        self.register_buffer("counts", torch.arange(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.a @ self.b) + self.counts / 3


def test_what_surrounds_the_call_of_save_changes_no_weight(tmp_path: Path) -> None:
    model, x = Mixed().eval(), torch.randn(3, 16)
    program = export(model, (x,))
    plain, surrounded = tmp_path / "plain.onnx", tmp_path / "surrounded.onnx"
    program.save(plain)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
            program.save(surrounded)
    finally:
        torch.set_default_dtype(torch.float32)
    assert "a.folded" in weights(program)
    assert plain.read_bytes() == surrounded.read_bytes()
