"""What a model changes: an output for each new value, and an input that it goes back into."""

from __future__ import annotations

import json

import numpy as np
import torch

from diagnostics import Log
from exporter import export
from exporter.lower.walk import STATE
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
