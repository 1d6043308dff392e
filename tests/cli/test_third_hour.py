"""Messages that misled a third new user: mistakes with inputs, and advice that did not work when it was followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport import onnx as fxport_onnx
from fxport.diagnostics import Log, rules
from fxport.diagnostics.amounts import percent
from fxport.diagnostics.fixes import suggested
from fxport.exporter.cli import main
from fxport.exporter.pipeline.calls import CallError
from fxport.exporter.pipeline.errors import ExportError
from fxport.ort_runner.branches import Branch

Output = pytest.CaptureFixture[str]

SOURCE = """
import torch
from torch import nn


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4).half()

    def forward(self, x):
        return self.layer(x)


class Unwritten(nn.Module):
    pass


class Forgets(nn.Module):
    def forward(self, x):
        y = x + 1


class Cached(nn.Module):
    seen = {}

    def forward(self, x):
        if "x" not in Cached.seen:
            Cached.seen["x"] = x * 2
        return Cached.seen["x"] + x


class Checked(nn.Module):
    def forward(self, x):
        assert x.sum() > 1e6, "must be large"
        return x * 2
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(SOURCE)


def findings(capsys: Output) -> list[dict[str, Any]]:
    return json.loads(capsys.readouterr().out)["findings"]


def advice(found: dict[str, Any]) -> list[str]:
    return [each["description"] for each in found["fixes"]]


def test_inputs_of_another_type_than_the_weights_are_named(capsys: Output) -> None:
    assert main(["export", "models.py:Half", "--input", "x=2x8"]) == 1
    said = capsys.readouterr().out
    assert (
        "'x' is float32 and the weights are float16: give `x.to(torch.float16)`, on the command line "
        "`--input x=2x8:float16`, or make the weights float32: `model.to(torch.float32)`."
    ) in said
    assert main(["export", "models.py:Half", "--input", "x=2x8:float16"]) == 0
    model, x = nn.Linear(8, 4).half().to(torch.float32), torch.ones(2, 8)
    assert export(model, (x,)).model.graph.outputs


@pytest.mark.parametrize(
    ("model", "x", "said"),
    [
        (nn.Linear(8, 4), torch.ones(2, 8, dtype=torch.int64), "give `input.to(torch.float32)`, on the command line "),
        (nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8, dtype=torch.float64), "`--input input=1x3x8x8:float32`, or make"),
        (nn.LSTM(3, 4), torch.ones(2, 3, dtype=torch.bfloat16), "`--input input=2x3:float32`"),
        (nn.Linear(8, 4), torch.ones(2, 9), None),  # of another width
        (nn.LayerNorm(3), torch.ones(2, 3, dtype=torch.float64), "`--input input=2x3:float32`"),
        (nn.Embedding(8, 4).half(), torch.ones(2, 9), None),  # which takes no floats, whatever its weights are
    ],
)
def test_only_what_is_of_another_type_is_named(model: nn.Module, x: Tensor, said: str | None) -> None:
    with pytest.raises(ExportError) as caught:
        export(model, (x,))
    (found,) = caught.value.log.findings
    assert found.rule is rules.MODEL_FAILS
    told = [each.description for each in found.fixes if "the weights are" in each.description]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]


def test_a_class_without_forward_is_told_so(capsys: Output) -> None:
    assert main(["export", "models.py:Unwritten", "--input", "x=2x8"]) == 2
    assert "'Unwritten' has no method forward; write one, or name the model that has it." in capsys.readouterr().err


def test_a_missing_return_says_nothing_of_numbers(capsys: Output) -> None:
    assert main(["export", "models.py:Forgets", "--input", "x=2x8"]) == 1
    said = capsys.readouterr().out
    assert "= help: Return from forward the tensor that the model computes.\n" in said
    assert "the number 3" not in said


def test_state_outside_of_layers_becomes_no_buffer_of_what_is_no_layer(capsys: Output) -> None:
    assert main(["export", "models.py:Cached", "--input", "x=2x8"]) == 0
    said = capsys.readouterr().out
    assert "self.Cached" not in said
    assert "else keep what it holds in buffers, or make it an input of the model." in said


class Meter:
    hits = 0


class Metered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.meter.hits += 1
        self.calls += 1
        return x + self.meter.hits


def test_numbers_of_a_layer_and_of_another_object() -> None:
    log = Log()
    export(Metered(), (torch.ones(3),), log=log)
    told = {
        str(each.facts["name"]): suggested(each)[0].description
        for each in log.findings
        if each.rule is rules.PYTHON_STATE_BAKED
    }
    assert 'else make it a buffer: `self.register_buffer("calls", torch.tensor(0))` in `__init__`.' in told["calls"]
    assert "of the module that uses it: `self.register_buffer(…, torch.tensor(0))`" in told["meter.hits"]


def test_a_model_that_fails_on_drawn_inputs_asks_for_others(capsys: Output) -> None:
    assert main(["export", "models.py:Checked", "--input", "x=2x8"]) == 0
    said = capsys.readouterr().out
    assert "eager PyTorch raises AssertionError: must be large" in said
    assert said.count("= help: Give inputs for which `model(*args, **kwargs)` runs in PyTorch") == 2
    assert "pip install onnxruntime" not in said
    torch.save({"x": torch.full((2, 8), 1e6)}, "large.pt")
    assert main(["export", "models.py:Checked", "--inputs", "large.pt"]) == 0
    assert "equal to PyTorch" in capsys.readouterr().out


@pytest.mark.parametrize("function", [export, fxport_onnx.export])
def test_what_is_said_of_a_dict_as_args_works(function: Any) -> None:
    with pytest.raises(CallError, match=r"give keyword arguments as such: export\(model, kwargs={'name': value}\)"):
        function(nn.ReLU(), {"input": torch.ones(2)})
    assert function(nn.ReLU(), kwargs={"input": torch.ones(2)}) is not None


def test_a_branch_that_was_not_run_in_words() -> None:
    branch = Branch(frozenset({True}), {True: (), False: ("one", "other")})
    message = rules.BRANCH_NOT_TAKEN.message.format(truth="false", count=3, reads=branch.reads(False))
    assert message == (
        "No sample runs the branch for 'false' of this condition, so that branch is not validated. Samples: 3. "
        "Layers that only it uses: 'one', 'other'."
    )
    assert branch.reads(True) == "none"


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0213, "2.1%"), (0.2, "20%"), (1.5, "150%"), (12.0, "more than 1000%"), (float("inf"), "more than 1000%")],
)
def test_shares_in_words(share: float, words: str) -> None:
    assert percent(share) == words


def test_tolerances_that_advice_names(capsys: Output) -> None:
    """FXP5011 says `--atol` and `--rtol`, of `export` and of `validate`."""
    Path("cancels.py").write_text(
        "import torch\n\n\n"
        "class Cancels(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return (torch.sin(x) * 1e8 - torch.sin(x) * 1e8 * (1 + 1e-7)) * 2 + torch.cos(x) * 1e-3\n"
    )
    asked = ["cancels.py:Cancels", "--input", "x=20x30", "--fail-on", "warning"]
    assert main(["export", *asked]) == 1
    assert "FXP5011" in capsys.readouterr().out
    assert main(["export", *asked, "--atol", "50"]) == 0
    assert main(["validate", "Cancels.onnx", "--against", *asked, "--atol", "50", "--rtol", "0.1"]) == 0
    assert "FXP5011" not in capsys.readouterr().out
    assert main(["validate", "Cancels.onnx", "--against", *asked, "--atol", "-1"]) == 2


def test_what_a_file_of_inputs_gives_is_told_with_the_file(capsys: Output) -> None:
    torch.save({"y": torch.ones(2, 8)}, "other.pt")
    assert main(["export", "models.py:Half", "--inputs", "other.pt"]) == 2
    assert "forward has no argument 'y', which 'other.pt' gives. Known: x." in capsys.readouterr().err


def test_a_training_step_of_too_few_values(capsys: Output) -> None:
    Path("step.py").write_text("def step():\n    return 1, 2\n")
    assert main(["train-step", "step.py:step"]) == 2
    assert "'step.py:step' gives a tuple of 2 values; it should be (model, optimizer" in capsys.readouterr().err


def test_a_checkpoint_of_other_names_has_no_nearest_one(capsys: Output) -> None:
    torch.save({"zebra": torch.ones(3)}, "other.pt")
    assert main(["export", "models.py:Half", "--input", "x=2x8:float16", "--weights", "other.pt"]) == 1
    said = capsys.readouterr().out
    assert "Looked in 'other.pt'; no name there is like it." in said
    assert "the nearest one" not in said
