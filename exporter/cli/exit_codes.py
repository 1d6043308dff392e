"""Exit codes of the process, the same for all subcommands."""

CLEAN = 0
FINDINGS = 1
"""Findings at or above `--fail-on`, or no model."""
USAGE = 2
"""The command makes no sense as given, or the machine has too little of something; nothing has been written."""
FAULT = 3
"""A fault of fxport's own."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells have it."""
