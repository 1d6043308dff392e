"""Run time and memory of a model in ONNX Runtime."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.failures import RUN, failure_of
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
    begun: Callable[[], None] = lambda: None,
) -> Latency:
    """Time `runs` runs after `warmup` more, in this process, with inputs and outputs bound once.

    `begun` is called before each run, and not timed.
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
        seconds = timed(run, runs, warmup, begun)
    except Exception as error:
        raise failure_of(error, RUN, used.name) from error
    return Latency.of(seconds, used.name, threads)


def timed(run: Callable[[], object], runs: int, warmup: int, begun: Callable[[], None] = lambda: None) -> list[float]:
    """The seconds of each of `runs` calls, after `warmup` more; `begun` is called before each."""
    seconds = []
    for _ in range(warmup + runs):
        begun()
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
    """As `latency`, in a process of its own, whose memory is told as well, and which is stopped if a run does not end.

    Raises the same, and Failure for a crash.
    """
    if runs < 1:
        raise ValueError(f"{runs} runs cannot be timed")
    with ChildSession(Path(model_path), provider) as child:
        reply, _ = child.anew({"do": "time", "runs": runs, "warmup": warmup, "threads": threads}, inputs)
    return Latency(**reply)
