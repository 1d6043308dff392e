"""Reporting of a run: which findings fail it, the destination of its log and the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from fxport.diagnostics.formats import Format
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import BaselineState, Finding, Level


class FailOn(StrEnum):
    """The lowest level of a finding that makes the exit code 1; `new-error`: an error that the baseline lacks."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEW_ERROR = "new-error"
    NEVER = "never"


class SarifProfile(StrEnum):
    """For whom SARIF is written: the keys of `fxport.diagnostics.sarif.PROFILES`."""

    FULL = "full"
    IDE = "ide"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True)
class Report:
    """Options by which a run is reported. `source` is SOURCE as typed: findings without a place are shown there.

    `levels` are those of rules by id, None for one that is not wanted; `baseline` the findings of an earlier run. `run`
    is the subcommand, `profile` the consumer for which SARIF is written, `folder` takes all formats that are files.
    `quiet` prints problems only, no notes and no summary; `verbose` lets through the warnings of libraries.
    """

    source: str
    format: Format = Format.TEXT
    sarif: Path | None = None
    fail_on: FailOn = FailOn.ERROR
    levels: Mapping[str, Level | None] = field(default_factory=dict)
    baseline: Sequence[Finding] | None = None
    run: str = "export"
    profile: SarifProfile = SarifProfile.FULL
    folder: Path | None = None
    quiet: bool = False
    verbose: bool = False


def fails(log: Log, fail_on: FailOn) -> bool:
    """Return True if an open finding is as severe as `fail_on` or more."""
    return any(finding.is_open and at_least(finding, fail_on) for finding in log.findings)


def at_least(finding: Finding, fail_on: FailOn) -> bool:
    """Return True if a finding is as severe as `fail_on` or more."""
    if fail_on is FailOn.NEW_ERROR:
        return finding.level is Level.ERROR and finding.baseline is not BaselineState.UNCHANGED
    return fail_on is not FailOn.NEVER and finding.level.rank >= Level(fail_on.value).rank
