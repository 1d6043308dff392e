"""Signals that ask a command to end: its own processes, and those that the user's code starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from fxport.exporter.checks import pool, supervised
from fxport.exporter.checks.reasons import fixes_for
from fxport.ort_runner.child import how_it_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands have a child on Linux alone")

FORKED = """
import multiprocessing, os, signal, time
from fxport.exporter.checks.supervised import ended_cleanly

def sleep():
    print("begun", flush=True)
    time.sleep(60)

def work():
    process = multiprocessing.get_context("fork").Process(target=sleep)
    process.start()
    time.sleep(0.5)
    process.terminate()
    process.join()
    child = os.fork()
    if child == 0:
        try:
            sleep()
        finally:
            print("cleaned", flush=True)
    time.sleep(0.5)
    os.kill(child, signal.SIGTERM)
    print(process.exitcode, os.waitpid(child, 0)[1])
    return 0

ended_cleanly(work)
"""

SUPERVISED = """
import signal, sys, time
from fxport.exporter.checks import supervised

def slow():
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        for _ in range(20):
            time.sleep(0.02)
        print("cleaned")

def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # as code in C that does not return to Python
    print("begun", flush=True)
    time.sleep(60)

supervised.GRACE = 1.0
sys.exit(supervised.supervised(["export"], WORK, lambda *_: 9))
"""


def test_a_forked_process_of_the_users_ends_as_it_would_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == f"{-signal.SIGTERM} {int(signal.SIGTERM)}"
    assert ("cleaned" in done.stdout, done.stderr) == (False, "")


def test_a_handler_that_python_does_not_know_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    assert supervised.ended_cleanly(lambda: 7) == 7


@pytest.mark.parametrize(
    ("work", "send", "said"), [("slow", os.killpg, "cleaned\n"), ("slow", os.kill, "cleaned\n"), ("deaf", os.kill, "")]
)
def test_a_command_cleans_up_in_time(work: str, send: Callable[[int, int], None], said: str) -> None:
    """`timeout` sends the signal to a group of processes, so that it reaches the child twice."""
    command = [sys.executable, "-c", SUPERVISED.replace("WORK", work)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    began = time.monotonic()
    send(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == said
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("number", "at_start", "advice"),
    [
        (signal.SIGSEGV, "import torch", ["library"]),
        (signal.SIGTERM, "something else ended it", []),
        (signal.SIGRTMIN, "something else ended it", []),
        (signal.SIGRTMIN + 1, "something else ended it", []),
    ],
)
def test_only_crashes_are_called_so(number: int, at_start: str, advice: list[str]) -> None:
    assert at_start in str(pool._not_started(-number, ""))
    for reason in (how_it_ended(-number), supervised.reason_of(number)):
        assert [each for each in advice if each in fixes_for(reason)[0].description] == advice
        assert bool(fixes_for(reason)) == bool(advice)
    assert ("crashed" in supervised.reason_of(number)) == bool(advice)
