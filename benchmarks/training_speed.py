"""How long a training step takes: in ONNX Runtime, in eager PyTorch, and compiled by torch.compile.

    python benchmarks/training_speed.py                      every model, with one thread and with two
    python benchmarks/training_speed.py mlp --threads 1      one of them
    python benchmarks/training_speed.py --no-compile         without torch.compile, which needs a C++ compiler

All run the same model with the same optimizer on batches of the same size, in turns, so that a busy moment meets all
of them; the table has the median of a step in ms, and its ratio to eager PyTorch's. `mlp, 50 a run` is the step in a
Loop.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from training_races import RACES, Race

from fxport.exporter.training import export_training_step
from fxport.ort_runner.train import TrainingSession


def pytorch_step(race: Race, compiled: bool) -> Callable[[], Any]:
    """As many steps as the race has in a run, in PyTorch."""
    model = copy.deepcopy(race.model).train()
    optimizer = race.optimizer(list(model.parameters()))

    def step(*batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        race.loss(model, *batch).backward()
        optimizer.step()

    run = torch.compile(step) if compiled else step

    def steps() -> None:
        for _ in range(race.steps):
            run(*race.batch)

    return steps


def runtime_step(race: Race, threads: int, folder: Path) -> Callable[[], Any]:
    model = copy.deepcopy(race.model).train()
    optimizer = race.optimizer(list(model.parameters()))
    program = export_training_step(model, optimizer, race.loss, race.batch, steps=race.steps)
    program.save(folder / "step.onnx")
    names = [name for value in program.model.graph.inputs if (name := str(value.name)).startswith("batch/")]
    session = TrainingSession(folder / "step.onnx", provider="cpu", threads=threads)
    fed = {name: np.array(tensor.numpy()) for name, tensor in zip(names, race.batch, strict=True)}
    if race.steps > 1:
        fed = {name: np.stack([array] * race.steps) for name, array in fed.items()}
    return lambda: session.step(fed)


def medians(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of a run, the median of the rounds; every round runs each once, after three that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 3):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if number >= 3:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}


def measured(name: str, threads: int, compile_it: bool) -> tuple[str, ...]:
    """A row of the table."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    make, limit = RACES[name]
    race = make()
    with tempfile.TemporaryDirectory() as folder:
        runs = {"eager": pytorch_step(race, False), "onnx": runtime_step(race, threads, Path(folder))}
        if compile_it:
            runs["compiled"] = pytorch_step(race, True)
        took = medians(runs, max(race.rounds, 4))
    per_step = {key: 1000 * value / race.steps for key, value in took.items()}
    compiled = f"{per_step['compiled']:.2f}" if compile_it else "-"
    ratio = per_step["onnx"] / per_step["eager"]
    return (
        name,
        str(threads),
        f"{per_step['eager']:.2f}",
        compiled,
        f"{per_step['onnx']:.2f}",
        f"{ratio:.2f}",
        str(limit),
    )


HEAD = ("model", "threads", "eager, ms", "torch.compile, ms", "ONNX Runtime, ms", "ratio to eager", "at most")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", choices=[*RACES, []], help="all, if none is named")
    parser.add_argument("--threads", type=int, action="append", help="1 and 2, if not given")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    compile_it = not options.no_compile and any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    if options.row:
        print("\t".join(measured(options.model[0], options.threads[0], compile_it)))  # for the parent
        return 0
    table = Table(*HEAD)
    for threads in options.threads or (1, 2):
        for name in options.model or RACES:
            table.add_row(*_in_a_process(name, threads, options.no_compile))
    Console().print(table)
    return 0


def _in_a_process(name: str, threads: int, no_compile: bool) -> Sequence[str]:
    """A row from a process of its own: threads are set once in each."""
    command = [sys.executable, __file__, name, "--threads", str(threads), "--row", *["--no-compile"][: int(no_compile)]]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return said.strip().splitlines()[-1].split("\t")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
