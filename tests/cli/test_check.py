"""`python -m tests.check` stops at the first failure and keeps its exit code."""

import sys

from tests.check import CHECKS, main


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_first_failure_ends_it() -> None:
    assert main((python("pass"), python("raise SystemExit(7)"), python("raise SystemExit(8)"))) == 7


def test_all_passed() -> None:
    assert main((python("pass"),)) == 0


def test_every_check_is_run() -> None:
    assert [command[2] for command in CHECKS] == ["ruff", "ruff", "basedpyright", "pytest"]
