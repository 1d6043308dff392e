"""After an export, passed or failed, the model and the process are as they were."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Log
from tests.running import run_session, session_of

SHARED = [1.0, 2.0]


class Keeping(nn.Module):
    """Has all kinds of attributes, and a `forward` that changes them; `fails` at the end of it."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.shared, self.inside = SHARED, (SHARED, {"k": [3.0]})
        self.seen: list[Any] = []
        self.memo: dict[str, Any] = {"n": 0}
        self.names = {"a"}
        self.register_buffer("total", torch.zeros(3))
        self.weight = nn.Parameter(torch.ones(3))
        self.plain = torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        self.train(not self.training)
        self.seen.append(x)
        self.shared.append(2.0)
        self.memo["n"] += 1
        self.memo["last"] = x
        self.names.add("b")
        self.total = self.total + 1
        self.plain = self.plain * 2
        self.later = x
        self.register_forward_hook(lambda module, args, result: None)
        if self.fails:
            x = x.to_sparse().to_dense()
        return x * self.shared[0] + self.total * self.weight


def state(model: Keeping) -> dict[str, Any]:
    own = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    held = {f"{name}'s": list(value) for name, value in own.items() if isinstance(value, (list, dict, set))}
    tensors = {**model._parameters, **model._buffers}
    return {
        **own,
        **held,
        **tensors,
        "memo's n": model.memo["n"],
        "shared's": list(SHARED),
        "hooks": len(model._forward_hooks),
    }


@pytest.mark.parametrize("fails", [False, True])
def test_a_model_is_given_back(fails: bool) -> None:
    model = Keeping(fails).eval()
    before = state(model)
    if fails:
        with pytest.raises(ExportError):
            export(model, torch.ones(3), dynamic_shapes=({0: "n"},))
    else:
        export(model, torch.ones(3))
    after = state(model)
    assert list(after) == list(before)
    assert [name for name, value in after.items() if value is not before[name] and not name.endswith("'s")] == []
    assert [name for name, value in after.items() if name.endswith("'s") and value != before[name]] == []
    assert model.inside[0] is model.shared is SHARED
    torch.testing.assert_close(model.total, torch.zeros(3))


def test_a_count_in_a_list_is_reported() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counts = [0, 5]

        def forward(self, x: Tensor) -> Tensor:
            self.counts[1] += 1
            return x * self.counts[1]

    log = Log()
    model = Counting()
    export(model, torch.ones(3), log=log)
    assert [(f.rule.id, f.facts["name"], f.facts["value"]) for f in log.findings] == [("FXP1018", "counts[1]", 5)]
    (place,) = (finding.place for finding in log.findings)
    assert place is not None
    assert "self.counts[1] += 1" in (place.snippet or "")
    assert model.counts == [0, 5]


class Settings(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        random.seed(1)
        np.random.seed(1)
        return x.to_sparse()


def test_the_process_is_given_back() -> None:
    def settings() -> tuple[Any, ...]:
        numbers = np.random.get_state()
        drawn = (torch.get_rng_state().tolist(), random.getstate(), repr(numbers))
        return torch.get_default_dtype(), torch.is_grad_enabled(), drawn

    before = settings()
    with pytest.raises(ExportError):
        export(Settings(), torch.ones(3))
    assert settings() == before


def test_weights_made_in_inference_mode_keep_their_gradients() -> None:
    with torch.inference_mode():
        model = nn.Linear(3, 3)
    export(model, torch.ones(2, 3))
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    "holding", [lambda held: partial(torch.add, held), lambda held: (held, 2)], ids=["partial", "tuple"]
)
def test_a_tensor_in_a_tuple_is_given_back(holding: Callable[[Tensor], Any]) -> None:
    class Adding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = holding(torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            held = self.held[0] if isinstance(self.held, tuple) else self.held.args[0]
            return x + held.add_(1)

    model, x = Adding(), torch.zeros(2)
    program = export(model, (x,))
    got = run_session(session_of(program), program, (x,))[0]
    torch.testing.assert_close(got, model(x))
    torch.testing.assert_close(got, torch.ones(2))
