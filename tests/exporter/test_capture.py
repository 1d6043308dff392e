"""What a call of `export` asks for, and what the model then has: names, sizes, state; and what cannot be had."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._functorch import eager_transforms, pyfunctorch
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fxport import ExportError, OnnxProgram, Options, export
from fxport.diagnostics import Finding, Level, Log
from tests.running import assert_same, run_session, session_of


class Pair(torch.nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left + right


def dims(program: OnnxProgram) -> dict[str, list[Any]]:
    values = (*program.model.graph.inputs, *program.model.graph.outputs)
    return {str(value.name): [d if isinstance(d, int) else d.value for d in value.shape or ()] for value in values}


PAIR = (torch.randn(3, 4), torch.randn(3, 4))
BATCH = Dim("batch")


def collection() -> ShapesCollection:
    shapes = ShapesCollection()
    shapes[PAIR[0]] = {0: BATCH}
    shapes[PAIR[1]] = {0: BATCH}
    return shapes


@pytest.mark.parametrize(
    "options",
    [
        {"dynamic_shapes": {"left": {0: "batch"}, "right": {0: "batch"}}},
        {"dynamic_shapes": ({0: BATCH}, {0: BATCH})},
        {"dynamic_shapes": {"left": {0: Dim("batch", max=50)}, "right": {0: Dim.AUTO}}},
        {"dynamic_shapes": {"left": ("batch", None), "right": ("batch", None)}},
        {"dynamic_shapes": {"left": ["batch", None], "right": {-2: "batch"}}},
        {"dynamic_shapes": collection()},
        {"input_names": ["a", "b"], "dynamic_shapes": {"a": {0: "batch"}, "b": {0: BATCH}}},
        {"dynamic_axes": {"left": {0: "batch"}, "right": {0: "batch"}, "sum": {0: "batch"}}, "output_names": ["sum"]},
        {"input_names": ["a", "b"], "dynamic_axes": {"a": {0: "batch"}, "b": {0: "batch"}}},
    ],
)
def test_every_way_to_ask_for_a_dynamic_dimension(options: dict[str, Any]) -> None:
    program = export(Pair(), PAIR, **options)
    left, right = options.get("input_names", ["left", "right"])
    (output,) = options.get("output_names", ["output"])
    assert dims(program) == {left: ["batch", 4], right: ["batch", 4], output: ["batch", 4]}
    other = (torch.randn(7, 4), torch.randn(7, 4))
    assert_same(run_session(session_of(program), program, other), [Pair()(*other)])


def additional() -> AdditionalInputs:
    shapes = AdditionalInputs()
    shapes.add((torch.randn(5, 4), torch.randn(5, 4)))
    return shapes


@pytest.mark.parametrize(
    ("dynamic_shapes", "axes"),
    [
        ("auto", ["left.0", "left.1"]),
        ({"left": "auto", "right": {0: Dim.AUTO}}, ["left.0", 4]),
        (({0: Dim.DYNAMIC, 1: 4}, {0: Dim.DYNAMIC, 1: Dim.STATIC}), ["left.0", 4]),
        (additional(), ["left.0", 4]),
    ],
)
def test_dimensions_without_a_name_have_that_of_their_place(dynamic_shapes: Any, axes: list[Any]) -> None:
    program = export(Pair(), PAIR, dynamic_shapes=dynamic_shapes)
    assert dims(program) == {"left": axes, "right": axes, "output": axes}


class Repeats(torch.nn.Module):
    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        return x.repeat(times, 1) * times


def test_a_number_may_be_an_input() -> None:
    program = export(Repeats(), (torch.randn(2, 3), 3), dynamic_shapes=({0: "n"}, "times"))
    assert dims(program) == {"x": ["n", 3], "times": [], "output": ["n*times", 3]}
    case = (torch.randn(4, 3), torch.tensor(5))
    assert_same(run_session(session_of(program), program, case), [Repeats()(case[0], 5)])


def test_what_the_model_asks_of_its_sizes_is_in_it() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 3)

    program = export(Rows(), (torch.randn(6),), dynamic_shapes=({0: "n"},))
    assert program.model.metadata_props["fxport.conditions"] == '["n: a multiple of 3"]'


def test_bounds_that_were_asked_for_are_in_the_model() -> None:
    """PyTorch answers questions about a size from them, so another size would take another path in silence."""

    class Short(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] <= 10 else x

    shapes = ({0: Dim("n", min=2, max=10), 1: Dim("m", max=5)},)
    program = export(Short(), (torch.randn(4, 3),), dynamic_shapes=shapes)
    assert program.model.metadata_props["fxport.conditions"] == '["n: at least 2 and at most 10", "m: at most 5"]'
    assert not program.log.findings


class Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x * other + self.weight


def test_a_weight_that_is_fed_is_an_input_and_a_weight() -> None:
    model = Weighted()
    program = export(model, (torch.ones(3, requires_grad=True) * 2, model.weight))
    case = (torch.randn(3), torch.randn(3))
    assert_same(run_session(session_of(program), program, case), [model(*case)])


def test_an_example_of_size_one_may_be_dynamic() -> None:
    one = (torch.randn(1, 4), torch.randn(1, 4))
    program = export(Pair(), one, dynamic_shapes=({0: "batch"}, {0: "batch"}))
    for size in (1, 5):
        case = (torch.randn(size, 4), torch.randn(size, 4))
        assert_same(run_session(session_of(program), program, case), [Pair()(*case)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamic_shapes": {"lft": {0: "batch"}}}, "'lft'.*left, right"),
        ({"dynamic_axes": {"lft": {0: "batch"}}}, "'lft'.*left"),
        ({"dynamic_shapes": ({}, {}, {})}, "3 entries for 2 inputs"),
        ({"dynamic_shapes": 5}, "5, not a mapping"),
        ({"dynamic_shapes": {"left": {5: "batch"}}}, "dimension 5 of 'left', which has 2"),
        ({"dynamic_shapes": {"left": {"0": "batch"}}}, "has the key '0' for 'left'"),
        ({"dynamic_shapes": {"left": 7}}, "7 for 'left', where a mapping"),
        ({"dynamic_shapes": {"left": {0: Dim("batch", min=4)}}}, "is 3 in the example.*at least 4"),
        ({"dynamic_shapes": {"left": {0: "n", 1: "n"}}}, "'n' is 3 in 'left' and 4 in 'left'"),
        ({"dynamic_shapes": {"left": {0: 5}}}, "is 3, but dynamic_shapes says 5"),
        ({"dynamic_shapes": {"left.0": {0: "n"}}}, "has the key '0' for 'left'"),
        ({"opset_version": 17}, "17 is out of range.*18 to 26"),
        ({"output_names": ["a", "b"]}, "2 names.*returns 1 tensor"),
        ({"input_names": ["a", "b", "c"]}, "input_names has 3 names; the model has 2 inputs: left, right"),
    ],
)
def test_requests_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export(Pair(), PAIR, **options)


class Nested(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, past: list[dict[str, torch.Tensor]], flag: bool = True, scale: float = 2.0
    ) -> Any:
        y = x * scale if flag else x
        return {"y": y, "past": [past[0]["key"] + 1], "none": None, "size": y.shape[0], "unused": 5}


def test_structures_have_names_by_path() -> None:
    past = [{"key": torch.ones(2)}]
    log = Log()
    program = export(
        Nested(), (torch.randn(3, 2), past), {"scale": 3.0}, dynamic_shapes={"x": {0: "n"}, "past": None}, log=log
    )
    assert dims(program) == {"x": ["n", 2], "past.0.key": [2], "y": ["n", 2], "past.0": [2], "size": []}
    x = torch.randn(5, 2)
    expected = [x * 3, torch.full((2,), 2.0), torch.tensor(5)]
    assert_same(run_session(session_of(program), program, (x, past)), expected)
    assert "FXP1006" in {finding.rule.id for finding in log.findings}


@dataclass
class Packed:
    """What a model of today gives: registered with PyTorch by nobody."""

    first: torch.Tensor
    rest: list[torch.Tensor | None]
    count: int = 3


class Keywords(torch.nn.Module):
    def forward(self, *, minuend: torch.Tensor, subtrahend: torch.Tensor, unused: torch.Tensor | None = None) -> Packed:
        return Packed(minuend - subtrahend, [None, minuend])


def test_keywords_in_any_order_and_a_dataclass_as_the_result() -> None:
    kwargs = {"subtrahend": torch.randn(3), "unused": torch.randn(2), "minuend": torch.randn(3)}
    shapes = {"minuend": {0: "n"}, "subtrahend": {0: "n"}}
    log = Log()
    program = export(Keywords(), (), kwargs, dynamic_shapes=shapes, log=log)
    wanted = {"minuend": ["n"], "subtrahend": ["n"], "unused": [2], "first": ["n"], "rest.1": ["n"]}
    assert dims(program) == wanted
    case = (torch.randn(5), torch.randn(5), torch.randn(2))
    assert_same(run_session(session_of(program), program, case), [case[0] - case[1], case[0]])


def test_output_names_count_tensors() -> None:
    program = export(Nested(), (torch.randn(3, 2), [{"key": torch.ones(2)}]), output_names=["a", "b"])
    assert [value.name for value in program.model.graph.outputs] == ["a", "b"]


def test_parameters_stay_as_they_were() -> None:
    model = torch.nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    export(model, (torch.randn(1, 2),))
    assert [parameter.requires_grad for parameter in model.parameters()] == [True, False]


def test_wrappers_are_looked_through() -> None:
    program = export(torch.nn.DataParallel(torch.nn.Linear(2, 2)), (torch.randn(1, 2),))
    assert set(program.program.tensors) == {"weight", "bias"}


def test_an_exported_program_is_a_model() -> None:
    exported = torch.export.export(Pair(), PAIR, dynamic_shapes=({0: BATCH}, {0: BATCH}))
    program = export(exported)
    other = (torch.randn(7, 4), torch.randn(7, 4))
    assert_same(run_session(session_of(program), program, other), [Pair()(*other)])


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of this file where `text` stands inside `function`."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def failing(model: torch.nn.Module, args: tuple[Any, ...], **options: Any) -> list[Finding]:
    with pytest.raises(ExportError) as caught:
        export(model, args, **options)
    return [finding for finding in caught.value.log.findings if finding.level is Level.ERROR]


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = [x * 2]
        if torch.equal(found[0], x):  # a graph cannot have one output more in some runs
            found.append(x)
        return found


def test_a_branch_on_a_value_is_found_at_its_line() -> None:
    (finding,) = failing(Branch(), (torch.randn(3),))
    assert finding.rule.id == "FXP1002"
    assert finding.place is not None
    assert finding.place.line == line_of(Branch.forward, "if torch.equal")
    assert finding.place.path == __file__


class Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * torch.arange(4.0).unsqueeze(1)


def test_a_lost_dimension_is_found_at_its_line() -> None:
    (finding,) = failing(Fixed(), (torch.randn(4, 3),), dynamic_shapes=({0: "rows", 1: "columns"},))
    assert finding.rule.id == "FXP2001"
    assert (finding.facts["dim"], finding.facts["input"]) == ("rows", "x")
    assert finding.place is not None
    assert finding.place.line == line_of(Fixed.forward, "arange")


def test_a_lost_dimension_can_be_allowed() -> None:
    options = Options(allow_specialization=True)
    program = export(Fixed(), (torch.randn(4, 3),), dynamic_shapes=({0: "rows", 1: "columns"},), options=options)
    assert dims(program)["x"] == [4, "columns"]


class OneSizeFits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(8, 8, -1).sum(2)


def test_a_dimension_of_one_size_is_that_size_in_the_file() -> None:
    options = Options(allow_specialization=True)
    program = export(OneSizeFits(), (torch.randn(64),), dynamic_shapes=({0: "n"},), options=options)
    assert dims(program)["x"] == [64]


@torch.library.custom_op("fxport_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fxport_tests::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 3)


@thrice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Unsupported(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = twice(x)
        z = thrice(y) + 1
        return z + twice(z)


def test_every_op_without_a_lowering_is_found_in_one_run() -> None:
    findings = failing(Unsupported(), (torch.randn(3),))
    assert [finding.rule.id for finding in findings] == ["FXP3001", "FXP3001"]
    assert [finding.count for finding in findings] == [2, 1]
    lines = [line_of(Unsupported.forward, text) for text in ("y = twice", "z = thrice")]
    assert [finding.place and finding.place.line for finding in findings] == lines


def test_a_users_lowering_is_used() -> None:
    def doubled(op: Any, x: Any) -> Any:
        """twice(Tensor x) -> Tensor"""
        return op.Add(x, x)

    def tripled(op: Any, x: Any) -> Any:
        """thrice(Tensor x) -> Tensor"""
        return op.Mul(x, 3)

    own = {torch.ops.fxport_tests.twice.default: doubled, torch.ops.fxport_tests.thrice.default: tripled}
    x = torch.randn(3)
    program = export(Unsupported(), (x,), lowerings=own)
    assert_same(run_session(session_of(program), program, (x,)), [Unsupported()(x)])


def test_a_lowering_that_raises_is_a_finding() -> None:
    def broken(op: Any, x: Any) -> Any:
        """twice(Tensor x) -> Tensor"""
        raise RuntimeError("no idea")

    own = {
        torch.ops.fxport_tests.twice.default: broken,
        torch.ops.fxport_tests.thrice.default: lambda op, x: op.Mul(x, 3),
    }
    findings = failing(Unsupported(), (torch.randn(3),), lowerings=own)
    assert [finding.rule.id for finding in findings] == ["FXP3004"]
    assert "no idea" in findings[0].message


def test_a_failed_capture_leaves_nothing_behind() -> None:
    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def energy(at: torch.Tensor) -> torch.Tensor:
                return self.linear(at).sum() * (1 if bool(at.sum() > 0) else 2)

            return torch.func.jacfwd(torch.func.grad(energy))(x)

    model = Fails()
    before = (ShapeEnv._log_guard, ShapeEnv.evaluate_expr, eager_transforms._jvp_with_argnums)
    assert failing(model, (torch.randn(3),))
    assert (ShapeEnv._log_guard, ShapeEnv.evaluate_expr, eager_transforms._jvp_with_argnums) == before
    assert "forward" not in vars(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.is_grad_enabled()
    with pytest.raises(AssertionError):  # no level of a vmap or a gradient is open
        pyfunctorch.retrieve_current_functorch_interpreter()
    torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))


def test_inputs_that_do_not_fit() -> None:
    (finding,) = failing(Pair(), (torch.randn(3),))
    assert finding.rule.id == "FXP1010"


def test_a_forward_without_a_signature() -> None:
    """Python knows no parameters of a function that is written in C."""
    model = torch.nn.Module()
    model.forward = torch.neg
    program = export(model, (torch.ones(2, 3),))
    assert [value.name for value in program.model.graph.inputs] == ["arg0"]
    assert [node.op_type for node in program.model.graph] == ["Neg"]
    assert model.forward is torch.neg
