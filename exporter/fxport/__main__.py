"""The program `fxport`, and `python -m fxport`: the command line, which may be interrupted while it is imported."""

import os
import sys
from contextlib import suppress

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process. Returns its exit code."""
    try:
        from fxport.exporter.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:  # before the command has begun, or after its end
        with suppress(OSError):
            os.write(2, b"fxport: interrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
