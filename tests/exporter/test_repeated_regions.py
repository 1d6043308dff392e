"""Regions of nested_compile_region against eager PyTorch: one function for the calls of which the same is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from fxport import OnnxProgram, Options, export
from fxport.exporter.lowering.ir_passes.outline_regions import DOMAIN
from fxport.exporter.lowering.lower.places import PlaceTable
from tests.running import assert_same, run_session, session_of

AUTO = Dim.AUTO
region: Any = torch.compiler.nested_compile_region  # whose types are of another version


class Block(nn.Module):
    """A layer whose sizes, mask and buffer are those of all layers, and whose weights are its own."""

    def __init__(self, scale: float = 2.0, act: str = "gelu") -> None:
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale, self.act = scale, getattr(functional, act)

    @region
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.back(self.act(self.wide(self.norm(x)))) * self.scale
        y = y.reshape(x.shape[0] * x.shape[1], -1) + torch.arange(x.shape[0] * x.shape[1])[:, None]
        return torch.where(mask, x + y.reshape(x.shape), x)


class Stack(nn.Module):
    """Two ends around layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        mask = x > 0
        for layer in self.layers:
            x = layer(x, mask)
        return x.softmax(-1)


@region
def decayed(x: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    x = x.tanh() + by
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (x, by)), by * 0.5


class Both(nn.Module):
    """A region inside of another, which is called twice in it, and a branch inside of that."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    @region
    def outer(self, x: Tensor, layer: nn.Module) -> Tensor:
        y, by = decayed(layer(x), x)
        y, by = decayed(y, by)
        return y.relu() + by

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.outer(x, self.first), self.second).cos()


class Writes(nn.Module):
    """A region that writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    @region
    def count(self, x: Tensor) -> Tensor:
        self.get_buffer("seen").add_(x.sum(0))
        return x * self.get_buffer("seen").sin()

    def forward(self, x: Tensor) -> Tensor:
        return self.count(self.count(x))


def calls(program: OnnxProgram) -> Counter[str]:
    """The calls of functions in the graph, by their names."""
    return Counter(node.op_type for node in program.model.graph if node.domain == DOMAIN)


def agrees(model: nn.Module, cases: list[Tensor], dynamic: dict[int, Any], **options: Any) -> OnnxProgram:
    """The export of a model that gives what the model gives."""
    program = export(model, (cases[0].clone(),), dynamic_shapes=(dynamic,), options=Options(**options))
    session = session_of(program)
    for x in cases:
        with torch.no_grad():
            assert_same(run_session(session, program, (x,)), [model(x)])
    return program


X = [torch.randn(2, 3, 8), torch.randn(4, 5, 8)]


@pytest.mark.parametrize("opset", [18, 23, 26])
def test_layers_are_one_function(opset: int) -> None:
    program = agrees(Stack(*(Block() for _ in range(4))).eval(), X, {0: AUTO, 1: AUTO}, opset=opset)
    assert calls(program) == {"Block": 4}
    (function,) = program.model.functions.values()
    assert {"norm.weight", "wide.bias", "back.weight"} <= {value.name for value in function.inputs}
    assert not {"Transpose", "Shape"} & {node.op_type for node in function}, "weights stay folded, and sizes shared"
    assert {node.op_type for node in program.model.graph} >= {"Greater", "Softmax"}


def test_without_functions() -> None:
    model = Stack(*(Block() for _ in range(4))).eval()
    assert not agrees(model, X, {0: AUTO, 1: AUTO}, functions=False).model.functions


def test_equal_layers_share_and_others_do_not() -> None:
    """Numbers go in, as weights do; another activation makes another function; what is called once stays as it is."""
    layers = [Block(), Block(scale=0.5), Block(act="relu"), Block(act="relu"), Block(act="tanh")]
    program = agrees(Stack(*layers).eval(), X, {0: AUTO, 1: AUTO})
    assert calls(program) == {"Block": 2, "Block_1": 2}
    assert "Tanh" in {node.op_type for node in program.model.graph}


def test_functions_within_functions() -> None:
    program = agrees(Both().eval(), [torch.randn(3, 4), torch.ones(5, 4), -torch.ones(2, 4)], {0: AUTO})
    assert calls(program) == {"outer": 2}
    functions = {function.name: function for function in program.model.functions.values()}
    assert Counter(node.op_type for node in functions["outer"])["decayed"] == 2
    assert "If" in {node.op_type for node in functions["decayed"]}


def test_regions_that_write() -> None:
    model = Writes()
    program = export(model, (torch.ones(2, 3),))
    got = run_session(session_of(program), program, (torch.ones(2, 3),))
    assert_same(got, [model(torch.ones(2, 3)), model.seen])


def test_nodes_and_calls_have_their_lines() -> None:
    program = export(Stack(Block(), Block()).eval(), (X[0],))
    table = PlaceTable(program.model)
    (function,) = program.model.functions.values()
    called = {line(table, node) for node in program.model.graph if node.domain == DOMAIN}
    assert called == {"x = layer(x, mask)"}
    assert "return torch.where(mask, x + y.reshape(x.shape), x)" in {line(table, node) for node in function}


def line(table: PlaceTable, node: ir.Node) -> str | None:
    place = table.of(node)
    return None if place is None else source_line(place.path, place.line)


def source_line(path: str, number: int) -> str:
    with open(path, encoding="utf-8") as file:
        return file.readlines()[number - 1].strip()


def test_random_numbers_differ_from_call_to_call() -> None:
    class Noisy(nn.Module):
        @region
        def noise(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.noise(x), self.noise(x * 1.0)

    program = export(Noisy(), (torch.zeros(100),))
    first, second = run_session(session_of(program), program, (torch.zeros(100),))
    assert not torch.equal(first, second)
