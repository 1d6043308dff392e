"""What `export` is handed: calls as people write them, and models that do not run in PyTorch themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.prune import l1_unstructured

from fxport import ExportError, export
from fxport.diagnostics import Level, Log, Rule, rules
from fxport.exporter.pipeline.calls import checked_args, checked_kwargs, checked_model

X = torch.ones(2, 4)


class Counting(nn.Module):
    """Writes to its buffer, then fails."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x)


@pytest.mark.parametrize("args", [X, [X], (X,)])
def test_arguments(args: Any) -> None:
    assert [value.name for value in export(nn.Linear(4, 2), args).model.graph.inputs] == ["input"]


@pytest.mark.parametrize(
    ("check", "given", "said"),
    [
        (checked_model, nn.Linear, "the class 'Linear'; give an instance"),
        (checked_model, torch.relu, "call it in the forward of an nn.Module"),
        (checked_model, "model.pt", "is a str; give an nn.Module"),
        (checked_args, {"x": X}, "export(model, kwargs={'name': value})"),
        (checked_args, 3, "the tuple of positional arguments"),
        (checked_kwargs, "model.onnx", "export(model, args).save('model.onnx')"),
        (checked_kwargs, Path("model.onnx"), "export(model, args).save('model.onnx')"),
        (checked_kwargs, [X], "a dict by the names of forward's arguments"),
    ],
)
def test_what_is_no_call_says_what_to_give(check: Any, given: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        check(given)
    assert said in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*deep' for 'model.onnx'"):
        export(nn.Linear(4, 2), X).save(tmp_path / "deep" / "model.onnx")
    assert not list(tmp_path.iterdir())


# Fake tensors let the second pass, and its lowering does not.
@pytest.mark.parametrize(
    ("wrong", "raised"),
    [(X, "shapes cannot be multiplied"), (torch.ones(2, 3, dtype=torch.int64), "must have the same dtype")],
)
def test_a_model_that_fails_in_pytorch_is_one_finding_at_its_line(wrong: torch.Tensor, raised: str) -> None:
    model = Counting()
    with pytest.raises(ExportError) as caught:
        export(model, (wrong,))
    (finding,) = (each for each in caught.value.log.findings if each.level is Level.ERROR)
    assert finding.rule is rules.MODEL_FAILS
    assert raised in finding.message
    assert finding.place is not None
    assert "self.linear(x)" in (finding.place.snippet or "")
    assert model.calls == 0


@pytest.mark.parametrize(("level", "rule"), [(Level.WARNING, rules.MODEL_FAILS), (None, rules.CAPTURE_FAILED)])
def test_a_rule_of_another_level_hides_nothing_else(level: Level | None, rule: Rule) -> None:
    log = Log(levels={rules.MODEL_FAILS.id: level})
    with pytest.raises(ExportError):
        export(nn.Linear(3, 2), X, log=log)
    assert [finding.rule for finding in log.findings] == [rule]


def test_the_text_of_the_exception_is_that_of_its_errors() -> None:
    with pytest.raises(ExportError) as caught:
        export(Counting(), X)
    text = str(caught.value)
    assert text.startswith("the model cannot be exported\n\nerror[FXP1023]")
    assert "return self.linear(x)" in text
    assert text.endswith("1 error")


def test_a_traced_module_says_what_to_give() -> None:
    with pytest.raises(ExportError) as caught:
        export(torch.jit.trace(nn.Linear(4, 2), X), X)
    assert "leave torch.jit out" in str(caught.value)


def test_a_lazy_layer_says_what_to_do() -> None:
    with pytest.raises(ExportError) as caught:
        export(nn.Sequential(nn.LazyLinear(2)), X)
    assert "Call the model once on the example before the export." in str(caught.value)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "prepare", [nn.utils.weight_norm, nn.utils.spectral_norm, lambda layer: l1_unstructured(layer, "weight", 0.5)]
)
def test_what_a_hook_computes_anew_is_no_lost_state(prepare: Any) -> None:
    model = nn.Sequential(prepare(nn.Linear(4, 4))).eval()
    assert not export(model, X).log.findings


class Spread(nn.Module):
    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.stack([tensor.sum(-1) for tensor in tensors])


@pytest.mark.parametrize(
    "wanted", [[{0: "rows"}], [({0: "rows"},)], ({0: torch.export.Dim.DYNAMIC},), {"tensors": [{0: "rows"}]}]
)
def test_sizes_of_spread_arguments_are_asked_for_one_by_one_or_together(wanted: Any) -> None:
    (given,) = export(Spread(), X, dynamic_shapes=wanted).model.graph.inputs
    assert given.shape is not None
    assert not isinstance(given.shape[0], int)
