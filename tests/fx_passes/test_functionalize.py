"""Generated programs of views and writes: the functional graph computes what eager PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import sympy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fxport import Options
from fxport.diagnostics import Log
from fxport.exporter.capture import capture
from fxport.fx_passes import run_passes
from fxport.fx_passes.graph import SizeError
from fxport.fx_passes.passes import functionalize as functionalization
from fxport.fx_passes.passes.functionalize import functionalize, shares_storage, unsupported
from fxport.fx_passes.pipeline import PREPARE
from fxport.fx_passes.program import OutputKind

Step = Callable[[torch.Tensor], torch.Tensor]

VIEWS: dict[str, Step] = {
    "x[1:]": lambda x: x[1:] if x.shape[0] > 1 else x,
    "x[::2]": lambda x: x[::2],
    "x.narrow(0, 0, 1)": lambda x: x.narrow(0, 0, 1),
    "x.narrow(-1, -1, 1)": lambda x: x.narrow(-1, -1, 1),
    "x[0]": lambda x: x[0] if x.dim() > 1 else x,
    "x[..., -1:]": lambda x: x[..., -1:],
    "x.transpose(0, -1)": lambda x: x.transpose(0, -1),
    "x.unsqueeze(1)": lambda x: x.unsqueeze(1),
    "x.squeeze()": lambda x: x.squeeze() if x.squeeze().dim() else x,
    "x.reshape(-1)": lambda x: x.reshape(-1),
    "x.flatten()": lambda x: x.flatten(),
    "x.split(2)[0]": lambda x: x.split(2)[0],
    "x.unbind()[0]": lambda x: x.unbind()[0] if x.dim() > 1 else x,
    "x.chunk(2, -1)[-1]": lambda x: x.chunk(2, -1)[-1],
    "x.diagonal()": lambda x: x.diagonal() if x.dim() == 2 else x,
    "x.permute": lambda x: x.permute(*range(x.dim())[::-1]),
    "x.expand": lambda x: x.expand(x.shape),
    "dropout(x, training=False)": lambda x: torch.nn.functional.dropout(x, 0.5, training=False),
    "dropout(x, 0.0)": lambda x: torch.nn.functional.alpha_dropout(x, 0.0, training=True),
    "einsum(x)": lambda x: torch.einsum("...i->i...", x),
    "atleast_3d(x)": lambda x: torch.atleast_3d(x),
    "broadcast_tensors(x, 0)[0]": lambda x: torch.broadcast_tensors(x, torch.zeros(()))[0],
    "x.sum_to_size": lambda x: x.sum_to_size(x.shape),
    "x.type_as(x)": lambda x: x.type_as(x),
}

WRITES: dict[str, Step] = {
    "x.add_(1)": lambda x: x.add_(1),
    "x.mul_(2)": lambda x: x.mul_(2),
    "x.fill_(3)": lambda x: x.fill_(3),
    "x.zero_()": lambda x: x.zero_(),
    "cumsum(x, out=x)": lambda x: torch.cumsum(x.clone(), 0, out=x),
    "x.copy_(x.flip(0))": lambda x: x.copy_(x.flip(0)),
    "x.relu_()": lambda x: x.relu_(),
    "x.clamp_(-1, 1)": lambda x: x.clamp_(-1, 1),
    "x.masked_fill_": lambda x: x.masked_fill_(x > 0, -1.0),
    "x += x": lambda x: x.add_(x.sum()),
}

PROGRAMS = st.lists(
    st.tuples(st.lists(st.sampled_from(sorted(VIEWS)), max_size=3), st.sampled_from(sorted(WRITES))),
    min_size=1,
    max_size=4,
)


class Writing(torch.nn.Module):
    """Each step writes through a chain of views; all views taken so far, and the base, are returned."""

    def __init__(self, program: list[tuple[list[str], str]], mutate_input: bool) -> None:
        super().__init__()
        self.program = program
        self.mutate_input = mutate_input

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        base = x if self.mutate_input else x.clone()
        seen = [base]
        for views, write in self.program:
            view = base
            for name in views:
                view = VIEWS[name](view)
            seen.append(view)
            WRITES[write](view)
        return [each.clone() for each in seen]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PROGRAMS, st.booleans())
def test_writes_become_values(program: list[tuple[list[str], str]], mutate_input: bool) -> None:
    model, x = Writing(program, mutate_input), torch.randn(4, 4)
    captured = capture(model, (x.clone(),), None, None, Options(), Log())
    assert not unsupported(captured.graph_module)
    functional = run_passes(captured, PREPARE, Log())
    assert not any(_mutates(node) for node in functional.graph_module.graph.nodes)
    given_x = x.clone()
    results: Any = functional.graph_module(*[captured.tensors[e.target] for e in captured.inputs if e.target], given_x)
    expected_x = x.clone()
    expected = model(expected_x)
    kinds = [output.kind for output in functional.outputs]
    user = [r for r, kind in zip(results, kinds, strict=True) if kind is OutputKind.USER]
    torch.testing.assert_close(user, expected)
    torch.testing.assert_close(given_x, x, msg="the functional graph wrote to its input")
    mutated = [r for r, kind in zip(results, kinds, strict=True) if kind is OutputKind.MUTATION]
    if mutated:
        torch.testing.assert_close(mutated, [expected_x])
    else:
        torch.testing.assert_close(expected_x, x)


@pytest.mark.parametrize(
    "view",
    [lambda x: x[0].expand(3, 4)[0], lambda x: x.flatten().as_strided((3, 2), (1, 1))[1]],
    ids=["expand", "as_strided"],
)
def test_a_write_where_several_elements_lie_in_one_place_is_refused(view: Step) -> None:
    class Overlapping(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            view(x).add_(1)
            return x

    log = Log()
    captured = capture(Overlapping(), (torch.randn(4, 4),), None, None, Options(), log)
    run_passes(captured, (functionalize,), log)
    (finding,) = log.findings
    assert finding.rule.id == "FXP3002"
    assert finding.facts["op"] == "aten.add_.Tensor"


class NativeBatchNorm(torch.nn.Module):
    """Batch normalization by the op that returns what the backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stats = (self.get_buffer("running_mean"), self.get_buffer("running_var"))
        y, mean, _ = torch.native_batch_norm(x, None, None, *stats, True, 0.2, 1e-5)
        return y + mean


def _mutates(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (torch.nn.BatchNorm1d(3), torch.randn(8, 3)),
        (torch.nn.BatchNorm1d(3), torch.randn(8, 3, dtype=torch.bfloat16)),
        (torch.nn.BatchNorm1d(3), torch.randn(0, 3)),
        (torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True), torch.randn(8, 3, 4, 5)),
        (NativeBatchNorm(), torch.randn(8, 3)),
    ],
    ids=["batch", "batch-bfloat16", "empty", "instance", "native"],
)
def test_normalization_in_training_updates_its_statistics(model: torch.nn.Module, x: torch.Tensor) -> None:
    model = model.to(x.dtype).train()
    captured = run_passes(capture(model, (x,), None, None, Options(), Log()), (functionalize,), Log())
    updates = {o.updates: i for i, o in enumerate(captured.outputs) if o.kind is OutputKind.MUTATION}
    assert ({"running_mean", "running_var"} <= set(updates)) == (x.numel() > 0)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    values = [captured.tensors[e.target].clone() if e.target else x for e in captured.inputs]
    results = captured.graph_module(*values)
    expected = model(x)
    torch.testing.assert_close(results[0], expected)
    for name, after in model.named_buffers():
        torch.testing.assert_close(results[updates[name]] if name in updates else before[name], after)


class Overloads(torch.nn.Module):
    """In-place ops whose functional form goes by another overload name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.abs() + 1
        y.pow_(-0.5)
        y.pow_(x)
        y.float_power_(2)
        y.floor_divide_(x)
        return y.ldexp_(torch.tensor(2))


def test_an_overload_with_the_same_arguments_is_found() -> None:
    x = torch.rand(3, 4, dtype=torch.float64)
    captured = run_passes(capture(Overloads(), (x,), None, None, Options(), Log()), (functionalize,), Log())
    assert not any(_mutates(node) for node in captured.graph_module.graph.nodes)
    constants = [captured.tensors[entry.target] if entry.target else x for entry in captured.inputs]
    torch.testing.assert_close(captured.graph_module(*constants)[0], Overloads()(x))


@pytest.mark.parametrize(
    "asked", [GuardOnDataDependentSymNode(sympy.Symbol("u0") > 0, "could not guard"), SizeError("Eq(s0, 64)")]
)
def test_what_pytorch_asks_of_sizes_the_capture_has_answered(asked: Exception) -> None:
    """Of `reshape(1, -1, n, 8)` PyTorch may ask whether n is 0: whether it is a view is what its value says."""
    whole = torch.empty(1, 4, 3, 8)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = whole
    node = graph.call_function(torch.ops.aten.reshape.default, (x, [1, -1, 3, 8]))
    with mock.patch.object(functionalization, "fake_mode_of", side_effect=asked):
        for value, is_view in ((whole.view(1, 4, 3, 8), True), (whole.clone(), False)):
            node.meta["val"] = value
            assert shares_storage(node) == is_view


class Partly(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, z = x.clone(), x * 2
        y[0].add_(1)
        return y.unsqueeze(0), z.transpose(0, 1).reshape(-1)


def test_only_views_of_what_is_written_to_are_asked_about() -> None:
    with mock.patch.object(functionalization, "shares_storage", wraps=shares_storage) as asked:
        run_passes(capture(Partly(), (torch.rand(3, 4),), None, None, Options(), Log()), (functionalize,), Log())
    targets = {each.args[0].target for each in asked.call_args_list}
    assert torch.ops.aten.unsqueeze.default in targets
    assert not targets & {torch.ops.aten.transpose.int, torch.ops.aten.reshape.default}
