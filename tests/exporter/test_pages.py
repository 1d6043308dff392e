"""The failing example of every rule's page that is Python: it is run, and raises that rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fxport import ExportError, export
from fxport.diagnostics import Log, Rule, Stop, rule_pages, rules, text
from fxport.diagnostics.suppressions import by_comments
from fxport.exporter.capture.sizes.shapes import ShapesError
from fxport.exporter.sources.source import Source, import_file
from fxport.exporter.validation.against_eager import validation_of

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OWN_TEST = {
    "FXP1015": "export_training_step reports it: tests/exporter",
    "FXP1036": "export_training_step reports it: tests/exporter",
    **dict.fromkeys(
        ("FXP1020", "FXP1021", "FXP1022", "FXP1026", "FXP1027", "FXP1028"), "it takes several ranks: tests/distributed"
    ),
}


SAID = {
    "FXP1016": 'make it a buffer: `self.register_buffer("last", tensor)` in `__init__`',
    "FXP1018": 'make it a buffer: `self.register_buffer("calls", torch.tensor(0))` in `__init__`',
    "FXP1030": "`x.shape[0] != 4` has one answer for the size of the example: leave the question out of forward",
    "FXP1033": "Give an example that runs the side of the condition that the model has",
    "FXP2007": "dimension 0 of 'x' was asked to be at least 5, and the model takes 4",
    "FXP3006": "ONNX Runtime has no kernel for 'com.example:SignFlip' on 'cpu'",
    "FXP3010": 'make it a buffer: `self.register_buffer("result", tensor)` in `__init__`',
    "FXP4003": "'view' has type 'torch.bits8', which ONNX cannot hold here",
    "FXP5004": "where a size is declared otherwise than it is, look for sizes that are constants in `forward`",
    "FXP5007": "Reason: in float64 it fails: TypeError: float32 only",
    "FXP5009": "The first call changed 'calls' from 0 to 1",
    "FXP5011": "PyTorch is 20% of the values off float64, and the model 20%; above 2% a fault cannot be told",
}
"""Words of the text output, by the rule of the example: those of messages that readers had misread."""


def example(rule: Rule) -> tuple[str, str]:
    """The language and the text of a page's example."""
    _, _, rest = rule_pages.page(rule).partition("## Example\n")
    found = BLOCK.search(rest.partition("\n## ")[0])
    assert found is not None, f"{rule.id} has no example"
    return found[1], found[2]


PYTHON = [rule for rule in rules.RULES.values() if example(rule)[0] == "python" and rule.id not in OWN_TEST]
NOT_PYTHON = [rule for rule in rules.RULES.values() if example(rule)[0] != "python"]


@pytest.mark.parametrize("rule", PYTHON, ids=lambda rule: rule.id)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns about what these models do, and the findings say it
def test_the_example_raises_its_rule(rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"example_{rule.id.lower()}.py"
    file.write_text(f"import torch\n\n\n{example(rule)[1]}", encoding="utf-8")
    log = Log()
    log.revise(by_comments([str(file)]))
    run(vars(import_file(file)), tmp_path / "model.onnx", log)
    found = {finding.rule.id: finding for finding in log.findings}
    assert rule.id in found
    assert not found.keys() & {"FXP9001"}
    assert SAID.get(rule.id, "") in text.render(log)


def run(names: dict[str, Any], path: Path, log: Log) -> None:
    """Exports the example's `model` on its `args` and validates it, as far as it goes."""
    options = {key: names[key] for key in ("dynamic_shapes", "lowerings", "input_names", "weights") if key in names}
    try:
        program = export(names["model"], names["args"], log=log, **options)
        program.save(path)
    except (ExportError, ShapesError):
        return
    try:
        validation_of(path, Source("model", names["model"], names["args"]), program, "cpu", log)
    except Stop:
        return


@pytest.mark.parametrize("rule", NOT_PYTHON, ids=lambda rule: rule.id)
def test_other_examples_are_commands_and_files_of_ours(rule: Rule) -> None:
    language, code = example(rule)
    assert language in {"shell", "toml", "text"}
    assert any(word in code for word in ("fxport", "[[model]]", rule.id, "baseline"))
