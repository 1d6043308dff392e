"""How long a model takes in ONNX Runtime."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ort_runner.failures import RUN, failure_of
from ort_runner.providers import AUTO, choose
from ort_runner.session import open_session, to_ort

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per run. `provider` is the one that ran; `threads` of 0 is ONNX Runtime's own choice."""

    provider: str
    runs: int
    threads: int
    median: float
    p90: float
    fastest: float
    mean: float


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
    choice = choose(provider)
    if choice.reason is not None:
        raise ValueError(f"provider '{provider}' does not work here: {choice.reason}")
    session, choice = open_session(Path(model_path), choice, threads=threads)
    name = choice.provider.name
    binding = session.io_binding()
    device = "cpu" if name == "cpu" else "cuda"
    values = {key: to_ort(array) for key, array in inputs.items()}  # they own the memory that is bound
    try:
        for key, value in values.items():
            binding.bind_ortvalue_input(key, value)
        for output in session.get_outputs():
            binding.bind_output(output.name, device)
        binding.synchronize_inputs()
        seconds = np.array([_timed(session, binding) for _ in range(warmup + runs)])[warmup:]
    except Exception as error:
        raise failure_of(error, RUN, name) from error
    return Latency(
        provider=name,
        runs=runs,
        threads=threads,
        median=float(np.median(seconds)),
        p90=float(np.quantile(seconds, 0.9)),
        fastest=float(seconds.min()),
        mean=float(seconds.mean()),
    )


def _timed(session: onnxruntime.InferenceSession, binding: onnxruntime.IOBinding) -> float:
    start = time.perf_counter()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return time.perf_counter() - start
