"""The tensors of a cache as a model declares them: keys and values that grow with the text, and states that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fxport.ort_runner.dtypes import BY_NAME
from fxport.ort_runner.encoder import KINDS, numbered_name
from fxport.ort_runner.package_config import PackageConfig, PackageError
from fxport.ort_runner.session import ports_of, to_ort

if TYPE_CHECKING:
    import onnxruntime

RANK = 4
"""Of keys and values: [batch, heads, tokens, size]."""


@dataclass(frozen=True, slots=True)
class CacheTensor:
    """One tensor of a cache.

    Attributes:
        past: The input.
        present: The output.
        dtype: The type of its numbers.
        sizes: Its sizes without tokens, and without the first, which is the batch.
    """

    past: str
    present: str
    dtype: np.dtype
    sizes: tuple[int, ...]

    def zeros(self, batch: int, tokens: int = 0) -> np.ndarray:
        """Keys or values [batch, heads, tokens, size] of 0."""
        heads, _, size = self.sizes
        return np.zeros((batch, heads, tokens, size), self.dtype)


def cache_tensors_of(config: PackageConfig, session: onnxruntime.InferenceSession) -> list[CacheTensor]:
    """The tensors of the cache that a model takes. Raises PackageError where it has others than its configuration."""
    inputs = {port.name: port for port in ports_of(session.get_inputs())}
    outputs = {port.name for port in ports_of(session.get_outputs())}
    found = []
    for past, present in _names(config):
        port = inputs.pop(past, None)
        known = port is not None and port.dtype in BY_NAME and present in outputs
        sizes = tuple(size if isinstance(size, int) else 0 for size in port.shape[1:]) if port is not None else ()
        if port is None or not known or not (config.states or _is_of_tokens(sizes)):
            raise PackageError(f"'{config.model}' has no '{past}' and '{present}'; package the model again.")
        found.append(CacheTensor(past, present, BY_NAME[port.dtype].dtype, sizes))
    patterns = {part for part in config.inputs if part.endswith("_names")}
    crossed = {
        numbered_name(config.inputs[part], index)
        for part in patterns
        if part.startswith("cross_")
        for index in range(config.layers)
    }
    others = inputs.keys() ^ crossed ^ {name for part, name in config.inputs.items() if part not in patterns}
    if others:
        raise PackageError(f"'{config.model}' and its configuration differ in {sorted(others)}; package it again.")
    return found


def _is_of_tokens(sizes: tuple[int, ...]) -> bool:
    """Return True for the sizes of keys or values."""
    return len(sizes) == RANK - 1 and bool(sizes[0] and sizes[2])


def without_tokens(tensor: CacheTensor, batch: int) -> onnxruntime.OrtValue:
    """A tensor of a cache of no tokens."""
    return to_ort(tensor.zeros(batch))


def _names(config: PackageConfig) -> Iterator[tuple[str, str]]:
    """The input and the output of each tensor."""
    if config.states:
        for part in config.states:
            yield (
                config.inputs["past_names"].replace("%s", part, 1),
                config.outputs["present_names"].replace("%s", part, 1),
            )
        return
    for index in range(config.layers):
        for kind in KINDS:
            yield (
                numbered_name(config.inputs[f"past_{kind}_names"], index),
                numbered_name(config.outputs[f"present_{kind}_names"], index),
            )
