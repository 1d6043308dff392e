"""CPU time of a capture by fxport against torch.export.export(strict=False) of the same model, in one process.

    python benchmarks/capture_cost.py --runs 5 --models BERT-base

The two alternate, after one of each that counts for nothing; times are those of the process (`time.process_time`), as
other work on the machine changes those of the clock. A line has the medians: plain torch.export, fxport's capture, and
the whole export without the save. "dynamic" leaves batch and sequence open (`Dim.DYNAMIC`).
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from export_speed import MODELS, Subject


def by_torch(subject: Subject, shapes: Any) -> Mapping[str, float]:
    """Capture by torch.export alone."""
    import torch

    start = time.process_time()
    torch.export.export(subject.model, (), dict(subject.inputs), dynamic_shapes=shapes, strict=False)
    return {"torch.export": time.process_time() - start}


def by_fxport(subject: Subject, shapes: Any) -> Mapping[str, float]:
    """Export, with the capture's part."""
    import fxport

    log = fxport.Log(clock=time.process_time)
    start = time.process_time()
    fxport.export(subject.model, (), dict(subject.inputs), dynamic_shapes=shapes, log=log)
    return {"capture": dict(log.stages)["capture"], "export": time.process_time() - start}


CAPTURES: tuple[Callable[[Subject, Any], Mapping[str, float]], ...] = (by_torch, by_fxport)


def measured(subject: Subject, shapes: Any, runs: int) -> dict[str, float]:
    """Return the median of each time."""
    found: dict[str, list[float]] = {}
    for run in range(runs + 1):
        for capture in CAPTURES:
            gc.collect()
            for name, seconds in capture(subject, shapes).items():
                found.setdefault(name, []).extend([seconds] * bool(run))
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in options.models:
        subject = MODELS[name]()
        dynamic = {key: dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for key, dims in subject.dims.items()}
        for kind, shapes in (("static", None), ("dynamic", dynamic)):
            times = measured(subject, shapes, options.runs)
            told = ", ".join(f"{key} {seconds:.2f} s" for key, seconds in times.items())
            print(f"{name}, {kind}: {told}; capture / torch.export {times['capture'] / times['torch.export']:.2f}")


if __name__ == "__main__":
    main()
