"""Runs of eager PyTorch in which every inexact operation rounds otherwise, as another library's kernels may.

The method is Monte Carlo arithmetic (Parker 1997): what such runs change is what no digit of the result decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fxport.exporter.weights.arrays import Arrays

RUNS = 8

UNITS = 2
"""The most units in the last place by which a result is moved. Kernels of erf, tanh and long sums differ by so much."""

PRODUCTS = "mm addmm bmm baddbmm addmv mv dot matmul linear convolution _convolution einsum addbmm _addmm_activation"
SUMS = "sum mean prod cumsum cumprod norm linalg_vector_norm dist logsumexp logcumsumexp"
FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sigmoid erf"
    " erfc erfinv gelu silu mish softplus elu celu selu log_sigmoid log_sigmoid_forward pow rsqrt lgamma digamma logit"
    " sinc xlogy"
)
NORMS = (
    "_softmax _log_softmax native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit"
    " _native_batch_norm_legit_no_training _batch_norm_with_update cudnn_batch_norm _fused_rms_norm"
    " _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math scaled_dot_product_attention"
)
SAMPLED = (
    "upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d grid_sampler_2d grid_sampler_3d"
)
FUNCTIONS_OF_ONE = frozenset(FUNCTIONS.split())
INEXACT = frozenset(
    f"{PRODUCTS} {SUMS} {FUNCTIONS} {NORMS} {SAMPLED} avg_pool2d avg_pool3d lstm gru mkldnn_rnn_layer".split()
)
"""Names of ATen operators of which no standard fixes the last digits. IEEE 754 fixes those of +, -, *, / and sqrt."""


FOURIER = frozenset({"_fft_r2c", "_fft_c2c", "_fft_c2r"})
"""Transforms: kernels compute each frequency as exactly as the largest one, also where it is real, or 0."""

DISTANCES = "_euclidean_dist"
"""Distances by products: of points that are near each other, what products of many digits leave."""

GATES = frozenset({"gelu", "silu", "mish"})
"""Functions that scale their input by a factor from 0 to 1: where that is nearly 0, errors are those of the input."""


SPREADS = frozenset({"var", "std", "var_mean", "std_mean"})
"""Statistics of distances from a running mean, of which each has the roundings of the mean."""

PLAIN_OPERANDS, PLAIN_RESULTS = (0.0, 1.0), (0.5, 1.0, 2.0)
"""Operands, and results that a function has for them in every kernel, such as exp(0) and sigmoid(0)."""


class OtherRoundings(TorchDispatchMode):
    """Moves each result of an inexact operator by a few units in its last place, drawn anew for each element.

    With an odd seed equal results are moved alike, as a kernel would: all of a padding round to one side.

    Results of Fourier transforms, and distances by products, are always moved, and with an odd seed the other way than
    with a seed that is even.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._of_pair = torch.Generator().manual_seed(seed // 2)
        self._sign = -1 if seed % 2 else 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = None if isinstance(func, HigherOrderOperator) else func._schema.name.removeprefix("aten::").rstrip("_")
        plain = _plain(args[0]) if name in FUNCTIONS_OF_ONE and args else None  # some write to it
        result = func(*args, **(kwargs or {}))
        if name in FOURIER:
            self._move_frequencies(result, args[1])
        elif name == DISTANCES:
            self._move_distances(result, args[0], args[1])
        elif name in SPREADS:
            spread, *mean = result if isinstance(result, tuple) else (result,)
            self._move_spread(spread, func, args, kwargs or {})
            for each in mean:
                self._move(each, None, None)
        elif name in INEXACT:
            like = args[0] if name in GATES else None
            pytree.tree_map_only(torch.Tensor, lambda each: self._move(each, like, plain), result)
        return result

    def _move(self, result: torch.Tensor, like: torch.Tensor | None, plain: torch.Tensor | None) -> None:
        """Move a result by units in the last place of its own numbers, or of those of another tensor of its sizes;
        not where it is `plain` and the operand was, too."""
        if result.is_floating_point() and not result.is_meta:
            steps = self._steps(result)
            if plain is not None and plain.shape == result.shape:
                steps.masked_fill_(plain & _is_one_of(result, PLAIN_RESULTS), 0)
            noise = steps.to(result.device, torch.float64) * torch.finfo(result.dtype).eps / 2
            moved = noise * (result if like is None else like)
            result.add_(moved.nan_to_num(0.0, 0.0, 0.0).to(result.dtype))  # of infinity there is no last place

    def _steps(self, result: torch.Tensor) -> torch.Tensor:
        """Draw units for each element, or for each number among them."""
        if self._sign > 0:
            return torch.randint(-UNITS, UNITS + 1, result.shape, generator=self._generator).to(result.device)
        phase = float(torch.rand((), generator=self._generator))
        digits, exponent = torch.frexp(result.to(torch.float64).nan_to_num(0.0, 0.0, 0.0))
        wave = torch.sin(digits * 1e9 + exponent * 7.3 + phase * 1e3) * 1e4
        return ((wave - wave.floor()) * (2 * UNITS + 1)).floor().to(torch.int64) - UNITS

    def _steps_of_pair(self, shape: torch.Size) -> torch.Tensor:
        """Draw units for each element, none of which is 0: with an odd seed the other way than with the even one."""
        steps = torch.randint(1, UNITS + 1, shape, generator=self._of_pair)
        return steps * (torch.randint(0, 2, shape, generator=self._of_pair) * 2 - 1) * self._sign

    def _move_distances(self, result: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> None:
        """Move the square of each distance by units in the last place of the squares that it is the difference of."""
        if result.is_meta:
            return
        squares = one.square().sum(-1)[..., None] + other.square().sum(-1)[..., None, :]
        steps = self._steps_of_pair(result.shape).to(result.device, torch.float64)
        noise = steps * torch.finfo(result.dtype).eps / 2 * squares
        result.copy_((result.to(torch.float64).square() + noise.nan_to_num(0.0, 0.0, 0.0)).clamp_min(0.0).sqrt())

    def _move_spread(self, result: torch.Tensor, func: Any, args: Any, kwargs: Any) -> None:
        """Move a variance or a standard deviation by units in the last place of the mean, too."""
        if result.is_meta or not result.numel():
            return
        given = dict(zip((each.name for each in func._schema.arguments), args, strict=False)) | kwargs
        mean = given["self"].mean(given.get("dim") or None, given.get("keepdim", False)).abs()
        is_square = func._schema.name.startswith("aten::var")
        like = result + mean * (result.sqrt() if is_square else 1)
        self._move(result, like, None)

    def _move_frequencies(self, result: torch.Tensor, dims: list[int]) -> None:
        """Move each part of each frequency by units in the last place of the largest one along `dims`."""
        if result.is_meta or not result.numel():
            return
        largest = result.abs().amax(dims, keepdim=True)
        parts, largest = (torch.view_as_real(result), largest[..., None]) if result.is_complex() else (result, largest)
        steps = self._steps_of_pair(parts.shape)
        noise = steps.to(parts.device, torch.float64) * torch.finfo(parts.dtype).eps / 2
        parts.add_((noise * largest).nan_to_num(0.0, 0.0, 0.0).to(parts.dtype))


def _plain(operand: Any) -> torch.Tensor | None:
    """bool tensor: the elements of an operand that are plain numbers."""
    return _is_one_of(operand, PLAIN_OPERANDS) if isinstance(operand, torch.Tensor) else None


def _is_one_of(values: torch.Tensor, numbers: tuple[float, ...]) -> torch.Tensor:
    return torch.stack([values == number for number in numbers]).any(0)


def rounded_otherwise(run: Callable[[], Arrays], first: Arrays, each: Callable[[], Any]) -> Arrays:
    """The outputs of RUNS runs, of shape [runs, ...], as far as their shapes are those of the `first` run. `each` gives
    the context that a run is made in."""
    runs = []
    for seed in range(RUNS):
        with each(), OtherRoundings(seed):
            runs.append(run())
    same = [name for name, array in first.items() if all(other[name].shape == array.shape for other in runs)]
    return {name: np.stack([other[name] for other in runs]) for name in same}
