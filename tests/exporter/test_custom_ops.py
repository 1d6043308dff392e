"""Custom operators: their Python as nodes, a user's lowering for those that write, and nodes of their own domain."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from fxport import ExportError, Options, export
from tests.running import assert_same, run_exported, run_session, session_of


@torch.library.custom_op("fxport_ops::bent", mutates_args=())
def bent(x: Tensor, by: float = 0.5) -> Tensor:
    return torch.where(x > 0, x, x * by)


@torch.library.custom_op("fxport_ops::bent_sum", mutates_args=())
def bent_sum(x: Tensor, others: list[Tensor]) -> tuple[Tensor, Tensor]:
    total = sum(others, start=torch.zeros_like(x))
    return bent(total), total.flip(0).contiguous()


@torch.library.custom_op("fxport_ops::raise_by", mutates_args=("x",))
def raise_by(x: Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("fxport_ops::swap", mutates_args=("x", "y"))
def swap(x: Tensor, y: Tensor, scale: Tensor | None = None) -> Tensor:
    before = x.clone()
    x.copy_(y if scale is None else y * scale)
    y.copy_(before)
    return before.sum()


@torch.library.custom_op("fxport_ops::hidden", mutates_args=("x",))
def hidden(x: Tensor, by: float) -> Tensor:
    """What PyTorch cannot trace."""
    x.copy_(torch.from_numpy(x.numpy() + by))
    return torch.from_numpy(x.numpy() * 2)


bent.register_fake(lambda x, by=0.5: torch.empty_like(x))
bent_sum.register_fake(lambda x, others: (torch.empty_like(x), torch.empty_like(x)))
swap.register_fake(lambda x, y, scale=None: x.new_empty(()))
hidden.register_fake(lambda x, by: torch.empty_like(x))


class Pure(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = bent_sum(x, [x, x * 2, x.cos()])
        return bent(first, 0.25) + bent(x), second


class Writes(nn.Module):
    """To a value, a part of one, a buffer, an input, and two at once."""

    def __init__(self, raising: Any = raise_by) -> None:
        super().__init__()
        self.raising = raising
        self.register_buffer("state", torch.ones(4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = x * 2
        self.raising(z, 1.0)
        self.raising(z[:, 1:3], 2.0)
        self.raising(self.get_buffer("state"), 0.5)
        self.raising(y, -1.0)
        a, b = x + 1, z * 3
        total = swap(a, b)
        swap(a, b, self.get_buffer("state"))
        return z, total, a - b


CASES = [(torch.randn(3, 4), torch.randn(2)), (torch.randn(6, 4), torch.randn(2))]


def writes(model: nn.Module, case: tuple[Tensor, Tensor]) -> list[Tensor]:
    """What a call gives, and what it leaves behind."""
    x, y = (value.clone() for value in case)
    model.get_buffer("state").fill_(1)
    return [*model(x, y), model.get_buffer("state").clone(), y]


def check_writes(model: Writes, **options: Any) -> Any:
    shapes = ({0: Dim.AUTO}, None)
    program = export(model, tuple(each.clone() for each in CASES[0]), dynamic_shapes=shapes, **options)
    session = session_of(program)
    names = [value.name for value in program.model.graph.outputs]
    assert names[3:] == ["state.updated", "y.updated"]
    for case in CASES:
        assert_same(run_session(session, program, case), writes(model, case))
    return program


def test_python_becomes_functions_of_the_operators() -> None:
    cases = [(torch.randn(3, 4),), (torch.randn(5, 4),)]
    model = Pure()
    for case, got in zip(cases, run_exported(model, cases, dynamic_shapes=({0: Dim.AUTO},)), strict=True):
        assert_same(got, model(*case))
    program = export(model, cases[0])
    called = [(node.domain, node.op_type) for node in program.model.graph if node.domain]
    assert called == [("fxport_ops", "bent_sum"), ("fxport_ops", "bent"), ("fxport_ops", "bent")]
    assert {function.domain for function in program.model.functions.values()} == {"fxport_ops"}


def test_python_that_writes() -> None:
    check_writes(Writes())


def test_a_users_lowering_of_an_operator_that_writes() -> None:
    """It gives what the operator returns, and behind that the new values of what it writes to."""

    def raised(op: Any, x: Any, by: float) -> Any:
        """raise_by(Tensor(a!) x, float by) -> ()"""
        return op.Add(x, op.const(by, like=x))

    def swapped(op: Any, x: Any, y: Any, scale: Any = None) -> Any:
        """swap(Tensor(a!) x, Tensor(b!) y, Tensor? scale=None) -> Tensor"""
        return op.ReduceSum(x, keepdims=0), y if scale is None else op.Mul(y, scale), op.Identity(x)

    ops = torch.ops.fxport_ops
    program = check_writes(Writes(), lowerings={ops.raise_by.default: raised, ops.swap.default: swapped})
    assert not program.model.functions


def test_what_cannot_be_traced_is_named_at_its_line() -> None:
    with pytest.raises(ExportError) as raised:
        export(Writes(hidden), CASES[0])
    findings = [each for each in raised.value.log.findings if each.rule.id == "FXP3001"]
    assert {each.message for each in findings} == {"No ONNX lowering for 'fxport_ops.hidden.default'."}
    assert "self.raising(z, 1.0)" in ((findings[0].place and findings[0].place.snippet) or "")
    assert "numpy" in str(findings[0].facts["decomposition"])


def test_nodes_of_the_operators_own_domain() -> None:
    program = export(Writes(hidden), CASES[0], options=Options(custom_ops=True))
    nodes = [node for node in program.model.graph if node.domain == "fxport_ops" and node.op_type == "hidden"]
    assert len(nodes) == 4
    assert nodes[0].attributes["by"].as_float() == 1.0
    assert [len(node.outputs) for node in nodes] == [2] * 4
    rules = {each.rule.id for each in program.log.findings}
    assert "FXP3006" in rules
    assert "FXP3001" not in rules


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # PyTorch's own, about how it copies a program
def test_what_pytorch_made_functional() -> None:
    """As `run_decompositions` leaves operators that write: with their views, on what is written to."""
    with torch.no_grad():
        captured = torch.export.export(Writes(), CASES[0], dynamic_shapes=({0: Dim.AUTO}, None))
        exported = captured.run_decompositions({})
    hop = torch.ops.higher_order.auto_functionalized_v2
    assert any(node.target is hop for node in exported.graph.nodes)
    program = export(exported)
    session, model = session_of(program), Writes()
    names = [value.name for value in program.model.graph.outputs]
    for case in CASES:
        wanted = writes(model, case)
        got = dict(zip(names, run_session(session, program, case), strict=True))
        updated = [got.pop("state.updated"), got.pop("y.updated")]
        assert_same([*got.values(), *updated], wanted)


class Primitive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.prims.sum(x, [1])


def test_operators_of_pytorch_become_no_functions() -> None:
    """PyTorch registers some of its own as a library does."""
    program = export(Primitive(), (torch.ones(2, 3),))
    assert not program.model.functions
    assert [node.op_type for node in program.model.graph] == ["ReduceSum"]
