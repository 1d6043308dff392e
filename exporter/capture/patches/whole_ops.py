"""Ops that stay whole while a model is captured, for which PyTorch's own shape rules ask too much about sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.fx_passes.decompositions import covariance

aten = torch.ops.aten

FLAT_WEIGHTS = r"The tensor attributes? (self\.[\w.]*_flat_weights\[\d+\](, )?)+ (was|were) assigned"
"""PyTorch's warning about the list of parameters that its recurrent modules keep for themselves."""


KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Dispatch keys under which PyTorch keeps the Python decompositions that its dispatcher runs."""


@contextmanager
def whole_ops() -> Iterator[None]:
    """Make these ops on fake tensors give their results' shapes and nothing more.

    For `lstm`, `gru` and `rnn` PyTorch has no shape rule: it runs their decomposition, step by step, which makes the
    number of steps a constant and takes its time. For fake quantization it has none that knows symbolic sizes. For
    `cdist` it asks whether there are more than 25 rows, since it computes many of them by a product. The captured
    graph holds the op in either case, and so it does for `cov`, `corrcoef` and `ctc_loss`, which look at the data, for
    random numbers without a shape rule of PyTorch's, and for what asks whether there is an element at all, or which of
    several kernels it takes.
    """
    kernels = {op: {DispatchKey.Meta: rule} for op, rule in METAS.items()}
    for op, rule in SHAPES.items():
        kernels[op] = {key: _unless_traced(op.py_kernels.get(key) or INSTEAD[op], rule) for key in KEYS}
    with registered(kernels), warnings.catch_warnings():
        warnings.filterwarnings("ignore", FLAT_WEIGHTS, UserWarning)
        yield


Kernels = Mapping[OpOverload, Mapping[DispatchKey, Callable[..., Any] | None]]


@contextmanager
def registered(kernels: Kernels) -> Iterator[None]:
    """During the block, PyTorch's dispatcher runs these Python kernels, of which each is for an operator and a key."""
    before = {op: {key: op.py_kernels.get(key) for key in each} for op, each in kernels.items()}
    for op, each in kernels.items():
        _register(op, each)
    try:
        yield
    finally:
        for op, each in before.items():
            _register(op, each)


def _register(op: OpOverload, kernels: Mapping[DispatchKey, Callable[..., Any] | None]) -> None:
    for key, kernel in kernels.items():
        if kernel is None:
            del op.py_kernels[key]
        else:
            op.py_kernels[key] = kernel
    op._dispatch_cache.clear()


def _unless_traced(kernel: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule, or the kernel itself where a trace looks into the op: it would record what the rule calls."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return rule(*args, **kwargs) if get_proxy_mode() is None else kernel(*args, **kwargs)

    return chosen


def _lstm(x: Tensor, hx: Sequence[Tensor], *further: Any) -> tuple[Tensor, Tensor, Tensor]:
    h, c = hx
    return _output(x, h, *further), torch.empty_like(h), torch.empty_like(c)


def _rnn(x: Tensor, hx: Tensor, *further: Any) -> tuple[Tensor, Tensor]:
    return _output(x, hx, *further), torch.empty_like(hx)


def _packed(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule for packed sequences, whose sizes of batches stand behind the input."""
    return lambda x, batch_sizes, *further: rule(x, *further)


def _output(
    x: Tensor,
    h: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> Tensor:
    """Make the output [time, batch, features], or of the steps of a packed sequence, [all, features]."""
    return x.new_empty((*x.shape[:-1], h.shape[2] * (2 if bidirectional else 1)))


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.new_empty((*batch, x1.shape[-2], x2.shape[-2]))


def _alike(x: Tensor, *_: Any, **options: Any) -> Tensor:
    return torch.empty_like(x)


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    each = reduction == 0 and log_probs.dim() == 3
    return log_probs.new_empty((log_probs.shape[1],) if each else ())


def _normalized(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel, but for sizes that depend on data the shape alone: the kernel asks if there is an element."""

    def rule(x: Tensor, *args: Any) -> Tensor:
        return torch.empty_like(x) if free_unbacked_symbols(x.shape) else kernel(x, *args)

    return rule


def _pooled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel, but for sizes that depend on data the shape alone: the kernel asks if there is an element."""

    def rule(x: Tensor, output_size: Sequence[int]) -> Tensor:
        if not free_unbacked_symbols(x.shape):
            return kernel(x, output_size)
        return x.new_empty((*x.shape[: -len(output_size)], *output_size))

    return rule


def _resized(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel, but for sizes that depend on data the shape alone: the kernel asks if there are two places."""

    def rule(x: Tensor, output_size: Sequence[int] | None, align_corners: bool, factors: Any = None) -> Tensor:
        if output_size is None or not free_unbacked_symbols((*x.shape, *output_size)):
            return kernel(x, output_size, align_corners, factors)
        return x.new_empty((*x.shape[:2], *output_size))

    return rule


def _attended(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel, but for sizes that depend on data the shape alone: the kernel asks which is the fastest."""

    def rule(query: Tensor, key: Tensor, value: Tensor, *args: Any, enable_gqa: bool = False, **options: Any) -> Tensor:
        if not free_unbacked_symbols((*query.shape, *key.shape, *value.shape)):
            return kernel(query, key, value, *args, enable_gqa=enable_gqa, **options)
        batch = query.shape[:-2]
        if not enable_gqa:
            batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
        return query.new_empty((*batch, query.shape[-2], value.shape[-1]))

    return rule


def _composite(op: OpOverload) -> Callable[..., Any]:
    """Return PyTorch's own decomposition of an op, which is written in C++."""
    return partial(op._op_dk, DispatchKey.CompositeImplicitAutograd)


def _with_places(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


AVERAGES = (aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default)
"""Averages over as many windows as asked for."""

RESIZINGS = (
    aten.upsample_linear1d.vec,
    aten.upsample_bilinear2d.vec,
    aten.upsample_bicubic2d.vec,
    aten.upsample_trilinear3d.vec,
)
"""Interpolations whose first and last places may be those of the input."""

SHAPES: Mapping[OpOverload, Callable[..., Any]] = {
    aten.cov.default: covariance.cov,
    aten.corrcoef.default: covariance.corrcoef,
    aten.ctc_loss.IntList: _ctc_loss,
    aten.ctc_loss.Tensor: _ctc_loss,
    aten.batch_norm.default: _normalized(_composite(aten.batch_norm.default)),
    aten.instance_norm.default: _normalized(_composite(aten.instance_norm.default)),
    **{op: _pooled(_composite(op)) for op in AVERAGES},
    **{op: _resized(op.py_kernels.get(DispatchKey.CompositeImplicitAutograd) or _composite(op)) for op in RESIZINGS},
    aten.scaled_dot_product_attention.default: _attended(_composite(aten.scaled_dot_product_attention.default)),
    aten.cdist.default: _cdist,
    aten.fake_quantize_per_tensor_affine.default: _alike,
    aten.fake_quantize_per_tensor_affine.tensor_qparams: _alike,
    aten.fake_quantize_per_channel_affine.default: _alike,
    aten.lstm.input: _lstm,
    aten.gru.input: _rnn,
    aten.rnn_tanh.input: _rnn,
    aten.rnn_relu.input: _rnn,
    aten.lstm.data: _packed(_lstm),
    aten.gru.data: _packed(_rnn),
    aten.rnn_tanh.data: _packed(_rnn),
    aten.rnn_relu.data: _packed(_rnn),
}
"""Shape function of each op: outputs for all steps of the last layer, and last states of all layers."""


METAS: Mapping[OpOverload, Callable[..., Any]] = {
    aten.binomial.default: _alike,
    aten._sample_dirichlet.default: _alike,
    aten.cummax.default: _with_places,
    aten.cummin.default: _with_places,
}
"""Random numbers for which PyTorch has no shape rule: it draws some where sizes are numbers, and gives up elsewhere.

Then those whose rule asks whether there is an element, which cannot be told of a size that depends on data.
"""


def _quantized(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return aten.fake_quantize_per_tensor_affine_cachemask.default(x, scale, zero_point, low, high)[0]


def _quantized_by_tensors(x: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int) -> Tensor:
    enabled = torch.ones(1, dtype=torch.int64, device=x.device)
    op = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default
    return op(x, scale, zero_point, enabled, low, high)[0]


def _quantized_by_channel(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int) -> Tensor:
    return aten.fake_quantize_per_channel_affine_cachemask.default(x, scale, zero_point, axis, low, high)[0]


INSTEAD: Mapping[OpOverload, Callable[..., Any]] = {
    aten.cov.default: covariance.cov,
    aten.corrcoef.default: covariance.corrcoef,
    **{
        op: _composite(op)
        for op in (
            aten.ctc_loss.IntList,
            aten.ctc_loss.Tensor,
            aten.batch_norm.default,
            aten.instance_norm.default,
            *AVERAGES,
            aten.scaled_dot_product_attention.default,
        )
    },
    aten.cdist.default: aten._cdist_forward.default,
    aten.fake_quantize_per_tensor_affine.default: _quantized,
    aten.fake_quantize_per_tensor_affine.tensor_qparams: _quantized_by_tensors,
    aten.fake_quantize_per_channel_affine.default: _quantized_by_channel,
}
"""Python replacement of an op that has no decomposition in Python, for traces that look into it."""
