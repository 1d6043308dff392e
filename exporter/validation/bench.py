"""Run time of a file in ONNX Runtime, beside that of the PyTorch model or training step that it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.limits import METADATA, json_of
from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import Source, init_of, load
from fxport.exporter.sources.step_parts import step_parts
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.timing import TimedStep
from fxport.exporter.validation.comparison import matched
from fxport.exporter.validation.model_file import model_of
from fxport.exporter.validation.timing import seconds_of
from fxport.exporter.weights.arrays import as_array
from fxport.ort_runner import PROVIDERS, Latency, latency_alone
from fxport.ort_runner.failures import Failure

if TYPE_CHECKING:
    import numpy as np

TRAINING = "fxport.training"
"""Key of a model's metadata that only a training step has."""

EAGER, COMPILED = "PyTorch, eager", "PyTorch, compiled"


@dataclass(frozen=True, slots=True)
class Bench:
    """A file to time beside PyTorch, as `fxport bench` is asked to.

    Attributes:
        path: The ONNX file.
        against: SOURCE of the model or, for the file of a training step, of its parts.
        input: Shapes of example inputs, as for an export.
        inputs: A file of example inputs.
        provider: The execution provider of ONNX Runtime, or "auto".
        runs: Runs that are timed, after `warmup` more.
        threads: Threads of each side; 0 for as many as there are cores.
        compiled: Whether torch.compile's model is timed, too.
        init: Arguments of SOURCE's constructor.
    """

    path: Path
    against: str
    input: Sequence[str]
    inputs: Path | None
    provider: str
    runs: int
    warmup: int
    threads: int
    compiled: bool
    init: Sequence[str] = ()


def bench(asked: Bench, log: Log) -> dict[str, Latency | str]:
    """Time each of them.

    Returns:
        A row for ONNX Runtime, the first, one for eager PyTorch and, if asked for, one for torch.compile; the reason
        where PyTorch does not run.

    Raises:
        Stop: ONNX Runtime cannot run the file; the finding is in the log.
        UsageError: The file is not that of SOURCE, or the provider is not there.
    """
    with log.stage("load"):
        subject, fed = _subject(asked)
    rows: dict[str, Latency | str] = {}
    with log.stage("onnxruntime"):
        try:
            found = latency_alone(
                asked.path, fed, asked.provider, runs=asked.runs, warmup=asked.warmup, threads=asked.threads
            )
        except Failure as failure:
            log.report(failure.rule, **failure.facts)
            raise Stop(log, "onnxruntime") from failure
        except ValueError as error:
            raise UsageError(f"--provider: {error}; choose another.") from error
        rows[f"ONNX Runtime, {found.provider}"] = found
    with log.stage("eager"):
        rows[EAGER] = of_pytorch(asked, subject, found.provider, compiled=False)
    if asked.compiled:
        with log.stage("compiled"):
            rows[COMPILED] = of_pytorch(asked, subject, found.provider, compiled=True)
    return rows


def _subject(asked: Bench) -> tuple[Source | TimedStep, dict[str, np.ndarray]]:
    """Return what PyTorch is timed with, and the inputs of the file: for a training step those that it begins with."""
    model = model_of(asked.path)
    described = model.metadata_props.get(TRAINING)
    if described is None:
        source = with_inputs(
            load(asked.against, init_of(asked.init)), asked.input, [asked.inputs] if asked.inputs else []
        )
        return source, inputs_of(asked.path, source, asked.against)
    if asked.input or asked.inputs or asked.init:
        raise UsageError("A training step is timed with the batch of its SOURCE; leave --input, --inputs and --init.")
    return _step(asked, [str(entry.name) for entry in model.graph.inputs], described)


def _step(asked: Bench, names: Sequence[str], described: str) -> tuple[TimedStep, dict[str, np.ndarray]]:
    model, optimizer, loss_fn, batch, *_ = step_parts(asked.against)
    try:
        settings = json_of(described, METADATA)
        steps, accumulate = (int(settings.get(key, 1)) for key in ("steps", "accumulate"))
        limit = settings.get("clip_grad_norm")
        norm = None if limit is None else float(limit)
        step = TimedStep(Parts(model, optimizer, loss_fn), batch, steps, accumulate, norm)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"'{asked.path}' describes no training step: {error}; export the step again.") from error
    try:
        return step, step.inputs(names)
    except KeyError as error:
        raise UsageError(
            f"'{asked.path}' takes {error}, which the step of '{asked.against}' does not have; name the SOURCE that it "
            "was exported from."
        ) from error


def inputs_of(path: Path, source: Source, against: str) -> dict[str, np.ndarray]:
    """The example inputs of SOURCE under the names of the file, matched by their order."""
    if not isinstance(source.model, nn.Module):
        raise UsageError(f"'{against}' is no nn.Module, so PyTorch cannot be timed; name the model itself.")
    model = model_of(path)
    leaves = leaves_of(arguments_of(unwrapped(source.model), source.args or (), source.kwargs))
    values = {leaf.path: as_array(torch.as_tensor(leaf.value)) for leaf in leaves if leaf.value is not None}
    needed = [entry for entry in model.graph.inputs if not entry.is_initializer()]
    return matched(values, needed, f"inputs of '{against}'")


def of_pytorch(asked: Bench, subject: Source | TimedStep, provider: str, *, compiled: bool) -> Latency | str:
    """The figures of eager PyTorch, or of torch.compile; the reason where it does not run."""
    device = PROVIDERS[provider].device
    threads = torch.get_num_threads()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    try:
        how: dict[str, Any] = {"runs": asked.runs, "warmup": max(asked.warmup, 1), "device": device}
        if isinstance(subject, Source):
            assert isinstance(subject.model, nn.Module)
            seconds = seconds_of(subject.model, subject.args or (), subject.kwargs, compiled=compiled, **how)
        else:
            seconds = subject.seconds(compiled=compiled, **how)
    except Exception as error:  # noqa: BLE001  # the user's code and the compiler raise what they like
        return f"not timed: {error_line(error)}"
    finally:
        torch.set_num_threads(threads)
    return Latency.of(seconds, device, asked.threads)
