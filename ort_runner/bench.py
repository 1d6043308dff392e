"""Run time and memory of a model in ONNX Runtime."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fxport.diagnostics import rules
from fxport.ort_runner.failures import RUN, Failure, failure_of
from fxport.ort_runner.providers import AUTO
from fxport.ort_runner.session import session_on, to_ort


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per run. `provider` is the one that ran; `threads` of 0 is ONNX Runtime's own choice.

    `memory` is what session and runs added to the memory of their process at the most, in bytes, where it is known.
    """

    provider: str
    runs: int
    threads: int
    median: float
    p90: float
    fastest: float
    mean: float
    memory: int | None = None

    @classmethod
    def of(cls, seconds: Sequence[float], provider: str, threads: int) -> Latency:
        """The figures of timed runs. Raises ValueError without any."""
        if not len(seconds):
            raise ValueError("no run was timed")
        return cls(
            provider=provider,
            runs=len(seconds),
            threads=threads,
            median=float(np.median(seconds)),
            p90=float(np.quantile(seconds, 0.9)),
            fastest=float(np.min(seconds)),
            mean=float(np.mean(seconds)),
        )


def latency(
    model_path: str | os.PathLike[str],
    inputs: Mapping[str, np.ndarray],
    provider: str = AUTO,
    *,
    runs: int = 50,
    warmup: int = 5,
    threads: int = 0,
) -> Latency:
    """Time `runs` runs after `warmup` more, in this process, with inputs and outputs bound once.

    On a GPU they are bound to its memory, so that copies over the bus are not measured; each run ends when the device
    is done. Raises `Failure` if the model does not open or run, ValueError for an unknown provider, one that does not
    work here, or less than one run.
    """
    if runs < 1:
        raise ValueError(f"{runs} runs cannot be timed")
    session, used = session_on(provider, Path(model_path), threads=threads)
    binding = session.io_binding()
    values = {key: to_ort(array) for key, array in inputs.items()}  # they own the memory that is bound

    def run() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    try:
        for key, value in values.items():
            binding.bind_ortvalue_input(key, value)
        for output in session.get_outputs():
            binding.bind_output(output.name, used.device)
        binding.synchronize_inputs()
        seconds = timed(run, runs, warmup)
    except Exception as error:
        raise failure_of(error, RUN, used.name) from error
    return Latency.of(seconds, used.name, threads)


def timed(run: Callable[[], object], runs: int, warmup: int) -> list[float]:
    """The seconds of each of `runs` calls, after `warmup` more."""
    seconds = []
    for _ in range(warmup + runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds[warmup:]


def latency_alone(
    model_path: str | os.PathLike[str],
    inputs: Mapping[str, np.ndarray],
    provider: str = AUTO,
    *,
    runs: int = 50,
    warmup: int = 5,
    threads: int = 0,
) -> Latency:
    """As `latency`, in a process of its own, whose memory is told as well. Raises the same, and Failure for a crash."""
    work = _Work(Path(model_path).absolute(), dict(inputs), provider, runs, warmup, threads)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            found = pool.submit(_measured, work).result()
        except BrokenProcessPool as error:
            raise Failure(rules.RUNTIME_FAILED, {"error": "its process died while it was timed"}, fatal=True) from error
    if isinstance(found, Latency):
        return found
    raise Failure(rules.RULES[found[0]], found[1], node=found[2])


@dataclass(frozen=True, slots=True)
class _Work:
    model: Path
    inputs: dict[str, np.ndarray]
    provider: str
    runs: int
    warmup: int
    threads: int


def _measured(work: _Work) -> Latency | tuple[str, dict[str, str], str | None]:
    """The child's side. A failure goes back in parts, because exceptions lose their fields on the way."""
    before = _memory()
    try:
        found = latency(
            work.model, work.inputs, work.provider, runs=work.runs, warmup=work.warmup, threads=work.threads
        )
    except Failure as failure:
        return failure.rule.id, {name: str(value) for name, value in failure.facts.items()}, failure.node
    after = _memory()
    return found if before is None or after is None else replace(found, memory=max(after - before, 0))


def _memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows has no such module
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
