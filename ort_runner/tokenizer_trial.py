"""A trial of a stranger's tokenizer, in a process with limits: what it does to texts may never end, or take all memory.

An expression or a replacement in `tokenizer.json` can take exponential time or make exponential text, in native code
that no signal interrupts. What has ended well there is done again here, at the same cost.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fxport.diagnostics.amounts import size
from fxport.diagnostics.limits import TOKENIZER as LIMIT
from fxport.ort_runner.child import environment
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.tokenizer import Tokenizer

COMMAND = (sys.executable, "-P", "-m", "fxport.ort_runner.tokenizer_trial")


def require_bounded(folder: Path, texts: Sequence[str] = (), ids: Sequence[int] = ()) -> None:
    """Refuse a tokenizer that fails for texts, or for tokens, or takes more time or memory than any.

    Args:
        folder: It has the file `tokenizer.json`.
        texts: To be made tokens.
        ids: To be made a text.

    Raises:
        PackageError: It does, or there is none.
    """
    assert LIMIT.seconds is not None
    assert LIMIT.memory is not None
    asked = json.dumps({"texts": [*texts], "ids": [int(each) for each in ids]})
    command = (*COMMAND, str(folder.absolute()))
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, env=environment(), timeout=LIMIT.seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PackageError(f"'{folder}': its tokenizer takes more than {LIMIT.seconds:g} s for a text.") from error
    if done.returncode:
        raise PackageError(done.stdout.strip() or f"'{folder}': its tokenizer {_end_of(done.returncode)}.")


def _end_of(code: int) -> str:
    assert LIMIT.memory is not None
    name = f"{signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"takes more than {size(LIMIT.memory)} for a text, or crashes ({name})"


def main() -> int:
    """The process: reads what is asked, and prints why it cannot be done."""
    _limit()
    asked = json.load(sys.stdin)
    try:
        tokenizer = Tokenizer(sys.argv[1])
        if asked["texts"]:
            tokenizer.encode_batch(asked["texts"])
        if asked["ids"]:
            tokenizer.decode(asked["ids"])
    except PackageError as error:
        sys.stdout.write(str(error))
        return 1
    return 0


def _limit() -> None:
    if sys.platform == "linux":
        import resource

        assert LIMIT.memory is not None
        assert LIMIT.seconds is not None
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT.memory, LIMIT.memory))
        most = 2 * int(LIMIT.seconds)  # also without a parent that waits
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
