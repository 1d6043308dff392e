"""`python -m tests.fuzz.programs --seeds 0:2000`: many programs, a tally, and a folder with those that fail."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from rich.progress import Progress

from tests.fuzz.programs.grammar import Program, program_of
from tests.fuzz.programs.minimizing import minimized
from tests.fuzz.programs.running import Verdict, judge
from tests.fuzz.programs.tally import Tally

Judging = Callable[[int], tuple[Program, Verdict]]

EACH_IN_RUNTIME = 10
"""Every tenth program is run in ONNX Runtime as well."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.programs", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="first and behind the last, or 3,17 (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="how many programs are judged at a time")
    parser.add_argument("--runtime", action="store_true", help="run each in ONNX Runtime, not every tenth")
    parser.add_argument("--failures", type=Path, default=Path("build/programs"), help="folder for those that fail")
    parser.add_argument("--minimize", action="store_true", help="take away what a failure does not need")
    parser.add_argument("--show", action="store_true", help="print the programs, judge none")
    options = parser.parse_args(arguments)
    seeds = _seeds(options.seeds)
    if options.show:
        for seed in seeds:
            sys.stdout.write(program_of(seed).source)
        return 0
    tally = Tally()
    with Progress() as progress, tempfile.TemporaryDirectory() as folder:
        task = progress.add_task("programs", total=len(seeds))
        run = partial(judged, folder=Path(folder), runtime=options.runtime)
        for program, verdict in _each(run, seeds, options.processes):
            tally.add(program, verdict)
            progress.update(task, advance=1, description=f"{tally.exported} exported, {len(tally.failed)} failed")
            if verdict.failed:
                small = minimized(program, verdict, Path(folder)) if options.minimize else (program, verdict)
                write_failure(options.failures, *small)
    for line in tally.lines():
        sys.stdout.write(line + "\n")
    return 1 if tally.failed else 0


def _seeds(text: str) -> list[int]:
    if ":" in text:
        first, last = map(int, text.split(":"))
        return list(range(first, last))
    return [int(each) for each in text.split(",")]


def _each(run: Judging, seeds: Sequence[int], processes: int) -> Iterator[tuple[Program, Verdict]]:
    if processes == 1:
        torch.set_num_threads(1)
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def judged(seed: int, folder: Path, *, runtime: bool) -> tuple[Program, Verdict]:
    program = program_of(seed)
    return program, judge(program, folder, runtime=runtime or seed % EACH_IN_RUNTIME == 0)


def write_failure(folder: Path, program: Program, verdict: Verdict) -> None:
    """The program, with what became of it in front."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {key: value for key, value in asdict(verdict).items() if key in ("kind", "detail")}
    head = "\n".join(f"# {line}" for line in json.dumps({"seed": program.seed, **told}, indent=1).splitlines())
    shape = f"# columns={program.columns} dynamic={program.dynamic} features={program.features}\n"
    (folder / f"{verdict.kind}_{program.seed}.py").write_text(f"{head}\n{shape}\n{program.source}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
