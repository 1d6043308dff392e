"""The structure of a model's results, which its metadata gives back without torch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxport import export
from fxport.ort_runner import flattened, restored
from fxport.ort_runner.structure import NoStructure, OtherStructure
from tests.running import session_of

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Both:
    sum: Tensor
    rest: Any


@dataclass(frozen=True)
class Derived:
    """A dataclass with a field that its constructor does not take."""

    left: Tensor
    right: Tensor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "right", self.left + 1)


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
    "a field of no constructor": (lambda x: [Derived(x * 2)], [{"left": X * 2, "right": X * 2 + 1}]),
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


class Nested(nn.Module):
    def forward(self, both: Both, parts: dict[str, Any], scale: float = 2.0, *, mask: Tensor | None = None) -> Any:
        total = both.sum * scale + both.rest[0]
        return total if mask is None else total * mask, parts["a"][1] - parts["b"]


ARGUMENTS: dict[str, Any] = {
    "both": Both(X, [X + 1, None]),
    "parts": {"b": X * 3, "a": (X, X * 2)},
    "mask": X % 2,
}


@pytest.fixture(scope="module")
def nested() -> Any:
    given = dict(ARGUMENTS)
    return session_of(export(Nested().eval(), (given.pop("both"), given.pop("parts"), 2.0), given))


def arrays(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, Tensor.numpy, value)


def test_arguments_nest_as_they_did(nested: Any) -> None:
    metadata = nested.get_modelmeta().custom_metadata_map
    as_dict = {**ARGUMENTS, "both": {"sum": X, "rest": (X + 1, None)}}
    for given in (ARGUMENTS, as_dict, {**as_dict, "scale": 2.0}):
        fed = flattened(arrays(given), metadata)
        names = [each.name for each in nested.get_outputs()]
        outputs = dict(zip(names, nested.run(None, fed), strict=True))
        same(restored(outputs, metadata), Nested()(**ARGUMENTS))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scale": 3.0}, "'scale' is 3.0, but was exported as the constant 2.0"),
        ({"other": X}, "no argument 'other'"),
        ({"parts": {"b": X}}, r"'parts\.a' is missing"),
        ({"parts": {"b": X, "a": (X,)}}, r"'parts\.a' has to be a sequence of 2"),
        ({"both": Both(X, [X, 1])}, r"'both\.rest\.1' is 1, but was exported as the constant None"),
    ],
)
def test_other_arguments_are_refused(nested: Any, change: dict[str, Any], text: str) -> None:
    with pytest.raises(OtherStructure, match=text):
        flattened(ARGUMENTS | change, nested.get_modelmeta().custom_metadata_map)


def test_models_of_others_have_none() -> None:
    with pytest.raises(NoStructure, match=r"fxport\.structure"):
        restored({}, {})


class Starred(nn.Module):
    def forward(self, x: Tensor, *rest: Tensor, **named: Tensor) -> Tensor:
        return x + sum(rest) * named["scale"]


def test_arguments_that_forward_collects() -> None:
    session = session_of(export(Starred(), (X, X + 1, X * 2), {"scale": X}))
    given = {"x": X, "rest": (X + 1, X * 2), "scale": X}
    fed = flattened(arrays(given), session.get_modelmeta().custom_metadata_map)
    assert list(fed) == ["x", "rest.0", "rest.1", "scale"]
    np.testing.assert_allclose(np.asarray(session.run(None, fed)[0]), Starred()(X, X + 1, X * 2, scale=X))


class Difference(nn.Module):
    def forward(self, both: Derived) -> Tensor:
        return both.right - both.left * 3


def test_a_field_of_no_constructor_is_an_input() -> None:
    given = Derived(X)
    object.__setattr__(given, "right", X * 5)
    session = session_of(export(Difference(), (given,)))
    fed = flattened(arrays({"both": given}), session.get_modelmeta().custom_metadata_map)
    np.testing.assert_array_equal(np.asarray(session.run(None, fed)[0]), X * 2)
