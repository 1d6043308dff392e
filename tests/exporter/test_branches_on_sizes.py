"""Branches on the sizes of inputs: what is told of them, and how the sizes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch import _check as check

from fxport import Options, export
from fxport.diagnostics import Level, Log
from fxport.exporter.capture import branched, results
from tests.cases.soundness.branches_on_sizes import (
    AFTER_PATCHES,
    Aligned,
    PaddedToEven,
    ThenAsked,
    Upsampled,
    WritesToItsInput,
    decided_by,
)
from tests.exporter.test_dimensions import dimension_findings

BOTH = ({0: "n", 1: "m"},)


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 6:
            raise ValueError("too long")
        if x.shape[0] > 2:
            return x * 2
        return x * 3


class Checks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._check(x.shape[0] <= 9)
        if x.shape[0] > 2:
            return x * 2
        return x * 3


class ChecksByName(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        check(x.shape[0] <= 9)
        return x * 2 if x.shape[0] > 2 else x * 3


class Strided(nn.Module):
    """ONNX has strides as attributes, which no value of a graph can be."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv1d(x.t()[None], torch.ones(2, 4, 1), stride=2 if x.shape[0] > 5 else 1)


def said(model: nn.Module, inputs: tuple[Any, ...], shapes: Any, **options: Any) -> list[str]:
    log = Log()
    export(model, inputs, dynamic_shapes=shapes, options=Options(**options), log=log)
    return [finding.message for finding in dimension_findings(log) if finding.level is not Level.NOTE]


@pytest.mark.parametrize(
    ("model", "inputs", "shapes"),
    [
        (PaddedToEven(), (torch.randn(4, 4),), ({0: "n"},)),
        (Aligned(), (torch.randn(4, 4), torch.randn(6, 4)), ({0: "n"}, {0: "m"})),
        (Upsampled(), (torch.randn(1, 1, 4, 6),), ({2: "h", 3: "w"},)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_no_size_is_limited_but_without_rewriting(model: nn.Module, inputs: tuple[Any, ...], shapes: Any) -> None:
    assert said(model, inputs, shapes) == []
    assert said(model, inputs, shapes, rewrite=False) != []


@pytest.mark.parametrize("then", AFTER_PATCHES)
def test_what_comes_after_a_branch_limits_no_size(then: str) -> None:
    assert said(ThenAsked(AFTER_PATCHES[then]), (torch.randn(1, 2, 8, 12),), ({2: "h", 3: "w"},)) == []


def test_a_limit_that_raises_is_told() -> None:
    (message,) = said(Raises(), (torch.randn(4, 4),), ({0: "n"},))
    assert "3 to 6" in message


class Requires(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[0] <= 6, "too long"
        return x * 2


class RaisesByData(nn.Module):
    """Capture a limit of a size and of data again: a graph raises nothing, and is for inputs that the model accepts."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 6 and x.sum() > 1e6:
            raise ValueError("too much")
        return x * 2


@pytest.mark.parametrize(
    ("model", "limit", "captures"),
    [(Raises(), "3 to 6", 0), (Requires(), "at most 6", 0), (RaisesByData(), None, 1)],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_nothing_is_captured_again_within_a_limit_that_raises(
    model: nn.Module, limit: str | None, captures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    at_most = branched.at_most
    monkeypatch.setattr(branched, "at_most", lambda seconds: (begun.append(seconds), at_most(seconds))[1])
    messages = said(model, (torch.randn(4, 4),), ({0: "n"},))
    assert len(begun) == captures
    assert [limit in message for message in messages] == [True] * (limit is not None)


def test_what_has_no_lowering_is_limited() -> None:
    (message,) = said(Strided(), (torch.randn(4, 4),), ({0: "n"},))
    assert "at most 5" in message


def test_what_takes_too_long_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branched, "SECONDS", 0.0)
    (message,) = said(PaddedToEven(), (torch.randn(4, 4),), ({0: "n"},))
    assert "a multiple of 2" in message


class Added(nn.Module):
    """Sizes of two inputs have to be equal, beside a branch on another one."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = x + y
        return nn.functional.pad(z, (0, 1)) if x.shape[1] % 2 else z


def test_what_brings_further_warnings_is_not_run_to_learn_that(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[nn.Module] = []
    monkeypatch.setattr(results, "check", lambda subject, log: ran.append(subject.module) or ())
    inputs = torch.randn(3, 4), torch.randn(3, 4)
    messages = said(Added(), inputs, ({0: "n", 1: "m"}, {0: "k", 1: "m"}))
    assert len(messages) == 2
    assert any("a multiple of 2" in message for message in messages)
    assert not ran
    messages = said(Added(), inputs, (*BOTH, *BOTH))
    assert messages == []
    assert len(ran) == 1


class Appends(nn.Module):
    """As a decoder does, it puts another tensor into the container of a cache, which no graph does."""

    def forward(self, x: Tensor, past: dict[str, Tensor]) -> Tensor:
        past["rows"] = torch.cat([past["rows"], x])
        return past["rows"] * 2 if x.shape[0] > 2 else past["rows"] * 3


class Reads(Appends):
    def forward(self, x: Tensor, past: dict[str, Tensor]) -> Tensor:
        return super().forward(x, {**past})


@pytest.mark.parametrize(("model", "captures", "limited"), [(Appends, 0, True), (Reads, 1, False)])
def test_what_no_check_finds_equal_is_not_captured_again(
    model: type[nn.Module], captures: int, limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    at_most = branched.at_most
    monkeypatch.setattr(branched, "at_most", lambda seconds: tried.append(seconds) or at_most(seconds))
    shapes = ({0: "n"}, {"rows": {0: "m"}})
    messages = said(model(), (torch.randn(3, 4), {"rows": torch.randn(5, 4)}), shapes)
    assert any("at least 3" in message for message in messages) is limited
    assert len(tried) == captures


def test_roots_of_derived_sizes() -> None:
    messages = said(PaddedToEven(), (torch.randn(4, 4),), ({0: 2 * torch.export.Dim("half")},))
    assert messages == []


@pytest.mark.parametrize("model", [Checks(), ChecksByName()], ids=lambda model: type(model).__name__)
def test_a_limit_that_is_checked_is_told(model: nn.Module) -> None:
    (message,) = said(model, (torch.randn(4, 4),), ({0: "n"},))
    assert "3 to 9" in message


def test_a_limit_is_told_where_the_input_is_written_to() -> None:
    (message,) = said(WritesToItsInput(), (torch.randn(4, 4),), ({0: "n"},))
    assert "at most 5" in message


@pytest.mark.parametrize(
    ("test", "relation"),
    [
        (lambda x: min(x.shape) >= 2, "min(m, n) >= 2"),
        (lambda x: min(3, *x.shape) >= 3, "min(3, m, n) >= 3"),
        (lambda x: x.numel() > 1, "m*n > 1"),
        (lambda x: x.numel() > 3, "m*n > 3"),
        (lambda x: x.shape[0] + x.shape[1] > 4, "m + n > 4"),
        (lambda x: (x.shape[0] // 2) * (x.shape[1] // 2) != 0, "((m // 2)*(n // 2)) != 0"),
    ],
)
def test_limits_of_the_smallest_sizes_are_told(test: Any, relation: str) -> None:
    (message,) = said(decided_by(test)(), (torch.randn(8, 12),), BOTH, rewrite=False)
    assert relation in message


def test_results_have_the_names_of_dimensions(tmp_path: Path) -> None:
    shapes = ({2: "height", 3: "width"},)
    export(Upsampled(), (torch.randn(1, 1, 4, 6),), dynamic_shapes=shapes).save(tmp_path / "model.onnx")
    (output,) = onnx.load(tmp_path / "model.onnx").graph.output
    assert [each.dim_param or each.dim_value for each in output.type.tensor_type.shape.dim] == [1, 2, "height", "width"]
