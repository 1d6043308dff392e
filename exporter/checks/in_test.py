"""Implementation of the pytest plugin: one check, its artifacts, its text, and the SARIF of a whole test run."""

from __future__ import annotations

import inspect
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from fxport.diagnostics import Finding, Level, Log, Place, Stop, sarif
from fxport.diagnostics.text import render
from fxport.exporter.checks.merge import log_of, merged
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import Tolerances
from fxport.exporter.validation.one import Checked, check_one

ABOUT = sarif.About(model="pytest", run="check")


class Failed(Exception):
    """The model is not what PyTorch has; the text is that of the findings."""


def check(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    folder: Path,
    logs: list[Log],
    at: tuple[str, int],
    dynamic_shapes: Any = None,
    provider: str = "auto",
    opset: int | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    fail_on: str = Level.ERROR,
    name: str = "model",
    **options: Any,
) -> Checked:
    """Exports to `folder`, validates, and adds the log of the run to `logs`.

    `args` is the tuple of an example call, or its only tensor; `provider` as in `fxport export`; `atol` and `rtol`
    replace the error budget; `options` are those of `fxport.exporter.Options`. Raises Failed for findings of the level
    `fail_on` or worse, where there was nothing to compare with, and for what cannot be asked.
    """
    import torch

    from fxport.exporter.pipeline.options import Options

    require_known(options)
    log, level = Log(), Level(fail_on)
    logs.append(log)
    path = folder / f"{name}{'' if len(logs) == 1 else f'-{len(logs)}'}.onnx"
    try:
        chosen = Options(**options) if opset is None else Options(**options, opset=opset)
    except (TypeError, ValueError) as error:  # an opset that is out of range, say
        raise Failed(str(error)) from error
    positional = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    named: Any = model
    kind = named if isinstance(named, type) else type(named)
    source = Source(
        kind.__name__,
        model,
        positional,
        dict(kwargs or {}),
        dynamic_shapes,
    )
    checked = None
    try:
        with without_traces():
            checked = check_one(source, chosen, path, provider, log, Tolerances(atol, rtol))
    except Stop:
        pass  # its findings are in the log
    except UsageError as error:
        raise Failed(str(error)) from error
    finally:
        sarif.write_sarif(log, path.with_suffix(".sarif"), default_place=Place(*at), about=ABOUT)
    unseen = (
        checked is not None and checked.files and checked.validation is None
    )  # a rank that writes no files has none
    if checked is None or unseen or (log.worst is not None and log.worst.rank >= level.rank):
        level = min(level, Level.WARNING, key=lambda each: each.rank) if unseen else level
        raise Failed(f"{render(log, least=level)}Artifacts are kept in {folder}")
    return checked


def require_known(options: Mapping[str, Any]) -> None:
    """Raise Failed for an argument that `check` does not have, with the nearest one that it has."""
    from fxport.exporter.pipeline.calls import nearest
    from fxport.exporter.pipeline.options import Options

    own = inspect.signature(check).parameters.keys() - {"folder", "logs", "at", "options"}
    known = {*own, *(field.name for field in fields(Options))}
    for name in options.keys() - known:
        raise Failed(f"onnx_check() has no argument '{name}': {nearest(name, known)}")


@contextmanager
def without_traces() -> Iterator[None]:
    """While it lasts, PyTorch's traces of a capture stay out of the log that pytest shows of a failed test."""
    logger = logging.getLogger("torch.__trace")
    if "TORCH_TRACE" in os.environ:  # somebody asks for them
        yield
        return
    logger.addFilter(_dropped)
    try:
        yield
    finally:
        logger.removeFilter(_dropped)


def _dropped(record: logging.LogRecord) -> bool:
    return False


def remarks(logs: Sequence[Log]) -> str:
    """The findings that are no errors, for the section of a failed test."""
    return "\n".join(text for log in logs if (text := render(log_of([f for f in log.findings if not is_error(f)]))))


def is_error(finding: Finding) -> bool:
    return finding.level is Level.ERROR


def sarif_text(logs: Sequence[Log], at: tuple[str, int]) -> str:
    """The findings of one test as a SARIF document in one line; those without a place are at the test."""
    found = merged([finding for log in logs for finding in log.findings])
    return json.dumps(sarif.to_sarif(log_of(found), default_place=Place(*at), about=ABOUT))


def write_merged(path: Path, texts: Sequence[str]) -> Sequence[Finding]:
    """All tests' findings in one run of one file; returns them. Raises OSError where the file cannot be written."""
    from fxport.diagnostics.sarif.read import findings_of

    found = merged([finding for text in texts for finding in findings_of(json.loads(text))])
    sarif.write_sarif(log_of(found), path, about=ABOUT)
    return found
