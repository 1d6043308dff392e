"""`python -m tests.check`: every check of this repository, in the order of their cost; stops at the first failure."""

import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable

# Each runs as a module of this interpreter, so that the checks of one environment are never mixed with another's.
CHECKS = (
    (PYTHON, "-m", "ruff", "check", "."),
    (PYTHON, "-m", "ruff", "format", "--check", "."),
    (PYTHON, "-m", "basedpyright", "--project", ".ci/packages", "--pythonpath", PYTHON),
    (PYTHON, "-m", "pytest", "-n", "2", "-q"),
)


def main(checks: tuple[tuple[str, ...], ...] = CHECKS) -> int:
    """Run the checks and return the exit code of the first that fails, else 0."""
    for command in checks:
        print(f"$ {shlex.join(command)}", flush=True)
        start = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        print(f"{'failed' if code else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
