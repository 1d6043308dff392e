"""The program `fxport`, and `python -m fxport`: the command line, which may be interrupted while it is imported."""

import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process. Returns its exit code, and leaves signals as they were."""
    try:
        from fxport.exporter.cli import main as command_line

        code = command_line()
    except KeyboardInterrupt:  # before the command has begun, or after its end
        with suppress(OSError):
            os.write(2, b"fxport: interrupted\n")
        code = INTERRUPTED
    return code


def program() -> None:
    """Run the command line, and end this process."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: another Ctrl-C would only break the interpreter's end
    sys.exit(code)


if __name__ == "__main__":
    program()
