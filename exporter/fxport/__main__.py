"""The program `fxport`, and `python -m fxport`: the command line, which may be interrupted while it is imported."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process. Returns its exit code."""
    try:
        from fxport.exporter.cli import main as command_line
    except KeyboardInterrupt:
        os.write(2, b"fxport: interrupted\n")
        return INTERRUPTED
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
