"""Views have the sizes that a model asks for, and what PyTorch learns where it compares them stays a condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import Options, export
from fxport.diagnostics import Log, rules
from tests.modules import module_with
from tests.running import assert_same, run_session, session_of

aten = torch.ops.aten


class Windows(nn.Module):
    """Parts a picture into windows, whose features it reads as rows, and puts the picture together again."""

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        parts = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
        parts = parts.softmax(1).view(b, h // 4, w // 4, 4, 4, c)
        return parts.permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)


def exported(log: Log) -> Any:
    shapes = {0: "batch", 2: "height", 3: "width"}
    return export(
        Windows(),
        (torch.randn(2, 3, 8, 12),),
        dynamic_shapes=(shapes,),
        options=Options(keep_exported_program=True),
        log=log,
    )


def test_the_size_of_a_window_is_a_number() -> None:
    graph = exported(Log()).exported_program.graph
    views = [node for node in graph.nodes if node.target in (aten.view.default, aten.reshape.default)]
    shapes = [list(node.meta["val"].shape) for node in views]
    six = [shape for shape in shapes if len(shape) == 6]
    assert six
    assert all(sum(type(size) is int for size in shape) >= 2 for shape in six), six


def test_what_is_asked_stays_a_condition() -> None:
    log = Log()
    program = exported(log)
    told = {f.facts["dim"]: f.facts["range"] for f in log.findings if f.rule is rules.DIMENSION_RANGE_NARROWED}
    assert told == {"height": "a multiple of 4", "width": "a multiple of 4"}
    session = session_of(program)
    for shape in ((1, 3, 4, 16), (3, 3, 20, 8)):
        x = torch.randn(shape)
        assert_same(run_session(session, program, (x,)), [Windows()(x)])


@pytest.mark.parametrize("shape", [(2, 3, 9, 12), (2, 3, 8, 10)])
def test_a_picture_that_has_no_such_windows_fails(shape: tuple[int, ...]) -> None:
    program = exported(Log())
    with pytest.raises(Exception, match="Reshape"):
        run_session(session_of(program), program, (torch.randn(shape),))


ASKED_BY_IDENTITY = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        few, many = 4, 1000
        if x.shape[0] is 3:
            return x + 1
        if few is x.shape[0] or x.shape[0] is many or x.shape[0] is x.shape[1]:
            return x + 7
        if x.shape[0] - 9 is -1:
            return x + 11
        return x - (2 if x.size(0) is not 5 else 4) * (3 if x.size(0) is 1000 else 1)
"""


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_size_is_a_number_as_python_has_it(tmp_path: Path) -> None:
    model = module_with(ASKED_BY_IDENTITY, tmp_path, "identity").Model()
    program = export(model, (torch.ones(3, 2),), dynamic_shapes=({0: "n"},))
    session = session_of(program)
    for count in (3, 5, 7, 1, 4, 8, 2, 1000):
        x = torch.randn(count, 2)
        assert_same(run_session(session, program, (x,)), [model(x)])
