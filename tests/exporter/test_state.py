"""What a model changes: an output for each new value, and an input that it goes back into."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from fxport.exporter.lowering.lower.walk import STATE
from fxport.exporter.validation import reference
from tests.running import assert_same, run_session, session_of


class Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0)
        x.mul_(2)
        return x + self.total


def test_state_becomes_outputs() -> None:
    log = Log()
    model, x = Stateful(), torch.ones(3, 2)
    program = export(model, (x,), log=log)
    assert [value.name for value in program.model.graph.outputs] == ["output", "total.updated", "x.updated"]
    assert [finding.rule.id for finding in log.findings] == ["FXP1005", "FXP1005"]
    torch.testing.assert_close(model.total, torch.zeros(2), msg="the export changed the model")
    torch.testing.assert_close(x, torch.ones(3, 2), msg="the export changed the example")
    results = run_session(session_of(program), program, (torch.ones(3, 2),))
    assert_same(results, [torch.full((3, 2), 5.0), torch.full((2,), 3.0), torch.full((3, 2), 2.0)])


def test_a_state_is_an_input_with_a_value_of_its_own() -> None:
    """Left out, it is what the model holds; fed with what an earlier run gave, the model goes on from there."""
    model, x = Stateful(), torch.ones(3, 2)
    program = export(model, (x,))
    session = session_of(program)
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [each.name for each in session.get_overridable_initializers()] == ["total"]
    updates = json.loads(session.get_modelmeta().custom_metadata_map[STATE])
    assert updates == {"total.updated": "total", "x.updated": "x"}
    fed: dict[str, np.ndarray] = {"x": np.ones((3, 2), np.float32)}
    for _ in range(3):
        want = model(torch.from_numpy(fed["x"].copy()))
        got = dict(zip(("output", *updates), map(np.asarray, session.run(None, fed)), strict=True))
        np.testing.assert_array_equal(got["output"], want)
        fed = {updates[name]: array for name, array in got.items() if name in updates}


class ByData(torch.nn.Module):
    """A buffer and a weight that get new values by `.data`, in both ways of writing it."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0], [5.0, 12.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.data = self.mean * 0.5 + x.mean(0)
        self.weight.data = torch.nn.functional.normalize(self.weight.data)
        self.weight.data.mul_(2)
        return x @ self.weight - self.mean


def test_new_values_by_data_are_state() -> None:
    log = Log()
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    program = export(ByData(), (x,), log=log)
    assert {finding.rule.id for finding in log.findings} == {"FXP1005"}
    model = ByData()
    with torch.no_grad():
        want = {"output": model(x), "mean.updated": model.mean, "weight.updated": model.weight}
    names = [str(value.name) for value in program.model.graph.outputs]
    assert_same(run_session(session_of(program), program, (x,)), [want.pop(name) for name in names])
    assert not want


class Plain(torch.nn.Module):
    """Writes to tensors that are no buffers, one of them in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.kept = torch.ones(4), [torch.zeros(4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.plain.mul_(2)
        self.kept[0].add_(1)
        return x + self.plain + self.kept[0]


def test_tensors_that_are_no_buffers_are_given_back() -> None:
    model, x = Plain(), torch.randn(3, 4)
    program = export(model, (x,))
    torch.testing.assert_close(model.plain, torch.ones(4), msg="the export changed the model")
    results = run_session(session_of(program), program, (x,))
    assert_same(results, [x + 3, torch.full((4,), 2.0), torch.ones(4)])
    after = {
        case.label: [array[0] for name, array in case.outputs.items() if name != "output"]
        for case in reference.cases(model, (x,), {}, program, Log())
    }
    assert after == {"sample": [2, 1], "later": [4096, 12]}
    assert_same([model.plain, *model.kept], [torch.ones(4), torch.zeros(4)])


class Growing(torch.nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x])
        return self.seen.sum(0)


def test_a_buffer_of_other_sizes_than_before() -> None:
    program = export(Growing(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    session = session_of(program)
    for n in (3, 5, 1):
        model, x = Growing(), torch.randn(n, 4)
        assert_same(run_session(session, program, (x,)), [model(x), model.seen])


def test_a_state_that_gets_another_shape_is_a_warning() -> None:
    log = Log()
    export(Growing(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), log=log)
    (finding,) = log.findings
    assert (finding.rule.id, finding.level) == ("FXP1005", Level.WARNING)
    assert any("another shape" in fix.description for fix in finding.fixes)


class Overlapping(torch.nn.Module):
    state: torch.Tensor
    middle: torch.Tensor
    rest: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))
        self.register_buffer("middle", self.state[1:3])
        self.register_buffer("rest", self.state[:0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(x)
        return self.middle * 2 + self.rest.sum()


class WritesToOne(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x += 1  # seen in y
        return y * 2


def test_a_write_to_memory_that_another_input_of_the_example_shares() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(ExportError) as raised:
        export(WritesToOne(), (x, x[0]))
    (finding,) = [each for each in raised.value.log.findings if each.rule.id == "FXP1031"]
    assert (finding.facts["name"], finding.facts["other"]) == ("x", "y")
    assert finding.place is not None
    assert finding.place.snippet is not None
    assert "x += 1  # seen in y" in finding.place.snippet


def test_a_write_to_memory_that_another_buffer_shares() -> None:
    with pytest.raises(ExportError) as raised:
        export(Overlapping(), (torch.ones(4),))
    (finding,) = [each for each in raised.value.log.findings if each.rule.id == "FXP1031"]
    assert (finding.facts["name"], finding.facts["other"]) == ("state", "middle")
    assert finding.place is not None
    assert finding.place.snippet is not None
    assert "self.state.add_(x)" in finding.place.snippet
