"""Run time of eager PyTorch, with and without torch.compile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxport.exporter.capture.wrappers import unwrapped


def seconds_of(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    runs: int = 50,
    warmup: int = 5,
    device: str = "cpu",
    compiled: bool = False,
) -> list[float]:
    """The seconds of each of `runs` runs of a module, after `warmup` more, without gradients.

    Model and inputs are moved to `device` before, and the model back afterwards; each run ends when the device is done.
    With `compiled`, what torch.compile makes of it is timed; the compilation is part of the warm-up. Raises what the
    model or the compiler raise.
    """
    module = unwrapped(model)
    home = next((parameter.device for parameter in module.parameters()), torch.device(device))
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, dict(kwargs)))
    module.to(device)
    run = torch.compile(module) if compiled else module
    seconds = []
    try:
        with torch.inference_mode():
            for _ in range(warmup + runs):
                start = time.perf_counter()
                run(*args, **kwargs)
                if device != "cpu":
                    torch.cuda.synchronize()
                seconds.append(time.perf_counter() - start)
    finally:
        module.to(home)
    return seconds[warmup:]
