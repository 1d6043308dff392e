"""The ONNX passes: what they do to a graph, and that its results stay."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import pytest
import torch
from torch import nn

from fxport import OnnxProgram, Options, export
from fxport.exporter.lowering.ir_passes.fold_constants import FoldConstants
from fxport.exporter.lowering.ir_passes.sum_rows import SumRows
from tests.running import assert_same, run_session, session_of


def operators(program: OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def normalized(*layers: nn.Module) -> nn.Sequential:
    """A model in evaluation whose batch norms have statistics of their own."""
    model = nn.Sequential(*layers)
    for module in model:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.running_mean, -1, 1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.uniform_(module.bias, -1, 1)
    return model.eval()


@pytest.mark.parametrize(
    ("layers", "left"),
    [
        ((nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()), 0),
        ((nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4)), 0),
        ((nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)), 0),
        ((nn.ConvTranspose2d(4, 4, 3, groups=2), nn.BatchNorm2d(4)), 1),
        ((nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)), 1),
    ],
)
def test_batch_norm_is_folded_into_the_convolution_before_it(layers: tuple[nn.Module, ...], left: int) -> None:
    model = normalized(*layers)
    x = torch.randn(2, layers[0].in_channels, 6, 6)  # type: ignore[arg-type]  # a convolution
    program = export(model, (x,))
    assert operators(program)["BatchNormalization"] == left
    assert_same(run_session(session_of(program), program, (x,)), [model(x)], tol=(1e-5, 1e-5))


class Shared(nn.Module):
    """The convolution's own result is used, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), normalized(nn.BatchNorm2d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y + self.norm(y)


def test_batch_norm_stays_where_the_convolution_serves_another() -> None:
    model, x = Shared().eval(), torch.randn(2, 3, 6, 6)
    program = export(model, (x,))
    assert operators(program)["BatchNormalization"] == 1
    assert_same(run_session(session_of(program), program, (x,)), [model(x)])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids))


def test_a_weight_is_stored_transposed_unless_it_is_tied() -> None:
    x = torch.randn(2, 3, 4)
    linear = nn.Linear(4, 5)
    program = export(linear, (x,))
    assert operators(program) == {"MatMul": 1, "Add": 1}
    assert_same(run_session(session_of(program), program, (x,)), [linear(x)])
    tied, ids = Tied(), torch.tensor([[1, 2]])
    program = export(tied, (ids,))
    assert operators(program)["Transpose"] == 1
    assert len([v for v in program.model.graph.initializers.values() if v.shape == (9, 4)]) == 1
    assert_same(run_session(session_of(program), program, (ids,)), [tied(ids)])


class Constants(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.arange(4) * 2 + 1
        return x * table.to(torch.float32).sqrt() + (torch.ones(4) / 3)


def test_constants_are_computed() -> None:
    x = torch.randn(2, 4)
    program = export(Constants(), (x,))
    assert operators(program) == {"Mul": 1, "Add": 1}
    assert_same(run_session(session_of(program), program, (x,)), [Constants()(x)])


class Counted(nn.Module):
    """The same table twice, each made of a constant of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, again = (torch.arange(6, dtype=torch.int64) >> 1 for _ in range(2))
        return torch.sin(x + rows) + torch.sin(x + again)


def test_equal_results_of_constants_are_one() -> None:
    x = torch.randn(6)
    program = export(Counted(), (x,))
    assert operators(program) == {"Sin": 1, "Add": 2}
    assert_same(run_session(session_of(program), program, (x,)), [Counted()(x)])


class Steps(nn.Module):
    """Counters as an optimizer has them: each counted up, and read by what has axes and by what has none."""

    def forward(self, x: torch.Tensor, *counters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new = [each + 1 for each in counters]
        roots = [torch.sqrt(1 - 0.9**each) for each in new]
        scaled = [x * root for root in roots]
        pairs = [torch.exp(a) * root for a, root in zip(counters[1:], roots[1:], strict=True)]
        return (*new, *scaled, *pairs, roots[0])


def test_scalars_that_are_treated_alike_are_one_vector() -> None:
    inputs = (torch.randn(3), *(torch.tensor(float(number)) for number in range(6)))
    program = export(Steps(), inputs)
    found = operators(program)
    assert (found["Pow"], found["Sqrt"], found["Exp"]) == (1, 1, 1)
    assert found["Add"] == 7  # six outputs, and the vector
    assert found["Mul"] == 6 + 1
    assert_same(run_session(session_of(program), program, inputs), Steps()(*inputs))


def test_few_scalars_stay_what_they_are() -> None:
    inputs = (torch.randn(3), *(torch.tensor(float(number)) for number in range(3)))
    program = export(Steps(), inputs)
    assert operators(program)["Sqrt"] == 3
    assert_same(run_session(session_of(program), program, inputs), Steps()(*inputs))


class Gradients(nn.Module):
    """Of a linear layer, as autograd leaves them: by the weight transposed twice, and by what goes in."""

    def forward(self, x: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        by_weight = (x.t() @ grad).t().t()
        return by_weight + 1, grad @ weight.t(), (x.t() @ weight).t()


def test_products_read_matrices_transposed() -> None:
    inputs = tuple(torch.randn(3, 3) for _ in range(3))
    program = export(Gradients(), inputs)
    assert operators(program) == {"Gemm": 3, "Add": 1, "Transpose": 1}
    assert_same(run_session(session_of(program), program, inputs), Gradients()(*inputs))


class Update(nn.Module):
    """Adam's: moments, a step's length, the correction of the second moment, and a sum that is read twice."""

    def forward(self, m: torch.Tensor, s: torch.Tensor, t: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shifted = s.exp() / b + 0.1  # stays: it is read twice
        return m * t / (s / b + 1e-3), m.exp() * t / shifted, shifted


def test_a_scalar_divisor_of_a_divisor_moves() -> None:
    inputs = (torch.randn(5), torch.rand(5), torch.tensor(-0.3), torch.tensor(0.6))
    program = export(Update(), inputs)
    assert operators(program)["Div"] == 3  # one of four is gone
    assert_same(run_session(session_of(program), program, inputs), Update()(*inputs), tol=(1e-6, 1e-6))


class RowSums(nn.Module):
    """Over all axes but the last, with and without keeping them; and over others, which stay."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum((0, -2)), y.sum(0, keepdim=True), x.sum((0, 1), keepdim=True), x.sum(0), y.sum(1)


def test_sums_of_rows_are_products_where_they_are_asked_for() -> None:
    inputs = (torch.randn(3, 4, 5), torch.randn(7, 6))
    assert operators(export(RowSums(), inputs))["ReduceSum"] == 5
    program = export(RowSums(), inputs, options=Options(ir_passes=(SumRows(),)))
    assert (operators(program)["ReduceSum"], operators(program)["MatMul"]) == (2, 3)
    assert_same(run_session(session_of(program), program, inputs), RowSums()(*inputs), tol=(1e-6, 1e-6))
    dynamic = export(RowSums(), inputs, dynamic_shapes=({0: "n"}, {0: "m"}), options=Options(ir_passes=(SumRows(),)))
    assert operators(dynamic)["MatMul"] == 0


class Turned(nn.Module):
    """Axes in another order twice: together a third order, or that of before; and where the first is used, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = x.exp().transpose(1, 2)
        back = x.sin().permute(1, 2, 0).permute(2, 0, 1) * 2
        shared = x.cos().transpose(0, 1)
        return turned.transpose(0, 1) + 1, back, shared + 1, shared.transpose(1, 2) * 2


def test_two_transpositions_are_one() -> None:
    x = torch.randn(2, 3, 4)
    program = export(Turned(), (x,))
    assert operators(program)["Transpose"] == 3
    assert_same(run_session(session_of(program), program, (x,)), Turned()(x))


class Expanded(nn.Module):
    """Where another operand has the sizes, in a product too; and where none has them or all axes, or the result is an
    output."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        three = x.expand(3, -1, -1)
        alone, out = x[:1].sin().expand(2, -1), x[:1].cos().expand(2, -1)
        row = y[0, 0]
        return (
            three @ y,
            x.exp()[None].expand(3, -1, -1) + y.sum((1, 2), keepdim=True),
            alone * alone,
            row.expand(1, 1, -1) + row,
            row.sin().expand(1, 1, -1) * y[:2],
            x[0].expand(3, 1, -1) @ y,
            out,
        )


def test_an_operand_is_expanded_where_no_other_has_its_sizes() -> None:
    cases = [(torch.randn(n, 4), torch.randn(3, 4, 5)) for n in (2, 6)]
    program = export(Expanded(), cases[0], dynamic_shapes=({0: "n"}, None))
    assert operators(program)["Expand"] == 4
    session = session_of(program)
    for case in cases:
        assert_same(run_session(session, program, case), Expanded()(*case), tol=(1e-5, 1e-5))


@pytest.mark.parametrize(("attributes", "sizes"), [({}, [2, 3, 4]), ({"start": 1}, [3, 4]), ({"end": 2}, [2, 3])])
def test_sizes_that_are_numbers_are_constants(attributes: dict[str, int], sizes: list[int]) -> None:
    x = ir.Value(name="x", shape=ir.Shape([2, 3, 4]), type=ir.TensorType(ir.DataType.FLOAT))
    shape = ir.node("Shape", [x], attributes)
    last = ir.node("Identity", [shape.outputs[0]])
    graph = ir.Graph([x], last.outputs, nodes=[shape, last], opset_imports={"": 23})
    FoldConstants()(ir.Model(graph, ir_version=10))
    (value,) = last.inputs
    assert value is not None
    assert value.const_value is not None
    assert value.const_value.numpy().tolist() == sizes


class LowRank(nn.Module):
    """An output that a lowering makes and that is transposed twice, as its own matrix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.svd_lowrank(x, q=2)[2]


def test_an_output_that_takes_the_place_of_another_has_its_shape() -> None:
    (output,) = export(LowRank(), (torch.randn(5, 4),)).model.graph.outputs
    assert list(output.shape or ()) == [4, 2]
