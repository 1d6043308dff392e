"""Limits of a model's own types in its run in float64: an epsilon that it takes from there is no rounding error.

`x / (x.abs() + torch.finfo(x.dtype).eps)` is another function in float64 than it is in float32. So the run in float64
is told the epsilons that the model has asked for in its own types, call by call: a model that widens by itself has
asked for those of float64. The largest and the smallest numbers are those of float64, as they stand for infinity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from fxport.exporter.capture.float64 import WIDER

FINFO = torch.finfo
aten = torch.ops.aten

SMALL = ("eps", "tiny", "smallest_normal", "resolution")
"""Attributes that tell how fine a type is."""

ALL = (*SMALL, "bits", "dtype", "max", "min")

ROOT_MEAN_SQUARES = frozenset({torch.rms_norm, F.rms_norm, aten.rms_norm, aten.rms_norm.default})
"""Functions of (input, normalized_shape, weight, eps). Without an epsilon, they take that of the input's type."""

NAMED = {FINFO(each).dtype: each for each in (torch.float64, torch.float32, torch.float16, torch.bfloat16)}

Answer = Callable[[torch.dtype], torch.dtype]
"""Function from the type that is asked for to the one of which the limits are told."""


class OwnLimits:
    """The types of which one run of a model asks for limits, in order. `matter` says that a run has used one of these
    which is another one in float64."""

    def __init__(self) -> None:
        self.matter = False
        self._asked: list[torch.dtype] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note, in a run in float64, whether it uses such a limit."""
        with _asking(lambda dtype: dtype, self._use):
            yield

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what a run in the model's own types asks for."""
        self._asked.clear()

        def answer(dtype: torch.dtype) -> torch.dtype:
            self._asked.append(dtype)
            return dtype

        with _asking(answer, lambda: None):
            yield

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Tell a run in float64 what was recorded, as long as it asks for the same."""
        pending = iter(self._asked)

        def answer(dtype: torch.dtype) -> torch.dtype:
            nonlocal pending
            own = next(pending, None)
            if own is not None and dtype in (own, WIDER.get(own, own)):
                return own
            pending = iter(())  # it has gone another way
            return dtype

        with _asking(answer, lambda: None):
            yield

    def _use(self) -> None:
        self.matter = True


@contextmanager
def _asking(answer: Answer, used: Callable[[], None]) -> Iterator[None]:
    thread = threading.get_ident()

    class Limits(metaclass=_LikeFinfo):
        """Stand-in for torch.finfo. Other threads get the real one."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            asked = FINFO(*args, **kwargs)
            if threading.get_ident() != thread or asked.dtype not in NAMED:
                return asked
            return _Told(asked, FINFO(answer(NAMED[asked.dtype])), used)

    torch.finfo = Limits  # type: ignore[misc,assignment]  # put back below
    try:
        with _Epsilons(answer, used):
            yield
    finally:
        torch.finfo = FINFO  # type: ignore[misc]


class _LikeFinfo(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (FINFO, _Told))


class _Told(SimpleNamespace):
    """Limits of one type, of which those that are small are of another one."""

    def __init__(self, asked: torch.finfo, own: torch.finfo, used: Callable[[], None]) -> None:
        super().__init__(**{name: getattr(own if name in SMALL else asked, name) for name in ALL})
        self.__dict__["_used"] = used

    def __getattribute__(self, name: str) -> Any:
        if name in SMALL:
            object.__getattribute__(self, "_used")()
        return object.__getattribute__(self, name)


class _Epsilons(TorchFunctionMode):
    """Give norms without an epsilon that of a type."""

    def __init__(self, answer: Answer, used: Callable[[], None]) -> None:
        super().__init__()
        self._answer, self._used = answer, used

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def dtype_of(x: torch.Tensor) -> torch.dtype:
            self._used()
            return self._answer(x.dtype)

        args, kwargs = with_epsilon(func, args, kwargs or {}, dtype_of)
        return func(*args, **kwargs)


def with_epsilon(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dtype_of: Callable[[Any], torch.dtype]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a call, to which a norm without an epsilon gets that of the type of its input.

    For narrower types PyTorch takes that of float32, in which it computes.
    """
    if func not in ROOT_MEAN_SQUARES:
        return args, kwargs
    given = {**dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)), **kwargs}
    if given.get("eps") is not None:
        return args, kwargs
    dtype = dtype_of(given["input"])
    epsilon = FINFO(dtype if dtype == torch.float64 else torch.float32).eps
    return (given["input"], given["normalized_shape"], given.get("weight"), epsilon), {}
