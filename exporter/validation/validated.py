"""In Python what `fxport export` does on the command line: a model exported, saved, and compared with PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics import Level, Log, Stop
from fxport.exporter.pipeline.calls import checked_args, checked_kwargs, checked_model
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.options import Options
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import Tolerances
from fxport.exporter.validation.one import Checked, check_one


def export_and_validate(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    path: str | os.PathLike[str],
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    lowerings: Mapping[Any, Callable[..., Any]] | None = None,
    weights: str | os.PathLike[str] | None = None,
    provider: str = "auto",
    adversarial: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> Checked:
    """Exports a model to `path`, runs it in ONNX Runtime, and compares the outputs with those of eager PyTorch.

    What is named as in `export` means the same here. The comparison is at the example and at another size of every
    dynamic dimension; with `adversarial` also at the smallest, the largest and a prime size, and on zeros, NaN and the
    like. `provider` is "auto", "cpu", "cuda" or another of `fxport.ort_runner.providers`. `atol` and `rtol` replace the
    error budget by |got - want| <= atol + rtol * |want|.

    Raises ExportError when a finding at error level says that there is no model, or that it gives something else: then
    the file is there all the same. Raises ValueError or TypeError when the arguments themselves make no sense, and
    OSError where `path` cannot be written.
    """
    log = Log() if log is None else log
    options = options.named(input_names, output_names, opset_version, lowerings, weights)
    name = type(model).__name__
    source = Source(name, checked_model(model), checked_args(args), checked_kwargs(kwargs), dynamic_shapes)
    checked = None
    try:
        checked = check_one(source, options, Path(path), provider, log, Tolerances(atol, rtol), hard=adversarial)
    except Stop:
        pass  # its findings are in the log
    except UsageError as error:
        raise ValueError(str(error)) from error
    if checked is None:
        raise ExportError(log, "the export was stopped")
    if log.worst is Level.ERROR:
        reason, headline = "the model differs", f"'{path}' is not what PyTorch gives"
        samples = checked.validation.samples if checked.validation is not None else ()
        if samples and all(each.passed for each in samples):
            reason, headline = "an error was found", f"'{path}' gives what PyTorch gives, but an error was found"
        raise ExportError(log, reason, headline)
    return checked
