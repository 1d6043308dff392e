"""`fxport export --fix`: what helps is written and shown, everything else stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fxport.diagnostics import Applicability, Edit, Finding, Fix, Level, Log, Place, rules
from fxport.diagnostics.fixes import suggested
from fxport.diagnostics.source_text import source_text
from fxport.diagnostics.text import render
from fxport.exporter.cli import main
from fxport.exporter.sources.policy import within
from fxport.exporter.validation.fixes.search import verified
from fxport.exporter.validation.fixes.trial import Outcome

Output = pytest.CaptureFixture[str]

GATE = """\
import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return next(x * 2 if torch.equal(x, x.abs()) else x - 1 for _ in range(1))
"""
MODEL = """\
# a comment above
import torch
import torch.nn.functional as F
from torch import nn

from gate import Gate


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.drop = Gate(), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(F.dropout(self.gate(x), 0.1))


def make():
    return Model().train(), (torch.arange(6.0).view(2, 3),)
"""


def test_what_helps_is_written_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Three fixes in two files, one after the other: each finding hides the next."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.py").write_text(GATE, encoding="utf-8")
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "model.py").chmod(0o755)
    assert main(["export", "model.py:make", "--fix", "--fail-on", "warning"]) == 0
    said = capsys.readouterr().out
    assert "next(torch.where((x == x.abs()).all(), x * 2, x - 1) for _ in range(1))\n" in Path("gate.py").read_text()
    changed = MODEL.replace("Model().train()", "Model().eval()").replace("x), 0.1)", "x), 0.1, training=self.training)")
    assert Path("model.py").read_text() == changed
    assert (tmp_path / "model.py").stat().st_mode & 0o777 == 0o755
    assert "-        return next(x * 2 if torch.equal(x, x.abs()) else" in said
    assert "+    return Model().eval(), (torch.arange(6.0).view(2, 3),)" in said
    assert "--- a/gate.py\n+++ b/gate.py\n" in said
    assert "fixed[FXP1002]: Choose by torch.where. (gate.py:7:30)" in said
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != "") == ["gate.py", "make.onnx", "model.py"]


def test_where_nothing_helps_nothing_changes(folder: Path, capsys: Output) -> None:
    text = (folder / "models.py").read_text(encoding="utf-8")
    assert main(["export", "models.py:linear", "--input", "x=2x4", "--dynamic", "x:1=width", "--fix"]) == 1
    said = capsys.readouterr().out
    assert "no fix was found that helps; the source is unchanged" in said
    assert "error[FXP2001]" in said
    assert (folder / "models.py").read_text(encoding="utf-8") == text


# What counts as a help, on trials that are made up ---------------------------------------------------------------

SOURCE = "import torch\nx = 1\ny = 2\n"
ONE = (np.ones(3),)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "source.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def finding(file: str, line: int = 2, **changes: object) -> Finding:
    fix = Fix("Write 3.", (Edit(file, line, 5, line, 6, "3"),))
    rule = rules.DATA_DEPENDENT_CONTROL_FLOW
    made = Finding(rule, Level.ERROR, "", Place(file, line, 5, 6), fixes=(fix,), identity=f"{rule.id}{line}")
    return replace(made, **changes)  # type: ignore[arg-type]  # the fields of a finding


def accepted(file: str, before: Outcome, after: Outcome, least: Level = Level.WARNING) -> bool:
    result = verified(f"{file}:x", least, lambda texts: after if texts else before)
    texts, found = result.texts, result.found
    assert bool(texts) == bool(found)
    assert all(text == SOURCE.replace("1", "3") for text in texts.values())
    return bool(found)


def test_a_fix_helps_when_the_finding_is_gone(file: str) -> None:
    assert accepted(file, Outcome((finding(file),), values=(ONE,)), Outcome((), values=(ONE,)))


@pytest.mark.parametrize(
    "after",
    [
        Outcome(error="it does not even load"),
        Outcome((), values=((np.zeros(3),),)),
        Outcome((), values=((np.ones(4),),)),
        Outcome((), values=(None,)),
    ],
    ids=["error", "other values", "other shape", "no values"],
)
def test_a_fix_does_not_help_otherwise(file: str, after: Outcome) -> None:
    assert not accepted(file, Outcome((finding(file),), values=(ONE,)), after)


def test_a_fix_that_was_tried_in_vain_is_not_offered_again(file: str) -> None:
    before = Outcome((finding(file),), values=(ONE,))
    result = verified(f"{file}:x", Level.WARNING, lambda texts: Outcome(error="no") if texts else before)
    later = replace(finding(file, line=3), identity="another")
    assert [len(each.fixes) for each in result.without_failed([finding(file), later])] == [0, 1]


def test_a_finding_that_stays_or_comes_in_its_place(file: str) -> None:
    before = Outcome((finding(file),), values=(ONE,))
    assert not accepted(file, before, Outcome((finding(file),), values=(ONE,)))
    other = finding(file, rule=rules.CAPTURE_FAILED, fixes=())
    assert not accepted(file, before, Outcome((other,), values=(ONE,)))
    later = finding(file, line=3, fixes=())
    assert accepted(file, before, Outcome((later,), values=(ONE,)))  # the next error of the capture, further down


def test_no_new_error_where_there_was_none(file: str) -> None:
    warning = finding(file, level=Level.WARNING)
    later = finding(file, line=3, fixes=())
    assert not accepted(file, Outcome((warning,), values=(ONE,)), Outcome((later,), values=(ONE,)))
    assert not accepted(file, Outcome((replace(warning, level=Level.NOTE),), values=(ONE,)), Outcome((), values=(ONE,)))


@pytest.mark.parametrize("kind", [Applicability.PLACEHOLDERS, Applicability.DECISION])
def test_what_a_person_must_do_is_not_tried(file: str, kind: Applicability) -> None:
    fix = replace(finding(file).fixes[0], applicability=kind)
    assert not accepted(file, Outcome((finding(file, fixes=(fix,)),), values=(ONE,)), Outcome((), values=(ONE,)))


def test_files_outside_the_project_are_left_alone(file: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("library") / "source.py"
    elsewhere.write_text(SOURCE, encoding="utf-8")
    assert not accepted(file, Outcome((finding(str(elsewhere)),), values=(ONE,)), Outcome((), values=(ONE,)))


def test_a_file_that_is_not_utf8_is_left_alone(file: str) -> None:
    Path(file).write_bytes(SOURCE.encode() + b"# \xe9\n")
    assert not accepted(file, Outcome((finding(file),), values=(ONE,)), Outcome((), values=(ONE,)))


# Files as they are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"import torch\r\nx = 1\r\ny = 2\r\n",
        b"import torch\r\nx = 1\ny = 2\r\n",
        b"\xef\xbb\xbfimport torch\nx = 1\ny = 2\n",
        b"# -*- coding: latin-1 -*-\n# caf\xe9\nimport torch\nx = 1\ny = 2",
    ],
    ids=["crlf", "mixed", "bom", "latin-1"],
)
def test_line_ends_and_encodings_stay(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "source.py"
    path.write_bytes(raw)
    line = 2 + raw.startswith(b"# -*-") * 2
    before = Outcome((finding(str(path), line), finding(str(path), line + 1)), values=(ONE,))
    rest = Outcome((finding(str(path), line + 1),), values=(ONE,))
    done = Outcome((), values=(ONE,))
    result = verified(
        f"{path}:both", Level.WARNING, lambda texts: done if "y = 3" in str(texts) else rest if texts else before
    )
    assert len(result.found) == 2
    ((file, text),) = result.texts.items()
    assert "\r" not in text
    source_text(file).write(text)
    assert path.read_bytes() == raw.replace(b"x = 1", b"x = 3").replace(b"y = 2", b"y = 3")


def test_an_inserted_line_has_the_end_of_its_place(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_bytes(b"a\r\nb\nc\r\n")
    file = source_text(path)
    assert file.bytes_of("a\nnew\nb\nc\n") == b"a\r\nnew\nb\nc\r\n"
    assert file.bytes_of("a\nb\nc\nlast\n") == b"a\r\nb\nc\r\nlast\r\n"
    assert file.bytes_of("a\nb") == b"a\r\nb"


def test_the_other_name_of_a_file_stays_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_bytes(b"x = 1\n")
    other.hardlink_to(one)
    source_text(one).write("x = 3\n")
    assert other.read_bytes() == b"x = 3\n"
    assert one.samefile(other)


TWO_MODELS = """\
import torch


def mine():
    return torch.nn.Identity(), (torch.ones(2),), {}, {"x": {0: "rows"}}


def theirs():
    return torch.nn.Identity(), (torch.ones(2),), {}, {"x": {0: "rows"}}
"""


def test_other_models_of_the_file_are_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "two.py")
    Path(path).write_text(TWO_MODELS, encoding="utf-8")
    edits = tuple(Edit(path, line, 65, line, 71, "None") for line in (5, 9))
    found = Finding(rules.DIMENSIONS_TIED, Level.WARNING, "", Place(path, 5), fixes=(Fix("Both.", edits),))
    (fix,) = within(found, f"{path}:mine", {}).fixes
    assert [edit.line for edit in fix.edits] == [5]


SEVERAL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, training=self.training)


first = Net()
second = Net()


def make():
    return Net().train(), (torch.ones(2),)
"""


@pytest.mark.parametrize(("name", "line"), [("first", 9), ("second", 10), ("make", 14)])
def test_the_model_that_was_asked_for_is_put_in_eval_mode(tmp_path: Path, name: str, line: int) -> None:
    file = tmp_path / "several.py"
    file.write_text(SEVERAL, encoding="utf-8")
    at = Place(str(file), 5)
    found = Finding(rules.TRAINING_MODE_CAPTURED, Level.WARNING, "", at)
    kept = within(replace(found, fixes=suggested(found)), f"{file}:{name}")
    assert [[edit.line for edit in fix.edits] for fix in kept.fixes] == [[line]]
    assert f"if it is the one of line {line}" in kept.fixes[0].description
    log = Log()
    log.report(rules.TRAINING_MODE_CAPTURED, at, op="Net", detail="")
    log.revise(lambda findings: [within(each, f"{file}:{name}") for each in findings])
    assert f"several.py:{line}:" in render(log)
