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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from fxport.diagnostics.report import Report

COMMANDS = frozenset(("export", "validate", "bisect", "bench", "train-step", "generate", "embed"))
"""Subcommands that run the user's code or a package's model in this process; `check` has workers of its own."""
SENT_BY_A_PROCESS = 0  # SI_USER of signal.siginfo: a terminal sends its signals to the child itself
PR_SET_PDEATHSIG = 1
ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Left:
    """Files of a child for its parent, in memory that both have: none stays when both are killed.

    Attributes:
        stack: The Python stack at a crash, by the fault handler.
        report: How the run is reported, pickled; empty until that is known.
        allowed: Seconds that it gave itself last, as text; empty for a child without a limit.
    """

    stack: IO[bytes]
    report: IO[bytes]
    allowed: IO[bytes]


_left: list[Left] = []
"""Of this process, if it is such a child."""


def supervised(args: Sequence[str], work: Callable[[], int]) -> int:
    """The exit code of `work` for the command line `args`: in a child process where that helps, else here."""
    faulthandler.enable()
    if args[:1] == [] or args[0] not in COMMANDS or sys.platform != "linux" or "WORLD_SIZE" in os.environ:
        return work()
    with _in_memory("stack") as stack, _in_memory("report") as report, _in_memory("allowed") as allowed:
        left = Left(stack, report, allowed)
        waited = {*ASKED_TO_END, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
            os._exit(_in_child(left, work))
        status = _wait(child, waited)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        number = os.WTERMSIG(status)
        if number in ASKED_TO_END:
            return 128 + number
        return tell(left, number)


def expect(report: Report) -> None:
    """Leave for the parent how the run is reported, in case that this process does not live to do it."""
    for left in _left:
        _write(left.report, pickle.dumps(report))


@contextmanager
def limited(seconds: float, memory: int | None) -> Iterator[Callable[[], None]]:
    """Let this process take so many seconds, and bytes where they are given, if it has a parent that tells of its end.

    Yields:
        A function to call at each sign of life: the time begins anew.
    """
    if not _left:
        yield lambda: None
        return
    for left in _left:
        _write(left.allowed, f"{seconds:.3g}".encode())
    if memory is not None:
        from fxport.ort_runner.memory import bound

        bound(memory)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _in_memory(name: str) -> IO[bytes]:
    """A file without a place on the disk, which a full or read-only one does not stand in the way of."""
    return os.fdopen(os.memfd_create(f"fxport-{name}"), "w+b")


def _write(file: IO[bytes], content: bytes) -> None:
    file.seek(0)
    file.truncate()
    file.write(content)
    file.flush()


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _in_child(left: Left, work: Callable[[], int]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _left.append(left)
    faulthandler.enable(left.stack)
    try:
        code = work()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # `work` has told
                stream.flush()
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


def tell(left: Left, number: int) -> int:
    """Report that the child died of a signal, at the line of the user's that ran; returns the exit code."""
    from fxport.diagnostics import Log, rules
    from fxport.diagnostics.crashes import place_in
    from fxport.diagnostics.report import Report
    from fxport.exporter.cli.exit_codes import FINDINGS
    from fxport.exporter.cli.reported import print_report, write_files

    kept = _read(left.report)
    report = pickle.loads(kept) if kept else Report("")
    log = Log(levels=report.levels)
    stack = _read(left.stack).decode(errors="replace")
    if number == signal.SIGALRM:
        seconds = _read(left.allowed).decode()
        log.report(rules.RUNTIME_FAILED, error=f"it did not answer within {seconds} seconds and was stopped")
    else:
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
