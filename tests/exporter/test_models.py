"""Every row of tests/cases/models: exported, saved, and validated in ONNX Runtime at two sizes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from fxport import ExportError, Options, export, ort_runner
from fxport.diagnostics import Level, Log
from fxport.exporter.validation import reference
from tests.cases import models, newer_models, pictures_in_texts, texts_with_more
from tests.cases import pictures_and_sounds as pictures_and_sounds_
from tests.cases.models import Example, ModelCase
from tests.node_counts import assert_not_more
from tests.sampling import marks_of, sampled


def rows() -> Iterator[Any]:
    """All but models of transformers, of which the usual run has one in eight: other suites have more of these."""
    groups = [info.name for info in pkgutil.iter_modules(models.__path__)]
    known = [(f"{each}-{case.name}", each, case) for each in groups for case in _group(each).CASES]
    taken = sampled(known, itemgetter(0), lambda row: row[1:2] if row[1] == "transformers" else row[:1], one_in=8)
    for (name, _, case), is_taken in zip(known, taken, strict=True):
        yield pytest.param(name, case, id=name, marks=marks_of(is_taken, case.known_gap))


def _group(name: str) -> ModuleType:
    return importlib.import_module(f"{models.__name__}.{name}")


def pictures_and_sounds() -> Iterator[Any]:
    """One in forty of them, one of each file, and the quick ones in the usual run, all of them with --slow."""
    groups = (pictures_and_sounds_, texts_with_more, pictures_in_texts, newer_models)
    known = [(group.__name__, row) for group in groups for row in group.CASES]
    taken = sampled(known, lambda each: each[1].name, _kinds, one_in=40)
    for (_, row), is_taken in zip(known, taken, strict=True):
        yield pytest.param(row, id=row.name, marks=marks_of(is_taken, row.known_gap))


def _kinds(known: tuple[str, pictures_and_sounds_.Row]) -> Iterator[str]:
    yield known[0]
    if known[1].quick:
        yield known[1].name


@pytest.mark.parametrize(("name", "case"), list(rows()))
def test_model(name: str, case: ModelCase, tmp_path: Path) -> None:
    check(name, case.build, tmp_path)


@pytest.mark.parametrize("row", list(pictures_and_sounds()))
@pytest.mark.filterwarnings("ignore")  # what other libraries warn about on the way is theirs
def test_pictures_and_sounds(row: pictures_and_sounds_.Row, tmp_path: Path) -> None:
    pytest.importorskip(row.package, reason=f"{row.package} is not installed", exc_type=ImportError)
    check(row.name, row.build, tmp_path)


def check(name: str, build: Callable[[], Example], tmp_path: Path) -> None:
    """Exports an example, counts its nodes beside torch.onnx's, and validates the file."""
    torch.manual_seed(0)
    example = build()
    log, options = Log(), Options(allow_specialization=example.constants)
    model, args, kwargs = example.model, example.args, example.kwargs
    try:
        program = export(model, args, kwargs, dynamic_shapes=example.dynamic_shapes, options=options, log=log)
    except ExportError as error:
        raise AssertionError("\n".join(f"{f.rule.id} {f.message} {f.place}" for f in error.log.findings)) from error
    path = tmp_path / "model.onnx"
    program.save(path)
    assert_not_more(name, path)
    recorded = reference.cases(model, args, kwargs, program, log)
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    changes = any(value.is_initializer() for value in program.model.graph.inputs)
    wanted = ["sample", *(["resized"] if example.dynamic_shapes else []), *(["later"] if changes else [])]
    labels = [each.label for each in samples]
    of_values = {"other values", "drawn"}  # for sizes that depend on values, and for results of one number
    assert [label for label in labels if label not in of_values] == wanted
    ort_runner.validate(path, samples, provider="cpu", log=log)
    errors = [f"{f.rule.id} {f.message}" for f in log.findings if f.level is Level.ERROR]
    assert not errors, "\n".join(errors)
