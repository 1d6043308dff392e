"""Sizes at the edge of what a model promises, and those that a limit excludes (FXP2002)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.validation.adversarial import BY_DEFAULT, HARD, NUMBERS
from fxport.exporter.validation.reference import cases
from fxport.exporter.validation.sizes import allows_all_from
from fxport.exporter.validation.validated import export_and_validate
from fxport.fx_passes.program import Condition
from tests.running import assert_same, run_exported

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
BOTH = {"x": {0: "rows", 1: "columns"}}


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) * x.shape[0] + x.shape[1]


def labels(dynamic_shapes: Any, x: Tensor = X, *, hard: bool = False) -> dict[str, tuple[int, ...]]:
    """The shape of the input by the label of each case that a generous budget pays for."""
    program = export(Scaled(), (x,), dynamic_shapes=dynamic_shapes)
    found = cases(Scaled(), (x,), {}, program, Log(), hard=hard, seconds=1e6)
    return {case.label: case.inputs["x"].shape for case in found}


def test_equal_sizes_are_told_apart_and_each_is_one_once() -> None:
    found = labels(BOTH)
    assert found["sample"] == (4, 4)
    rows, columns = found["uneven"]
    assert rows % 2 == columns % 2 == 1
    assert rows != columns
    assert found["rows=1"] == (1, columns)
    assert found["columns=1"] == (rows, 1)
    assert found["smallest"] == (1, 1)
    assert found["rows=65"] == (65, columns)


def test_bounds_are_tried() -> None:
    found = labels({"x": {0: Dim("rows", min=3, max=9)}})
    assert found["rows=3"] == (3, 4)
    assert found["rows=9"] == (9, 4)
    assert all(3 <= rows <= 9 for rows, _ in found.values())


def test_dimensions_may_have_no_elements_where_no_limit_excludes_it() -> None:
    found = labels(BOTH, hard=True)
    assert (found["rows=0"], found["columns=0"]) == ((0, 4), (4, 0))
    assert "rows=0" not in labels({"x": {0: Dim("rows", min=3, max=9)}}, hard=True)
    assert "rows=0" not in labels(BOTH)


class Rows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


def one_row_of_nothing(op: Any, x: Any) -> Any:
    """Right for every size but 0, at which it gives a row."""
    rows = op.Slice(op.Shape(x), op.const([0]), op.const([1]))
    more = op.cast(op.Equal(rows, op.const([0])), rows.dtype)
    return op.typed(op.Pad(op.Relu(x), op.Concat(op.const([0, 0]), more, op.const([0]), axis=0)), op.sizes(x))


def refuses_nothing(op: Any, x: Any) -> Any:
    """Fails for no rows."""
    rows = op.Slice(op.Shape(x), op.const([0]), op.const([1]))
    return op.typed(op.Add(op.Relu(x), op.cast(op.Mod(op.const([0]), rows), x.dtype)), op.sizes(x))


def at_nothing(lowering: Any, tmp_path: Path) -> Any:
    return export_and_validate(
        Rows(),
        (X,),
        path=tmp_path / "m.onnx",
        dynamic_shapes={"x": {0: "rows"}},
        lowerings={torch.ops.aten.relu.default: lowering},
        adversarial=True,
    )


def test_a_model_that_gives_something_of_nothing_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="FXP5004") as caught:
        at_nothing(one_row_of_nothing, tmp_path)
    assert {each.facts["sample"] for each in caught.value.log.findings if each.level is Level.ERROR} == {"rows=0"}


def test_a_model_may_refuse_what_has_no_elements(tmp_path: Path) -> None:
    checked = at_nothing(refuses_nothing, tmp_path)
    assert checked.validation.passed
    assert "rows=0" in [sample.label for sample in checked.validation.samples]
    assert not [each for each in checked.log.findings if each.level is not Level.NOTE]


def test_a_recurrent_layer_is_not_run_without_elements() -> None:
    """ONNX Runtime's process would die of it."""
    model, call = nn.GRU(4, 3, batch_first=True).eval(), (torch.randn(2, 5, 4),)
    program = export(model, call, dynamic_shapes=({0: "batch", 1: "time"},))
    found = [case.label for case in cases(model, call, {}, program, Log(), hard=True)]
    assert "smallest" in found
    assert not [label for label in found if label.endswith("=0")]


def test_a_static_model_has_no_other_sizes() -> None:
    for_floats = {label for label, (_, dtypes) in HARD.items() if torch.float32 in dtypes} | {NUMBERS}
    assert [*labels(None)] == ["sample", *(label for label in BY_DEFAULT if label in for_floats)]


def test_without_time_there_are_the_example_and_one_other_size() -> None:
    program = export(Scaled(), (X,), dynamic_shapes=BOTH)
    assert [case.label for case in cases(Scaled(), (X,), {}, program, Log())] == ["sample", "resized"]


class ShiftedRight(nn.Module):
    """Labels as the inputs of a decoder: what is written to is of no, one, or several columns."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1].clone()
        y[:, 0] = 2.0
        return y


def test_writes_to_a_part_limit_no_size() -> None:
    log = Log()
    calls = [(torch.randn(2, n),) for n in (5, 1, 2, 3, 8)]
    found = run_exported(ShiftedRight(), calls, dynamic_shapes=({1: "n"},), log=log)
    for got, call in zip(found, calls, strict=True):
        assert_same(got, [ShiftedRight()(*call)])
    assert not log.findings


class Limited(nn.Module):
    """Python asks whether there is one row, and does the same in both cases."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] > 1 else torch.sin(x) * 1.0


class Wrong(nn.Module):
    """With one row it gives something else."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] > 1 else torch.cos(x)


class Refusing(nn.Module):
    """With one row it fails."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] < 2:
            raise ValueError("two rows at least")
        return torch.sin(x)


ROWS = {"x": {0: "rows"}}
LIMITED: dict[str, Any] = {"dynamic_shapes": ROWS, "options": Options(rewrite=False)}
"""The branches of these models are none of the graph."""


def test_a_limit_that_does_not_hold_is_withdrawn(tmp_path: Path) -> None:
    log = Log()
    program = export(Limited(), (X,), **LIMITED, log=log)
    assert [finding.rule for finding in log.findings] == [rules.DIMENSION_RANGE_NARROWED]
    assert program.model is not None
    checked = export_and_validate(Limited(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    assert not checked.log.findings
    assert checked.validation is not None
    assert checked.validation.equal
    assert "rows=1" in [sample.label for sample in checked.validation.samples]


class WrongAbove(nn.Module):
    """With more than 64 rows it gives something else."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] <= 64 else torch.cos(x)


class Bounded(nn.Module):
    """It takes 40 rows at most, and gives the same for one of them as for more."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Buffer(torch.arange(40.0).reshape(40, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) + self.table[: x.shape[0]] if x.shape[0] > 1 else torch.sin(x) + self.table[:1]


def test_sizes_beyond_a_limit_at_which_the_file_is_right_are_named(tmp_path: Path) -> None:
    checked = export_and_validate(Bounded(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    (finding,) = checked.log.findings
    assert "sizes that are 2 to 40." in finding.message
    assert finding.message.endswith(" Beyond these, the validation found it right at rows=1.")


class WrongAtHundred(nn.Module):
    """With 100 rows it gives something else."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] != 100 else torch.cos(x)


@pytest.mark.parametrize(("model", "rows"), [(Wrong, 1), (WrongAbove, 65), (WrongAtHundred, 100)])
def test_a_size_at_which_the_file_is_wrong_is_an_error(model: type[nn.Module], rows: int, tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=f"At rows={rows}, which PyTorch takes, the ONNX model is wrong: Output 'output'"
    ) as raised:
        export_and_validate(model(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    (finding,) = raised.value.log.findings
    assert (finding.rule, finding.level) == (rules.DIMENSION_RANGE_NARROWED, Level.ERROR)


class Growing(nn.Module):
    """Its table has 40 rows; with more it computes them, as ONNX Runtime cannot with the file."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Buffer(torch.arange(40.0).reshape(40, 1))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        table = self.table[:rows] if rows <= 40 else torch.arange(rows, dtype=x.dtype)[:, None]
        return torch.sin(x) + table


class Head(nn.Module):
    """It has three rows at most, and the file declares three."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] < 3 else torch.sin(x)[:3]


class GrowingOrWrong(Growing):
    """With one row it gives something else, with more than 40 the file does not run."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.shape[0] > 1 else torch.cos(x)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Growing, "At rows=41, which PyTorch takes, ONNX Runtime does not run the ONNX model: ONNX Runtime failed"),
        (Head, "At rows=1, which PyTorch takes, the ONNX model has other sizes than it declares: The interface"),
        (GrowingOrWrong, "At rows=1, which PyTorch takes, the ONNX model is wrong: Output 'output'"),
    ],
)
def test_an_error_beyond_a_limit_says_what_the_file_does_there(
    model: type[nn.Module], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError) as raised:
        export_and_validate(model(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    (finding,) = [each for each in raised.value.log.findings if each.level is Level.ERROR]
    assert finding.rule is rules.DIMENSION_RANGE_NARROWED
    assert told in finding.message


def test_a_limit_of_the_model_itself_stays_a_warning(tmp_path: Path) -> None:
    checked = export_and_validate(Refusing(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    (finding,) = checked.log.findings
    assert (finding.rule, finding.level) == (rules.DIMENSION_RANGE_NARROWED, Level.WARNING)


class Undefined(nn.Module):
    """With one row there is no result: nothing but NaN."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) if x.shape[0] > 1 else torch.log(-x.abs() - 1)


def test_a_size_without_a_result_is_none_that_the_model_takes(tmp_path: Path) -> None:
    checked = export_and_validate(Undefined(), X, **LIMITED, path=tmp_path / "model.onnx", provider="cpu")
    (finding,) = checked.log.findings
    assert (finding.rule, finding.level) == (rules.DIMENSION_RANGE_NARROWED, Level.WARNING)


class Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.abs(x).sum(1)


def wrong_axis(op: Any, x: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return op.ReduceSum(x, np.array([0]), keepdims=0)


def test_a_fault_that_equal_sizes_hide_in_shapes_is_found(tmp_path: Path) -> None:
    symmetric = X + X.T
    lowerings = {torch.ops.aten.sum.dim_IntList: wrong_axis}
    with pytest.raises(ExportError, match="differs from PyTorch"):
        export_and_validate(
            Transposed(),
            symmetric,
            dynamic_shapes=BOTH,
            path=tmp_path / "model.onnx",
            provider="cpu",
            lowerings=lowerings,
        )


def test_a_size_at_which_a_condition_cannot_be_computed_is_not_tried() -> None:
    """PyTorch's functions of sizes assert what their operands are; another size has operands that are not."""
    size = sympy.Symbol("size", integer=True, positive=True)
    for test in (sympy.Eq(Mod(size - 3, 2), 0), sympy.Eq(Mod(8, size - 2), 0)):
        condition = Condition("it fits", (test,))
        assert condition.allows({size: 5}) == (test.lhs.subs(size, 5) == 0)
        assert not condition.allows({size: 2})


def test_a_condition_with_a_number_that_is_not_worked_out_is_judged() -> None:
    """Sizes of a convolution over an image of 64 rows and `n` columns, as a limit of `n` has them."""
    n = sympy.Symbol("n", integer=True, positive=True)

    def places(size: sympy.Basic) -> sympy.Basic:
        steps = FloorDiv(sympy.Add(size, -3, evaluate=False), sympy.Integer(8), evaluate=False)
        return Max(sympy.Integer(1), sympy.Add(steps, 1, evaluate=False), evaluate=False)

    rows, columns = places(sympy.Integer(64)), places(n)
    several = Condition("n: at least 11", (sympy.Lt(rows, sympy.Mul(rows, columns, evaluate=False), evaluate=False),))
    assert allows_all_from(several, n, 11)
    assert not allows_all_from(several, n, 5)
