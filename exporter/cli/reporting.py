"""The options of all subcommands that report findings: one table, which `@reports` puts into their signatures."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from fxport.diagnostics.formats import Format
from fxport.diagnostics.report import FailOn, Report, SarifProfile
from fxport.exporter.sources.outputs import require_file, require_folder
from fxport.exporter.sources.policy import baseline_of, levels_of
from fxport.exporter.sources.settings import Settings, report_of, settings_near, unread_in

Command = Callable[..., None]
PARAMETER = "reporting"


@dataclass(frozen=True, slots=True)
class Reporting:
    """Reporting options as typed; None where a key of the project's settings decides."""

    format: Annotated[Format, typer.Option("--format", help="How the findings are printed.")] = Format.TEXT
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", metavar="PATH", help="Write the findings as SARIF 2.1.0; its folder is made."),
    ] = None
    sarif_profile: Annotated[
        SarifProfile | None,
        typer.Option("--sarif-profile", help="For whom SARIF is written; full, with all that is known, by default."),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write report.html, .json and .sarif, junit.xml and more there."),
    ] = None
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            help="Exit with 1 for findings of this level and above, error by default; no model is always 1.",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="OLD.sarif", help="An earlier log: findings are new, unchanged or absent."),
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="RULES", help="Only these rules, by id, name or beginning: FXP4. Repeatable."),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULES", help="Not these rules. Repeatable.")
    ] = None
    severity: Annotated[
        list[str] | None,
        typer.Option("--severity", metavar="RULE=LEVEL", help="Another level for a rule: FXP4001=error. Repeatable."),
    ] = None

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print problems only: no notes, no summary.")] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show what libraries warn of while they are imported and run.")
    ] = False

    def resolved(self, run: str, source: str) -> Report:
        """With what the settings near SOURCE say; `run` is the subcommand. Raises UsageError, also for output paths."""
        settings, folder = settings_near(source)
        if said := unread_in(folder):
            print(f"fxport: {said}", file=sys.stderr)
        return self.with_settings(run, source, settings, folder)

    def with_settings(self, run: str, source: str, settings: Settings, folder: Path) -> Report:
        """As `resolved`, with settings whose paths are relative to `folder`."""
        if self.sarif is not None:
            require_file(self.sarif, "--sarif")
        if self.report is not None:
            require_folder(self.report, "--report")
        typed = {name: None for name, given in (("select", self.select), ("ignore", self.select)) if given}
        typed |= {"baseline": None} if self.baseline else {}
        told = report_of(settings.model_copy(update=typed), folder, run, source)
        return replace(
            told,
            format=self.format,
            sarif=self.sarif,
            fail_on=self.fail_on or told.fail_on,
            levels={**told.levels, **levels_of(self.select or (), self.ignore or (), self.severity or ())},
            baseline=baseline_of(self.baseline) if self.baseline else told.baseline,
            profile=self.sarif_profile or told.profile,
            folder=self.report,
            quiet=self.quiet,
            verbose=self.verbose,
        )


def reports(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """For a subcommand with a parameter `reporting`: on the command line, the options of Reporting stand for it."""
    hints = get_type_hints(Reporting, include_extras=True)
    options = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(Reporting)
        if each.name not in without
    ]

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_reporting(**given: Any) -> None:  # Any: the values of all options
            reporting = Reporting(**{option.name: given.pop(option.name) for option in options})
            command(**given, **{PARAMETER: reporting})

        own = inspect.signature(command, eval_str=True)
        kept = [each for each in own.parameters.values() if each.name != PARAMETER]
        with_reporting.__dict__["__signature__"] = own.replace(parameters=[*kept, *options])
        return with_reporting

    return with_options
