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
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from fxport.diagnostics import Log
    from fxport.diagnostics.report import Report
    from fxport.ort_runner.vision import Image

COMMANDS = frozenset(("export", "validate", "bisect", "bench", "train-step", "generate", "embed"))
"""Subcommands that run the user's code or a package's model in this process; `check` has workers of its own."""
SENT_BY_A_PROCESS = 0  # SI_USER of signal.siginfo: a terminal sends its signals to the child itself
PR_SET_PDEATHSIG = 1
ENDED_CLEANLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))  # of Windows
ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AT_ONCE = 1.0
"""Seconds in which two signals ask the same: one that a group of processes gets reaches a child twice."""
GRACE = 15.0
"""Seconds that a child has to clean up after it was asked to end."""


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


def supervised(args: Sequence[str], work: Callable[[], int], tell: Callable[[Report, Log, str], int]) -> int:
    """The exit code of `work` for the command line `args`: in a child process where that helps, else here.

    `tell` reports the end of a child by a signal, whose name it is given, and returns the exit code for it.
    """
    faulthandler.enable()
    if args[:1] == [] or args[0] not in COMMANDS or sys.platform != "linux" or "WORLD_SIZE" in os.environ:
        return ended_cleanly(work)
    with _in_memory("stack") as stack, _in_memory("report") as report, _in_memory("allowed") as allowed:
        left = Left(stack, report, allowed)
        waited = {*ASKED_TO_END, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        child = os.fork()
        if child == 0:
            os._exit(_in_child(left, waited, work))
        status = _wait(child, waited)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        number = os.WTERMSIG(status)
        if number in ASKED_TO_END:
            return 128 + number
        from fxport.diagnostics.crashes import name_of_signal

        return tell(*end_of(left, number), name_of_signal(number))


def ended_cleanly(work: Callable[[], int]) -> int:
    """Return the exit code of `work`. A signal that asks the process to end interrupts it as Ctrl-C does, so that no
    draft stays, and then ends the process as that signal does. A later one ends it at once, and so does any in a
    process that is forked from it.
    """
    owner, asked = os.getpid(), list[tuple[int, float]]()

    def told(number: int, _: object) -> None:
        if os.getpid() == owner and not asked:
            asked.append((number, time.monotonic()))
            raise KeyboardInterrupt
        if os.getpid() != owner or time.monotonic() - asked[0][1] > AT_ONCE:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    # where somebody has decided, as nohup does, that stays
    ours = [each for each in ENDED_CLEANLY if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, told)
    try:
        return work()
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        if asked and os.getpid() == owner:
            _flush()  # what was reported
            os.kill(owner, asked[0][0])


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


@contextmanager
def within_limits(
    folder: Path, provider: str, tokens: int = 0, new: int = 0, pictures: Iterable[Image] = ()
) -> Iterator[Callable[[], None]]:
    """Open or run the models of a package in the time and memory that they may take.

    Args:
        folder: The package.
        provider: The provider that was asked for; memory is limited on the CPU alone, as for other models.
        tokens: Tokens, or frames of a sound, that are taken at once.
        new: Tokens that are generated.
        pictures: Images that are read.

    Yields:
        A function to call after each step: the time begins anew.
    """
    from fxport.ort_runner.child import memory_of_package, time_of_package
    from fxport.ort_runner.providers import choose
    from fxport.ort_runner.worker import CPU

    on_cpu = choose(provider).provider.name == CPU
    inputs = sum(array.nbytes for image in pictures for array in image.values())
    memory = memory_of_package(folder, tokens + new, inputs) if on_cpu else None
    with limited(time_of_package(folder, tokens), memory) as alive:
        yield alive


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


def _in_child(left: Left, waited: set[signal.Signals], work: Callable[[], int]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _left.append(left)
    faulthandler.enable(left.stack)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
        code = ended_cleanly(work)
    except KeyboardInterrupt:  # before the work has begun, or after its end
        code = 128 + signal.SIGINT
    finally:
        _flush()
    faulthandler.disable()
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # `work` has told
            stream.flush()


def _wait(child: int, waited: set[signal.Signals]) -> int:
    """The status of the child at its end. What another process asks of the parent is passed on, and a child that
    has not ended some seconds later is killed, with the status of what was asked.
    """
    passed: dict[int, float] = {}
    while True:
        left = min(passed.values(), default=0.0) + GRACE - time.monotonic()
        told = signal.sigtimedwait(waited, max(left, 0.0)) if passed else signal.sigwaitinfo(waited)
        if told is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return next(iter(passed))  # the first; a status of a signal is its number
        if told.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid == child:
                return status
        elif told.si_code == SENT_BY_A_PROCESS and time.monotonic() - passed.get(told.si_signo, -AT_ONCE) > AT_ONCE:
            passed.setdefault(told.si_signo, time.monotonic())
            os.kill(child, told.si_signo)


def end_of(left: Left, number: int) -> tuple[Report, Log]:
    """Describe how a child died of a signal, at the line of the user's that ran, and how its run is reported."""
    from fxport.diagnostics import Log, rules
    from fxport.diagnostics.crashes import place_in
    from fxport.diagnostics.report import Report
    from fxport.exporter.checks.reasons import fixes_for

    kept = _read(left.report)
    report = pickle.loads(kept) if kept else Report("")
    log = Log(levels=report.levels)
    if number == signal.SIGALRM:
        seconds = _read(left.allowed).decode()
        log.report(rules.RUNTIME_FAILED, error=f"it did not answer within {seconds} seconds and was stopped")
    else:
        place = place_in(_read(left.stack).decode(errors="replace"))
        reason = reason_of(number)
        log.report(rules.NOT_CHECKED, at=place, fixes=fixes_for(reason), name=report.source, reason=reason)
    return report, log


def reason_of(number: int) -> str:
    """Describe a signal in plain text."""
    from fxport.diagnostics.crashes import CRASHES, name_of_signal

    name = name_of_signal(number)
    if name == "SIGKILL":
        return "the process was killed (SIGKILL), as the system does when memory runs out"
    if name not in CRASHES:
        return f"the process was ended by {name}, which something else sent, while this line ran"
    return f"the process crashed ({name}: {signal.strsignal(number)}) while this line ran"
