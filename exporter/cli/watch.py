"""`fxport watch SOURCE…`: export on save, and the log that an editor shows, written anew each time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Level, sarif, text
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.escape import terminal
from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.report import Report
from fxport.exporter.checks.documents import document
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.merge import log_of, merged
from fxport.exporter.checks.running import OUTPUT, prepare
from fxport.exporter.checks.watch import Turn, ids_of, reason_of, said_of, turns
from fxport.exporter.cli import arguments
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.cli.streams import is_unread
from fxport.exporter.sources.outputs import require_folder
from fxport.exporter.sources.source import require_named
from fxport.exporter.sources.usage import UsageError, unwritable


@reports(without=("baseline", "format", "fail_on", "report", "verbose"))
def command(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE…", help="Models as for `fxport export`: FILE.py:NAME and others.")
    ],
    input: arguments.Input = None,
    inputs: arguments.SampleFiles = None,
    dynamic: arguments.Dynamic = None,
    opset: arguments.Opset = None,
    plugin: arguments.Plugin = None,
    provider: arguments.Provider = "auto",
    validate: Annotated[bool, typer.Option("--validate", help="Also compare each model with PyTorch.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder of the models; .fxport by default.")
    ] = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Export models whenever a file that they depend on is saved, until Ctrl-C. Without --validate, none is run.

    Exit codes: 2 usage, 3 a fault of fxport's, 130 Ctrl-C.
    """
    folder = Path.cwd()
    for source in sources:
        require_named(source)
    report = reporting.resolved("watch", sources[0])
    models = (output or folder / OUTPUT).resolve()
    require_folder(models, "--output")
    prepare(models)
    tasks = [
        Task(
            Item(
                id=name,
                model=name,
                source=source,
                opset=opset,
                provider=provider,
                inputs=tuple(input or ()),
                samples=tuple(map(str, inputs or ())),
                dynamic=tuple(dynamic or ()),
                plugin=tuple(plugin or ()),
                validate=validate,
            ),
            Terms(),
        )
        for name, source in zip(ids_of(sources), sources, strict=True)
    ]

    def path_of(task: Task) -> Path:
        return models / "models" / f"{task.item.id}.onnx"

    def begun(names: Sequence[str]) -> None:
        print(terminal(f"fxport: exporting {', '.join(names)}"), flush=True)

    with closing(turns(tasks, folder, path_of, begun)) as done:
        for turn in done:
            tell(turn, report, {task.item.id: path_of(task) for task in tasks})
            if is_unread():
                return


def tell(turn: Turn, report: Report, paths: dict[str, Path]) -> None:
    """Write the log of all sources, then print their findings, and a line for each that was exported."""
    rows = [row.told(report.levels, report.fail_on) for row in turn.rows]
    if not turn.files:
        raise UsageError(f"There is no file to watch: {reason_of(rows[0])}")
    if report.sarif is not None:
        try:
            write_whole(report.sarif, sarif.as_text(document(rows, report.profile, "watch")))
        except OSError as error:
            raise unwritable(error.filename, error) from error
    log = log_of(merged([finding for row in rows for finding in row.findings]))
    lines = [text.render(log, color=sys.stdout.isatty(), least=Level.WARNING if report.quiet else Level.NOTE).rstrip()]
    lines += [terminal(said_of(row, paths[row.id])) for row in rows if row.id in turn.renewed]
    lines += [f"fxport: watching {plural(len(turn.files), 'file')}; Ctrl-C ends"]
    print("\n".join(filter(None, lines)), flush=True)
