"""Choices for a package of a language model, and the errors of those that do not fit each other or the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from fxport.exporter.language_models.few_bits import BITS, BLOCKS
from fxport.exporter.language_models.folders import Adapter
from fxport.exporter.language_models.from_table import FromTable, Packed
from fxport.exporter.language_models.kinds import Runtime
from fxport.ort_runner.package_config import PackageError

Dtype = Literal["float32", "float16", "bfloat16"]
Weights = Literal["float32", "int8", "int4"]
Accuracy = Literal["exact", "fast"]
Cache = Literal["dynamic", "shared", "gqa"]


WIDE: Dtype = "float32"
FLOAT32_ONLY: Mapping[str, tuple[str, str]] = {
    "weights": ("float32", "weights in float32 are those of a package in float32, not in {dtype}"),
    "accuracy": ("fast", "'fast' rounds inputs that are in float32, not in {dtype}"),
    "adapter": ("input", "an adapter as an input is packaged in float32, not in {dtype}"),
}
"""Choices that exclude half precision, by argument, and the reason."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of one package, by the names of the arguments of `package`."""

    runtime: Runtime
    weights: Weights | None
    block: int
    accuracy: Accuracy
    cache: Cache
    adapter: Adapter
    steps: int
    dtype: Dtype = "float32"

    def require(self, *, folder: bool) -> None:
        """Raise PackageError for unknown choices, and for those that exclude each other.

        Args:
            folder: The model comes from a folder of transformers or peft.
        """
        require_known(
            weights=(self.weights or WIDE, Weights), runtime=(self.runtime, Runtime), dtype=(self.dtype, Dtype)
        )
        require_known(accuracy=(self.accuracy, Accuracy), cache=(self.cache, Cache), adapter=(self.adapter, Adapter))
        if self.adapter == "input" and not (self.steps and folder):
            raise PackageError(
                "an adapter as an input is that of a folder of peft, and is compared; compare some tokens."
            )
        if not self.steps and (self.cache != "dynamic" or self.accuracy == "fast"):
            what = "a cache in place is" if self.cache != "dynamic" else "'fast' is"
            raise PackageError(f"{what} compared with eager PyTorch before it is believed; compare some tokens.")
        for name, (chosen, told) in FLOAT32_ONLY.items() if self.dtype != WIDE else ():
            if getattr(self, name) == chosen:
                raise PackageError(f"{told.format(dtype=self.dtype)}; omit --{name}, or --dtype.")
        if self.block not in BLOCKS:
            raise PackageError(f"blocks of {self.block} have no kernel; choose one of {', '.join(map(str, BLOCKS))}.")

    def require_for(self, model: torch.nn.Module, source: Path | None, packed: Mapping[str, Packed]) -> None:
        """Raise PackageError for a model, or for weights in few bits, that cannot be stored and multiplied as chosen.

        Args:
            model: The model that was loaded or given.
            source: Its folder or file; None for a model that was given.
            packed: Weights that are in few bits already, by name.
        """
        name = type(model).__name__ if source is None else source
        if self.dtype != WIDE and (packed or (source is not None and source.is_file())):
            raise PackageError(
                f"'{name}' has weights in few bits or is a GGUF file, which are packaged in float32; omit --dtype."
            )
        require_plain(model, self.dtype)
        if packed and self.weights not in (None, WIDE):
            raise PackageError(
                f"'{name}' has weights in few bits already, which are taken as they are; omit --weights."
            )
        if self.accuracy == "exact":
            return
        if self.weights not in BITS and not packed:
            raise PackageError("'fast' is about weights in few bits; choose int4 or int8 too, or 'exact'.")
        if any(isinstance(weight, FromTable) for weight in packed.values()):
            raise PackageError(f"'{name}' has weights of a table, whose products are computed in float32; omit 'fast'.")


def require_known(**given: tuple[str, Any]) -> None:
    """Raise PackageError for a word that is none of a choice."""
    for name, (value, choice) in given.items():
        if value not in get_args(choice):
            raise PackageError(f"{name} '{value}' is unknown; choose one of {', '.join(get_args(choice))}.")


def require_plain(model: torch.nn.Module, dtype: Dtype) -> None:
    """Raise PackageError for a model in training mode, or one that does not compute in the type of the package.

    A model in half precision may keep some weights in float32, as transformers does for a few layers.
    """
    if model.training:
        raise PackageError(f"'{type(model).__name__}' is in training mode; call model.eval() first.")
    kinds = {str(each.dtype).removeprefix("torch.") for each in model.parameters() if each.is_floating_point()}
    if dtype in kinds and kinds <= {dtype, WIDE}:
        return
    name, held = type(model).__name__, ", ".join(sorted(kinds)) or "no floating point type"
    cure = "call model.float() first" if dtype == WIDE else f"load it with dtype=torch.{dtype}"
    raise PackageError(f"'{name}' has weights of {held}, and the package is to compute in {dtype}: {cure}.")
