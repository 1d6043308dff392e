"""Other runtimes as witnesses: each runs the same samples, and where one differs, it is told which one is alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fxport.diagnostics import Log, rules
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.runtimes import ONNXRUNTIME
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.trials import differs
from fxport.ort_runner.validate import SampleResult, Validation, validate

PYTORCH = "PyTorch"


def witnessed(
    validation: Validation,
    samples: Sequence[Samples],
    runtimes: Sequence[str],
    log: Log,
    *,
    isolate: bool = True,
    time_limit: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Validation:
    """Validate the file of an ONNX Runtime validation in other runtimes, too.

    Args:
        validation: what ONNX Runtime gave for the samples.
        samples: those samples.
        runtimes: names of rows of `RUNTIMES`.
        log: what is wrong goes there.
        isolate: each runtime gets a child process.
        time_limit: as in `validate`, like `atol` and `rtol`.

    Returns:
        The validation with its witnesses; it has passed if they have, too.
    """
    others = tuple(
        validate(
            validation.model,
            samples,
            "cpu",
            log,
            isolate=isolate,
            time_limit=time_limit,
            atol=atol,
            rtol=rtol,
            runtime=name,
        )
        for name in runtimes
    )
    verdicts = dict(zip((ONNXRUNTIME, *runtimes), (validation, *others), strict=True))
    told: dict[str, tuple[str, str]] = {}
    for label, output, detail in differences(verdicts):
        told.setdefault(output, (label, detail))
    file = read_model_file(Path(validation.model)) if told else None
    for output, (label, detail) in told.items():
        assert file is not None
        place = file.place_of_value(output)
        log.report(rules.RUNTIMES_DIFFER, place, output=output, detail=detail, sample=label)
    passed = validation.passed and all(each.passed for each in others)
    return replace(validation, witnesses=others, passed=passed)


def differences(verdicts: Mapping[str, Validation]) -> Iterator[tuple[str, str, str]]:
    """Yield (sample, output, which runtimes agree) of each output that a runtime does not give as PyTorch does."""
    ran = {
        name: {sample.label: sample for sample in each.samples if sample.passed or sample.lost}
        for name, each in verdicts.items()
    }
    for label in dict.fromkeys(label for samples in ran.values() for label in samples):
        here = {name: samples[label] for name, samples in ran.items() if label in samples}
        for output in dict.fromkeys(name for sample in here.values() for name in sample.lost):
            groups = _groups(here, output)
            if len(here) > 1:
                yield label, output, _words(groups)


def _groups(here: Mapping[str, SampleResult], output: str) -> list[list[str]]:
    """The runtimes by the value that they give, those that give PyTorch's first; that one may be PyTorch alone."""
    groups = [[PYTORCH, *(name for name, sample in here.items() if output not in sample.lost)]]
    lost = {name: sample.lost[output] for name, sample in here.items() if output in sample.lost}
    for name, value in lost.items():
        same = (group for group in groups[1:] if not differs(lost[group[0]], value, None))
        found = next(same, None)
        if found is None:
            groups.append([name])
        else:
            found.append(name)
    return groups


def _words(groups: Sequence[Sequence[str]]) -> str:
    """Tell which one is alone, if one is, and which agree."""
    alone = [group[0] for group in groups if len(group) == 1]
    agree = [group for group in groups if len(group) > 1]
    told = [f"{_list(group)} agree" for group in agree]
    if len(alone) == 1 and agree:
        told.insert(0, f"{alone[0]} is alone")
    elif alone:
        told.append(f"{_list(alone)} each give something else")
    return "; ".join(told)


def _list(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
