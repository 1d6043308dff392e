"""Models in memory whose weights torchao has quantized: the numbers are taken as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from fxport.exporter.language_models.from_table import Packed
from fxport.exporter.language_models.quantized import EIGHT, OF_ANY, UnknownScheme, few_bits_of_integers
from fxport.ort_runner.package_config import PackageError

LIBRARY = "torchao."
BITS = {"Int8Tensor": 8, "IntxUnpackedToInt8Tensor": None}
"""Classes of weights of integers, and their bits; None where the weight says them itself."""

OF_INPUTS = ("act_quant_kwargs", "act_pre_scale", "act_quant_scale", "activation_quantization")
"""Attributes of such weights that say how inputs are rounded; None where they are not."""


def packed_in(model: torch.nn.Module) -> dict[str, Packed]:
    """The weights of a model that torchao has quantized, by all their names.

    Raises:
        PackageError: A weight has another scheme than integers with a scale for each row, or for a group of it.
    """
    found: dict[str, Packed] = {}
    made: dict[int, Packed] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if not type(weight).__module__.startswith(LIBRARY):
            continue
        if id(weight) not in made:
            made[id(weight)] = _packed(name, weight)
        found[name] = made[id(weight)]
    return found


def _packed(name: str, weight: Any) -> Packed:
    cure = f"{EIGHT} and {OF_ANY} are taken; or give the weights before, and weights='int8'"
    kind = type(weight).__name__
    if kind not in BITS:
        raise PackageError(
            f"'{name}' is a weight of torchao of the class '{kind}', which packages cannot take; {cure}."
        )
    if any(getattr(weight, each, None) is not None for each in OF_INPUTS):
        raise PackageError(f"'{name}' is a weight of torchao whose inputs are rounded too; {cure}.")
    scale, zero = weight.scale, weight.zero_point
    bits = BITS[kind] or int(str(weight.target_dtype).removeprefix("torch.int"))
    try:
        return few_bits_of_integers(
            weight.qdata.numpy(), scale.float().numpy(), None if zero is None else zero.numpy(), bits
        )
    except (UnknownScheme, ValueError, LookupError) as error:
        raise PackageError(f"'{name}' is a weight of torchao with {error}; {cure}.") from error


@contextmanager
def restored(model: torch.nn.Module, packed: Mapping[str, Packed]) -> Iterator[None]:
    """Give a model weights in float32 in the place of those in few bits, and put these back at the end."""
    held = dict(model.named_parameters(remove_duplicate=False))
    packed_by_id = {id(held[name]): weight for name, weight in packed.items()}
    plain = {key: torch.nn.Parameter(weight.restored(), requires_grad=False) for key, weight in packed_by_id.items()}
    try:
        for name in packed:
            _put(model, name, plain[id(held[name])])
        yield
    finally:
        for name in packed:
            _put(model, name, held[name])


def _put(model: torch.nn.Module, name: str, weight: torch.nn.Parameter) -> None:
    path, _, own = name.rpartition(".")
    setattr(model.get_submodule(path), own, weight)
