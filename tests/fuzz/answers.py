"""Run what the command line does with texts and files that it has read: formats of a log, a baseline, a comparison."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.baseline import against
from fxport.diagnostics.calls import last_return, scope_of, span_of_call, span_of_test
from fxport.diagnostics.definitions import definitions_of, foreign_lines
from fxport.diagnostics.formats import RENDERERS, page
from fxport.diagnostics.sarif import as_text, read_sarif, to_sarif
from fxport.diagnostics.suppressions import comments_in
from fxport.exporter.checks import manifest
from fxport.exporter.onnx_program.described import count_nodes
from fxport.exporter.sources import settings
from fxport.exporter.sources.dynamic import parse_dynamic
from fxport.exporter.sources.policy import baseline_of, levels_of, within
from fxport.exporter.validation.differences import COMPARISONS, are_unrelated
from fxport.exporter.validation.model_file import model_of
from fxport.ort_runner.cuts import Cuts
from fxport.ort_runner.prompts import ids_of
from fxport.ort_runner.size_limits import CONDITIONS, limits_in
from tests.fuzz import seeds
from tests.hostile import models

PYTHON = (
    b"import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        if x.sum() > 0:  # fxport: "
    b"ignore[FXP1002] known\n            return x.relu()\n        return x\ndef other(): return Net()\n"
)
CONDITIONED = [b'["batch: even", "seq: not 1", "n: >= 2 and multiple of 4"]']


def text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def sarif_of(log: Log) -> str:
    return as_text(to_sarif(log))


def dynamic(path: Path) -> object:
    return [asked.request() for asked in parse_dynamic(text_of(path))[1].values()]


def levels(path: Path) -> object:
    return (
        levels_of([], [], [text_of(path)]) if "=" in text_of(path) else levels_of([text_of(path)], [text_of(path)], [])
    )


def prompted(path: Path) -> object:
    return ids_of(text_of(path))


def allowed(path: Path) -> object:
    return [limit.allows(size) for limit in limits_in({CONDITIONS: text_of(path)}) for size in (0, 1, 7, 64)]


def shown(path: Path) -> object:
    """A log as `fxport view` shows it, and in every format of a report."""
    log = Log()
    log.revise(lambda _: read_sarif(path))
    page("fxport", path.name, log.findings)
    return [renderer.render(log) for renderer in RENDERERS.values()], sarif_of(log)


def compared(path: Path) -> object:
    """A log as `--baseline`, beside a finding of this run."""
    log = Log()
    log.report(rules.MODEL_FAILS, at=Place("a.py", 1, 1), name="a.py:net", error="E: e")
    log.revise(lambda findings: [within(each, "a.py:net") for each in findings])
    log.revise(against(baseline_of(path) or ()))
    return [renderer.render(log) for renderer in RENDERERS.values()], sarif_of(log)


def looked_up(path: Path) -> object:
    """Look up a line of source as a report does."""
    text = text_of(path)
    lines = range(1, 9)
    asked = (lambda line: span_of_call(text, line, "relu"), lambda line: span_of_test(text, line))
    more = (lambda line: last_return(text, line), lambda line: scope_of(text, line))
    found = [ask(line) for line in lines for ask in chain(asked, more)]
    return comments_in(str(path)), definitions_of(text), foreign_lines(text, "Net"), found


def marked() -> list[bytes]:
    made = models.sound()
    models.places(json.dumps([["a.py", 1, "m", "n"]]))(made)
    for key in ("relu", "x.0", "w"):
        info = made.graph.value_info.add(name=key)
        info.metadata_props.add(key="fxport.value", value=key)
    return [made.SerializeToString(), seeds.external()]


def found(path: Path) -> object:
    """The manifest and the settings of a folder, as a command finds them."""
    return manifest.find(path.parent), [settings.load(each) for each in settings.files_in(path.parent)]


def cut(path: Path) -> object:
    """The values of a model by which `fxport bisect` cuts it."""
    return Cuts(path, ["y"]).marks


def differences(path: Path) -> object:
    """Each difference between a sound model and the file."""
    old = path.with_name("old.onnx")
    old.write_bytes(marked()[0])
    before, after = model_of(old), model_of(path)
    found = [list(comparison(before, after)) for comparison in COMPARISONS.values()]
    return are_unrelated(before, after), found, count_nodes(after)
