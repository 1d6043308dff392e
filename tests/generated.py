"""Tokens that `generate` of eager PyTorch writes, and those that the runner writes with a package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.ort_runner.generation import Generator

Prompts = Sequence[Sequence[int]]


def generated(model: Any, prompts: Prompts, new: int) -> list[list[int]]:
    """Return the new tokens that eager PyTorch's `generate` gives for prompts, padded on the left."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=new, min_new_tokens=new)
    return found[:, -new:].tolist()


def written(folder: Path, prompts: Any, new: int) -> list[list[int]]:
    """Return those of the runner."""
    return np.stack(list(Generator(folder, "cpu").greedy(prompts, new, stop=frozenset())), 1).tolist()
