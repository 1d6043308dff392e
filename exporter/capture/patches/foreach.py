"""Functions on lists of tensors, such as `torch._foreach_mul_`, which optimizers and their hooks call: one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fxport.exporter.capture.function_mode import Part

PREFIX = "_foreach_"

OTHER_NAMES: Mapping[str, Callable[..., Any]] = {
    "norm": torch.linalg.vector_norm,
    "maximum": torch.clamp_min,  # which takes numbers, too
    "minimum": torch.clamp_max,
    "maximum_": Tensor.clamp_min_,
    "minimum_": Tensor.clamp_max_,
}
"""Functions of one tensor that have another name."""

FACTORED = ("addcmul", "addcdiv")
"""Functions whose fourth argument is the keyword `value` of the function of one tensor."""


def _counterparts() -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    for attribute, of_lists in vars(torch).items():
        if attribute.startswith(PREFIX):
            name = attribute.removeprefix(PREFIX)
            plain = OTHER_NAMES.get(name) or getattr(Tensor if name.endswith("_") else torch, name, None)
            if plain is not None:
                yield of_lists, plain


COUNTERPARTS: Mapping[Callable[..., Any], Callable[..., Any]] = dict(_counterparts())
"""By each function of lists, that of one tensor."""


class ForeachAsLoops(Part):
    """Call the function of one tensor for each of a list, of which ONNX has an operator."""

    functions = COUNTERPARTS.keys()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func.__name__.removeprefix(PREFIX).removesuffix("_")
        if name in FACTORED and len(args) == 4:
            *args, kwargs["value"] = args
        lists = [each for each in (*args, *kwargs.values()) if isinstance(each, (list, tuple))]
        if isinstance(kwargs.get("value"), Tensor) or not lists or len({len(each) for each in lists}) > 1:
            return func(*args, **kwargs)
        results = [
            COUNTERPARTS[func](*(_at(each, place) for each in args), **{k: _at(v, place) for k, v in kwargs.items()})
            for place in range(len(lists[0]))
        ]
        return None if func.__name__.endswith("_") else tuple(results)


def _at(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, (list, tuple)) else value
