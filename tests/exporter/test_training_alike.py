"""A step is traced once, and of updates that are alike one: what comes of it is what PyTorch comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch._functorch import aot_autograd
from torch.fx.node import map_arg

from fxport.exporter.training import draws, export_training_step, step
from fxport.exporter.training.alike import ALIKE, BEGINS, ENDS
from fxport.fx_passes.graph import PART
from tests.training import assert_teacher_forced, batches, classify, fed, opened


class Scaled(nn.Module):
    """Parameters of two dimensions, of one, and of none; one that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 6), nn.Linear(6, 4)
        self.scale, self.shift = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(0.5))
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x)) * self.scale + self.shift * self.frozen)


def two_groups(model: Scaled) -> list[dict[str, Any]]:
    rest = [model.scale, model.shift, model.frozen, model.last.bias]
    return [
        {"params": [*model.first.parameters(), model.last.weight]},
        {"params": rest, "lr": 0.2, "weight_decay": 0.1},
    ]


MAKERS = {
    "adamw": lambda groups: optim.AdamW(groups, lr=0.01),
    "dampening": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.3),
    "radam": lambda groups: optim.RAdam(groups, lr=0.01),
    "adafactor": lambda groups: optim.Adafactor(groups, lr=0.01),
}


@pytest.mark.parametrize("name", MAKERS)
def test_updates_of_many_shapes_in_several_groups(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Scaled().train()
    program = assert_teacher_forced(
        model, MAKERS[name](two_groups(model)), classify, batches(*[16] * 3), tmp_path, steps=3
    )
    marks = {BEGINS.default, ENDS.default, ALIKE.default}
    assert not [node for node in program.program.graph_module.graph.nodes if node.target in marks]


def test_the_model_is_run_once_and_one_update_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    step, model = optim.SGD.step, nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)])
    plain = getattr(step, "__wrapped__", step)

    def watched(self: optim.SGD, closure: Any = None) -> Any:
        seen.append(sum(len(group["params"]) for group in self.param_groups))
        return plain(self, closure)

    watched.__module__ = step.__module__
    monkeypatch.setattr(optim.SGD, "step", watched)
    export_training_step(model, optim.SGD(model.parameters(), lr=0.1), classify, batches(4)[0])
    assert seen == [1]


def test_updates_and_inputs_that_are_alike_are_one_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    described: list[int] = []
    expand, collect = step.expand, aot_autograd.run_functionalized_fw_and_collect_metadata

    def watched(gm: torch.fx.GraphModule, *args: Any) -> None:
        made.extend(len(node.users) for node in gm.graph.nodes if node.target is ALIKE.default)
        expand(gm, *args)

    def counted(function: Any, **how: Any) -> Any:
        return lambda *inputs: described.append(len(inputs)) or collect(function, **how)(*inputs)

    monkeypatch.setattr(step, "expand", watched)
    monkeypatch.setattr(aot_autograd, "run_functionalized_fw_and_collect_metadata", counted)
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)])
    export_training_step(model, optim.Adam(model.parameters()), classify, batches(4)[0])
    assert made == [1]
    assert described == [1]


def test_a_loss_that_writes_to_its_batch_is_traced_as_pytorch_traces_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)

    def doubled(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2.0)
        return classify(model, x, y)

    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = batches(4)[0]
    wanted = classify(model, x * 2, y).item()
    program = export_training_step(model, optimizer, doubled, (x.clone(), y))
    session = opened(program, tmp_path)
    assert float(session.step(fed(("x", "y"), (x, y)))["loss"]) == pytest.approx(wanted, rel=1e-5)


class Dropping(nn.Module):
    """Draws in several shapes with several rates, of which most are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.dropout(layer(x), 0.1)
            x = x + 0.1 * torch.randn_like(x)
        return torch.nn.functional.dropout(torch.nn.functional.dropout(self.last(x), 0.1), 0.5)


def told(program: Any) -> list[tuple[Any, ...]]:
    """All that a graph says but for the names of its nodes."""
    nodes = [*program.program.graph_module.graph.nodes]
    places = {node: place for place, node in enumerate(nodes)}
    return [
        (
            *(node.op, node.target if node.op == "call_function" else None),
            repr(map_arg((node.args, node.kwargs), places.__getitem__)),
            *(str(node.meta.get(key)) for key in ("val", "stack_trace", "nn_module_stack", PART)),
        )
        for node in nodes
    ]


@pytest.mark.parametrize("shapes", [None, ({0: torch.export.Dim("batch")}, {0: torch.export.Dim("batch")})])
def test_draws_that_are_alike_are_one_in_the_trace(monkeypatch: pytest.MonkeyPatch, shapes: Any) -> None:
    torch.manual_seed(0)
    model = Dropping().train()
    traced: list[int] = []
    expand = draws.expand

    def watched(gm: torch.fx.GraphModule) -> None:
        traced.append(sum(node.target is draws.BEGINS for node in gm.graph.nodes))
        expand(gm)

    def exported() -> list[tuple[Any, ...]]:
        call = model, optim.SGD(model.parameters(), lr=0.1), classify, batches(4)[0]
        return told(export_training_step(*call, dynamic_shapes=shapes))

    monkeypatch.setattr(draws, "expand", watched)
    few = exported()
    monkeypatch.setattr(draws, "is_only_trace", lambda: False)
    assert few == exported()
    assert traced == [4, 0]  # two shapes of dropout with a rate, one with another one, and the normal numbers


def test_a_trace_copies_state_without_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    expand = step.expand

    def watched(gm: torch.fx.GraphModule, *args: Any) -> None:
        clones = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
        copied.append(sum(node.args[0].op == "placeholder" for node in clones))
        expand(gm, *args)

    monkeypatch.setattr(step, "expand", watched)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).train()
    export_training_step(model, optim.Adam(model.parameters()), classify, batches(4)[0])
    assert copied == [0]
