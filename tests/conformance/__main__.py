"""`python -m tests.conformance`: a whole run, or one dtype or one operator of it, with a table at the end."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from tests.conformance.pool import run
from tests.conformance.samples import OTHERS, SAMPLES
from tests.conformance.suites import SUITES
from tests.conformance.trial import EXPORTERS, LEFT_OUT, Outcome


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--exporter", choices=list(EXPORTERS), default="fxport")
    parser.add_argument(
        "--dtype", choices=[str(d).removeprefix("torch.") for d in (*SAMPLES, *OTHERS)], action="append"
    )
    parser.add_argument("--op", action="append", help="only operators whose name begins so")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operator")
    parser.add_argument("--suite", choices=list(SUITES), default="operators")
    parser.add_argument("--samples", type=int, default=0, help="samples of an operator; 3 at float32, else 1")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, help="write every outcome to this JSON file")
    options = parser.parse_args(arguments)
    console = Console()
    outcomes: list[Outcome] = []
    suite = SUITES[options.suite]
    for dtype in (*suite.counts, *(OTHERS if options.dtype else ())):
        name = str(dtype).removeprefix("torch.")
        if options.dtype and name not in options.dtype:
            continue
        known = suite.names(dtype)
        chosen = [op for op in known if not options.op or any(op.startswith(each) for each in options.op)]
        count = options.samples or suite.counts.get(dtype, 1)
        outcomes += _with_progress(chosen[:: options.every], dtype, options, count, console)
        console.print(summary(name, [outcome for outcome in outcomes if outcome.key.dtype == name]))
    if options.report:
        draft = options.report.with_suffix(".partial")
        draft.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1), encoding="utf-8")
        draft.replace(options.report)
    return 0


def _with_progress(
    names: Sequence[str], dtype: torch.dtype, options: argparse.Namespace, count: int, console: Console
) -> list[Outcome]:
    outcomes = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(str(dtype), total=len(names) * count)
        for outcome in run(names, dtype, options.exporter, options.workers, suite=options.suite, count=count):
            progress.advance(task)
            outcomes.append(outcome)
    return outcomes


def summary(title: str, outcomes: Sequence[Outcome]) -> str:
    """One line: passes among the samples that count, operators that pass whole, statuses, the median export time."""
    counted = [outcome for outcome in outcomes if outcome.status not in LEFT_OUT]
    if not counted:
        return f"{title}: nothing to count"
    passed = sum(outcome.status == "pass" for outcome in counted)
    failing = {outcome.key.op for outcome in counted if outcome.status != "pass"}
    whole = len({outcome.key.op for outcome in counted} - failing)
    seconds = statistics.median(outcome.seconds for outcome in counted)
    statuses = ", ".join(f"{status} {count}" for status, count in Counter(o.status for o in outcomes).most_common())
    return (
        f"{title}: {passed}/{len(counted)} samples pass ({passed / len(counted):.1%}); {whole} operators whole; "
        f"median export {seconds * 1000:.0f} ms; {statuses}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
