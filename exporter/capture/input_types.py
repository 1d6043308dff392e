"""Advice for a model that PyTorch does not run because its inputs are of another type than its weights."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch

from fxport.diagnostics import Fix

ABOUT_TYPES = re.compile(r"same (dtype|datatype)|scalar type\b|(weight|bias) (type|dtype)\b")
"""Texts of PyTorch's errors about two tensors of different types."""

TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""Types of weights that a model computes in."""


def type_advice(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: str) -> list[Fix]:
    """Name the inputs whose type is not that of the weights.

    Args:
        module: The model that failed.
        args: Its positional inputs.
        kwargs: Its inputs by name.
        error: What PyTorch said.

    Returns:
        A fix in words for each such input: those of floating types, or if there are none, those of whole numbers.
        None where the error is about something else, or the weights have several types.
    """
    weights = {each.dtype for each in module.parameters() if each.is_floating_point()}
    if not ABOUT_TYPES.search(error) or len(weights) != 1 or not weights <= TYPES:
        return []
    (weight,) = weights
    try:
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:
        return []
    other = {name: x for name, x in given.items() if isinstance(x, torch.Tensor) and x.dtype != weight}
    floating = {name: x for name, x in other.items() if x.is_floating_point()}
    return [Fix(_in_words(name, x, weight)) for name, x in (floating or other).items()]


def _in_words(name: str, x: torch.Tensor, weight: torch.dtype) -> str:
    wanted, shape = _name(weight), "x".join(map(str, x.shape)) or "scalar"
    cast = f", or make the weights {_name(x.dtype)}: `model.to({x.dtype})`" if x.is_floating_point() else ""
    return (
        f"'{name}' is {_name(x.dtype)} and the weights are {wanted}: give `{name}.to({weight})`, on the command line "
        f"`--input {name}={shape}:{wanted}`{cast}."
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
