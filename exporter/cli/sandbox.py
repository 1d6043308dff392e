"""`--sandbox`: a command line in a process that has no network and can write nothing but its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from fxport.diagnostics.drafts import draft_folder
from fxport.exporter.checks.sandbox import Output, run_sandboxed
from fxport.exporter.cli.exit_codes import USAGE
from fxport.exporter.sources.usage import UsageError

OPTION = "--sandbox"
COMMANDS = frozenset(("export", "train-step", "package", "validate", "bisect", "bench"))
MAKES_FILES = frozenset(("export", "train-step", "package"))
FILES, FOLDERS = ("-o", "--output", "--sarif", "--profile"), ("--report", "--dump", "--repro")
"""Options that name a file to write, and a folder; `-o` of `package` is a folder."""


def sandboxed(args: Sequence[str]) -> int:
    """Run a command line in a sandbox and return its exit code. Raises UsageError where there can be none."""
    rest = [each for each in args if each != OPTION]
    if not rest or rest[0] not in COMMANDS:
        raise UsageError(f"{OPTION} is for {', '.join(sorted(COMMANDS))}.")
    if "--fix" in rest:
        raise UsageError(f"--fix changes SOURCE, which {OPTION} forbids; leave one of them out.")
    with ExitStack() as stack:
        outputs: list[Output] = []
        told = list(_with_drafts(rest, stack, outputs)) if "--help" not in rest else rest
        if rest[0] in MAKES_FILES and "--help" not in rest and not any(each in ("-o", "--output") for each in rest):
            raise UsageError(f"{OPTION} needs -o PATH: nothing but what it names is written.")
        code = run_sandboxed(told, outputs)
    return USAGE if code is None else code


def _with_drafts(args: Sequence[str], stack: ExitStack, outputs: list[Output]) -> Iterator[str]:
    """Yield the command line with places in draft folders for its outputs, which are added to `outputs`."""
    waiting: str | None = None
    for each in args:
        name, equals, value = each.partition("=")
        if waiting is not None:
            yield str(_draft(args[0], waiting, each, stack, outputs))
            waiting = None
        elif equals and name in (*FILES, *FOLDERS):
            yield f"{name}={_draft(args[0], name, value, stack, outputs)}"
        else:
            waiting = each if each in (*FILES, *FOLDERS) else None
            yield each


def _draft(command: str, option: str, value: str, stack: ExitStack, outputs: list[Output]) -> Path:
    target = Path(value).absolute()
    is_folder = option in FOLDERS or (command == "package" and option != "--sarif")
    try:
        if option not in ("-o", "--output"):
            target.parent.mkdir(parents=True, exist_ok=True)
        draft = stack.enter_context(draft_folder(target.parent)) / target.name
    except OSError as error:
        raise UsageError(f"{option} '{value}' cannot be written: {error.strerror}; name another place.") from error
    outputs.append(Output(target, draft, is_folder, is_whole=is_folder and option not in FOLDERS))
    return draft
