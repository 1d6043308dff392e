"""The command line: a table of subcommands, each imported on use.

`fxport --help` imports none of them; `fxport explain` and `fxport rules` work without torch.
Exit codes are those of `exit_codes`.
"""

import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fxport.exporter.cli.exit_codes import CLEAN, FAULT, INTERRUPTED, USAGE
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    from fxport.diagnostics import Log
    from fxport.diagnostics.report import Report

COMPLETED = "_TYPER_COMPLETE_ARGS"
"""Environment variable by which a shell hands over the line that it wants completed."""

COMMANDS = {
    "export": "Export a PyTorch model to ONNX and validate it in ONNX Runtime.",
    "validate": "Compare an ONNX model with the PyTorch model that it came from.",
    "bisect": "Find the stage and the line that a difference from PyTorch comes from.",
    "bench": "Time an ONNX model in ONNX Runtime beside PyTorch.",
    "place": "Tell which nodes of an ONNX model run on which provider.",
    "package": "Write a folder that runs a language model, validated beside eager PyTorch.",
    "generate": "Generate text with a package, and tell tokens per second.",
    "embed": "Print vectors of texts, or their scores for a query, with a package.",
    "check": "Check all models of a manifest: each exported and validated.",
    "watch": "Export models whenever a file that they depend on is saved.",
    "train-step": "Export a training step to ONNX: forward, loss, backward and optimizer in one model.",
    "diff": "Tell two ONNX files apart: interface, operators, weights.",
    "view": "Show a report or a SARIF log in the browser.",
    "explain": "Explain a rule: what it means, why, an example, what to do.",
    "rules": "List all rules.",
    "ops": "List the operators that have a lowering.",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. That of the process itself is run in a child: see `supervised`."""
    if argv is not None:
        return run_here(list(argv))
    from fxport.exporter.checks.supervised import supervised
    from fxport.exporter.cli.streams import open_streams

    open_streams()
    args = sys.argv[1:]
    return supervised(args, lambda: run_here(args), tell_death)


def tell_death(report: "Report", log: "Log", name: str) -> int:
    """Report that the process of a command was ended by the signal `name`; returns the exit code."""
    from fxport.exporter.cli.exit_codes import FINDINGS
    from fxport.exporter.cli.reported import print_report, write_files

    write_files(log, report, None, f"killed by {name}")
    print_report(log, report, "")
    return FINDINGS


def run_here(args: Sequence[str]) -> int:
    """Run one command line in this process and return its exit code."""
    from fxport.exporter.cli.streams import flushed, require_working_folder, say, told

    try:
        require_working_folder()
        return flushed(_run(args))
    except UsageError as error:
        from fxport.diagnostics.escape import terminal

        return say(terminal(str(error)), USAGE)
    except KeyboardInterrupt:  # before the work has begun: while a subcommand is imported
        return interrupted()
    except Exception as error:  # noqa: BLE001 - the outermost edge: here nothing is left to make a finding
        if (said := told(error)) is not None:
            return say(said, USAGE)
        print(f"fxport itself failed, please report it: fxport {shlex.join(args)}", file=sys.stderr)
        traceback.print_exc()
        return FAULT


def _run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises what the command raises."""
    if "--sandbox" in args:
        from fxport.exporter.cli.sandbox import sandboxed

        return sandboxed(args)
    try:
        application(args)(args=args or ["--help"], prog_name="fxport")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else CLEAN
    return CLEAN


class Commands(TyperGroup):
    """The subcommands. Ctrl-C ends each with a line, which typer ends without one."""

    def invoke(self, ctx: Any) -> Any:  # Any: of click, which newer typer holds a copy of
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as end:  # outside of `edge.run`: while inputs are read, or a list is printed
            raise typer.Exit(interrupted()) from end


def interrupted() -> int:
    """Tells of Ctrl-C, and returns the exit code."""
    from fxport.exporter.cli.streams import say

    return say("interrupted", INTERRUPTED)


def application(args: Sequence[str]) -> typer.Typer:
    """The typer app for one command line: the subcommand it names is real, the others are lines in the help."""
    from fxport.exporter.cli.option_groups import Grouped

    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback(help="PyTorch models to ONNX, validated in ONNX Runtime; every problem at your own source line.")(top)
    from os import environ

    args = shlex.split(environ[COMPLETED])[1:] if COMPLETED in environ else args
    for name, summary in COMMANDS.items():
        app.command(name, cls=Grouped, short_help=summary)(function_of(name) if name in args[:1] else unchosen)
    return app


def function_of(name: str) -> Callable[..., None]:
    """The function of a subcommand, whose parameters are its arguments and options."""
    return import_module(f"fxport.exporter.cli.{name.replace('-', '_')}").command


def unchosen() -> None:
    """Stands for a subcommand that this command line does not run."""


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"fxport {metadata.version('fxport')}")
        raise typer.Exit


def top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `fxport` itself. `--version` has been dealt with by its callback."""
