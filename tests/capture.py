"""`python -m tests.capture [--python PYTHON] [pytest arguments]`: the tests of capture on another PyTorch.

PYTHON is the interpreter of an environment that has that PyTorch and fxport's other requirements; by default it is the
one that runs this. Exits as pytest does, after a line that names the versions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OLDEST, NEWEST = (2, 11), (2, 15)
"""Versions of PyTorch for which the tests are meant."""

FILES = (
    "exporter/test_torch_private.py",  # first: it names what a version has no longer
    "exporter/test_capture.py",
    "exporter/test_dimensions.py",
    "exporter/test_derived.py",
    "exporter/test_zero_one_specialization.py",
    "exporter/test_restoration.py",
    "exporter/test_autocast.py",
    "exporter/test_conditions.py",
    "exporter/test_named_sizes.py",
    "exporter/test_nesting.py",
    "exporter/test_state.py",
    "exporter/test_branches.py",
    "exporter/test_branch_writes.py",
    "exporter/test_loops.py",
    "exporter/test_jumps.py",
    "exporter/test_ways_that_keep.py",
    "exporter/test_found_places.py",
    "exporter/test_presence.py",
    "exporter/test_guards.py",
    "exporter/test_selected.py",
    "exporter/test_own_sizes.py",
    "exporter/test_bounded_values.py",
    "exporter/test_attempts.py",
    "exporter/test_control_flow.py",
    "exporter/test_regions.py",
    "exporter/test_repeated_regions.py",
    "exporter/test_custom_ops.py",
    "exporter/test_flex_attention.py",
    "exporter/test_derivatives.py",
    "exporter/test_recurrent.py",
    "exporter/test_packed.py",
    "exporter/test_caches.py",
    "exporter/test_decode.py",
)

VERSIONS = "import platform, torch; print(torch.__version__, platform.python_version())"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tests and returns pytest's exit code, or 2 where the interpreter has no PyTorch."""
    parser = argparse.ArgumentParser(prog="python -m tests.capture", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment to test with")
    chosen, rest = parser.parse_known_args(arguments)
    found = versions_of(chosen.python)
    if found is None:
        sys.stderr.write(f"{chosen.python} has no PyTorch that can be imported\n")
        return 2
    torch, python = found
    meant = OLDEST <= numbers_of(torch) <= NEWEST
    beyond = "" if meant else ", which the tests are not meant for"
    sys.stdout.write(f"capture on torch {torch}, Python {python}{beyond}\n")
    sys.stdout.flush()
    command = [chosen.python, "-m", "pytest", "-q", *(f"tests/{file}" for file in FILES), *rest]
    paths = os.pathsep.join((str(ROOT / ".ci" / "packages"), str(ROOT)))  # fxport need not be installed there
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode


def versions_of(python: str) -> tuple[str, str] | None:
    """The versions of PyTorch and of Python that an interpreter has; None where it cannot import PyTorch."""
    try:
        done = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    torch, version = done.stdout.split()
    return torch, version


def numbers_of(version: str) -> tuple[int, int]:
    """(2, 13) for "2.13.0+cpu"."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


if __name__ == "__main__":
    raise SystemExit(main())
