"""Buffers and parameters that forward assigns: results and state over several calls, or refused with the reason."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from tests.exporter.test_capture import line_of
from tests.running import session_of

X = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
CALLS = (X, -X, X[:2] * 3)


class Held(nn.Module):
    """Everything that the rows assign, and to."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("a", "b", "c"):
            self.register_buffer(name, torch.zeros(2))
        self.register_buffer("counts", torch.zeros(2, dtype=torch.int64))
        self.register_buffer("none", None)
        self.plain = torch.ones(2)
        self.weight = nn.Parameter(torch.ones(2))
        self.inner = nn.Module()
        self.inner.register_buffer("a", torch.zeros(2))


def shifted(self: Any, x: Tensor) -> Tensor:
    self.a = self.b
    self.b = x[0]
    return x - self.a


def swapped(self: Any, x: Tensor) -> Tensor:
    self.a, self.b = self.b, self.a
    self.a = self.a + x[0]
    return x * self.b


def swapped_and_written(self: Any, x: Tensor) -> Tensor:
    self.a, self.b = self.b, self.a
    self.a += x[0]
    return x + self.b


def rotated(self: Any, x: Tensor) -> Tensor:
    self.a, self.b, self.c = self.b, self.c, self.a + x[0]
    return x + self.a


def input_kept(self: Any, x: Tensor) -> Tensor:
    y = x + self.a
    self.a = x[0]
    return y


def attribute_kept(self: Any, x: Tensor) -> Tensor:
    y = x + self.a
    self.a = self.plain
    return y


def parameter_replaced(self: Any, x: Tensor) -> Tensor:
    self.weight = nn.Parameter(self.weight * 2)
    return x * self.weight


def by_dictionary(self: Any, x: Tensor) -> Tensor:
    self._buffers["a"] = self.a + 1
    return x + self.a


def of_a_submodule(self: Any, x: Tensor) -> Tensor:
    self.inner.a = self.inner.a + x[0]
    return x + self.inner.a


def both_returned(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    old = self.a
    self.a = x[0] * 2
    return old, self.a


def beside_none(self: Any, x: Tensor) -> Tensor:
    self.none = x.sum(0)
    self.a = self.a * 0.9 + x.mean(0)
    return x - self.a


def made_if_none(self: Any, x: Tensor) -> Tensor:
    if self.none is None:
        self.none = torch.ones_like(x[:1])
    return x + self.none


def assigned_in_turns(self: Any, x: Tensor) -> Tensor:
    old, k = self.a, 0
    while x.sum() > 0 and k < 3:
        self.a = self.a * 0.5 + 1
        x, k = x - 2, k + 1
    return x + self.a + old


def beside_a_gradient(self: Any, x: Tensor) -> Tensor:
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        gradient = torch.autograd.grad((y * self.a.exp()).sum(), y)[0]
    self.a = self.a + gradient[0] / 9
    self.inner.a = self.b
    self.b, self.c = self.c, gradient.mean(0)
    return x * gradient - self.a


def beside_a_function_of_gradients(self: Any, x: Tensor) -> Tensor:
    self.a = self.a + 1
    return torch.func.grad(lambda y: (y.sin() * self.a).sum())(x)


def beside_a_map(self: Any, x: Tensor) -> Tensor:
    self.a = torch.func.vmap(lambda row: row * 2)(x).sum(0)
    return x + self.a


RIGHT: tuple[Callable[..., Any], ...] = (
    shifted,
    swapped,
    swapped_and_written,
    rotated,
    input_kept,
    attribute_kept,
    parameter_replaced,
    by_dictionary,
    of_a_submodule,
    both_returned,
    beside_none,
    made_if_none,
    assigned_in_turns,
    beside_a_gradient,
    beside_a_function_of_gradients,
    beside_a_map,
)


def model_of(forward: Callable[..., Any]) -> nn.Module:
    return type("Model", (Held,), {"forward": forward})().eval()


@pytest.mark.parametrize("forward", RIGHT)
def test_results_and_state_of_several_calls(forward: Callable[..., Any]) -> None:
    model, log = model_of(forward), Log()
    program = export(copy.deepcopy(model), (X,), dynamic_shapes=({0: "n"},), log=log)
    session = session_of(program)
    outputs = [port.name for port in session.get_outputs()]
    initial = model.state_dict()
    overridable = [port.name for port in session.get_overridable_initializers()]
    state = {name: initial[name].numpy().copy() for name in overridable if name in initial}
    for x in CALLS:
        with torch.no_grad():
            wanted = model(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = dict(zip(outputs, map(np.asarray, session.run(outputs, {"x": x.numpy(), **state})), strict=True))
        state |= {name.removesuffix(".updated"): value for name, value in found.items() if name.endswith(".updated")}
        results = [value for name, value in found.items() if not name.endswith(".updated")]
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, want.numpy(), atol=1e-5)
        for name, value in model.state_dict().items():
            if name in initial and name in state:
                np.testing.assert_allclose(state[name], value.numpy(), atol=1e-5, err_msg=name)


def test_a_buffer_of_none_is_told_as_lost() -> None:
    log = Log()
    program = export(model_of(beside_none), (X,), log=log)
    assert [str(value.name) for value in program.model.graph.outputs] == ["output", "a.updated"]
    (lost,) = (finding for finding in log.findings if finding.rule.id == "FXP1016")
    assert lost.facts["name"] == "none"


def one_tensor_twice(self: Any, x: Tensor) -> Tensor:
    self.a = self.b
    self.b.add_(1)
    return x + self.a


def a_view_by_data(self: Any, x: Tensor) -> Tensor:
    if x.sum() > 0:
        self.a = self.b
    self.b += x[0]
    return x + self.a


def other_dtype(self: Any, x: Tensor) -> Tensor:
    self.counts = self.counts + x[0]
    return x


def parameter_as_a_buffer(self: Any, x: Tensor) -> Tensor:
    y = x + self.a
    self.a = self.weight
    return y


def none_again(self: Any, x: Tensor) -> Tensor:
    y = x + self.a
    self.a = None
    return y


REFUSED: dict[Callable[..., Any], str] = {
    one_tensor_twice: "it makes 'b' and 'a' one tensor",
    a_view_by_data: "it makes 'b' and 'a' one tensor",
    other_dtype: "it assigns to 'counts', which holds torch.int64, a tensor of torch.float32",
    parameter_as_a_buffer: "it makes 'a' None, or a buffer of a parameter",
    none_again: "it makes 'a' None",
}


class Tied(nn.Module):
    """One tensor under two names, of which one gets another value."""

    def __init__(self) -> None:
        super().__init__()
        tensor = torch.zeros(2)
        self.register_buffer("a", tensor)
        self.register_buffer("b", tensor)

    def forward(self, x: Tensor) -> Tensor:
        self.a = self.a + x[0]
        return x + self.b


def test_one_tensor_under_two_names_is_refused() -> None:
    with pytest.raises(ExportError) as caught:
        export(Tied(), (X,))
    (found,) = (each for each in caught.value.log.findings if "which was one tensor with" in each.message)
    assert found.place is not None
    assert found.place.line == line_of(Tied.forward, "self.a =")


@pytest.mark.parametrize("forward", REFUSED)
def test_what_the_next_call_would_see_is_refused(forward: Callable[..., Any]) -> None:
    with pytest.raises(ExportError) as caught:
        export(model_of(forward), (X,))
    errors = [finding.message for finding in caught.value.log.findings if finding.level is Level.ERROR]
    assert any(REFUSED[forward] in message for message in errors), errors


class Tables(nn.Module):
    """A table that is built for the sizes of the input, as ConViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_buffer("table", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.inner.table.shape[0] != x.shape[1]:
            self.inner.table = torch.arange(x.shape[1], dtype=torch.float32)
        return x + self.inner.table


def test_a_table_of_other_sizes_is_exported_after_a_call() -> None:
    model = Tables()
    with pytest.raises(ExportError, match="assigns a tensor of other sizes") as raised:
        export(model, (X,))
    (found,) = raised.value.log.findings
    assert "call the model once on the example" in found.fixes[0].description
    want = model(X)
    session = session_of(export(model, (X,)))
    np.testing.assert_array_equal(session.run(None, {"x": X.numpy()})[0], want)
