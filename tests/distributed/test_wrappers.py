"""Every way to spread a model over ranks gives the file that one process would give."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import onnx
import pytest
import torch

from fxport import export
from fxport.diagnostics import Level, Log
from fxport.exporter.validation import reference
from fxport.exporter.weights.arrays import as_array
from fxport.ort_runner import Samples, validate
from tests.distributed.models import MODELS, WAYS, made, whole
from tests.distributed.spawn import spawn
from tests.distributed.work import Case, file_of, given_to

Results = dict[Case, tuple[Path, list[torch.Tensor]]]
CASES = list(product(WAYS, MODELS, (False, True)))


@pytest.fixture(scope="module", params=(2, pytest.param(4, marks=pytest.mark.slow)))
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All cases of one number of ranks, in one start of the processes."""
    folder = tmp_path_factory.mktemp("sharded")
    cases = [case for case in CASES if request.param in WAYS[case[0]].ranks]
    outcomes = spawn("tests.distributed.work", "export_cases", request.param, str(folder), cases)
    assert all(outcome.code == 0 for outcome in outcomes), "\n".join(outcome.output for outcome in outcomes)
    return {case: (folder / file_of(case), [outcome.result[case] for outcome in outcomes]) for case in cases}


def test_equal_to_one_process(results: Results, tmp_path: Path) -> None:
    told = [f"{case}: {problem}" for case in results for problem in problems(case, *results[case], tmp_path)]
    assert not told, "\n".join(told)


def problems(case: Case, path: Path, eager: list[torch.Tensor], folder: Path) -> list[str]:
    """What is not as it is for one process: weights byte for byte, outputs within the error budget."""
    failed = [each for each in eager if isinstance(each, str)]
    if failed:
        return failed[:1]
    way, name, low = case
    model, x = whole(name, WAYS[way], low), given_to(case, made(name)[1])
    program = export(model, (x,))
    program.save(folder / path.name)
    mine, theirs = weights_of(path), weights_of(folder / path.name)
    found = [f"the weight '{key}' differs" for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)]
    log = Log()
    (sample,) = reference.cases(model, (x,), {}, program, log)
    outputs = {output: as_array(eager[0]) for output in sample.outputs}
    validate(path, [Samples(sample.label, sample.inputs, outputs, sample.exact)], "cpu", log, isolate=False)
    return found + [finding.message for finding in log.findings if finding.level is not Level.NOTE]


def weights_of(path: Path) -> dict[str, bytes]:
    """The bytes of each initializer, with its type and shape."""
    return {tensor.name: tensor.SerializeToString() for tensor in onnx.load(path).graph.initializer}
