"""Each pass: its golden, that eager results stay, that a second run changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxport import Options
from fxport.diagnostics import Log
from fxport.exporter.capture import capture
from fxport.fx_passes import Program, run_passes
from fxport.fx_passes.passes.promote_types import promote_types
from fxport.fx_passes.program import OutputKind
from tests.cases.passes import CASES, PassCase


class Forward(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def captured(case: PassCase) -> Program:
    inputs = tuple(tensor.clone() for tensor in case.inputs)
    model, shapes = Forward(case.forward), ({0: "n"},)
    if case.by_torch:
        with torch.no_grad():
            model, shapes = torch.export.export(model, inputs, dynamic_shapes=({0: torch.export.Dim("n")},)), None
    program = capture(model, inputs, None, shapes, Options(), Log())
    return run_passes(program, case.before, Log())


def run(program: Program, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """The user's outputs of the graph module itself, run as the Python that it is."""
    held = {entry.name: program.tensors[entry.target] for entry in program.inputs if entry.target is not None}
    given = iter(tensor.clone() for tensor in inputs)
    values = [held[entry.name] if entry.target is not None else next(given) for entry in program.inputs]
    results = program.graph_module(*values)
    return [r for r, out in zip(results, program.outputs, strict=False) if out.kind is OutputKind.USER]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.each.name)
def test_pass(case: PassCase, golden: Callable[[str, str], None]) -> None:
    program = captured(case)
    before = program.graph_module.print_readable(print_output=False)
    program = run_passes(program, (case.each,), Log())
    after = program.graph_module.print_readable(print_output=False)
    assert before != after, "the model of this row shows no effect of the pass"
    golden(f"{case.each.name}.fx.txt", _without_paths(f"Given\n{before}\nResult\n{after}"))
    expected = case.forward(*(tensor.clone() for tensor in case.inputs))
    torch.testing.assert_close(run(program, case.inputs), [expected])
    again = run_passes(program, (case.each,), Log()).graph_module.print_readable(print_output=False)
    assert again == after, "a second run changed the graph again"


def _without_paths(text: str) -> str:
    """Lines about files are of one machine."""
    return "\n".join(line for line in text.splitlines() if "# File:" not in line)


class Quotients(torch.nn.Module):
    """Of each, two operands are of another type than the third."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        return [torch.addcdiv(x + n, y + n, z + n) for n in range(12)]


def test_casts_of_operands_are_in_their_order() -> None:
    log = Log()
    inputs = torch.ones(3), torch.ones(3), torch.ones(3, dtype=torch.float64)
    gm = torch.export.export(Quotients(), inputs).graph_module
    assert promote_types(gm, log)
    casts = [
        (node, user) for node in gm.graph.nodes for user in node.users if user.target is torch.ops.aten.addcdiv.default
    ]
    made = [user.args.index(node) for node, user in casts if node.target is torch.ops.aten._to_copy.default]
    assert made == [0, 1] * 12
