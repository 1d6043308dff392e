"""Calls for which PyTorch wants plain numbers, although a size of an input will do, rewritten in other calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from inspect import signature
from typing import Any

import torch
import torch._refs
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.nn import functional as F

from fxport.exporter.capture.control_flow.found_places import FINDING
from fxport.exporter.capture.control_flow.number_lists import rows_of, tensor_of
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.patches import data_calls, sized_calls, sized_factories, sized_transforms, sized_windows
from fxport.exporter.capture.patches.indexed_writes import read_at, sliced, write_at
from fxport.exporter.capture.patches.numbers import number
from fxport.exporter.capture.sizes.held import HELD
from fxport.exporter.capture.sizes.progressions import Progression
from fxport.exporter.capture.sizes.strides import contiguity
from fxport.fx_passes.decompose import decomposition_of

CURVES: Mapping[Any, Callable[[Any], Any]] = {
    getattr(math, name): getattr(torch, f"_sym_{name}")
    for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
}
"""Functions of `math` for which PyTorch has one of symbolic numbers."""


class GeneratorGiven(Exception):
    """A function was to draw from a generator of the model's own, which is a Python object and no value of a graph."""


class CallsKept(Part):
    """Rewrite the functions of REWRITES, which would make constants of sizes, or look at data.

    Raises GeneratorGiven.
    """

    in_bodies = True

    def __init__(self) -> None:
        self.functions = REWRITES.keys()

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(kwargs) and kwargs.get("generator") is not None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs and kwargs.get("generator") is not None:
            raise GeneratorGiven(str(func))
        rewrite = REWRITES.get(func)
        result = NotImplemented if rewrite is None else rewrite(*args, **as_named(rewrite, args, kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


NAMES: Mapping[str, str] = {"axis": "dim", "keepdims": "keepdim"}
"""Names of NumPy that PyTorch takes for its own."""


def as_named(rewrite: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return keyword arguments with the names of a rewrite, whose first parameter is what PyTorch calls `input`."""
    if kwargs.keys().isdisjoint(("input", *NAMES)):
        return kwargs
    own = signature(rewrite).parameters
    first = next(iter(own))
    names = NAMES if args or first in kwargs else {**NAMES, "input": first}
    return {name if name in own else names.get(name, name): value for name, value in kwargs.items()}


def _linspace(start: Any, end: Any, steps: Any = None, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    """Compute from both ends, as PyTorch's kernel does, so that either is met exactly."""
    dtype = dtype or torch.get_default_dtype()
    if not isinstance(steps, SymInt) or rest.get("out") is not None or not dtype.is_floating_point:
        return NotImplemented
    last: Any = steps  # the stubs know no symbolic sizes
    place = torch.arange(last, dtype=dtype, device=device)
    step = (end - start) / torch.sym_max(steps - 1, 1)
    first = place < torch.sym_max(steps // 2, 1)
    return torch.where(first, start + place * step, end - (last - 1 - place) * step)


def _affine_grid(theta: Tensor, size: Sequence[Any], align_corners: bool | None = None) -> Any:
    if not any(isinstance(each, SymInt) for each in size):
        return NotImplemented
    batch, _, *spatial = size
    lines = [_centres(each, bool(align_corners), theta) for each in spatial]
    places = torch.meshgrid(*lines, indexing="ij")[::-1]  # the last axis is x
    grid = torch.stack((*places, torch.ones_like(places[0])), dim=-1)
    points = grid.flatten(0, -2).expand(batch, -1, -1)
    return torch.bmm(points, theta.transpose(1, 2)).view(batch, *spatial, len(spatial))


def _centres(steps: Any, align_corners: bool, like: Tensor) -> Tensor:
    """Return numbers from -1 to 1, or the centres of so many parts of that range. A single number is 0."""
    make: Callable[..., Tensor] = _linspace if isinstance(steps, SymInt) else torch.linspace
    line = make(-1, 1, steps, dtype=like.dtype, device=like.device)
    scale: Any = torch.sym_min(steps - 1, 1) if align_corners else (steps - 1) / steps
    return line * scale


def _istft(
    spectrum: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """Return the signal with both ends, of which `length` samples from the centre of the first frame on are kept."""
    if not isinstance(length, SymInt):
        return NotImplemented
    hop = hop_length if hop_length is not None else n_fft // 4
    before = n_fft // 2 if center else 0
    whole = torch.istft(
        spectrum, n_fft, hop, win_length, window, False, normalized, onesided, return_complex=return_complex
    )
    return F.pad(whole, (-before, before + length - whole.shape[-1]))


def _pad(x: Tensor, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Any:
    """Pad complex numbers as pairs: PyTorch's own function takes no symbolic sizes for them."""
    if not x.is_complex() or mode != "constant" or value or not _holds_sizes(pad):
        return NotImplemented
    return torch.view_as_complex(F.pad(torch.view_as_real(x), (0, 0, *pad)))


def _interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Make sizes of the factors where PyTorch makes them itself: for averages, for corners, and on request.

    Factors that follow from sizes are no plain numbers, which operators take: what is computed by them is written out.
    """
    sizes = x.shape[2:]
    given = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(sizes)
    by_sizes = mode == "area" or bool(recompute_scale_factor)
    if scale_factor is None or not _holds_sizes([*given, *(sizes if by_sizes else ())]):
        return NotImplemented
    factors: list[Any] = [torch.sym_float(factor) for factor in given]
    made = [math.floor(each * factor) for each, factor in zip(sizes, factors, strict=True)]
    if not by_sizes and not align_corners:
        return NotImplemented if mode not in SCALED or antialias else _scaled(x, made, factors, mode)
    if mode == "area" and len(sizes) == 1:  # an average along one axis takes plain numbers only
        return F.interpolate(x[..., None], [*made, 1], mode=mode)[..., 0]
    return F.interpolate(x, made, mode=mode, align_corners=align_corners, antialias=antialias)


SCALED: Mapping[str, Any] = {
    "linear": torch.ops.aten.upsample_linear1d.default,
    "bilinear": torch.ops.aten.upsample_bilinear2d.default,
    "trilinear": torch.ops.aten.upsample_trilinear3d.default,
    "bicubic": torch.ops.aten.upsample_bicubic2d.default,
}
"""By the mode of an interpolation, the operator whose result changes little with its factors."""


def _scaled(x: Tensor, sizes: Sequence[Any], factors: Sequence[Any], mode: str) -> Tensor:
    """Interpolate by factors; linear ones leave an axis as it is whose size stays."""
    if mode != "bicubic":
        stays = [number(size == before) for size, before in zip(sizes, x.shape[2:], strict=True)]
        factors = [factor + same * (1 - factor) for factor, same in zip(factors, stays, strict=True)]
    decomposition: Any = decomposition_of(SCALED[mode])
    return decomposition(x, sizes, False, *factors)


def _tensor(data: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Make a tensor of the numbers of a range, or of tensors without axes, whose content PyTorch would ask for."""
    if isinstance(data, Progression):
        return data.tensor(dtype, device)
    if (made := tensor_of(data, dtype, device)) is not None:
        return made
    if isinstance(data, list) and type(data) is not list and _holds_sizes([*data]):  # PyTorch sees through no other
        return torch._refs.tensor([*data], dtype=dtype, device=device)
    kinds: list[Any] = [_kind_of(each) for each in data] if isinstance(data, (list, tuple)) else []
    if not kinds or None in kinds or not any(isinstance(each, Tensor) for each in data):
        return NotImplemented
    common = reduce(torch.promote_types, kinds)
    parts = [each if isinstance(each, Tensor) else torch.full((), each, dtype=common) for each in data]
    return torch.stack([each.to(common) for each in parts]).detach().to(dtype=dtype, device=device)


def _kind_of(value: Any) -> torch.dtype | None:
    """Return the dtype that an element of a list has; None for what is neither a number nor a tensor without axes."""
    if isinstance(value, Tensor):
        return None if value.dim() else value.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}.get(type(value))


def _as_tensor(data: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    if rows_of(data) is not None:
        return tensor_of(data, dtype, device)
    if _holds_sizes(data):
        return torch._refs.tensor(data, dtype=dtype, device=device)
    return _tensor(data, dtype=dtype, device=device)


def _logspace(start: Any, end: Any, steps: Any = None, base: float = 10.0, **rest: Any) -> Any:
    line = _linspace(start, end, steps, **rest)
    return line if line is NotImplemented else torch.pow(base, line)


def _deepcopy(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """Copy the values; a module of the capture has no memory that could be copied."""
    if id(x) not in memo:
        memo[id(x)] = x.detach().clone()
    return memo[id(x)]


def _new_tensor(x: Tensor, data: Any, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    if isinstance(data, Progression):
        return data.tensor(dtype or x.dtype, device)
    if rows_of(data) is not None:
        return tensor_of(data, dtype or x.dtype, device or x.device)
    if not _holds_sizes(data):
        return NotImplemented
    return torch._refs.tensor(data, dtype=dtype or x.dtype, device=device or x.device, **rest)


def _random(x: Tensor, *bounds: int, to: int | None = None, generator: Any = None) -> Any:
    """Draw as `x.random_(low, high)`, whose op is named `from`: PyTorch cannot write that into a graph's code."""
    low_and_high = (*bounds, to)[:2]
    if None in low_and_high or generator is not None:
        return NotImplemented
    return x.copy_(torch.randint_like(x, *low_and_high))  # type: ignore[arg-type]


def _data(x: Tensor) -> Tensor:
    """Return `x.data` as made of x, which a trace does not see."""
    return x.detach()


def _holds_sizes(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_holds_sizes(each) for each in data)
    return isinstance(data, (SymInt, SymFloat, SymBool))


def _contiguous(x: Tensor, *, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    """Call the operator where sizes decide whether there is a copy: Python returns a contiguous tensor as it is."""
    is_sized = any(isinstance(each, SymInt) for each in (*x.shape, *x.stride()))
    if not is_sized or memory_format is not torch.contiguous_format or next(contiguity(x), None) is None:
        return NotImplemented
    return torch.ops.aten.contiguous.default(x, memory_format=memory_format)


REWRITES: Mapping[Any, Callable[..., Any]] = {
    **HELD,
    **FINDING,
    **data_calls.REWRITES,
    **sized_calls.REWRITES,
    **sized_factories.REWRITES,
    **sized_transforms.REWRITES,
    **sized_windows.REWRITES,
    torch.linspace: _linspace,
    torch.logspace: _logspace,
    Tensor.__deepcopy__: _deepcopy,
    F.affine_grid: _affine_grid,
    torch.affine_grid_generator: _affine_grid,
    F.interpolate: _interpolate,
    F.pad: _pad,
    torch.tensor: _tensor,
    torch.as_tensor: _as_tensor,
    torch.asarray: _as_tensor,
    Tensor.new_tensor: _new_tensor,
    Tensor.random_: _random,
    Tensor.contiguous: _contiguous,
    Tensor.data.__get__: _data,  # type: ignore[attr-defined]  # a descriptor
    Tensor.__getitem__: read_at,
    Tensor.__setitem__: write_at,
    torch.ops.aten.slice: sliced,
    torch.istft: _istft,
    Tensor.istft: _istft,
}
"""Each answers NotImplemented where PyTorch's own function serves: without a symbolic size, or a place in a tensor."""
