"""Python's garbage collector is left as it was found."""

from __future__ import annotations

import gc
import linecache
from typing import Any

import pytest
import torch

import fxport
from fxport.exporter.pipeline.garbage import THRESHOLDS, rare_collections


class Failing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("before", "within"), [((700, 10, 10), THRESHOLDS), ((0, 10, 10), (0, 10, 10)), ((10**6, 30, 5), (10**6, 30, 20))]
)
def test_thresholds_are_restored(before: tuple[int, int, int], within: tuple[int, int, int]) -> None:
    held = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with pytest.raises(fxport.ExportError):
            fxport.export(Failing(), (torch.ones(2),))
        assert gc.get_threshold() == before
        with rare_collections():
            assert gc.get_threshold() == within
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*held)


HELPER = """
def doubled(x):
    if x.sum() > 0:
        return x * 2
    return x - 1
"""


def test_functions_that_are_frozen_are_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has called `gc.freeze`, as servers do before they fork, exports what another one does."""
    path, names = "/elsewhere/helpers.py", dict[str, Any](__name__="elsewhere.helpers")
    monkeypatch.setitem(linecache.cache, path, (len(HELPER), None, HELPER.splitlines(keepends=True), path))
    exec(compile(HELPER, path, "exec"), names)
    called = {"doubled": names["doubled"]}

    class Calling(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return next(iter(called.values()))(x)

    gc.freeze()
    try:
        program = fxport.export(Calling(), (torch.ones(2),))
    finally:
        gc.unfreeze()
    assert "If" in {node.op_type for node in program.model.graph}
