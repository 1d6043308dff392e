"""A command in a child process, so that a crash of it is a finding at the Python line and not an empty screen.

The child is forked before torch is imported, which costs a few milliseconds. It has the terminal, writes the reports
and decides the exit code, as it would alone; only of a child that a signal ended does the parent speak. Linux only:
elsewhere the command runs in this process, and Python's fault handler writes the stack.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fxport.diagnostics.report import Report

COMMANDS = frozenset(("export", "validate", "bisect", "bench", "train-step"))
"""Subcommands that run the user's code in this process; `check` has workers of its own."""
STACK, REPORT = "stack.txt", "report.pickle"
SENT_BY_A_PROCESS = 0  # SI_USER of signal.siginfo: a terminal sends its signals to the child itself
PR_SET_PDEATHSIG = 1
ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_folder: list[Path] = []
"""Of the files by which a child speaks to its parent; none where there is no parent."""


def supervised(args: Sequence[str], work: Callable[[], int]) -> int:
    """The exit code of `work` for the command line `args`: in a child process where that helps, else here."""
    faulthandler.enable()
    if args[:1] == [] or args[0] not in COMMANDS or sys.platform != "linux" or "WORLD_SIZE" in os.environ:
        return work()
    with tempfile.TemporaryDirectory(prefix="fxport-") as name:
        folder = Path(name)
        waited = {*ASKED_TO_END, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
            os._exit(_in_child(folder, work))
        status = _wait(child, waited)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        number = os.WTERMSIG(status)
        if number in ASKED_TO_END:
            return 128 + number
        return tell(folder, number)


def expect(report: Report) -> None:
    """Leave for the parent how the run is reported, in case that this process does not live to do it."""
    for folder in _folder:
        (folder / REPORT).write_bytes(pickle.dumps(report))


def _in_child(folder: Path, work: Callable[[], int]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _folder.append(folder)
    with (folder / STACK).open("w", encoding="utf-8") as stack:
        faulthandler.enable(stack)
        try:
            code = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        faulthandler.disable()
    return code


def _wait(child: int, waited: set[signal.Signals]) -> int:
    """The status of the child at its end. What another process asks of the parent is passed on."""
    while True:
        told = signal.sigwaitinfo(waited)
        if told.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid == child:
                return status
        elif told.si_code == SENT_BY_A_PROCESS:
            os.kill(child, told.si_signo)


def tell(folder: Path, number: int) -> int:
    """Report that the child died of a signal, at the line of the user's that ran; returns the exit code."""
    from fxport.diagnostics import Log, rules
    from fxport.diagnostics.crashes import place_in
    from fxport.diagnostics.report import Report
    from fxport.exporter.cli.exit_codes import FINDINGS
    from fxport.exporter.cli.reported import print_report, write_files

    kept = folder / REPORT
    report = pickle.loads(kept.read_bytes()) if kept.exists() else Report("")
    log = Log(levels=report.levels)
    stack = (folder / STACK).read_text(encoding="utf-8", errors="replace")
    log.report(rules.NOT_CHECKED, at=place_in(stack), name=report.source, reason=reason_of(number))
    write_files(log, report, None, f"killed by {signal.Signals(number).name}")
    print_report(log, report, "")
    return FINDINGS


def reason_of(number: int) -> str:
    """Describe a signal in plain text."""
    name = signal.Signals(number).name
    if name == "SIGKILL":
        return "the process was killed (SIGKILL), as the system does when memory runs out"
    return f"the process crashed ({name}: {signal.strsignal(number)}) while this line ran"
