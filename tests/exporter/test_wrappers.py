"""Wrappers around parts of a model, in one process: no export has them. Those of several: tests/distributed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from fxport import export
from fxport.exporter.distributed import wrapped_by
from tests.running import assert_same, run_session, session_of


class Around(torch.nn.Module):
    """Has another module inside, as it is or wrapped."""

    def __init__(self, wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = torch.nn.ModuleList([wrap(torch.nn.Linear(3, 3)), torch.nn.Tanh()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WRAPPERS = (
    torch.nn.DataParallel,
    torch.nn.parallel.DistributedDataParallel,
    torch.compile,
    checkpoint_wrapper,
    lambda module: torch.nn.DataParallel(checkpoint_wrapper(module)),
)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_wrappers_inside_of_a_model_are_looked_through(wrap: Callable[..., Any], process_group: None) -> None:
    model, x = Around(wrap), torch.randn(2, 3)
    program = export(model, (x,), dynamic_shapes=({0: "n"},))
    assert set(program.program.tensors) == {"parts.0.weight", "parts.0.bias"}
    assert_same(run_session(session_of(program), program, (x,)), [Around(lambda module: module)(x)])
    assert wrapped_by(model.parts[0]) is not None


def test_the_hooks_on_a_wrapper_stay(process_group: None) -> None:
    model, x = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3)), torch.randn(2, 3)
    model.register_forward_hook(lambda _, args, output: -output)  # type: ignore[arg-type, return-value]
    program = export(model, (x,))
    assert_same(run_session(session_of(program), program, (x,)), [-model.module(x)])
