"""What eager PyTorch is asked: in float64 without a copy of the model, on hard values, and inside of the graph."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from fxport import export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture.float64 import NotWide, wide_types, widened
from fxport.exporter.capture.own_limits import OwnLimits
from fxport.exporter.validation import recording, runs
from fxport.exporter.validation.intermediates import Intermediates
from fxport.exporter.validation.recording import CALLS_BEFORE, LATER
from fxport.exporter.validation.reference import cases
from fxport.exporter.weights.arrays import as_array, as_value
from tests.cases.faults import build
from tests.cases.subtle import Calls

WEIGHTS = 8 * 4096 * 4096 * 4


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_wide_operands_give_what_a_copy_in_float64_gives(name: str) -> None:
    example = build(name)
    program = export(example.model, example.args).program
    call = widened((example.args, {}))
    lean = runs.run_widened(example.model, call, program)
    copied = runs.run_doubled(example.model, call, program)
    assert {array.dtype for array in lean.values()} == {np.dtype(np.float64)}
    for output, array in copied.items():
        np.testing.assert_array_equal(lean[output], array)


class OfItsType(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs() + torch.finfo(x.dtype).eps)


class OfItsTypeByName(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        limits: Any = torch.finfo(type=x.dtype)  # type: ignore[call-arg]  # which it takes
        return x / (x.abs() + limits.eps) if isinstance(limits, torch.finfo) else x


class Widening(torch.nn.Module):
    """In float64 by itself, with the epsilon of that."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.to(self.dtype)
        h = h / (h.abs() + torch.finfo(h.dtype).eps)
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + torch.finfo(torch.float32).tiny)).to(x.dtype)


OF_THEIR_TYPE = {
    "norm": torch.nn.RMSNorm(16, elementwise_affine=False),
    "function": Calls(lambda x: torch.nn.functional.rms_norm(x, (16,))),
    "limits": OfItsType(),
    "limits by name": OfItsTypeByName(),
    "widened": Widening(torch.float32),
    "widened far": Widening(torch.float64),
    "norm of float64": Calls(lambda x: torch.nn.functional.rms_norm(x.double(), (16,)).to(x.dtype)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OF_THEIR_TYPE)
def test_a_run_in_float64_has_the_epsilons_of_the_models_own_types(name: str, dtype: torch.dtype) -> None:
    """Eager's distance from another epsilon would hide a wrong one."""
    model, finfo = OF_THEIR_TYPE[name], torch.finfo
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    x = x * (1e-9 if dtype.itemsize > 4 else 1e-4)
    case = next(cases(model, (x,), {}, export(model, (x,)), Log()))
    assert case.exact is not None
    assert torch.finfo is finfo
    rounding = 4 * max(finfo(dtype).eps, finfo(torch.float32).eps)
    np.testing.assert_allclose(case.outputs["output"].astype(np.float64), case.exact["output"], rtol=rounding)


class Masked(torch.nn.Module):
    """A row without any place to look at: of equal scores, as the least number takes up whatever is added."""

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        scores = x + torch.where(seen, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        return torch.softmax(scores + torch.finfo(x.dtype).tiny, -1)


def test_the_least_number_stands_for_infinity() -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0)).half()
    args = x, torch.arange(4)[:, None].expand(4, 16) > 0
    case = next(cases(Masked(), args, {}, export(Masked(), args), Log()))
    assert case.exact is not None
    np.testing.assert_allclose(case.outputs["output"].astype(np.float64), case.exact["output"], atol=1e-3)


def test_limits_are_told_to_the_models_thread_only() -> None:
    limits, told = OwnLimits(), list[float]()
    with limits.recorded():
        torch.finfo(torch.float16)
    with limits.replayed():
        other = threading.Thread(target=lambda: told.append(torch.finfo(torch.float64).eps))
        other.start()
        other.join()
        told += [torch.finfo(torch.float64).eps, torch.finfo(torch.float64).eps]
    assert told == [torch.finfo(each).eps for each in (torch.float64, torch.float16, torch.float64)]


def test_a_model_that_writes_to_its_weights_is_not_run_wide() -> None:
    class Counting(torch.nn.Module):
        total: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x.sum(0))
            return x / self.total

    counting = Counting()
    with pytest.raises(NotWide), wide_types(operands=True), torch.no_grad():
        counting(torch.randn(4, 3, dtype=torch.float64))
    program = export(Counting(), (torch.randn(4, 3),))
    case = next(cases(Counting(), (torch.randn(4, 3),), {}, program, Log()))
    assert case.exact is not None  # of the copy


def test_the_state_is_what_it_was_after_a_float64_run_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SLOW_CALL", np.inf)  # however busy the machine is
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    x = torch.randn(3, 4)
    program = export(model, (x,), dynamic_shapes=({0: "batch"},))
    for case in cases(model, (x,), {}, program, Log()):
        counted = CALLS_BEFORE if case.label == LATER else 0
        assert case.outputs["1.num_batches_tracked.updated"] == counted + 1, case.label
    assert model[1].num_batches_tracked == 0


class Reciprocal(torch.nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if bool(torch.isnan(x).any()):
            raise ValueError("no NaN please")
        return 1 / x[ids]


class Inverse(torch.nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return 1 / x[ids]


def test_hard_values_are_tried_where_eager_takes_them() -> None:
    x, ids = torch.randn(3, 2), torch.tensor([0, 2])
    program, log = export(Inverse(), (x, ids)), Log()
    found = {case.label: case for case in cases(Reciprocal(), (x, ids), {}, program, log, hard=True)}
    hard = {"zeros", "denormal", "infinity"}
    by_default = {"halves", "mixed", "negative", "negative zeros", "small", "large", "offset"}
    assert {*found} - {"numbers"} == {"sample", *by_default, *hard}  # 1 / x may be a quotient of 1
    assert (found["negative"].inputs["ids"] == [-1, -3]).all()
    assert np.isposinf(found["zeros"].outputs["output"]).all()
    zeros = (given := found["negative zeros"].inputs)["x"][given["ids"]] == 0
    assert zeros.any()
    assert np.isneginf(found["negative zeros"].outputs["output"][zeros]).all()
    assert (found["large"].inputs["ids"] == ids.numpy()).all()
    assert {finding.rule for finding in log.findings} == {rules.VALIDATION_SKIPPED}
    told = [finding.message.partition("eager PyTorch fails on ")[2] for finding in log.findings]
    assert any(each.startswith("one NaN: ValueError: no NaN please") for each in told)
    assert {"large integers", "extremes"} == {
        each.partition(": IndexError")[0] for each in told if "IndexError" in each
    }


@torch.library.custom_op("fxport_tests::single", mutates_args=())
def single(x: torch.Tensor) -> torch.Tensor:
    if x.dtype != torch.float32:
        raise TypeError("float32 only")
    return x * 2


single.register_fake(torch.empty_like)


class Single(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return single(x) + 1


def test_a_missing_yardstick_is_told_once() -> None:
    x, log = torch.randn(3, 2), Log()
    lowerings = {torch.ops.fxport_tests.single.default: lambda op, x: op.Add(x, x)}
    program = export(Single(), (x,), dynamic_shapes=({0: "rows"},), lowerings=lowerings)
    found = list(cases(Single(), (x,), {}, program, log))
    assert [(each.label, each.exact) for each in found] == [("sample", None), ("resized", None)]
    (told,) = log.findings
    assert told.rule is rules.YARDSTICK_MISSING
    assert told.level is Level.NOTE
    assert "float32 only" in told.message
    assert told.place is not None
    assert told.place.path == __file__


def test_a_lost_sign_of_zero_is_found_only_on_hard_values() -> None:
    from fxport.exporter.sources.source import Source
    from fxport.exporter.validation.against_eager import samples_of

    x, ids = torch.randn(3, 2), torch.tensor([0, 2])
    program = export(Inverse(), (x, ids))
    samples = samples_of(Source("inverse", Inverse(), (x, ids)), program, Log(), hard=True)
    found = {each.label: each for each in samples}
    assert {"zeros", "denormal", "one NaN", "infinity"} < found.keys()
    assert np.isnan(found["one NaN"].outputs["output"]).sum() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_arrays_come_back_as_the_tensors_they_were(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [2, 3]]).to(dtype)
    again = as_value(as_array(tensor), tensor)
    assert again.dtype == dtype
    assert torch.equal(again, tensor)
    assert as_value(np.array(3), 3) == 3


def test_results_inside_of_the_graph() -> None:
    class Parts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = torch.relu(self.fc(x)).split(3, dim=1)
            return torch.exp(left) + right

    model, x = Parts(), torch.randn(2, 4)
    program = export(model, (x,)).program
    inside = Intermediates(program, {"x": x.numpy()})
    assert inside.sizes() == {"linear": 48, "relu": 48, "split.0": 24, "split.1": 24, "exp": 24, "add": 24}
    assert inside.operators()["split"] == "aten.split.Tensor"
    np.testing.assert_array_equal(inside.outputs()["output"], model(x).detach().numpy())
    whole = inside.values(["exp", "split.1"])
    assert whole.plain["exp"].dtype == np.float32
    assert whole.exact["exp"].dtype == np.float64
    alone = inside.values(["exp", "split.0"], known=["split.0"])
    np.testing.assert_array_equal(alone.exact["exp"], np.exp(alone.plain["split.0"].astype(np.float64)))
    assert (alone.exact["exp"] != whole.exact["exp"]).any()  # one starts from eager's value, one from the input


@pytest.mark.slow
def test_a_float64_run_holds_no_second_copy_of_the_weights() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(8))).eval()
    x, process = torch.randn(2, 4096), psutil.Process()
    program = export(model, (x,))
    before = process.memory_info().rss
    (case,) = cases(model, (x,), {}, program, Log())
    assert case.exact is not None
    assert process.memory_info().rss - before < 0.3 * WEIGHTS


@pytest.mark.parametrize(
    ("norm", "shape"), [(torch.nn.BatchNorm1d(3), (5, 3)), (torch.nn.BatchNorm2d(3), (2, 3, 4, 4))]
)
def test_the_float64_run_of_a_norm_in_training_has_its_new_statistics(
    norm: torch.nn.Module, shape: tuple[int, ...]
) -> None:
    """The schema of the operator does not say that it writes to them."""
    x = torch.randn(shape)
    case = next(cases(norm, (x,), {}, export(norm, (x,)), Log()))
    assert case.exact is not None
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(case.outputs[f"{name}.updated"], case.exact[f"{name}.updated"], rtol=1e-4, atol=1e-6)
