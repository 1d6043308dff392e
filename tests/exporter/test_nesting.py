"""The structure of a model's results, which its metadata gives back without torch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from exporter import export
from ort_runner import restored
from ort_runner.structure import NoStructure
from tests.running import session_of

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Both:
    sum: Tensor
    rest: Any


class Run(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        self.get_buffer("seen").add_(1)
        return self.function(x)


X = torch.arange(6.0).reshape(2, 3)

CASES: dict[str, tuple[Callable[[Tensor], Any], Any]] = {
    "one": (lambda x: x + 1, X + 1),
    "tuple of one": (lambda x: (x + 1,), (X + 1,)),
    "constants": (lambda x: [x + 1, None, 3, (True, "a")], [X + 1, None, 3, (True, "a")]),
    "dicts": (
        lambda x: {"b": x - 1, "a": {"list": [x * 2, (x * 3, {})], 7: None}},
        {"b": X - 1, "a": {"list": [X * 2, (X * 3, {})], 7: None}},
    ),
    "classes": (
        lambda x: Both(x.sum(), Pair(x + 1, [x + 2])),
        {"sum": X.sum(), "rest": {"left": X + 1, "right": [X + 2]}},
    ),
    "its input": (lambda x: (x, x), (X, X)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_nest_as_they_did(name: str) -> None:
    function, want = CASES[name]
    session = session_of(export(Run(function).eval(), (X.clone(),)))
    names = [each.name for each in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {"x": X.numpy()}), strict=True))
    same(restored(outputs, session.get_modelmeta().custom_metadata_map), want)


def same(got: Any, want: Any) -> None:
    if isinstance(want, Tensor):
        np.testing.assert_array_equal(got, want.numpy())
        return
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = list(got.values()), list(want.values())
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for each, other in zip(got, want, strict=True):
            same(each, other)
    else:
        assert got == want


def test_models_of_others_have_none() -> None:
    with pytest.raises(NoStructure, match=r"fxport\.structure"):
        restored({}, {})
