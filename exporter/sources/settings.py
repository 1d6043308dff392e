"""Project settings for reports, in fxport.toml or `[tool.fxport]`: the keys are the options' names."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from fxport.diagnostics import Finding, Level, policy
from fxport.diagnostics.report import FailOn, Report, SarifProfile
from fxport.exporter.sources.policy import baseline_of, levels_of
from fxport.exporter.sources.toml_lines import Path as KeyPath
from fxport.exporter.sources.toml_tables import NAME, PYPROJECT, TABLE, Keys, line_in, read, validated
from fxport.exporter.sources.usage import UsageError

OF_CHECK = ("defaults", "model")
"""Tables of the same file that only `fxport check` reads."""


class Settings(Keys):
    """Selection of findings, and of those that fail a run. An option of the command line replaces its key."""

    select: list[str] | None = None
    """Only these rules, by id, name or beginning: "FXP4"."""
    ignore: list[str] | None = None
    """Not these rules."""
    severity: dict[str, Level] = {}
    """Other levels, by rule: FXP4001 = "error"."""
    fail_on: FailOn | None = None
    """The lowest level that makes the exit code 1; new-error: an error that the baseline lacks."""
    baseline: str | None = None
    """An earlier SARIF log, beside this file; `fxport check` has fxport.lock instead."""
    sarif_profile: SarifProfile | None = None
    """For whom SARIF is written."""


def settings_near(source: str) -> tuple[Settings, Path]:
    """The settings of the nearest file from SOURCE's folder upwards, or from the working folder for a dotted name.

    Returns them with the folder that their paths are relative to. Raises UsageError with the line of each mistake.
    """
    start = folder_of(source)
    path = next((found for folder in (start, *start.parents) for found in files_in(folder)), None)
    return (Settings(), start) if path is None else (load(path), path.parent)


def report_of(settings: Settings, folder: Path, run: str, source: str = "") -> Report:
    """Return the report of a run by a project's settings alone, whose paths are relative to `folder`. Raises
    UsageError.
    """
    severity = [f"{rule}={level}" for rule, level in settings.severity.items()]
    kept = None if settings.baseline is None else folder / settings.baseline
    return Report(
        source,
        fail_on=settings.fail_on or FailOn.ERROR,
        levels=levels_of(settings.select or (), settings.ignore or (), severity),
        baseline=known_to(kept),
        run=run,
        profile=settings.sarif_profile or SarifProfile.FULL,
    )


def known_to(kept: Path | None) -> Sequence[Finding] | None:
    """The findings of the settings' baseline; none yet in one that is still to be written."""
    return () if kept is not None and not kept.exists() else baseline_of(kept, "baseline")


def folder_of(source: str) -> Path:
    """The folder of the file that SOURCE names; the working folder where it names none."""
    for text in (source, source.rpartition(":")[0]):
        if text and (path := Path(text)).exists():
            return path.resolve().parent
    return Path.cwd()


def files_in(folder: Path) -> Iterator[Path]:
    """The file of a folder that has settings. A pyproject.toml that never speaks of fxport is not even parsed."""
    own, project = folder / NAME, folder / PYPROJECT
    if own.is_file():
        yield own
    elif project.is_file() and _speaks_of_fxport(project) and read(project):
        yield project


def unread_in(folder: Path) -> str:
    """Say which keys of a folder are not read: those of a pyproject.toml beside an fxport.toml. Raises UsageError for
    the latter.
    """
    own, project = folder / NAME, folder / PYPROJECT
    if not own.is_file() or not project.is_file():
        return ""
    try:
        unread = _speaks_of_fxport(project) and read(project)
    except (OSError, UsageError):  # nothing depends on a file that is not read
        return ""
    if not unread:
        return ""
    first, line = line_in(own, tuple(read(own))[:1]), line_in(project, ())
    return f"{PYPROJECT}:{line}: [{'.'.join(TABLE)}] is not read, but {NAME}:{first} beside it; have all keys there."


def _speaks_of_fxport(path: Path) -> bool:
    """Return True if a file of any size has the name in it."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(TABLE[1].encode()) >= 0


def load(path: Path) -> Settings:
    """Reads and checks the settings alone: a mistake in the table of a model is a matter of `fxport check`."""
    data = {key: value for key, value in read(path).items() if key not in OF_CHECK}
    settings = validated(Settings, data, path, lambda _: [*Settings.model_fields, *OF_CHECK])
    refuse_unfit(settings, path)
    return settings


def refuse_unfit(settings: Settings, path: Path) -> None:
    """Raises UsageError for a rule that is not known, or whose level must stay, with its line."""
    checks: list[tuple[KeyPath, Callable[[], object]]] = [
        (("select",), partial(policy.levels, select=settings.select or ())),
        (("ignore",), partial(policy.levels, ignore=settings.ignore or ())),
        *(
            (("severity", rule), partial(policy.levels, severity={rule: each}))
            for rule, each in settings.severity.items()
        ),
    ]
    for where, check in checks:
        try:
            check()
        except ValueError as error:
            raise UsageError(f"{path.name}:{line_in(path, where)}: {error}.") from error
