"""What the pytest plugin does on use: one check, its artifacts, its text, and the SARIF of a whole test run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnostics import Finding, Level, Log, Place, Stop, sarif
from diagnostics.text import render
from exporter.cli.check.merge import log_of, merged
from exporter.cli.check.one import Checked, check_one
from exporter.cli.source import Source
from exporter.cli.usage import UsageError
from exporter.cli.validation import Tolerances

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
    replace the error budget; `options` are those of `exporter.Options`. Raises Failed for findings of the level
    `fail_on` or worse, and for what cannot be asked.
    """
    import torch

    from exporter import Options

    log, level = Log(), Level(fail_on)
    logs.append(log)
    path = folder / f"{name}{'' if len(logs) == 1 else f'-{len(logs)}'}.onnx"
    chosen = Options(**options) if opset is None else Options(**options, opset=opset)
    positional = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    source = Source(type(model).__name__, model, positional, dict(kwargs or {}), dynamic_shapes)
    checked = None
    try:
        checked = check_one(source, chosen, path, provider, log, Tolerances(atol, rtol))
    except Stop:
        pass  # its findings are in the log
    except UsageError as error:
        raise Failed(str(error)) from error
    finally:
        sarif.write_sarif(log, path.with_suffix(".sarif"), default_place=Place(*at), about=ABOUT)
    if checked is None or (log.worst is not None and log.worst.rank >= level.rank):
        raise Failed(f"{render(log, least=level)}Artifacts are kept in {folder}")
    return checked


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
    from diagnostics.sarif.read import findings_of

    found = merged([finding for text in texts for finding in findings_of(json.loads(text))])
    sarif.write_sarif(log_of(found), path, about=ABOUT)
    return found
